// matrix.cpp: products of matrices (MFMA): the rows of matrix.def.
//
// Where elements lie (AMD's "CDNA" Instruction Set Architecture, and the vendor's matrix instruction calculator): lanes
// hold the rows of A side by side, block after block, then the next columns; B likewise with columns and rows
// exchanged. Of C and D a lane holds one column. All lanes take part, whatever the execution mask; sums are rounded to
// nearest at each step. On gfx90a products of halves and of bfloat16 take denormals for zeros, and give zeros for them
// (MIOpen's documentation: "MI200 MFMA behavior specifics"; that the sign stays is a guess).
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "code.h"
#include "instruction.h"
#include "numbers.h"
#include "wave.h"

namespace hsa_cpu::gcn {
namespace {

// How elements are stored: several elements in a register, or one element in several registers. `smallest` is the
// first that is not denormal, where denormals may be taken for zeros; else 0.
struct Single {
  static constexpr u32 per_register = 1, registers = 1;
  static constexpr f32 smallest = 0;
  static f32 get(const u32* v, u32 lane, u32) {
    f32 value;
    std::memcpy(&value, v + lane, sizeof value);
    return value;
  }
};
struct Half {
  static constexpr u32 per_register = 2, registers = 1;
  static constexpr f32 smallest = 0x1p-14F;
  static f32 get(const u32* v, u32 lane, u32 part) { return half_to_float(v[lane] >> 16 * part & 0xffff); }
};
/// bfloat16: the upper 16 bits of a float.
struct Brain {
  static constexpr u32 per_register = 2, registers = 1;
  static constexpr f32 smallest = 0x1p-126F;
  static f32 get(const u32* v, u32 lane, u32 part) {
    const u32 bits = v[lane] >> 16 * part << 16;
    f32 value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
};
struct Byte {
  static constexpr u32 per_register = 4, registers = 1;
  static constexpr i32 smallest = 0;
  static i32 get(const u32* v, u32 lane, u32 part) { return static_cast<i8>(v[lane] >> 8 * part); }
};
struct Twice {
  static constexpr u32 per_register = 1, registers = 2;
  static constexpr f64 smallest = 0;
  static f64 get(const u32* v, u32 lane, u32) {
    const u64 bits = u64{v[lane]} | u64{v[kLanes + lane]} << 32;
    f64 value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
};

template <Type>
struct SumOf;
template <>
struct SumOf<Type::F32> {
  using Number = f32;
};
template <>
struct SumOf<Type::I32> {
  using Number = i32;
};
template <>
struct SumOf<Type::F64> {
  using Number = f64;
};

/// The modifiers of an instruction: which block's A (cbsz, abid) and which lanes' B (blgp) are read in the place of
/// others.
struct Broadcast {
  u32 blocks, block, lanes;
  explicit Broadcast(const Instruction& instruction)
      : blocks(1u << (instruction.word[0] >> 8 & 7)),
        block(instruction.word[0] >> 11 & 15),
        lanes(instruction.word[1] >> 29) {}
  /// Whether there are so many blocks, and the one that is named is among them. Doubles take no modifiers.
  bool fits(u32 blocks_there, bool wide) const {
    if (wide) return blocks == 1 && block == 0 && lanes == 0;
    return blocks <= blocks_there && block < blocks;
  }
  u32 block_of_a(u32 of) const { return (of & ~(blocks - 1)) + (block & (blocks - 1)); }
  u32 lane_of_b(u32 lane) const {
    constexpr u32 kLowHalf = 1, kHighHalf = 2, kRotated = 3, kFirstQuarter = 4;
    if (lanes == 0) return lane;
    if (lanes == kLowHalf) return lane % 32;
    if (lanes == kHighHalf) return 32 + lane % 32;
    if (lanes == kRotated) return (lane + 16) % kLanes;
    return 16 * (lanes - kFirstQuarter) + lane % 16;
  }
};

template <class Element, Type kSum, u32 kElements, u32 kRows, u32 kInner, u32 kBlocks>
struct Product {
  using Number = typename SumOf<kSum>::Number;
  static constexpr u32 kWords = sizeof(Number) / 4;
  static_assert(kRows * kBlocks * (kInner / kElements) == kLanes, "each lane holds a part of A and of B");

  struct Place {
    u32 sum, lane;  ///< which of the lane's sums
  };
  static Place place(u32 block, u32 row, u32 column) {
    if constexpr (kWords == 2) {
      if constexpr (kRows == 4) return {0, column + 4 * block + 16 * row};
      return {row / 4, column + 16 * (row % 4)};
    } else if constexpr (kRows == 4) {
      return {row, column + 4 * block};
    } else {
      constexpr u32 kGroups = kLanes / kRows;  // of four rows, in lanes beside each other
      const u32 each = kRows * kRows / kLanes;
      return {each * block + row / (4 * kGroups) * 4 + row % 4, column + kRows * (row / 4 % kGroups)};
    }
  }
  static bool flushes(const Wave& wave) { return Element::smallest > 0 && wave.image->gfx90a; }
  static Number flushed(Number value, Number smallest) {
    if constexpr (Element::smallest > 0)
      return std::abs(value) < smallest ? std::copysign(Number{0}, value) : value;
    else
      return value;
  }
  static Number element(const Wave& wave, u32 first, u32 lane, u32 index) {
    const Number value = Element::get(wave.v[first + index / Element::per_register * Element::registers], lane,
                                      index % Element::per_register);
    return flushes(wave) ? flushed(value, Element::smallest) : value;
  }
  static Number add(Number a, Number b, Number sum) {
    if constexpr (kSum == Type::I32)
      return static_cast<i32>(static_cast<u32>(sum) + static_cast<u32>(a * b));
    else
      return std::fma(a, b, sum);
  }
  static Number initial(const Wave& wave, const Operand& c, Place at) {
    u32 words[2] = {c.low, c.high};
    if (c.kind == Kind::Vector)
      for (u32 word = 0; word < kWords; ++word) words[word] = wave.v[c.index + at.sum * kWords + word][at.lane];
    Number value;
    std::memcpy(&value, words, sizeof value);
    return flushes(wave) ? flushed(value, std::numeric_limits<Number>::min()) : value;
  }

  static void run(Wave& wave, const Instruction& instruction) {
    const Broadcast broadcast(instruction);
    if (!broadcast.fits(kBlocks, kWords == 2)) give_up(wave, instruction, "cbsz, abid or blgp that it does not have");
    static thread_local Number a[kBlocks][kInner][kRows], b[kBlocks][kInner][kRows], sums[kBlocks][kRows][kRows];
    for (u32 lane = 0; lane < kLanes; ++lane) {
      const u32 block = lane / kRows % kBlocks, inner = lane / (kRows * kBlocks) * kElements;
      const u32 lane_a = lane + (broadcast.block_of_a(block) - block) * kRows, lane_b = broadcast.lane_of_b(lane);
      for (u32 i = 0; i < kElements; ++i) {
        a[block][inner + i][lane % kRows] = element(wave, instruction.source[0].index, lane_a, i);
        b[block][inner + i][lane % kRows] = element(wave, instruction.source[1].index, lane_b, i);
      }
    }
    for (u32 block = 0; block < kBlocks; ++block) {
      for (u32 row = 0; row < kRows; ++row) {
        Number* const sum = sums[block][row];
        for (u32 column = 0; column < kRows; ++column)
          sum[column] = initial(wave, instruction.source[2], place(block, row, column));
        for (u32 inner = 0; inner < kInner; ++inner)
          for (u32 column = 0; column < kRows; ++column)
            sum[column] = add(a[block][inner][row], b[block][inner][column], sum[column]);
      }
    }
    for (u32 block = 0; block < kBlocks; ++block)
      for (u32 row = 0; row < kRows; ++row)
        for (u32 column = 0; column < kRows; ++column)
          store(wave, instruction.destination, place(block, row, column), sums[block][row][column]);
  }
  static void store(Wave& wave, u32 first, Place at, Number sum) {
    if (flushes(wave)) sum = flushed(sum, std::numeric_limits<Number>::min());
    u32 words[kWords];
    std::memcpy(words, &sum, sizeof sum);
    for (u32 word = 0; word < kWords; ++word) wave.v[first + at.sum * kWords + word][at.lane] = words[word];
  }
};

const Operation kOperations[] = {
#define MATRIX(opcode, name, number, sum, elements, rows, inner, blocks) \
  {#name,                                                                \
   Format::Vop3p,                                                        \
   opcode,                                                               \
   kMatrix,                                                              \
   Type::sum,                                                            \
   {Type::None, Type::None, Type::sum},                                  \
   Product<number, Type::sum, elements, rows, inner, blocks>::run,       \
   nullptr,                                                              \
   nullptr},
#include "matrix.def"
};

}  // namespace

Operations matrix_operations() { return {std::begin(kOperations), std::end(kOperations)}; }

}  // namespace hsa_cpu::gcn
