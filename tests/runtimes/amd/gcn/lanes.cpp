#include "lanes.h"

namespace hsa_cpu::gcn {

void FloatMode::set(u32 mode, Type type) {
  const bool of_f32 = type == Type::F32 || type == Type::PackedF32 || type == Type::Mixed;
  const u32 rounding = mode >> (of_f32 ? 0 : 2) & 3, denormals = mode >> (of_f32 ? 4 : 6) & 3;
  constexpr u32 kRoundings[] = {_MM_ROUND_NEAREST, _MM_ROUND_UP, _MM_ROUND_DOWN, _MM_ROUND_TOWARD_ZERO};
  constexpr u32 kInputsAreZero = 1 << 6, kResultsAreZero = 1 << 15;
  before_ = _mm_getcsr();
  u32 bits = (before_ & ~(_MM_ROUND_MASK | kInputsAreZero | kResultsAreZero)) | kRoundings[rounding];
  if ((denormals & 1) == 0) bits |= kInputsAreZero;
  if ((denormals & 2) == 0) bits |= kResultsAreZero;
  _mm_setcsr(bits);
}

void spread_bits(u64 bits, u32* words) {
  const __m256i lane_bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  for (u32 lane = 0; lane < kLanes; lane += 8) {
    const __m256i eight = _mm256_set1_epi32(static_cast<int>(bits >> lane & 0xff));
    const __m256i set = _mm256_cmpeq_epi32(_mm256_and_si256(eight, lane_bits), lane_bits);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + lane), set);
  }
}

u64 gather_bits(const u32* words) {
  u64 bits = 0;
  for (u32 lane = 0; lane < kLanes; lane += 8) {
    const __m256 eight = _mm256_loadu_ps(reinterpret_cast<const float*>(words + lane));
    bits |= static_cast<u64>(static_cast<u32>(_mm256_movemask_ps(eight))) << lane;
  }
  return bits;
}

const u32* spread_scalar(const Wave& wave, const Operand& operand, bool wide, Room& room) {
  if (wide) {
    const u64 value = scalar64(wave, operand);
    std::fill_n(room.words, kLanes, static_cast<u32>(value));
    std::fill_n(room.words + kLanes, kLanes, static_cast<u32>(value >> 32));
  } else {
    std::fill_n(room.words, kLanes, scalar32(wave, operand));
  }
  return room.words;
}

namespace {

void store(Wave& wave, u32 destination, bool wide, const Room& result, u64 lanes) {
  if (wave.active_of != lanes) {
    spread_bits(lanes, wave.active);
    wave.active_of = lanes;
  }
  for (u32 word = 0; word < (wide ? 2u : 1u); ++word) {
    u32* const to = wave.v[destination + word];
    const u32* const from = result.words + word * kLanes;
    GCN_EACH_LANE to[lane] = (from[lane] & wave.active[lane]) | (to[lane] & ~wave.active[lane]);
  }
}

}  // namespace

void store_active(Wave& wave, u16 destination, bool wide, const Room& result) {
  store(wave, destination, wide, result, wave.exec());
}

namespace {

/// Lanes that have another to read, which is active.
u64 readable_lanes(const Wave& wave, const LaneExchange& exchange) {
  const u64 exec = wave.exec();
  if (exec == ~u64{0}) return exchange.inside;
  u64 lanes = 0;
  for (u32 lane = 0; lane < kLanes; ++lane) lanes |= (exec >> exchange.from[lane] & 1) << lane;
  return lanes & exchange.inside;
}

void exchange_lanes(const Wave& wave, const LaneExchange& exchange, u32* words) {
  u32 before[kLanes], readable[kLanes];
  std::memcpy(before, words, sizeof before);
  spread_bits(readable_lanes(wave, exchange), readable);
  for (u32 lane = 0; lane < kLanes; ++lane) words[lane] = before[exchange.from[lane]] & readable[lane];
}

void select_part(const Operand& operand, u32* words) {
  if (operand.select < 4) {
    const u32 shift = 8u * operand.select;
    GCN_EACH_LANE words[lane] = words[lane] >> shift & 0xff;
    if (operand.sign_extend) GCN_EACH_LANE words[lane] = static_cast<u32>(static_cast<i32>(words[lane] << 24) >> 24);
  } else if (operand.select < kSelectAll) {
    const u32 shift = operand.select == kSelectWord1 ? 16 : 0;
    GCN_EACH_LANE words[lane] = words[lane] >> shift & 0xffff;
    if (operand.sign_extend) GCN_EACH_LANE words[lane] = static_cast<u32>(static_cast<i32>(words[lane] << 16) >> 16);
  }
}

void sign(const Operand& operand, Type type, u32* words) {
  if (!is_float(type)) return;
  u32* const top = type == Type::F64 ? words + kLanes : words;
  const u32 bit = type == Type::F16 ? 0x8000 : 0x80000000;
  if (operand.absolute) GCN_EACH_LANE top[lane] &= ~bit;
  if (operand.negative) GCN_EACH_LANE top[lane] ^= bit;
}

void choose_halves(const Instruction& instruction, u32 source, bool floats, u32* words) {
  const u32 low = (instruction.low_halves >> source & 1) * 16, high = (instruction.high_halves >> source & 1) * 16;
  const u32 signs =
      floats ? (instruction.negative_low >> source & 1) << 15 | (instruction.negative_high >> source & 1) << 31 : 0;
  GCN_EACH_LANE words[lane] = ((words[lane] >> low & 0xffff) | (words[lane] >> high) << 16) ^ signs;
}

void choose_words(const Instruction& instruction, u32 source, u32* words) {
  u32 chosen[2 * kLanes];
  const u32 low = instruction.low_halves >> source & 1, high = instruction.high_halves >> source & 1;
  const u32 low_sign = (instruction.negative_low >> source & 1) << 31;
  const u32 high_sign = (instruction.negative_high >> source & 1) << 31;
  GCN_EACH_LANE {
    chosen[lane] = words[low * kLanes + lane] ^ low_sign;
    chosen[kLanes + lane] = words[high * kLanes + lane] ^ high_sign;
  }
  std::memcpy(words, chosen, sizeof chosen);
}

/// A source of a mixed operation as f32. What negates high halves elsewhere means the absolute value here.
void make_single(const Instruction& instruction, u32 source, u32* words) {
  const bool half = (instruction.high_halves >> source & 1) != 0;
  if (half && instruction.source[source].kind != Kind::Constant) {
    const u32 shift = (instruction.low_halves >> source & 1) * 16;
    f32 singles[kLanes];
    GCN_EACH_LANE words[lane] >>= shift;
    widen_halves(words, singles);
    std::memcpy(words, singles, sizeof singles);
  }
  if ((instruction.negative_high >> source & 1) != 0) GCN_EACH_LANE words[lane] &= 0x7fffffff;
  if ((instruction.negative_low >> source & 1) != 0) GCN_EACH_LANE words[lane] ^= 0x80000000;
}

template <class F>
F scaled_and_clamped(const Instruction& instruction, F value) {
  constexpr F kScales[] = {1, 2, 4, F(0.5)};
  if (instruction.output_scale != 0) value *= kScales[instruction.output_scale];
  if (instruction.clamp) value = clamped(value);
  return value;
}

void scale_and_clamp(const Instruction& instruction, Type type, u32* words) {
  // Packed halves have rows of their own for the clamp bit.
  if (!is_float(type) || type == Type::PackedF16 || (instruction.output_scale == 0 && !instruction.clamp)) return;
  for (u32 lane = 0; lane < kLanes; ++lane) {
    if (type == Type::F64) {
      const f64 value = tags::F64::read(words, lane);
      tags::F64::write(words, lane, scaled_and_clamped(instruction, value));
    } else if (type == Type::F16) {
      words[lane] = float_to_half(scaled_and_clamped(instruction, half_to_float(words[lane])));
    } else {
      words[lane] = bits(scaled_and_clamped(instruction, as_f32(words[lane])));
      if (type == Type::PackedF32)
        words[kLanes + lane] = bits(scaled_and_clamped(instruction, as_f32(words[kLanes + lane])));
    }
  }
}

void place_part(const Instruction& instruction, const u32* old, u32* words) {
  if (instruction.select == kSelectAll) return;
  const bool byte = instruction.select < 4;
  const u32 shift = byte ? 8u * instruction.select : instruction.select == kSelectWord1 ? 16 : 0;
  const u32 width = byte ? 8 : 16, part = (byte ? 0xffu : 0xffffu) << shift;
  const u32 kept = instruction.unused == 2 ? ~part : 0, spread = instruction.unused == 1 ? ~part : 0;
  GCN_EACH_LANE {
    const u32 sign = static_cast<u32>(static_cast<i32>(words[lane] << (32 - width)) >> 31) << shift;  // spreads upwards
    words[lane] = (words[lane] << shift & part) | (old[lane] & kept) | (sign & spread);
  }
}

}  // namespace

static bool is_used_as_it_is(const Instruction& instruction, const Operand& operand, u32 source, Type type) {
  if (type == Type::Packed16 || type == Type::PackedF16 || type == Type::PackedF32 || type == Type::Mixed) return false;
  const bool exchanged = source == 0 && instruction.exchange != nullptr;
  return !exchanged && operand.select == kSelectAll && !operand.negative && !operand.absolute;
}

const u32* prepared(Wave& wave, const Instruction& instruction, u32 source, Type type, Room& room) {
  const Operand& operand = instruction.source[source];
  const bool wide = is_wide(type);
  const u32* const from = lanes_of(wave, operand, wide, room);
  if (is_used_as_it_is(instruction, operand, source, type)) return from;
  if (from != room.words) std::memcpy(room.words, from, kLanes * (wide ? 8 : 4));
  if (source == 0 && instruction.exchange != nullptr) {
    exchange_lanes(wave, *instruction.exchange, room.words);
    if (wide) exchange_lanes(wave, *instruction.exchange, room.words + kLanes);
  }
  switch (type) {
    case Type::Packed16:
    case Type::PackedF16:
      choose_halves(instruction, source, type == Type::PackedF16, room.words);
      break;
    case Type::PackedF32:
      choose_words(instruction, source, room.words);
      break;
    case Type::Mixed:
      make_single(instruction, source, room.words);
      break;
    default:
      if (!wide) select_part(operand, room.words);
      sign(operand, type, room.words);
  }
  return room.words;
}

void finish(Wave& wave, const Instruction& instruction, Type type, Room& result) {
  const bool wide = is_wide(type);
  scale_and_clamp(instruction, type, result.words);
  if (!wide) place_part(instruction, wave.v[instruction.destination], result.words);
  u64 lanes = wave.exec();
  if (const LaneExchange* const exchange = instruction.exchange.get(); exchange != nullptr)
    lanes &= exchange->enabled & (exchange->zero_outside ? ~u64{0} : readable_lanes(wave, *exchange));
  store(wave, instruction.destination, wide, result, lanes);
}

f64 two_over_pi(f64 value, u32 segment) {
  // The first 1201 binary places of 2/pi, 64 at a time.
  static constexpr u64 kPlaces[] = {0xa2f9836e4e441529,
                                    0xfc2757d1f534ddc0,
                                    0xdb6295993c439041,
                                    0xfe5163abdebbc561,
                                    0xb7246e3a424dd2e0,
                                    0x06492eea09d1921c,
                                    0xfe1deb1cb129a73e,
                                    0xe88235f52ebb4484,
                                    0xe99c7026b45f7e41,
                                    0x3991d639835339f4,
                                    0x9c845f8bbdf9283b,
                                    0x1ff897ffde05980f,
                                    0xef2f118b5a0a6d1f,
                                    0x6d367ecf27cb09b7,
                                    0x4f463f669e5fea2d,
                                    0x7527bac7ebe5f17b,
                                    0x3d0739f78a5292ea,
                                    0x6bfb5fb11f8d5d08,
                                    0x56033046fc7b0000,
                                    0,
                                    0};
  const i32 exponent = exponent_bits(value);
  i32 shift = static_cast<i32>(segment & 31) * 53 + (exponent > 1077 ? exponent - 1077 : 0);
  if (shift > 1200) return 0;
  const u32 word = static_cast<u32>(shift) / 64, start = static_cast<u32>(shift) % 64;
  const u64 sixty_four = start == 0 ? kPlaces[word] : kPlaces[word] << start | kPlaces[word + 1] >> (64 - start);
  const i32 rescale = exponent >= 1968 ? 128 : 0;
  return std::ldexp(static_cast<f64>(sixty_four >> 11), -53 - shift + rescale);
}

}  // namespace hsa_cpu::gcn
