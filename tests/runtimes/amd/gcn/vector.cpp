// vector.cpp: operations on lanes, as vector.def has them.
#include "lanes.h"

namespace hsa_cpu::gcn {
namespace {

#define GCN_UNWRAP(...) __VA_ARGS__

template <class F>
u64 on_both(u64 a, u64 b, u64 c, F function) {
  const auto low = [](u64 pair) { return as_f32(static_cast<u32>(pair)); };
  const auto high = [](u64 pair) { return as_f32(static_cast<u32>(pair >> 32)); };
  return u64{bits(function(high(a), high(b), high(c)))} << 32 | bits(function(low(a), low(b), low(c)));
}

namespace rows {
using namespace tags;

#define GCN_ROW(name, bits, is_packed, number, result, types, ...)                                         \
  struct name : Signature<result, GCN_UNWRAP types> {                                                      \
    static constexpr u16 traits = bits;                                                                    \
    static constexpr bool packed = is_packed;                                                              \
    static constexpr u32 count = number;                                                                   \
    static typename D::Value apply([[maybe_unused]] typename SourceA::Value a,                             \
                                   [[maybe_unused]] typename SourceB::Value b,                             \
                                   [[maybe_unused]] typename SourceC::Value c, [[maybe_unused]] bool mask, \
                                   [[maybe_unused]] u32 lane, [[maybe_unused]] bool& out) {                \
      return __VA_ARGS__;                                                                                  \
    }                                                                                                      \
  };
#define HAND(format, opcode, name) void name(Wave& wave, const Instruction& instruction);
#define VOP1(opcode, name, traits, result, types, ...) GCN_ROW(name, traits, false, 1, result, types, __VA_ARGS__)
#define VOP2(opcode, name, traits, result, types, ...) GCN_ROW(name, traits, false, 2, result, types, __VA_ARGS__)
#define VOP3(opcode, name, traits, result, types, ...) GCN_ROW(name, traits, false, 3, result, types, __VA_ARGS__)
#define VOP2_90A VOP2
#define VOP3_90A(opcode, name, traits, result, types, ...) \
  GCN_ROW(name##_90a, traits, false, 3, result, types, __VA_ARGS__)
#define WHOLE VOP3
#define GCN_TWO_ROWS(name, traits, number, result, types, usual, saturated) \
  GCN_ROW(name, traits, false, number, result, types, usual)                \
  GCN_ROW(name##_saturated, traits, false, number, result, types, saturated)
#define VOP2_SAT(opcode, name, traits, result, types, usual, saturated) \
  GCN_TWO_ROWS(name, traits, 2, result, types, usual, saturated)
#define VOP3_SAT(opcode, name, traits, result, types, usual, saturated) \
  GCN_TWO_ROWS(name, traits, 3, result, types, usual, saturated)
#define GCN_TYPES_2(type) (type, type)
#define GCN_TYPES_3(type) (type, type, type)
#define PACKED(opcode, name, type, number, usual, saturated)                 \
  GCN_ROW(name, kPlain, true, number, type, GCN_TYPES_##number(type), usual) \
  GCN_ROW(name##_saturated, kPlain, true, number, type, GCN_TYPES_##number(type), saturated)
#include "vector.def"
#undef HAND
#undef VOP1
#undef VOP2
#undef VOP3
#undef VOP2_90A
#undef VOP3_90A
#undef WHOLE
#undef VOP2_SAT
#undef VOP3_SAT
#undef PACKED

// ---- operations that are not the same in every lane

void v_nop(Wave&, const Instruction&) {}
void v_clrexcp(Wave&, const Instruction&) {}

void v_readfirstlane_b32(Wave& wave, const Instruction& instruction) {
  const Operand& from = instruction.source[0];
  const u64 exec = wave.exec();
  const u32 lane = exec == 0 ? 0 : static_cast<u32>(__builtin_ctzll(exec));
  wave.s[instruction.destination] = from.kind == Kind::Vector ? wave.v[from.index][lane] : scalar32(wave, from);
}
void v_readlane_b32(Wave& wave, const Instruction& instruction) {
  const Operand& from = instruction.source[0];
  const u32 lane = scalar32(wave, instruction.source[1]) & (kLanes - 1);
  wave.s[instruction.destination] = from.kind == Kind::Vector ? wave.v[from.index][lane] : scalar32(wave, from);
}
void v_writelane_b32(Wave& wave, const Instruction& instruction) {
  const u32 lane = scalar32(wave, instruction.source[1]) & (kLanes - 1);
  wave.v[instruction.destination][lane] = scalar32(wave, instruction.source[0]);
}
void v_swap_b32(Wave& wave, const Instruction& instruction) {
  u32* const one = wave.v[instruction.destination];
  u32* const other = wave.v[instruction.source[0].index];
  const u64 exec = wave.exec();
  for (u32 lane = 0; lane < kLanes; ++lane)
    if ((exec >> lane & 1) != 0) std::swap(one[lane], other[lane]);
}
void v_accvgpr_mov_b32(Wave& wave, const Instruction& instruction) {
  Room room;
  std::memcpy(room.words, wave.v[kAccumulators + instruction.source[0].index], kLanes * 4);
  store_active(wave, static_cast<u16>(kAccumulators + instruction.destination), false, room);
}
void v_accvgpr_read_b32(Wave& wave, const Instruction& instruction) {
  Room room;
  std::memcpy(room.words, wave.v[kAccumulators + instruction.source[0].index], kLanes * 4);
  store_active(wave, instruction.destination, false, room);
}
void v_accvgpr_write_b32(Wave& wave, const Instruction& instruction) {
  Room room;
  std::memcpy(room.words, lanes_of(wave, instruction.source[0], false, room), kLanes * 4);
  store_active(wave, static_cast<u16>(kAccumulators + instruction.destination), false, room);
}
void v_pk_mov_b32(Wave& wave, const Instruction& instruction) {
  Room room_a, room_b, result;
  const u32* const a = lanes_of(wave, instruction.source[0], true, room_a);
  const u32* const b = lanes_of(wave, instruction.source[1], true, room_b);
  const u32 word_a = instruction.low_halves & 1, word_b = instruction.low_halves >> 1 & 1;
  std::memcpy(result.words, a + word_a * kLanes, kLanes * 4);
  std::memcpy(result.words + kLanes, b + word_b * kLanes, kLanes * 4);
  store_active(wave, instruction.destination, true, result);
}

}  // namespace rows

template <class Row>
constexpr Operation operation(const char* name, Format format, u16 opcode, Execute saturated = nullptr) {
  constexpr auto seen = in_registers<Row>;
  return {name,
          format,
          opcode,
          Row::traits,
          seen(Row::D::type),
          {seen(Row::SourceA::type), seen(Row::SourceB::type), seen(Row::SourceC::type)},
          plain<Row>,
          modified<Row>,
          saturated};
}

const Operation kOperations[] = {
#define HAND(format, opcode, name) \
  {#name, Format::format, opcode, kPlain, Type::None, {}, rows::name, nullptr, nullptr},
#define VOP1(opcode, name, ...) operation<rows::name>(#name, Format::Vop1, opcode),
#define VOP2(opcode, name, ...) operation<rows::name>(#name, Format::Vop2, opcode),
#define VOP3(opcode, name, ...) operation<rows::name>(#name, Format::Vop3, opcode),
#define VOP2_90A(opcode, name, ...) operation<rows::name>(#name, Format::Vop2, opcode),
#define VOP3_90A(opcode, name, ...) operation<rows::name##_90a>(#name, Format::Vop3, opcode),
#define VOP2_SAT(opcode, name, ...) \
  operation<rows::name>(#name, Format::Vop2, opcode, modified<rows::name##_saturated>),
#define VOP3_SAT(opcode, name, ...) \
  operation<rows::name>(#name, Format::Vop3, opcode, modified<rows::name##_saturated>),
#define WHOLE(opcode, name, ...) operation<rows::name>(#name, Format::Vop3p, opcode),
#define PACKED(opcode, name, ...) operation<rows::name>(#name, Format::Vop3p, opcode, modified<rows::name##_saturated>),
#include "vector.def"
};

}  // namespace

Operations vector_operations() { return {std::begin(kOperations), std::end(kOperations)}; }

}  // namespace hsa_cpu::gcn
