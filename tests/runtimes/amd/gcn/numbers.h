// numbers.h: what operations compute that C++ has no operator for.
//
// Everything that loops over lanes may use is free of branches where it can be: the compiler makes vector code of it.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "types.h"

namespace hsa_cpu::gcn {

inline u32 bits(f32 value) { return std::bit_cast<u32>(value); }
inline u64 bits(f64 value) { return std::bit_cast<u64>(value); }
inline f32 as_f32(u32 value) { return std::bit_cast<f32>(value); }
inline f64 as_f64(u64 value) { return std::bit_cast<f64>(value); }

// Numbers of 16 bits are computed as f32 (exact for one addition, product, quotient or root) and rounded as MXCSR says.
inline f32 half_to_float(u32 half) { return _cvtsh_ss(static_cast<u16>(half)); }
inline u32 float_to_half(f32 value) {
  return static_cast<u16>(_mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(value), _MM_FROUND_CUR_DIRECTION)));
}
inline u32 float_to_half_towards_zero(f32 value) {
  return static_cast<u16>(_mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(value), _MM_FROUND_TO_ZERO)));
}

inline void widen_halves(const u32* halves, f32* out) {
  for (u32 lane = 0; lane < kLanes; lane += 8) {
    const __m256i words = _mm256_and_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves + lane)),
                                           _mm256_set1_epi32(0xffff));
    const __m128i packed = _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm256_storeu_ps(out + lane, _mm256_cvtph_ps(packed));
  }
}
inline void narrow_to_halves(const f32* values, u32* out) {
  for (u32 lane = 0; lane < kLanes; lane += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(values + lane), _MM_FROUND_CUR_DIRECTION);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + lane), _mm256_cvtepu16_epi32(halves));
  }
}

inline i32 low24(u32 value) { return static_cast<i32>(value << 8) >> 8; }
inline i32 sum32(i32 a, i32 b) { return static_cast<i32>(static_cast<u32>(a) + static_cast<u32>(b)); }
inline i32 difference32(i32 a, i32 b) { return static_cast<i32>(static_cast<u32>(a) - static_cast<u32>(b)); }
inline i32 product32(i32 a, i32 b) { return static_cast<i32>(static_cast<u32>(a) * static_cast<u32>(b)); }

inline bool sum_overflows(i64 a, i64 b) {
  i64 sum;
  return __builtin_add_overflow(a, b, &sum);
}

template <class T, class Wide>
T saturate(Wide value) {
  return static_cast<T>(std::clamp<Wide>(value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
}
template <class T>
T median(T a, T b, T c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

// Minimum and maximum: a number wins over a NaN, minus zero is less than zero, a signalling NaN becomes a quiet one.
template <class F>
F quiet(F value) {
  return value != value ? value + value : value;
}
template <class F>
F smaller(F a, F b) {
  const F of_numbers = a < b ? a : b < a ? b : std::signbit(a) ? a : b;
  return a != a ? quiet(b) : b != b ? a : of_numbers;
}
template <class F>
F larger(F a, F b) {
  const F of_numbers = a > b ? a : b > a ? b : std::signbit(a) ? b : a;
  return a != a ? quiet(b) : b != b ? a : of_numbers;
}
template <class F>
F float_median(F a, F b, F c) {
  return a != a || b != b || c != c ? smaller(smaller(a, b), c) : larger(smaller(a, b), smaller(larger(a, b), c));
}

/// The clamp bit of operations on floats: NaN becomes 0.
template <class F>
F clamped(F value) {
  return value > 0 ? std::min(value, F(1)) : F(0);
}

/// Multiplication and addition that take denormals for zeros, whatever the mode (v_mad_f32, v_mac_f32).
inline f32 flushed(f32 value) {
  return std::fabs(value) < std::numeric_limits<f32>::min() ? std::copysign(0.0f, value) : value;
}
inline f32 multiply_add(f32 a, f32 b, f32 c) { return flushed(flushed(flushed(a) * flushed(b)) + flushed(c)); }
inline f32 multiply_legacy(f32 a, f32 b) { return a == 0 || b == 0 ? 0.0f : a * b; }
/// a * b + c of halves, rounded once when the result is made a half: the product is exact, and where the sum is not its
/// last bit becomes one (rounding to odd), so that rounding again sees that something was lost.
inline f32 fused_half(f32 a, f32 b, f32 c) {
  const f32 product = a * b, sum = product + c;
  const f32 of_c = sum - product;
  const f32 lost = (product - (sum - of_c)) + (c - of_c);
  const u32 kept = bits(sum);
  const bool finite = (kept & 0x7fffffff) < 0x7f800000;
  const u32 towards = ((bits(lost) ^ kept) >> 31) != 0 ? ~0u : 1;
  return as_f32(kept + (lost != 0 && finite && (kept & 1) == 0 ? towards : 0));
}
/// The intermediate half that v_mad_f16 and v_mac_f16 round to.
inline f32 rounded_half(f32 value) { return half_to_float(float_to_half(value)); }

inline f32 scale(f32 value, i32 exponent) {
  const u64 power = static_cast<u64>(std::clamp(exponent, -400, 400) + 1023) << 52;
  return static_cast<f32>(static_cast<f64>(value) * as_f64(power));
}
inline f64 scale(f64 value, i32 exponent) { return std::ldexp(value, std::clamp(exponent, -5000, 5000)); }

template <class F>
i32 exponent_of(F value) {
  int exponent = 0;
  if (std::isfinite(value) && value != 0) std::frexp(value, &exponent);
  return exponent;
}
template <class F>
F mantissa_of(F value) {
  int exponent = 0;
  return std::isfinite(value) ? std::frexp(value, &exponent) : value;
}
inline i32 exponent_bits(f32 value) { return static_cast<i32>(bits(value) >> 23 & 0xff); }
inline i32 exponent_bits(f64 value) { return static_cast<i32>(bits(value) >> 52 & 0x7ff); }

inline f32 fraction(f32 value) { return std::min(value - std::floor(value), 0x1.fffffep-1f); }
inline f64 fraction(f64 value) { return std::min(value - std::floor(value), 0x1.fffffffffffffp-1); }
inline f32 half_fraction(f32 value) { return std::min(value - std::floor(value), 0x1.ffcp-1f); }
inline f32 sine_of_turns(f32 turns) {
  const f64 exact = turns;
  return static_cast<f32>(std::sin(6.283185307179586 * (exact - std::floor(exact))));
}
inline f32 cosine_of_turns(f32 turns) {
  const f64 exact = turns;
  return static_cast<f32>(std::cos(6.283185307179586 * (exact - std::floor(exact))));
}
inline f32 inverse_root(f32 value) { return static_cast<f32>(1.0 / std::sqrt(static_cast<f64>(value))); }

/// Conversions to integers: towards zero, to the nearest that there is, NaN to zero.
template <class F>
u32 to_u32(F value) {
  const f64 exact = value;
  return !(exact > 0) ? 0 : exact >= 4294967295.0 ? 0xffffffffu : static_cast<u32>(static_cast<i64>(exact));
}
template <class F>
i32 to_i32(F value) {
  const f64 exact = value;
  const f64 inside = std::clamp(exact != exact ? 0.0 : exact, -2147483648.0, 2147483647.0);
  return static_cast<i32>(inside);
}
inline i32 round_normalized(f32 value, f32 most, f32 least) {
  const f32 scaled = value * most;
  return static_cast<i32>(std::nearbyint(value != value ? 0.0f : std::clamp(scaled, least, most)));
}
inline u32 pack(u32 low, u32 high) { return (low & 0xffff) | high << 16; }
inline f32 offset_of_4_bits(u32 value) { return static_cast<f32>(static_cast<i32>(value << 28) >> 28) / 16.0f; }

inline u32 reversed(u32 value) {
  value = (value >> 1 & 0x55555555) | (value & 0x55555555) << 1;
  value = (value >> 2 & 0x33333333) | (value & 0x33333333) << 2;
  value = (value >> 4 & 0x0f0f0f0f) | (value & 0x0f0f0f0f) << 4;
  return __builtin_bswap32(value);
}
inline u64 reversed(u64 value) {
  return u64{reversed(static_cast<u32>(value))} << 32 | reversed(static_cast<u32>(value >> 32));
}
inline u32 leading_zeros(u32 value) { return value == 0 ? ~0u : static_cast<u32>(__builtin_clz(value)); }
inline u32 leading_zeros(u64 value) { return value == 0 ? ~0u : static_cast<u32>(__builtin_clzll(value)); }
inline u32 trailing_zeros(u32 value) { return value == 0 ? ~0u : static_cast<u32>(__builtin_ctz(value)); }
inline u32 trailing_zeros(u64 value) { return value == 0 ? ~0u : static_cast<u32>(__builtin_ctzll(value)); }
/// Bits before the first that differs from the sign; all ones where none does.
inline u32 leading_signs(i32 value) { return leading_zeros(static_cast<u32>(value < 0 ? ~value : value)); }
inline u32 leading_signs(i64 value) { return leading_zeros(static_cast<u64>(value < 0 ? ~value : value)); }
inline u32 ones(u32 value) { return static_cast<u32>(__builtin_popcount(value)); }
inline u32 ones(u64 value) { return static_cast<u32>(__builtin_popcountll(value)); }

inline u32 low_ones(u32 count) { return (1u << (count & 31)) - 1; }
inline u32 field(u32 value, u32 start, u32 width) { return value >> (start & 31) & low_ones(width); }
inline i32 signed_field(i32 value, u32 start, u32 width) {
  width &= 31;
  const u32 moved = static_cast<u32>(value >> (start & 31)) << ((32 - width) & 31);
  return width == 0 ? 0 : static_cast<i32>(moved) >> ((32 - width) & 31);
}
/// Of scalar operations, where the second operand holds the start in its low bits and the width from bit 16 on.
inline u64 field64(u64 value, u32 where) {
  const u32 width = where >> 16 & 0x7f;
  const u64 moved = value >> (where & 63);
  return width == 0 ? 0 : width >= 64 ? moved : moved & ((u64{1} << width) - 1);
}
inline i64 signed_field64(i64 value, u32 where) {
  const u32 width = where >> 16 & 0x7f;
  const i64 moved = value >> (where & 63);
  return width == 0    ? 0
         : width >= 64 ? moved
                       : static_cast<i64>(static_cast<u64>(moved) << (64 - width)) >> (64 - width);
}
inline u32 field32(u32 value, u32 where) {
  const u32 width = where >> 16 & 0x7f;
  const u32 moved = value >> (where & 31);
  return width == 0 ? 0 : width >= 32 ? moved : moved & low_ones(width);
}
inline i32 signed_field32(i32 value, u32 where) {
  const u32 width = where >> 16 & 0x7f;
  const i32 moved = value >> (where & 31);
  return width == 0    ? 0
         : width >= 32 ? moved
                       : static_cast<i32>(static_cast<u32>(moved) << (32 - width)) >> (32 - width);
}
inline u64 each_bit_twice(u32 value) {
  u64 result = 0;
  for (u32 bit = 0; bit < 32; ++bit) result |= u64{value >> bit & 1} * 3 << (2 * bit);
  return result;
}
template <class T>
T whole_quads(T value) {
  T result = 0;
  for (u32 bit = 0; bit < sizeof(T) * 8; bit += 4)
    if ((value >> bit & 15) != 0) result |= T{15} << bit;
  return result;
}
template <class T>
T quad_bits(T value) {
  T result = 0;
  for (u32 bit = 0; bit < sizeof(T) * 8; bit += 4)
    if ((value >> bit & 15) != 0) result |= T{1} << (bit / 4);
  return result;
}

/// Bytes chosen out of eight: those of `b`, then those of `a`; signs of words spread, zeros and ones too.
inline u32 permuted_byte(u32 a, u32 b, u32 selector) {
  const u32 byte = ((selector & 4) != 0 ? a : b) >> (8 * (selector & 3)) & 0xff;
  const u32 word = (selector & 2) != 0 ? a : b;
  const u32 sign = (word >> (16 * (selector & 1) + 15) & 1) != 0 ? 0xff : 0;
  return selector < 8 ? byte : selector < 12 ? sign : selector == 12 ? 0 : 0xff;
}
inline u32 permuted_bytes(u32 a, u32 b, u32 selectors) {
  return permuted_byte(a, b, selectors & 0xff) | permuted_byte(a, b, selectors >> 8 & 0xff) << 8 |
         permuted_byte(a, b, selectors >> 16 & 0xff) << 16 | permuted_byte(a, b, selectors >> 24) << 24;
}
inline u32 absolute_differences(u32 a, u32 b, bool masked) {
  u32 sum = 0;
  for (u32 at = 0; at < 32; at += 8) {
    const i32 x = static_cast<i32>(a >> at & 0xff), y = static_cast<i32>(b >> at & 0xff);
    sum += masked && y == 0 ? 0 : static_cast<u32>(std::abs(x - y));
  }
  return sum;
}
inline u32 difference_of_words(u32 a, u32 b) {
  const u32 low = static_cast<u32>(std::abs(static_cast<i32>(a & 0xffff) - static_cast<i32>(b & 0xffff)));
  return low + static_cast<u32>(std::abs(static_cast<i32>(a >> 16) - static_cast<i32>(b >> 16)));
}
inline u32 averaged_bytes(u32 a, u32 b, u32 round) {
  u32 result = 0;
  for (u32 at = 0; at < 32; at += 8) result |= (((a >> at & 0xff) + (b >> at & 0xff) + (round >> at & 1)) >> 1) << at;
  return result;
}
inline u32 with_byte(u32 old, u32 which, u32 byte) {
  const u32 at = 8 * (which & 3);
  return (old & ~(0xffu << at)) | (byte & 0xff) << at;
}

/// Sums of products of parts of two registers.
template <class Part>
i32 dot(u32 a, u32 b, u32 c, u32 part_bits) {
  u32 sum = c;
  for (u32 at = 0; at < 32; at += part_bits) {
    const u32 up = 32 - part_bits;
    const u32 x = a >> at << up, y = b >> at << up;
    sum += std::is_signed_v<Part> ? static_cast<u32>((static_cast<i32>(x) >> up) * (static_cast<i32>(y) >> up))
                                  : (x >> up) * (y >> up);
  }
  return static_cast<i32>(sum);
}
inline f32 dot_of_halves(u32 a, u32 b, f32 c) {
  return half_to_float(a) * half_to_float(b) + half_to_float(a >> 16) * half_to_float(b >> 16) + c;
}
inline u32 fused_halves(u32 a, u32 b, u32 c) {
  const auto one = [&](u32 shift) {
    return float_to_half(fused_half(half_to_float(a >> shift), half_to_float(b >> shift), half_to_float(c >> shift)));
  };
  return one(0) | one(16) << 16;
}

/// What v_cmp_class asks: signalling NaN, quiet NaN, -inf, -normal, -denormal, -0, +0, +denormal, +normal, +inf.
inline bool is_of_class(u32 mask, bool negative, bool nan, bool quiet_nan, bool infinite, bool zero, bool denormal) {
  const u32 kind = zero ? 5 : denormal ? 4 : infinite ? 2 : 3;
  const u32 bit = nan ? (quiet_nan ? 1 : 0) : negative ? kind : 11 - kind;
  return (mask >> bit & 1) != 0;
}
inline bool class_of_f32(u32 value, u32 mask) {
  const u32 magnitude = value & 0x7fffffff;
  return is_of_class(mask, value >> 31 != 0, magnitude > 0x7f800000, (value >> 22 & 1) != 0, magnitude == 0x7f800000,
                     magnitude == 0, magnitude < 0x00800000);
}
inline bool class_of_f16(u32 value, u32 mask) {
  const u32 magnitude = value & 0x7fff;
  return is_of_class(mask, (value >> 15 & 1) != 0, magnitude > 0x7c00, (value >> 9 & 1) != 0, magnitude == 0x7c00,
                     magnitude == 0, magnitude < 0x0400);
}
inline bool class_of_f64(u64 value, u32 mask) {
  const u64 magnitude = value & ~(u64{1} << 63), infinity = u64{0x7ff} << 52;
  return is_of_class(mask, value >> 63 != 0, magnitude > infinity, (value >> 51 & 1) != 0, magnitude == infinity,
                     magnitude == 0, magnitude < u64{1} << 52);
}

// Division in steps, as compilers emit it: scale operands into a safe range, multiply and add, scale back, mend what is
// no number ("Vega" Instruction Set Architecture, V_DIV_SCALE, V_DIV_FMAS, V_DIV_FIXUP).
template <class F>
struct Division {
  static constexpr bool kDouble = sizeof(F) == 8;
  static constexpr int kFar = kDouble ? 768 : 96, kScale = kDouble ? 128 : 64, kSmall = kDouble ? 53 : 23;
  static bool denormal(F value) { return std::fpclassify(value) == FP_SUBNORMAL; }
};
template <class F>
F divide_scale(F value, F denominator, F numerator, bool& out) {
  using D = Division<F>;
  out = false;
  // Nearly always: nothing here is near the ends of the range.
  const int of_numerator = exponent_bits(numerator), of_denominator = exponent_bits(denominator);
  constexpr int kLow = D::kDouble ? 512 : 64, kHigh = D::kDouble ? 1536 : 190;
  if (of_numerator > kLow && of_numerator < kHigh && of_denominator > kLow && of_denominator < kHigh &&
      of_numerator - of_denominator < D::kFar)
    return value;
  if (numerator == 0 || denominator == 0) return std::numeric_limits<F>::quiet_NaN();
  if (!std::isfinite(numerator) || !std::isfinite(denominator)) return value;
  const bool is_denominator = value == denominator;
  if (exponent_bits(numerator) - exponent_bits(denominator) >= D::kFar) {
    out = true;
    return is_denominator ? std::ldexp(value, D::kScale) : value;
  }
  if (D::denormal(denominator)) return std::ldexp(value, D::kScale);
  const F quotient = numerator / denominator;
  const bool inverse_small = D::denormal(1 / denominator), quotient_small = D::denormal(quotient) || quotient == 0;
  if (inverse_small && quotient_small) {
    out = true;
    return is_denominator ? std::ldexp(value, D::kScale) : value;
  }
  if (inverse_small) return std::ldexp(value, -D::kScale);
  if (quotient_small) {
    out = true;
    return value == numerator ? std::ldexp(value, D::kScale) : value;
  }
  return exponent_bits(numerator) <= D::kSmall ? std::ldexp(value, D::kScale) : value;
}
template <class F>
F divide_fmas(F a, F b, F c, bool scaled) {
  using D = Division<F>;
  const F result = std::fma(a, b, c);
  constexpr F kUp = D::kDouble ? F(0x1p128) : F(0x1p64), kDown = D::kDouble ? F(0x1p-128) : F(0x1p-64);
  return result * (!scaled ? F(1) : exponent_bits(c) > (D::kDouble ? 1023 : 127) ? kUp : kDown);
}
/// `quotient` is mended where the operands are no numbers or it over- or underflows.
template <class F>
F divide_fixup(F quotient, F denominator, F numerator) {
  const bool negative = std::signbit(numerator) != std::signbit(denominator);
  const F infinity = negative ? -std::numeric_limits<F>::infinity() : std::numeric_limits<F>::infinity();
  const F zero = negative ? F(-0.0) : F(0);
  if (numerator != numerator) return quiet(numerator);
  if (denominator != denominator) return quiet(denominator);
  if (numerator == 0 && denominator == 0) return std::numeric_limits<F>::quiet_NaN();
  if (std::isinf(numerator) && std::isinf(denominator)) return std::numeric_limits<F>::quiet_NaN();
  if (denominator == 0 || std::isinf(numerator)) return infinity;
  if (std::isinf(denominator) || numerator == 0) return zero;
  const F exact = numerator / denominator;
  // Where the steps' own result leaves the normal numbers the hardware has the quotient rounded once.
  if (!std::isfinite(quotient) || std::fabs(quotient) < std::numeric_limits<F>::min()) return exact;
  return std::copysign(quotient, negative ? F(-1) : F(1));
}

/// 53 bits of 2/pi from where an argument of this size needs them.
f64 two_over_pi(f64 value, u32 segment);

}  // namespace hsa_cpu::gcn
