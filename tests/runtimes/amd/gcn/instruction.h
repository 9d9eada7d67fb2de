// instruction.h: a decoded instruction: what to call, and where its operands are.
#pragma once

#include <atomic>
#include <memory>

#include "types.h"

namespace hsa_cpu::gcn {

struct Instruction;
struct Wave;

using Execute = void (*)(Wave&, const Instruction&);

/// What an operand's bits mean, for what constants and modifiers (negative, absolute, clamp) do to them.
enum class Type : u8 { None, U16, I16, F16, U32, I32, F32, U64, I64, F64, Packed16, PackedF16, PackedF32, Mixed };
constexpr bool is_float(Type type) {
  return type == Type::F16 || type == Type::F32 || type == Type::F64 || type == Type::PackedF16 ||
         type == Type::PackedF32 || type == Type::Mixed;
}
constexpr bool is_wide(Type type) {
  return type == Type::U64 || type == Type::I64 || type == Type::F64 || type == Type::PackedF32;
}

enum class Format : u8 {
  Sop1,
  Sop2,
  Sopk,
  Sopc,
  Sopp,
  Smem,
  Vop1,
  Vop2,
  Vopc,
  Vop3,
  Vop3p,
  Ds,
  Mubuf,
  Flat,
  Global,
  Scratch,
};
constexpr u32 kFormats = 16;

/// Bits of an operation's row. What each asks of the decoder and of the lanes' loop.
enum Trait : u16 {
  kPlain = 0,
  kIn = 1 << 0,           ///< reads a bit a lane: vcc, or what VOP3 names
  kOut = 1 << 1,          ///< writes a bit a lane: vcc, or what VOP3 names
  kAccumulates = 1 << 2,  ///< the destination is the last source
  kKeepsHigh = 1 << 3,    ///< a 16-bit result leaves the high half as it was
  kWritesExec = 1 << 4,   ///< a comparison that also sets the execution mask
  kLiteralB = 1 << 5,     ///< the second source is a literal, what is encoded second comes third
  kLiteralC = 1 << 6,     ///< the third source is a literal
  kImplicitVcc = 1 << 7,  ///< the bit a lane is always vcc's
  kMatrix = 1 << 8,       ///< multiplies matrices
};

/// A row of the tables.
struct Operation {
  const char* name;
  Format format;
  u16 opcode;
  u16 traits;
  Type result;
  Type sources[3];
  Execute plain;      ///< no modifier is used
  Execute modified;   ///< with modifiers; null where there are none
  Execute saturated;  ///< the clamp bit saturates; null where it does not
};

enum class Kind : u8 { None, Vector, Scalar, Constant, Special };

struct Operand {
  Kind kind = Kind::None;
  bool negative = false, absolute = false, sign_extend = false;
  u16 index = 0;          ///< register; for Special what the encoding calls it
  u8 select = 6;          ///< part of a register, as SDWA numbers them: bytes 0 to 3, words 4 and 5, all of it 6
  u32 low = 0, high = 0;  ///< a constant
};
constexpr u8 kSelectWord0 = 4, kSelectWord1 = 5, kSelectAll = 6;

/// How lanes of the first source are exchanged (DPP).
struct LaneExchange {
  u8 from[kLanes];  ///< the lane that is read
  u64 inside;       ///< lanes that have one to read
  u64 enabled;      ///< lanes that may be written
  bool zero_outside;
};

struct Instruction {
  std::atomic<Execute> run{nullptr};
  std::atomic<u8> words{0};  ///< length; 0: not yet decoded
  bool clamp = false, returns = false;
  u8 output_scale = 0;                 ///< 1: times 2, 2: times 4, 3: half
  u8 select = kSelectAll, unused = 0;  ///< part of the destination that is written; what becomes of the rest (SDWA)
  u8 mask_in = 0, mask_out = 0;        ///< scalar registers with a bit a lane
  u8 low_halves = 0, high_halves = 7;  ///< packed: for each source, whether its high half serves the low / high result
  u8 negative_low = 0, negative_high = 0;
  bool index_enabled = false, offset_enabled = false, to_lds = false;  // MUBUF
  u16 destination = 0;
  i32 offset = 0;               ///< of memory operations; what a branch adds; SIMM16
  u8 offset0 = 0, offset1 = 0;  // DS
  std::unique_ptr<const LaneExchange> exchange;
  Operand source[3];
  const Operation* operation = nullptr;
  u64 address = 0;
  u32 word[2] = {0, 0};
};

/// Fills in everything but run, words and address. Returns the length in words; 0: there is no such operation.
u32 decode(const u32* code, bool gfx90a, Instruction& out, Execute& run);

/// All rows, for decoder and tests.
struct Operations {
  const Operation* begin;
  const Operation* end;
};
Operations scalar_operations();
Operations vector_operations();
Operations compare_operations();
Operations matrix_operations();
Operations memory_operations();

}  // namespace hsa_cpu::gcn
