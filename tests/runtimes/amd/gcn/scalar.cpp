// scalar.cpp: operations on scalar registers, and control, as scalar.def has them.
#include <ctime>
#include <string_view>

#include "numbers.h"
#include "wave.h"

namespace hsa_cpu::gcn {
namespace {

template <class T>
T read(const Wave& wave, const Operand& operand) {
  if constexpr (sizeof(T) == 8)
    return static_cast<T>(scalar64(wave, operand));
  else
    return static_cast<T>(scalar32(wave, operand));
}
template <class T>
void write(Wave& wave, u32 index, T value) {
  if constexpr (sizeof(T) == 8)
    wave.set_pair(index, static_cast<u64>(value));
  else
    wave.s[index] = static_cast<u32>(value);
}

namespace rows {

using U32 = u32;
using I32 = i32;
using U64 = u64;
using I64 = i64;

#define KEEP scc
#define HAND(format, opcode, name) void name(Wave& wave, const Instruction& instruction);
#define IGNORED(format, opcode, name) \
  void name(Wave&, const Instruction&) {}
#define SOP2(opcode, name, result, type_a, type_b, expression, condition) \
  void name(Wave& wave, const Instruction& instruction) {                 \
    [[maybe_unused]] const bool scc = wave.scc;                           \
    const type_a a = read<type_a>(wave, instruction.source[0]);           \
    const type_b b = read<type_b>(wave, instruction.source[1]);           \
    const result r = expression;                                          \
    write(wave, instruction.destination, r);                              \
    wave.scc = condition;                                                 \
  }
#define SOP1(opcode, name, result, type, expression, condition) \
  void name(Wave& wave, const Instruction& instruction) {       \
    [[maybe_unused]] const bool scc = wave.scc;                 \
    const type a = read<type>(wave, instruction.source[0]);     \
    const result r = expression;                                \
    write(wave, instruction.destination, r);                    \
    wave.scc = condition;                                       \
  }
#define SOPC(opcode, name, type_a, type_b, condition)           \
  void name(Wave& wave, const Instruction& instruction) {       \
    const type_a a = read<type_a>(wave, instruction.source[0]); \
    const type_b b = read<type_b>(wave, instruction.source[1]); \
    wave.scc = condition;                                       \
  }
#define SOPK(opcode, name, expression, condition)                   \
  void name(Wave& wave, const Instruction& instruction) {           \
    [[maybe_unused]] const bool scc = wave.scc;                     \
    [[maybe_unused]] const u32 a = wave.s[instruction.destination]; \
    [[maybe_unused]] const i32 k = instruction.offset;              \
    const u32 r = expression;                                       \
    wave.s[instruction.destination] = r;                            \
    wave.scc = condition;                                           \
  }
#define SAVEEXEC(opcode, name, expression)                                \
  void name(Wave& wave, const Instruction& instruction) {                 \
    const u64 a = scalar64(wave, instruction.source[0]), e = wave.exec(); \
    const u64 r = expression;                                             \
    wave.set_pair(instruction.destination, e);                            \
    wave.set_pair(kExec, r);                                              \
    wave.scc = r != 0;                                                    \
  }
#define BRANCH(opcode, name, condition)                                                                 \
  void name([[maybe_unused]] Wave& wave, [[maybe_unused]] const Instruction& instruction) {             \
    if (condition) jump(wave, instruction.address + 4 + static_cast<u64>(i64{instruction.offset} * 4)); \
  }
#include "scalar.def"
#undef HAND
#undef IGNORED
#undef SOP2
#undef SOP1
#undef SOPC
#undef SOPK
#undef SAVEEXEC
#undef BRANCH

void s_cmov_b32(Wave& wave, const Instruction& instruction) {
  if (wave.scc) wave.s[instruction.destination] = scalar32(wave, instruction.source[0]);
}
void s_cmov_b64(Wave& wave, const Instruction& instruction) {
  if (wave.scc) wave.set_pair(instruction.destination, scalar64(wave, instruction.source[0]));
}
void s_bitset0_b32(Wave& wave, const Instruction& instruction) {
  wave.s[instruction.destination] &= ~(1u << (scalar32(wave, instruction.source[0]) & 31));
}
void s_bitset1_b32(Wave& wave, const Instruction& instruction) {
  wave.s[instruction.destination] |= 1u << (scalar32(wave, instruction.source[0]) & 31);
}
void s_bitset0_b64(Wave& wave, const Instruction& instruction) {
  const u64 bit = u64{1} << (scalar32(wave, instruction.source[0]) & 63);
  wave.set_pair(instruction.destination, wave.pair(instruction.destination) & ~bit);
}
void s_bitset1_b64(Wave& wave, const Instruction& instruction) {
  const u64 bit = u64{1} << (scalar32(wave, instruction.source[0]) & 63);
  wave.set_pair(instruction.destination, wave.pair(instruction.destination) | bit);
}
void s_movrels_b32(Wave& wave, const Instruction& instruction) {
  wave.s[instruction.destination] = wave.s[(instruction.source[0].index + wave.s[kM0]) % kScalars];
}
void s_movrels_b64(Wave& wave, const Instruction& instruction) {
  wave.set_pair(instruction.destination, wave.pair((instruction.source[0].index + wave.s[kM0]) % (kScalars - 1)));
}
void s_movreld_b32(Wave& wave, const Instruction& instruction) {
  wave.s[(instruction.destination + wave.s[kM0]) % kScalars] = scalar32(wave, instruction.source[0]);
}
void s_movreld_b64(Wave& wave, const Instruction& instruction) {
  wave.set_pair((instruction.destination + wave.s[kM0]) % (kScalars - 1), scalar64(wave, instruction.source[0]));
}
void s_andn1_wrexec_b64(Wave& wave, const Instruction& instruction) {
  const u64 result = ~scalar64(wave, instruction.source[0]) & wave.exec();
  wave.set_pair(instruction.destination, result);
  wave.set_pair(kExec, result);
  wave.scc = result != 0;
}
void s_andn2_wrexec_b64(Wave& wave, const Instruction& instruction) {
  const u64 result = scalar64(wave, instruction.source[0]) & ~wave.exec();
  wave.set_pair(instruction.destination, result);
  wave.set_pair(kExec, result);
  wave.scc = result != 0;
}

u64 after(const Instruction& instruction) { return instruction.address + 4; }

void s_getpc_b64(Wave& wave, const Instruction& instruction) {
  wave.set_pair(instruction.destination, after(instruction));
}
void s_setpc_b64(Wave& wave, const Instruction& instruction) { jump(wave, scalar64(wave, instruction.source[0])); }
void s_swappc_b64(Wave& wave, const Instruction& instruction) {
  const u64 to = scalar64(wave, instruction.source[0]);
  wave.set_pair(instruction.destination, after(instruction));
  jump(wave, to);
}
void s_call_b64(Wave& wave, const Instruction& instruction) {
  wave.set_pair(instruction.destination, after(instruction));
  jump(wave, after(instruction) + static_cast<u64>(i64{instruction.offset} * 4));
}

// ---- hardware registers, of which compilers use MODE and the apertures' bases
constexpr u32 kMode = 1, kMemoryBases = 15;
struct RegisterPart {
  u32 number, start, mask;
  explicit RegisterPart(i32 encoded)
      : number(static_cast<u32>(encoded) & 63),
        start(static_cast<u32>(encoded) >> 6 & 31),
        mask(static_cast<u32>((u64{2} << (static_cast<u32>(encoded) >> 11 & 31)) - 1)) {}
};
void s_getreg_b32(Wave& wave, const Instruction& instruction) {
  const RegisterPart part(instruction.offset);
  u32 value = 0;
  if (part.number == kMode) value = wave.mode;
  if (part.number == kMemoryBases) value = kGroupApertureHigh | kPrivateApertureHigh >> 16;
  wave.s[instruction.destination] = value >> part.start & part.mask;
}
void set_register(Wave& wave, const Instruction& instruction, u32 value) {
  const RegisterPart part(instruction.offset);
  if (part.number != kMode) return;
  wave.set_mode((wave.mode & ~(part.mask << part.start)) | (value & part.mask) << part.start);
}
void s_setreg_b32(Wave& wave, const Instruction& instruction) {
  set_register(wave, instruction, wave.s[instruction.destination]);
}
void s_setreg_imm32_b32(Wave& wave, const Instruction& instruction) {
  set_register(wave, instruction, instruction.source[0].low);
}

// ---- the wave's life
void s_endpgm(Wave& wave, const Instruction&) { wave.stop(State::Done); }
void s_endpgm_saved(Wave& wave, const Instruction&) { wave.stop(State::Done); }
void s_barrier(Wave& wave, const Instruction&) { wave.stop(State::AtBarrier); }
void s_sleep(Wave& wave, const Instruction&) { wave.budget = 0; }
void s_trap(Wave& wave, const Instruction& instruction) {
  constexpr i32 kDebugTrap = 3;  // goes on where no debugger is
  if (instruction.offset != kDebugTrap) wave.stop(State::Trapped);
}

}  // namespace rows

constexpr Operation operation(const char* name, Format format, u16 opcode, Execute run, Type result = Type::None,
                              Type a = Type::None, Type b = Type::None) {
  return {name, format, opcode, kPlain, result, {a, b, Type::None}, run, nullptr, nullptr};
}

// What HAND rows read: 64 bits where their names end so.
constexpr Type type_by_name(std::string_view name) { return name.ends_with("_b64") ? Type::U64 : Type::U32; }

const Operation kOperations[] = {
#define HAND(format, opcode, name) \
  operation(#name, Format::format, opcode, rows::name, type_by_name(#name), type_by_name(#name)),
#define IGNORED(format, opcode, name) operation(#name, Format::format, opcode, rows::name),
#define SOP2(opcode, name, result, type_a, type_b, expression, condition) \
  operation(#name, Format::Sop2, opcode, rows::name, Type::result, Type::type_a, Type::type_b),
#define SOP1(opcode, name, result, type, expression, condition) \
  operation(#name, Format::Sop1, opcode, rows::name, Type::result, Type::type),
#define SOPC(opcode, name, type_a, type_b, condition) \
  operation(#name, Format::Sopc, opcode, rows::name, Type::None, Type::type_a, Type::type_b),
#define SOPK(opcode, name, expression, condition) operation(#name, Format::Sopk, opcode, rows::name, Type::U32),
#define SAVEEXEC(opcode, name, expression) operation(#name, Format::Sop1, opcode, rows::name, Type::U64, Type::U64),
#define BRANCH(opcode, name, condition) operation(#name, Format::Sopp, opcode, rows::name),
#include "scalar.def"
};

}  // namespace

u32 scalar32(const Wave& wave, const Operand& operand) {
  if (operand.kind == Kind::Scalar) return wave.s[operand.index];
  if (operand.kind == Kind::Constant) return operand.low;
  switch (operand.index) {
    case 251:
      return wave.pair(kVcc) == 0;
    case 252:
      return wave.exec() == 0;
    default:
      return wave.scc;
  }
}
u64 scalar64(const Wave& wave, const Operand& operand) {
  if (operand.kind == Kind::Scalar) return wave.pair(operand.index);
  if (operand.kind == Kind::Constant) return u64{operand.high} << 32 | operand.low;
  return scalar32(wave, operand);
}

Operations scalar_operations() { return {std::begin(kOperations), std::end(kOperations)}; }

}  // namespace hsa_cpu::gcn
