// decode.cpp: words of code become an Instruction.
//
// Encodings as in AMD's "Vega" Instruction Set Architecture, chapter 12; gfx908 and gfx90a add operations to them.
// Which number is which operation is said by the tables alone.
#include <array>
#include <cstring>
#include <string_view>

#include "instruction.h"
#include "wave.h"

namespace hsa_cpu::gcn {
namespace {

constexpr u32 part(u32 word, u32 start, u32 count) { return word >> start & ((1u << count) - 1); }
constexpr bool bit(u32 word, u32 index) { return (word >> index & 1) != 0; }
constexpr i32 signed_part(u32 word, u32 start, u32 count) {
  return static_cast<i32>(part(word, start, count) << (32 - count)) >> (32 - count);
}

/// Rows by format and opcode. What gfx90a has under another opcode's number is in a table of its own.
class Index {
 public:
  Index() {
    for (const Operations all :
         {scalar_operations(), vector_operations(), compare_operations(), matrix_operations(), memory_operations()})
      for (const Operation* row = all.begin; row != all.end; ++row) add(*row);
  }
  const Operation* find(Format format, u32 opcode, bool gfx90a) const {
    const Operation* const newer = at(newer_, format, opcode);
    return gfx90a && newer != nullptr ? newer : at(usual_, format, opcode);
  }

 private:
  static constexpr u32 kOpcodes = 1024;
  using Table = std::array<std::array<const Operation*, kOpcodes>, kFormats>;
  static const Operation* at(const Table& table, Format format, u32 opcode) {
    return table[static_cast<u32>(format)][opcode % kOpcodes];
  }
  void add(const Operation& row) {
    const Operation*& usual = usual_[static_cast<u32>(row.format)][row.opcode];
    (usual == nullptr ? usual : newer_[static_cast<u32>(row.format)][row.opcode]) = &row;
  }
  Table usual_{}, newer_{};
};
const Index& index_of_operations() {
  static const Index* const index = new Index;
  return *index;
}

/// Constants that encodings 240 to 248 stand for: halves, then singles, then doubles.
struct InlineFloat {
  u32 half, single;
  u64 twice;
};
constexpr InlineFloat kInlineFloats[] = {
    {0x3800, 0x3f000000, 0x3fe0000000000000}, {0xb800, 0xbf000000, 0xbfe0000000000000},
    {0x3c00, 0x3f800000, 0x3ff0000000000000}, {0xbc00, 0xbf800000, 0xbff0000000000000},
    {0x4000, 0x40000000, 0x4000000000000000}, {0xc000, 0xc0000000, 0xc000000000000000},
    {0x4400, 0x40800000, 0x4010000000000000}, {0xc400, 0xc0800000, 0xc010000000000000},
    {0x3118, 0x3e22f983, 0x3fc45f306dc9c882},
};

constexpr u32 kDpp = 250, kSdwa = 249, kLiteral = 255, kFirstVector = 256;

constexpr int kNoLane = -1;

/// The lane that DPP reads for this one; kNoLane: outside.
int exchanged_lane(u32 control, u32 lane) {
  const int at = static_cast<int>(lane), row = at & ~15, in_row = at & 15;
  const auto within = [&](int wanted, int first, int last) {
    return wanted < first || wanted > last ? kNoLane : wanted;
  };
  if (control < 0x100) return (at & ~3) | static_cast<int>(control >> (2 * (lane & 3)) & 3);
  const int by = static_cast<int>(control & 15);
  switch (control & ~15u) {
    case 0x100:  // row_shl
      return within(at + by, row, row + 15);
    case 0x110:  // row_shr
      return within(at - by, row, row + 15);
    case 0x120:  // row_ror
      return row | ((in_row - by) & 15);
    case 0x150:  // row_newbcast
      return row | by;
    default:
      break;
  }
  switch (control) {
    case 0x130:  // wave_shl
      return within(at + 1, 0, 63);
    case 0x134:  // wave_rol
      return (at + 1) & 63;
    case 0x138:  // wave_shr
      return within(at - 1, 0, 63);
    case 0x13c:  // wave_ror
      return (at - 1) & 63;
    case 0x140:  // row_mirror
      return row | (15 - in_row);
    case 0x141:  // row_half_mirror
      return (at & ~7) | (7 - (at & 7));
    case 0x142:  // row_bcast:15
      return row == 0 ? kNoLane : row - 1;
    case 0x143:  // row_bcast:31
      return at < 32 ? kNoLane : 31;
    default:
      return at;
  }
}

std::unique_ptr<const LaneExchange> lane_exchange(u32 word) {
  auto exchange = std::make_unique<LaneExchange>();
  exchange->inside = exchange->enabled = 0;
  exchange->zero_outside = bit(word, 19);
  for (u32 lane = 0; lane < kLanes; ++lane) {
    const int from = exchanged_lane(part(word, 8, 9), lane);
    exchange->from[lane] = static_cast<u8>(from == kNoLane ? 0 : from);
    if (from != kNoLane) exchange->inside |= u64{1} << lane;
    if (bit(word, 28 + lane / 16) && bit(word, 24 + lane / 4 % 4)) exchange->enabled |= u64{1} << lane;
  }
  return exchange;
}

class Decoder {
 public:
  Decoder(const u32* code, bool gfx90a, Instruction& out) : code_(code), gfx90a_(gfx90a), out_(out), word_(code[0]) {}

  u32 decode(Execute& run) {
    const bool known = any();
    if (!known || out_.operation == nullptr) return 0;
    const Operation& row = *out_.operation;
    run = !modified_ ? row.plain : row.modified != nullptr ? row.modified : row.plain;
    if (out_.clamp && row.result != Type::None && !is_float(row.result)) {
      if (row.saturated == nullptr) return 0;
      run = row.saturated;
    }
    if (out_.clamp && row.saturated != nullptr) run = row.saturated;
    return words_;
  }

 private:
  bool any() {
    if (!bit(word_, 31)) {
      const u32 opcode = part(word_, 25, 6);
      if (opcode == 0x3e) return vopc();
      if (opcode == 0x3f) return vop1();
      return vop2();
    }
    if (part(word_, 30, 2) == 2) return scalar();
    switch (part(word_, 26, 6)) {
      case 0x30:
        return smem();
      case 0x34:
        return part(word_, 23, 9) == 0x1a7 ? vop3p() : vop3();
      case 0x36:
        return ds();
      case 0x37:
        return flat();
      case 0x38:
        return mubuf();
      default:
        return false;
    }
  }

  bool choose(Format format, u32 opcode) {
    out_.operation = index_of_operations().find(format, opcode, gfx90a_);
    return out_.operation != nullptr;
  }
  u32 second() {
    words_ = 2;
    return code_[1];
  }

  // ---- operands
  void constant(Operand& operand, u32 low, u32 high) {
    operand.kind = Kind::Constant;
    operand.low = low;
    operand.high = high;
  }
  void inline_float(Operand& operand, const InlineFloat& value, Type type) {
    if (is_wide(type) && type != Type::PackedF32)
      constant(operand, static_cast<u32>(value.twice), static_cast<u32>(value.twice >> 32));
    else if (type == Type::F16 || type == Type::U16 || type == Type::I16 || type == Type::Packed16 ||
             type == Type::PackedF16)
      constant(operand, value.half, 0);
    else
      constant(operand, value.single, type == Type::PackedF32 ? value.single : 0);
  }
  void literal(Operand& operand, Type type) {
    const u32 value = code_[1];
    words_ = 2;
    if (type == Type::F64)
      constant(operand, 0, value);
    else
      constant(operand, value, type == Type::I64 && bit(value, 31) ? ~0u : 0);
  }
  bool source(u32 index, u32 encoded) {
    Operand& operand = out_.source[index];
    const Type type = out_.operation->sources[index];
    if (encoded >= kFirstVector) {
      operand.kind = Kind::Vector;
      operand.index = static_cast<u16>(encoded - kFirstVector);
    } else if (encoded < kScalars) {
      operand.kind = Kind::Scalar;
      operand.index = static_cast<u16>(encoded);
    } else if (encoded <= 208) {
      const i64 value = encoded <= 192 ? static_cast<i64>(encoded) - 128 : 192 - static_cast<i64>(encoded);
      constant(operand, static_cast<u32>(value), static_cast<u32>(static_cast<u64>(value) >> 32));
    } else if (encoded >= 240 && encoded <= 248) {
      inline_float(operand, kInlineFloats[encoded - 240], type);
    } else if (encoded == kLiteral) {
      literal(operand, type);
    } else if (encoded >= 235 && encoded <= 238) {
      constexpr u32 kApertures[] = {kGroupApertureHigh, kGroupApertureHigh, kPrivateApertureHigh, kPrivateApertureHigh};
      const bool limit = encoded == 236 || encoded == 238;
      constant(operand, limit ? ~0u : 0, kApertures[encoded - 235]);
    } else if (encoded >= 251 && encoded <= 253) {
      operand.kind = Kind::Special;
      operand.index = static_cast<u16>(encoded);
    } else {
      return false;
    }
    return true;
  }
  void vector(u32 index, u32 encoded) {
    out_.source[index].kind = Kind::Vector;
    out_.source[index].index = static_cast<u16>(encoded);
  }
  void scalar_register(u32 index, u32 encoded) {
    out_.source[index].kind = Kind::Scalar;
    out_.source[index].index = static_cast<u16>(encoded);
  }

  // ---- scalar formats
  bool scalar() {
    out_.offset = signed_part(word_, 0, 16);
    if (part(word_, 23, 9) == 0x17f) return choose(Format::Sopp, part(word_, 16, 7));
    if (part(word_, 23, 9) == 0x17e)
      return choose(Format::Sopc, part(word_, 16, 7)) && source(0, part(word_, 0, 8)) && source(1, part(word_, 8, 8));
    out_.destination = static_cast<u16>(part(word_, 16, 7));
    if (part(word_, 23, 9) == 0x17d) return choose(Format::Sop1, part(word_, 8, 8)) && source(0, part(word_, 0, 8));
    if (part(word_, 28, 4) == 0xb) return sopk();
    return choose(Format::Sop2, part(word_, 23, 7)) && source(0, part(word_, 0, 8)) && source(1, part(word_, 8, 8));
  }
  bool sopk() {
    constexpr u32 kSetRegisterToLiteral = 0x14;
    const u32 opcode = part(word_, 23, 5);
    if (!choose(Format::Sopk, opcode)) return false;
    if (opcode == kSetRegisterToLiteral) literal(out_.source[0], Type::U32);
    return true;
  }
  bool smem() {
    const u32 more = second();
    if (!choose(Format::Smem, part(word_, 18, 8))) return false;
    out_.mask_in = static_cast<u8>(part(word_, 0, 6) * 2);
    out_.destination = static_cast<u16>(part(word_, 6, 7));
    if (bit(word_, 17)) {
      out_.offset = signed_part(more, 0, 21);
      if (bit(word_, 14)) scalar_register(2, part(more, 25, 7));
    } else {
      scalar_register(2, bit(word_, 14) ? part(more, 25, 7) : part(more, 0, 7));
    }
    return true;
  }

  // ---- vector formats
  bool needs(Trait trait) const { return (out_.operation->traits & trait) != 0; }
  void vcc_masks() { out_.mask_in = out_.mask_out = kVcc; }
  /// What is encoded as the first source may announce DPP or SDWA.
  bool first_source(u32 encoded) {
    if (encoded == kDpp) return dpp();
    if (encoded == kSdwa) return sdwa();
    return source(0, encoded);
  }
  bool after_vector_sources() {
    if (needs(kAccumulates)) vector(2, out_.destination);
    if (needs(kKeepsHigh) && out_.select == kSelectAll) {
      out_.select = kSelectWord0;
      out_.unused = 2;
    }
    if (out_.select != kSelectAll) modified_ = true;
    return true;
  }
  bool vop1() {
    vcc_masks();
    out_.destination = static_cast<u16>(part(word_, 17, 8));
    return choose(Format::Vop1, part(word_, 9, 8)) && first_source(part(word_, 0, 9)) && after_vector_sources();
  }
  bool vop2() {
    vcc_masks();
    out_.destination = static_cast<u16>(part(word_, 17, 8));
    if (!choose(Format::Vop2, part(word_, 25, 6))) return false;
    vector(1, part(word_, 9, 8));
    if (!first_source(part(word_, 0, 9))) return false;
    if (needs(kLiteralB)) {
      out_.source[2] = out_.source[1];
      literal(out_.source[1], out_.operation->sources[1]);
    }
    if (needs(kLiteralC)) literal(out_.source[2], out_.operation->sources[2]);
    return after_vector_sources();
  }
  bool vopc() {
    vcc_masks();
    if (!choose(Format::Vopc, part(word_, 17, 8))) return false;
    vector(1, part(word_, 9, 8));
    return first_source(part(word_, 0, 9));
  }

  bool dpp() {
    const u32 more = second();
    vector(0, part(more, 0, 8));
    out_.exchange = lane_exchange(more);
    out_.source[0].negative = bit(more, 20);
    out_.source[0].absolute = bit(more, 21);
    out_.source[1].negative = bit(more, 22);
    out_.source[1].absolute = bit(more, 23);
    modified_ = true;
    return out_.operation->modified != nullptr;
  }
  void sdwa_source(u32 index, u32 more, u32 start, bool scalar_operand) {
    Operand& operand = out_.source[index];
    if (scalar_operand) operand.kind = Kind::Scalar;
    operand.select = static_cast<u8>(part(more, start, 3));
    operand.sign_extend = bit(more, start + 3);
    operand.negative = bit(more, start + 4);
    operand.absolute = bit(more, start + 5);
  }
  bool sdwa() {
    const u32 more = second();
    vector(0, part(more, 0, 8));
    sdwa_source(0, more, 16, bit(more, 23));
    sdwa_source(1, more, 24, bit(more, 31));
    if (out_.operation->format == Format::Vopc) {
      if (bit(more, 15)) out_.mask_out = static_cast<u8>(part(more, 8, 7));
    } else {
      out_.select = static_cast<u8>(part(more, 8, 3));
      out_.unused = static_cast<u8>(part(more, 11, 2));
      out_.clamp = bit(more, 13);
      out_.output_scale = static_cast<u8>(part(more, 14, 2));
    }
    modified_ = true;
    return out_.operation->modified != nullptr;
  }

  bool vop3_operation() {
    const u32 opcode = part(word_, 16, 10);
    if (opcode < 0x100) return choose(Format::Vopc, opcode);
    if (opcode < 0x140) return choose(Format::Vop2, opcode - 0x100);
    if (opcode < 0x1c0) return choose(Format::Vop1, opcode - 0x140);
    return choose(Format::Vop3, opcode);
  }
  bool vop3() {
    const u32 more = second();
    if (!vop3_operation()) return false;
    const u32 encoded[] = {part(more, 0, 9), part(more, 9, 9), part(more, 18, 9)};
    out_.destination = static_cast<u16>(part(word_, 0, 8));
    out_.clamp = bit(word_, 15);
    out_.output_scale = static_cast<u8>(part(more, 27, 2));
    out_.mask_in = kVcc;
    if (needs(kOut))
      out_.mask_out = static_cast<u8>(part(word_, 8, 7));
    else
      out_.mask_out = static_cast<u8>(out_.destination);  // of comparisons
    if (needs(kIn) && !needs(kImplicitVcc)) out_.mask_in = static_cast<u8>(encoded[2]);
    for (u32 index = 0; index < 3; ++index) {
      if (!has_source(index)) continue;
      if (encoded[index] == kLiteral || !source(index, encoded[index])) return false;
      Operand& operand = out_.source[index];
      operand.negative = bit(more, 29 + index);
      operand.absolute = !needs(kOut) && bit(word_, 8 + index);
      if (!needs(kOut) && is_half(out_.operation->sources[index]) && bit(word_, 11 + index))
        operand.select = kSelectWord1;
      if (operand.negative || operand.absolute || operand.select != kSelectAll) modified_ = true;
    }
    if (!needs(kOut) && bit(word_, 14) && is_half(out_.operation->result)) {
      out_.select = kSelectWord1;
      out_.unused = 2;
    }
    if (out_.clamp || out_.output_scale != 0) modified_ = true;
    return after_vector_sources();
  }
  static bool is_half(Type type) { return type == Type::U16 || type == Type::I16 || type == Type::F16; }
  /// Hand-written operations name no types: they read two sources.
  bool has_source(u32 index) const {
    const bool by_hand = out_.operation->modified == nullptr;
    if (by_hand) return out_.operation->format == Format::Vop1 ? index == 0 : index < 2;
    if (index == 2 && needs(kAccumulates)) return false;
    return out_.operation->sources[index] != Type::None;
  }

  bool vop3p() {
    constexpr u32 kMixHigh = 0x22;
    const u32 more = second(), opcode = part(word_, 16, 7);
    if (!choose(Format::Vop3p, opcode)) return false;
    if (needs(kMatrix)) return matrix(more);
    const u32 encoded[] = {part(more, 0, 9), part(more, 9, 9), part(more, 18, 9)};
    out_.destination = static_cast<u16>(part(word_, 0, 8));
    out_.clamp = bit(word_, 15);
    out_.low_halves = static_cast<u8>(part(word_, 11, 3));
    out_.high_halves = static_cast<u8>(part(more, 27, 2) | part(word_, 14, 1) << 2);
    out_.negative_low = static_cast<u8>(part(more, 29, 3));
    out_.negative_high = static_cast<u8>(part(word_, 8, 3));
    u32 used = 0;
    bool mixed = false;
    for (u32 index = 0; index < 3; ++index) {
      if (!has_source(index)) continue;
      if (encoded[index] == kLiteral || !source(index, encoded[index])) return false;
      const Type type = out_.operation->sources[index];
      mixed = mixed || type == Type::Mixed;
      if (type == Type::Packed16 || type == Type::PackedF16 || type == Type::PackedF32 || type == Type::Mixed)
        used |= 1u << index;
    }
    const u32 usual_high = mixed ? 0 : used;
    modified_ = (out_.low_halves & used) != 0 || (out_.high_halves & used) != usual_high ||
                ((out_.negative_low | out_.negative_high) & used) != 0 || out_.clamp;
    if (mixed && opcode == kMixHigh) {
      out_.select = kSelectWord1;
      out_.unused = 2;
    }
    return after_vector_sources();
  }

  /// gfx908 keeps sums in accumulation registers only, gfx90a has a bit that says so.
  bool matrix(u32 more) {
    const u32 bank = !gfx90a_ || bit(word_, 15) ? kAccumulators : 0;
    const u32 encoded[] = {part(more, 0, 9), part(more, 9, 9), part(more, 18, 9)};
    if (encoded[0] < kFirstVector || encoded[1] < kFirstVector) return false;
    for (u32 index = 0; index < 2; ++index)
      vector(index, encoded[index] - kFirstVector + (bit(more, 27 + index) ? kAccumulators : 0));
    out_.destination = static_cast<u16>(part(word_, 0, 8) + bank);
    if (encoded[2] < kFirstVector) return source(2, encoded[2]) && out_.source[2].kind == Kind::Constant;
    vector(2, encoded[2] - kFirstVector + bank);
    return true;
  }

  // ---- memory formats
  bool ds() {
    constexpr u32 kAccumulatorBit = 25;
    const u32 more = second();
    if (!choose(Format::Ds, part(word_, 17, 8))) return false;
    const u32 bank = gfx90a_ && bit(word_, kAccumulatorBit) ? kAccumulators : 0;
    vector(0, part(more, 0, 8));
    vector(1, part(more, 8, 8) + bank);
    vector(2, part(more, 16, 8) + bank);
    out_.destination = static_cast<u16>(part(more, 24, 8) + bank);
    out_.offset = static_cast<i32>(part(word_, 0, 16));
    out_.offset0 = static_cast<u8>(part(word_, 0, 8));
    out_.offset1 = static_cast<u8>(part(word_, 8, 8));
    out_.returns = needs(kOut);
    return true;
  }
  bool flat() {
    constexpr u32 kNoScalar = 0x7f;
    const u32 more = second(), segment = part(word_, 14, 2);
    constexpr Format kSegments[] = {Format::Flat, Format::Scratch, Format::Global, Format::Flat};
    if (segment == 3 || bit(word_, 13) || !choose(kSegments[segment], part(word_, 18, 7))) return false;
    const u32 bank = gfx90a_ && bit(more, 23) ? kAccumulators : 0;
    vector(0, part(more, 0, 8));
    vector(1, part(more, 8, 8) + bank);
    if (segment != 0 && part(more, 16, 7) != kNoScalar) scalar_register(2, part(more, 16, 7));
    out_.destination = static_cast<u16>(part(more, 24, 8) + bank);
    out_.offset = segment == 0 ? static_cast<i32>(part(word_, 0, 12)) : signed_part(word_, 0, 13);
    out_.returns = bit(word_, 16);
    return true;
  }
  bool mubuf() {
    const u32 more = second();
    if (!choose(Format::Mubuf, part(word_, 18, 7))) return false;
    const u32 bank = gfx90a_ && bit(more, 23) ? kAccumulators : 0;
    out_.offset = static_cast<i32>(part(word_, 0, 12));
    out_.offset_enabled = bit(word_, 12);
    out_.index_enabled = bit(word_, 13);
    out_.returns = bit(word_, 14);
    out_.to_lds = bit(word_, 16);
    vector(0, part(more, 0, 8));
    vector(1, part(more, 8, 8) + bank);
    out_.destination = out_.source[1].index;
    out_.mask_in = static_cast<u8>(part(more, 16, 5) * 4);
    return source(2, part(more, 24, 8));
  }

  const u32* code_;
  bool gfx90a_;
  Instruction& out_;
  u32 word_;
  u32 words_ = 1;
  bool modified_ = false;
};

}  // namespace

u32 decode(const u32* code, bool gfx90a, Instruction& out, Execute& run) {
  out.word[0] = code[0];
  out.word[1] = code[1];
  return Decoder(code, gfx90a, out).decode(run);
}

}  // namespace hsa_cpu::gcn
