// lanes.h: operands as 64 lanes, and the loop over them that every operation on vectors shares.
//
// An operation's row becomes a struct with apply(), a function of one lane. compute() is the loop; plain() is what runs
// where an instruction uses no modifier: its sources are registers or one scalar for all lanes, its result goes
// straight to the register when all lanes are active. modified() copies the sources first, as modifiers say.
#pragma once

#include "numbers.h"
#include "wave.h"

// Lanes are independent: a register may be source and destination, but only lane by lane.
#ifdef __clang__
#define GCN_EACH_LANE _Pragma("clang loop vectorize(assume_safety)") for (u32 lane = 0; lane < kLanes; ++lane)
#else
#define GCN_EACH_LANE _Pragma("GCC ivdep") for (u32 lane = 0; lane < kLanes; ++lane)
#endif

namespace hsa_cpu::gcn {

/// Room for the lanes of a wide operand: low words, then high words.
struct Room {
  alignas(64) u32 words[2 * kLanes];
};

// ---- how operands are read from and written to words. Names as in the tables.
namespace tags {

template <class T, Type kType>
struct Word {
  using Value = T;
  static constexpr Type type = kType;
  static constexpr bool wide = sizeof(T) == 8;
  static T read(const u32* words, u32 lane) {
    if constexpr (wide)
      return std::bit_cast<T>(u64{words[lane]} | u64{words[kLanes + lane]} << 32);
    else if constexpr (sizeof(T) == 4)
      return std::bit_cast<T>(words[lane]);
    else
      return static_cast<T>(words[lane]);
  }
  static void write(u32* words, u32 lane, T value) {
    if constexpr (wide) {
      words[lane] = static_cast<u32>(std::bit_cast<u64>(value));
      words[kLanes + lane] = static_cast<u32>(std::bit_cast<u64>(value) >> 32);
    } else if constexpr (sizeof(T) == 4) {
      words[lane] = std::bit_cast<u32>(value);
    } else {
      words[lane] = static_cast<u16>(value);
    }
  }
};
using U16 = Word<u16, Type::U16>;
using I16 = Word<i16, Type::I16>;
using U32 = Word<u32, Type::U32>;
using I32 = Word<i32, Type::I32>;
using F32 = Word<f32, Type::F32>;
using U64 = Word<u64, Type::U64>;
using I64 = Word<i64, Type::I64>;
using F64 = Word<f64, Type::F64>;
/// Bits of a number: negative and absolute mean something, but nothing is computed.
using RawF16 = Word<u16, Type::F16>;
using RawF32 = Word<u32, Type::F32>;
using RawF64 = Word<u64, Type::F64>;
using Packed16 = Word<u32, Type::Packed16>;
using PackedF16 = Word<u32, Type::PackedF16>;
using PackedF32 = Word<u64, Type::PackedF32>;
/// Either f32 or f16, as modifiers say; by the time it is read it is f32.
using Mixed = Word<f32, Type::Mixed>;
/// Computed as f32: all lanes are converted before and after the loop.
struct F16 : Word<f32, Type::F16> {};
struct None : Word<u32, Type::None> {};

}  // namespace tags

template <class Tag>
struct Source {
  const u32* words;
  explicit Source(const u32* from) : words(from) {}
  typename Tag::Value operator[](u32 lane) const { return Tag::read(words, lane); }
};
template <>
struct Source<tags::F16> {
  alignas(64) f32 values[kLanes];
  explicit Source(const u32* from) { widen_halves(from, values); }
  f32 operator[](u32 lane) const { return values[lane]; }
};
template <>
struct Source<tags::None> {
  explicit Source(const u32*) {}
  u32 operator[](u32) const { return 0; }
};

template <class Result, class A = tags::None, class B = tags::None, class C = tags::None>
struct Signature {
  using D = Result;
  using SourceA = A;
  using SourceB = B;
  using SourceC = C;
};

/// Whether rounding and denormals matter, and which of the two settings of MODE counts.
template <class Op>
constexpr Type float_class() {
  for (const Type type : {Op::D::type, Op::SourceA::type, Op::SourceB::type})
    if (is_float(type)) return type;
  return Type::None;
}

/// The processor's rounding and denormals as the wave's MODE says, for as long as this lives.
class FloatMode {
 public:
  FloatMode(const Wave& wave, Type type) : on_(!wave.usual_floats && type != Type::None) {
    if (on_) set(wave.mode, type);
  }
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;
  ~FloatMode() {
    if (on_) _mm_setcsr(before_);
  }

 private:
  void set(u32 mode, Type type);
  const bool on_;
  u32 before_ = 0;
};

/// One bit a lane as 0 or all ones a lane, and back.
void spread_bits(u64 bits, u32* words);
u64 gather_bits(const u32* words);

/// A scalar operand for all lanes.
const u32* spread_scalar(const Wave& wave, const Operand& operand, bool wide, Room& room);
inline const u32* lanes_of(Wave& wave, const Operand& operand, bool wide, Room& room) {
  return operand.kind == Kind::Vector ? wave.v[operand.index] : spread_scalar(wave, operand, wide, room);
}
/// A source as modifiers say, copied.
const u32* prepared(Wave& wave, const Instruction& instruction, u32 source, Type type, Room& room);
/// Writes the lanes' results as modifiers say.
void finish(Wave& wave, const Instruction& instruction, Type type, Room& result);
inline bool result_is_plain(const Instruction& instruction) {
  return instruction.output_scale == 0 && !instruction.clamp && instruction.select == kSelectAll &&
         instruction.exchange == nullptr;
}
/// Copies the active lanes to the destination.
void store_active(Wave& wave, u16 destination, bool wide, const Room& result);

template <class Op>
inline void compute(u32* out, u32* out_bits, const u32* a, const u32* b, const u32* c, const u32* mask) {
  const Source<typename Op::SourceA> sources_a(a);
  const Source<typename Op::SourceB> sources_b(b);
  const Source<typename Op::SourceC> sources_c(c);
  if constexpr (std::is_same_v<typename Op::D, tags::F16>) {
    alignas(64) f32 results[kLanes];
    GCN_EACH_LANE {
      bool bit = false;
      results[lane] = Op::apply(sources_a[lane], sources_b[lane], sources_c[lane],
                                (Op::traits & kIn) != 0 && mask[lane] != 0, lane, bit);
    }
    narrow_to_halves(results, out);
  } else {
    GCN_EACH_LANE {
      bool bit = false;
      const auto result = Op::apply(sources_a[lane], sources_b[lane], sources_c[lane],
                                    (Op::traits & kIn) != 0 && mask[lane] != 0, lane, bit);
      Op::D::write(out, lane, result);
      if constexpr ((Op::traits & kOut) != 0) out_bits[lane] = bit ? ~0u : 0;
    }
  }
}
/// Both halves of packed operands, one after the other.
template <class Op>
void compute_packed(u32* out, const u32* a, const u32* b, const u32* c) {
  Room low, high, halves[3];
  const u32* const sources[3] = {a, b, c};
  for (const u32 shift : {0u, 16u}) {
    for (u32 source = 0; source < Op::count; ++source) {
      const u32* const from = sources[source];
      u32* const to = halves[source].words;
      GCN_EACH_LANE to[lane] = from[lane] >> shift & 0xffff;
    }
    compute<Op>(shift == 0 ? low.words : high.words, nullptr, halves[0].words, halves[1].words, halves[2].words,
                nullptr);
  }
  GCN_EACH_LANE out[lane] = low.words[lane] | high.words[lane] << 16;
}

template <class Op>
void compute_any(u32* out, u32* out_bits, const u32* a, const u32* b, const u32* c, const u32* mask) {
  if constexpr (Op::packed)
    compute_packed<Op>(out, a, b, c);
  else
    compute<Op>(out, out_bits, a, b, c, mask);
}

/// What a packed operation's halves are in registers: both.
template <class Op>
constexpr Type in_registers(Type type) {
  if (!Op::packed || type == Type::None) return type;
  return is_float(type) ? Type::PackedF16 : Type::Packed16;
}

template <class Op>
void plain(Wave& wave, const Instruction& instruction) {
  using D = typename Op::D;
  constexpr bool kHasB = !std::is_same_v<typename Op::SourceB, tags::None>;
  constexpr bool kHasC = !std::is_same_v<typename Op::SourceC, tags::None>;
  const FloatMode mode(wave, float_class<Op>());
  Room room_a, room_b, room_c, room_mask, room_bits;
  const u32* const a = lanes_of(wave, instruction.source[0], Op::SourceA::wide, room_a);
  const u32* const b = kHasB ? lanes_of(wave, instruction.source[1], Op::SourceB::wide, room_b) : nullptr;
  const u32* const c = kHasC ? lanes_of(wave, instruction.source[2], Op::SourceC::wide, room_c) : nullptr;
  if constexpr ((Op::traits & kIn) != 0) spread_bits(wave.pair(instruction.mask_in), room_mask.words);
  const u64 exec = wave.exec();
  if (exec == ~u64{0}) {
    compute_any<Op>(wave.v[instruction.destination], room_bits.words, a, b, c, room_mask.words);
  } else {
    Room result;
    compute_any<Op>(result.words, room_bits.words, a, b, c, room_mask.words);
    store_active(wave, instruction.destination, D::wide, result);
  }
  if constexpr ((Op::traits & kOut) != 0) wave.set_pair(instruction.mask_out, gather_bits(room_bits.words) & exec);
}

template <class Op>
void modified(Wave& wave, const Instruction& instruction) {
  constexpr bool kHasB = !std::is_same_v<typename Op::SourceB, tags::None>;
  constexpr bool kHasC = !std::is_same_v<typename Op::SourceC, tags::None>;
  const FloatMode mode(wave, float_class<Op>());
  Room room_a, room_b, room_c, room_mask, room_bits, result;
  const u32* const a = prepared(wave, instruction, 0, in_registers<Op>(Op::SourceA::type), room_a);
  const u32* const b = kHasB ? prepared(wave, instruction, 1, in_registers<Op>(Op::SourceB::type), room_b) : nullptr;
  const u32* const c = kHasC ? prepared(wave, instruction, 2, in_registers<Op>(Op::SourceC::type), room_c) : nullptr;
  if constexpr ((Op::traits & kIn) != 0) spread_bits(wave.pair(instruction.mask_in), room_mask.words);
  // Only sources have modifiers, and all lanes are active: straight to the register, as in plain().
  const bool direct = result_is_plain(instruction) && wave.exec() == ~u64{0};
  u32* const out = direct ? wave.v[instruction.destination] : result.words;
  compute_any<Op>(out, room_bits.words, a, b, c, room_mask.words);
  if constexpr ((Op::traits & kOut) != 0)
    wave.set_pair(instruction.mask_out, gather_bits(room_bits.words) & wave.exec());
  if (!direct) finish(wave, instruction, in_registers<Op>(Op::D::type), result);
}

/// Comparisons: a bit a lane, and 0 for lanes that are not active.
template <class Op, bool kWithModifiers>
void compare(Wave& wave, const Instruction& instruction) {
  const FloatMode mode(wave, Op::SourceA::type);
  Room room_a, room_b, result;
  const u32 *a, *b;
  if constexpr (kWithModifiers) {
    a = prepared(wave, instruction, 0, Op::SourceA::type, room_a);
    b = prepared(wave, instruction, 1, Op::SourceB::type, room_b);
  } else {
    a = lanes_of(wave, instruction.source[0], Op::SourceA::wide, room_a);
    b = lanes_of(wave, instruction.source[1], Op::SourceB::wide, room_b);
  }
  const Source<typename Op::SourceA> sources_a(a);
  const Source<typename Op::SourceB> sources_b(b);
  GCN_EACH_LANE result.words[lane] = Op::apply(sources_a[lane], sources_b[lane]) ? ~0u : 0;
  const u64 bits = gather_bits(result.words) & wave.exec();
  wave.set_pair(instruction.mask_out, bits);
  if ((Op::traits & kWritesExec) != 0) wave.set_pair(kExec, bits);
}

}  // namespace hsa_cpu::gcn
