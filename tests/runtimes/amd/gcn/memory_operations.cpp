// memory_operations.cpp: operations on memory, as memory.def has them.
//
// Addresses of all lanes first, then lane by lane: a load may overwrite the registers that held its addresses. What is
// in no segment (beyond a workgroup's memory, beyond a buffer) is null: reads give 0, writes are dropped, as on a
// device.
#include <ctime>

#include "../checked.h"
#include "code.h"
#include "lanes.h"

namespace hsa_cpu::gcn {
namespace {

// Other waves, queues and processes see these: each is one access of the processor where the width allows.
template <class T>
struct [[gnu::packed, gnu::may_alias]] Unaligned {
  T value;
};
template <class T>
T load(const char* at) {
  return reinterpret_cast<const volatile Unaligned<T>*>(at)->value;
}
template <class T>
void store(char* at, T value) {
  reinterpret_cast<volatile Unaligned<T>*>(at)->value = value;
}
using Four = __m128i;
Four load_four(const char* at) {
  const Four value = _mm_loadu_si128(reinterpret_cast<const Four*>(at));
  asm volatile("" ::: "memory");
  return value;
}
void store_four(char* at, Four value) {
  _mm_storeu_si128(reinterpret_cast<Four*>(at), value);
  asm volatile("" ::: "memory");
}

/// Rows of registers: v[0] is the first.
using Registers = u32 (*)[kLanes];

template <class T>
T get(Registers v, u32 lane) {
  if constexpr (sizeof(T) == 8)
    return std::bit_cast<T>(u64{v[0][lane]} | u64{v[1][lane]} << 32);
  else
    return std::bit_cast<T>(v[0][lane]);
}
template <class T>
void put(Registers v, u32 lane, T value) {
  if constexpr (sizeof(T) == 8) {
    v[0][lane] = static_cast<u32>(std::bit_cast<u64>(value));
    v[1][lane] = static_cast<u32>(std::bit_cast<u64>(value) >> 32);
  } else {
    v[0][lane] = std::bit_cast<u32>(value);
  }
}

// ---- how a lane's registers and memory are exchanged
template <class T>
struct LoadExtended {
  static constexpr u32 bytes = sizeof(T), registers = 1;
  static constexpr bool stores = false;
  static void move(Registers v, u32 lane, char* at) { v[0][lane] = static_cast<u32>(static_cast<i32>(load<T>(at))); }
};
template <class T>
struct LoadLow {
  static constexpr u32 bytes = sizeof(T), registers = 1;
  static constexpr bool stores = false, keeps_half = true;
  static void move(Registers v, u32 lane, char* at) {
    v[0][lane] = (v[0][lane] & 0xffff0000) | static_cast<u16>(static_cast<i16>(load<T>(at)));
  }
};
template <class T>
struct LoadHigh {
  static constexpr u32 bytes = sizeof(T), registers = 1;
  static constexpr bool stores = false, keeps_half = true;
  static void move(Registers v, u32 lane, char* at) {
    v[0][lane] = (v[0][lane] & 0xffff) | u32{static_cast<u16>(static_cast<i16>(load<T>(at)))} << 16;
  }
};
template <u32 kCount>
struct LoadWords {
  static constexpr u32 bytes = 4 * kCount, registers = kCount;
  static constexpr bool stores = false;
  static void move(Registers v, u32 lane, char* at) {
    if constexpr (kCount == 1) {
      v[0][lane] = load<u32>(at);
    } else if constexpr (kCount == 4) {
      alignas(16) u32 words[4];
      _mm_store_si128(reinterpret_cast<Four*>(words), load_four(at));
      for (u32 word = 0; word < 4; ++word) v[word][lane] = words[word];
    } else {
      if constexpr (kCount == 3) v[2][lane] = load<u32>(at + 8);
      put(v, lane, load<u64>(at));
    }
  }
};
template <class T>
struct StorePart {
  static constexpr u32 bytes = sizeof(T), registers = 1;
  static constexpr bool stores = true;
  static void move(Registers v, u32 lane, char* at) { store(at, static_cast<T>(v[0][lane])); }
};
template <class T>
struct StoreHigh {
  static constexpr u32 bytes = sizeof(T), registers = 1;
  static constexpr bool stores = true;
  static void move(Registers v, u32 lane, char* at) { store(at, static_cast<T>(v[0][lane] >> 16)); }
};
template <u32 kCount>
struct StoreWords {
  static constexpr u32 bytes = 4 * kCount, registers = kCount;
  static constexpr bool stores = true;
  static void move(Registers v, u32 lane, char* at) {
    if constexpr (kCount == 1) {
      store(at, v[0][lane]);
    } else if constexpr (kCount == 4) {
      const auto word = [&](u32 index) { return static_cast<int>(v[index][lane]); };
      store_four(at, _mm_set_epi32(word(3), word(2), word(1), word(0)));
    } else {
      store(at, get<u64>(v, lane));
      if constexpr (kCount == 3) store(at + 8, v[2][lane]);
    }
  }
};

// ---- where lanes' addresses lead
using Addresses = char* [kLanes];

template <class Function>
void each_active(u64 exec, Function function) {
  if (exec == ~u64{0}) {
    for (u32 lane = 0; lane < kLanes; ++lane) function(lane);
  } else {
    for (; exec != 0; exec &= exec - 1) function(static_cast<u32>(__builtin_ctzll(exec)));
  }
}

char* in_group(const Wave& wave, u32 at, u32 bytes) {
  std::vector<char>& lds = wave.group->lds;
  return u64{at} + bytes <= lds.size() ? lds.data() + at : nullptr;
}
char* in_private(const Wave& wave, u32 lane, u32 at, u32 bytes) {
  return u64{at} + bytes <= wave.scratch_bytes ? wave.scratch + u64{lane} * wave.scratch_bytes + at : nullptr;
}

struct GlobalSpace {
  static constexpr bool checked = true;
  static constexpr bool always_there = true;
  static void find(const Wave& wave, const Instruction& instruction, u32, Addresses& out) {
    const u64 offset = static_cast<u64>(i64{instruction.offset});
    const u32* const low = wave.v[instruction.source[0].index];
    if (instruction.source[2].kind == Kind::Scalar) {
      const u64 base = wave.pair(instruction.source[2].index) + offset;
      GCN_EACH_LANE out[lane] = reinterpret_cast<char*>(base + low[lane]);
    } else {
      const u32* const high = low + kLanes;
      GCN_EACH_LANE out[lane] = reinterpret_cast<char*>((u64{low[lane]} | u64{high[lane]} << 32) + offset);
    }
  }
};
struct FlatSpace {
  static constexpr bool checked = true;
  static constexpr bool always_there = false;
  static void find(const Wave& wave, const Instruction& instruction, u32 bytes, Addresses& out) {
    GlobalSpace::find(wave, instruction, bytes, out);
    for (u32 lane = 0; lane < kLanes; ++lane) {
      const u64 address = reinterpret_cast<u64>(out[lane]);
      if (address >> 32 == kGroupApertureHigh)
        out[lane] = in_group(wave, static_cast<u32>(address), bytes);
      else if (address >> 32 == kPrivateApertureHigh)
        out[lane] = in_private(wave, lane, static_cast<u32>(address), bytes);
    }
  }
};
struct ScratchSpace {
  static constexpr bool checked = false;
  static constexpr bool always_there = false;
  static void find(const Wave& wave, const Instruction& instruction, u32 bytes, Addresses& out) {
    const Operand& base = instruction.source[2];
    const u32* const offsets = wave.v[instruction.source[0].index];
    for (u32 lane = 0; lane < kLanes; ++lane) {
      const u32 start = base.kind == Kind::Scalar ? wave.s[base.index] : offsets[lane];
      out[lane] = in_private(wave, lane, start + static_cast<u32>(instruction.offset), bytes);
    }
  }
};
struct GroupSpace {
  static constexpr bool checked = false;
  static constexpr bool always_there = false;
  static void find(const Wave& wave, const Instruction& instruction, u32 bytes, Addresses& out) {
    const u32* const offsets = wave.v[instruction.source[0].index];
    for (u32 lane = 0; lane < kLanes; ++lane)
      out[lane] = in_group(wave, offsets[lane] + static_cast<u32>(instruction.offset), bytes);
  }
};

/// Through a descriptor of four scalar registers: base, stride, bytes or records.
class Buffer {
 public:
  Buffer(const Wave& wave, const Instruction& instruction)
      : wave_(wave), instruction_(instruction), base_(scalar32(wave, instruction.source[2])) {
    const u32* const words = &wave.s[instruction.mask_in];
    private_ = (words[3] >> 23 & 1) != 0;  // adds the lane's number: a descriptor of private memory
    address_ = u64{words[0]} | u64{words[1] & 0xffff} << 32;
    stride_ = words[1] >> 16 & 0x3fff;
    records_ = words[2];
  }
  char* at(u32 lane, u32 further, u32 bytes) const {
    const u32 first = instruction_.source[0].index;
    const u32 index = instruction_.index_enabled ? wave_.v[first][lane] : 0;
    // A sum beyond 32 bits is out of range: programs give such offsets to lanes that are to do nothing.
    u64 offset = u64{static_cast<u32>(instruction_.offset)} + further;
    if (instruction_.offset_enabled) offset += wave_.v[first + (instruction_.index_enabled ? 1 : 0)][lane];
    // Private memory is laid out in lanes: the scalar offset counts the bytes of all of them.
    if (private_) return in_private(wave_, lane, static_cast<u32>(base_ / kLanes + offset), bytes);
    // Where there are no records, the scalar offset is a part of what is compared with the end.
    const bool inside = stride_ != 0 ? index < records_ : base_ + offset + bytes <= records_;
    return inside ? reinterpret_cast<char*>(address_ + base_ + u64{index} * stride_ + offset) : nullptr;
  }

 private:
  const Wave& wave_;
  const Instruction& instruction_;
  u32 base_, stride_, records_;
  u64 address_;
  bool private_;
};
struct BufferSpace {
  static constexpr bool checked = true;
  static constexpr bool always_there = false;
  static void find(const Wave& wave, const Instruction& instruction, u32 bytes, Addresses& out) {
    const Buffer buffer(wave, instruction);
    each_active(wave.exec(), [&](u32 lane) { out[lane] = buffer.at(lane, 0, bytes); });
  }
};

// ---- checked mode: an address that may not be touched is treated as a null address, which no operation uses
constexpr int kNoLane = -1;
bool in_own_memory(const Wave& wave, const char* at) {
  const auto inside = [at](const std::vector<char>& memory) {
    return at >= memory.data() && at < memory.data() + memory.size();
  };
  return inside(wave.group->lds) || inside(wave.group->scratch);
}
bool may_touch(const Wave& wave, const Instruction& instruction, int lane, const char* at, u32 bytes, bool writes) {
  const u64 address = reinterpret_cast<u64>(at);
  if (wave.guard->may(address, bytes, writes) || in_own_memory(wave, at)) return true;
  wave.guard->refused(instruction.operation->name, instruction.address, lane, address, bytes, writes);
  return false;
}
bool may_touch_if_checked(const Wave& wave, const Instruction& instruction, int lane, const char* at, u32 bytes,
                          bool writes) {
  return wave.guard == nullptr || may_touch(wave, instruction, lane, at, bytes, writes);
}
[[gnu::noinline]] bool all_may_touch(Wave& wave, const Instruction& instruction, u64 exec, u32 bytes, bool writes,
                                     Addresses& addresses) {
  u64 low = ~u64{0}, high = 0;
  each_active(exec, [&](u32 lane) {
    low = std::min(low, reinterpret_cast<u64>(addresses[lane]));
    high = std::max(high, reinterpret_cast<u64>(addresses[lane]));
  });
  // The lanes' addresses mostly lie side by side. Where the whole span may be touched, each of them may.
  if (wave.guard->may_quickly(low, high - low + bytes, writes)) return true;
  bool all = true;
  each_active(exec, [&](u32 lane) {
    if (addresses[lane] != nullptr &&
        may_touch(wave, instruction, static_cast<int>(lane), addresses[lane], bytes, writes))
      return;
    addresses[lane] = nullptr;
    all = false;
  });
  return all;
}
/// Returns whether all lanes' addresses may be touched. Sets each address that may not to null.
template <class Space>
bool allowed(Wave& wave, const Instruction& instruction, u64 exec, u32 bytes, bool writes, Addresses& addresses) {
  if constexpr (!Space::checked) return true;
  return wave.guard == nullptr || all_may_touch(wave, instruction, exec, bytes, writes, addresses);
}

Registers data_of(Wave& wave, const Instruction& instruction, bool stores) {
  return &wave.v[stores ? instruction.source[1].index : instruction.destination];
}

bool side_by_side(const Addresses& addresses) {
  u64 differences = 0;
  const u64 first = reinterpret_cast<u64>(addresses[0]);
  for (u32 lane = 0; lane < kLanes; ++lane) differences |= reinterpret_cast<u64>(addresses[lane]) ^ (first + 4 * lane);
  return differences == 0;
}

template <class How>
void move_or_zero(Registers v, u32 lane, char* at) {
  if (at != nullptr) return How::move(v, lane, at);
  alignas(16) char zeros[16] = {};
  if constexpr (!How::stores) How::move(v, lane, zeros);
}

template <class Space, class How>
void access(Wave& wave, const Instruction& instruction) {
  Addresses addresses;
  const u64 exec = wave.exec();
  if (exec == 0) return;
  Space::find(wave, instruction, How::bytes, addresses);
  const Registers v = data_of(wave, instruction, How::stores);
  if constexpr (requires { How::keeps_half; }) {
    if (wave.image->whole_loads) each_active(exec, [&](u32 lane) { v[0][lane] = 0; });
  }
  if (!allowed<Space>(wave, instruction, exec, How::bytes, How::stores, addresses)) [[unlikely]]
    return each_active(exec, [&](u32 lane) { move_or_zero<How>(v, lane, addresses[lane]); });
  if constexpr (std::is_same_v<Space, GlobalSpace> && How::bytes == 4) {
    if (exec == ~u64{0} && side_by_side(addresses)) {
      // Word by word for whoever looks on: the processor's vector accesses keep aligned words whole.
      if constexpr (How::stores)
        std::memcpy(addresses[0], v[0], kLanes * 4);
      else
        std::memcpy(v[0], addresses[0], kLanes * 4);
      asm volatile("" ::: "memory");
      return;
    }
  }
  each_active(exec, [&](u32 lane) {
    if constexpr (Space::always_there)
      How::move(v, lane, addresses[lane]);
    else
      move_or_zero<How>(v, lane, addresses[lane]);
  });
}

/// Buffers' bounds hold for each word.
template <class How>
void access_buffer(Wave& wave, const Instruction& instruction) {
  if (instruction.to_lds) {
    if (!std::is_same_v<How, LoadWords<1>>)
      give_up(wave, instruction, "loads to a workgroup's memory are of words only");
    const Buffer buffer(wave, instruction);
    each_active(wave.exec(), [&](u32 lane) {
      const char* from = buffer.at(lane, 0, 4);
      if (from != nullptr && !may_touch_if_checked(wave, instruction, static_cast<int>(lane), from, 4, false))
        from = nullptr;
      char* const to = in_group(wave, wave.s[kM0] + static_cast<u32>(instruction.offset) + 4 * lane, 4);
      if (to != nullptr) store(to, from != nullptr ? load<u32>(from) : 0);
    });
    return;
  }
  if constexpr (How::registers == 1) {
    access<BufferSpace, How>(wave, instruction);
  } else {
    using Word = std::conditional_t<How::stores, StoreWords<1>, LoadWords<1>>;
    Addresses addresses;
    char* words[How::registers][kLanes];
    BufferSpace::find(wave, instruction, How::bytes, addresses);
    const Buffer buffer(wave, instruction);
    for (u32 word = 0; word < How::registers; ++word)
      each_active(wave.exec(), [&](u32 lane) { words[word][lane] = buffer.at(lane, 4 * word, 4); });
    if (!allowed<BufferSpace>(wave, instruction, wave.exec(), How::bytes, How::stores, addresses)) {
      // A lane that leaves the buffer, or memory it may touch, is looked at by words.
      for (u32 word = 0; word < How::registers; ++word)
        static_cast<void>(allowed<BufferSpace>(wave, instruction, wave.exec(), 4, How::stores, words[word]));
    }
    const Registers v = data_of(wave, instruction, How::stores);
    each_active(wave.exec(), [&](u32 lane) {
      if (addresses[lane] != nullptr) return How::move(v, lane, addresses[lane]);
      for (u32 word = 0; word < How::registers; ++word) move_or_zero<Word>(v + word, lane, words[word][lane]);
    });
  }
}

// ---- atomics
template <class T, class Function>
T exchange(char* at, Function function) {
  using Bits = std::conditional_t<sizeof(T) == 8, u64, u32>;
  auto* const word = reinterpret_cast<Bits*>(at);
  Bits old = __atomic_load_n(word, __ATOMIC_SEQ_CST);
  for (;;) {
    const auto next = std::bit_cast<Bits>(static_cast<T>(function(std::bit_cast<T>(old))));
    if (__atomic_compare_exchange_n(word, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
      return std::bit_cast<T>(old);
  }
}
u32 sum_of_halves(u32 a, u32 b) {
  const u32 low = float_to_half(half_to_float(a) + half_to_float(b));
  return low | float_to_half(half_to_float(a >> 16) + half_to_float(b >> 16)) << 16;
}

template <class Space, class Row>
void atomic(Wave& wave, const Instruction& instruction) {
  using T = typename Row::Value;
  Addresses addresses;
  Space::find(wave, instruction, sizeof(T), addresses);
  static_cast<void>(allowed<Space>(wave, instruction, wave.exec(), sizeof(T), true, addresses));
  const Registers data = data_of(wave, instruction, true);
  const Registers result = data_of(wave, instruction, false);
  constexpr u32 kEach = sizeof(T) / 4;
  each_active(wave.exec(), [&](u32 lane) {
    const T first = get<T>(data, lane), second = get<T>(data + kEach, lane);
    T old{};
    if (addresses[lane] != nullptr)
      old = exchange<T>(addresses[lane], [&](T value) { return Row::apply(value, first, second); });
    if (instruction.returns) put(result, lane, old);
  });
}
/// A workgroup's waves run one at a time: nothing comes between.
template <class Row>
void group_atomic(Wave& wave, const Instruction& instruction) {
  using T = typename Row::Value;
  Addresses addresses;
  GroupSpace::find(wave, instruction, sizeof(T), addresses);
  const Registers data = &wave.v[instruction.source[1].index];
  const Registers more = &wave.v[instruction.source[2].index];
  const Registers result = &wave.v[instruction.destination];
  each_active(wave.exec(), [&](u32 lane) {
    const T first = get<T>(data, lane), second = get<T>(more, lane);
    T old{};
    if (addresses[lane] != nullptr) {
      old = load<T>(addresses[lane]);
      store(addresses[lane], static_cast<T>(Row::apply(old, first, second)));
    }
    if (instruction.returns) put(result, lane, old);
  });
}

/// Two accesses of a workgroup's memory, each with an offset of its own.
template <u32 kRegisters, u32 kDistance, bool kStores>
void group_two(Wave& wave, const Instruction& instruction) {
  using How = std::conditional_t<kStores, StoreWords<kRegisters>, LoadWords<kRegisters>>;
  const u32* const from = wave.v[instruction.source[0].index];
  u32 starts[kLanes];
  std::memcpy(starts, from, sizeof starts);
  const Registers first = data_of(wave, instruction, kStores);
  const Registers second = kStores ? &wave.v[instruction.source[2].index] : first + kRegisters;
  constexpr u32 kUnit = 4 * kRegisters * kDistance;
  each_active(wave.exec(), [&](u32 lane) {
    move_or_zero<How>(first, lane, in_group(wave, starts[lane] + instruction.offset0 * kUnit, How::bytes));
    move_or_zero<How>(second, lane, in_group(wave, starts[lane] + instruction.offset1 * kUnit, How::bytes));
  });
}

// ---- scalar memory
u64 scalar_address(const Wave& wave, const Instruction& instruction, bool through_descriptor) {
  u64 base = wave.pair(instruction.mask_in);
  if (through_descriptor) base &= 0xffffffffffff;
  const u64 register_offset = instruction.source[2].kind == Kind::Scalar ? wave.s[instruction.source[2].index] : 0;
  return (base + static_cast<u64>(i64{instruction.offset}) + register_offset) & ~u64{3};
}
template <u32 kCount, bool kThroughDescriptor>
void scalar_load(Wave& wave, const Instruction& instruction) {
  const char* const from = reinterpret_cast<const char*>(scalar_address(wave, instruction, kThroughDescriptor));
  u32 words[kCount];
  if constexpr (kThroughDescriptor) {
    const u64 start = reinterpret_cast<u64>(from) - (wave.pair(instruction.mask_in) & 0xffffffffffff);
    const u32 stride = wave.s[instruction.mask_in + 1] >> 16 & 0x3fff;
    const u64 bytes = u64{wave.s[instruction.mask_in + 2]} * (stride == 0 ? 1 : stride);
    for (u32 word = 0; word < kCount; ++word) {
      const char* const at = from + 4 * word;
      const bool inside =
          start + 4 * word + 4 <= bytes && may_touch_if_checked(wave, instruction, kNoLane, at, 4, false);
      words[word] = inside ? load<u32>(at) : 0;
    }
  } else if (!may_touch_if_checked(wave, instruction, kNoLane, from, sizeof words, false)) {
    std::memset(words, 0, sizeof words);
  } else if constexpr (kCount == 1) {
    words[0] = load<u32>(from);
  } else {
    for (u32 word = 0; word < kCount; word += 2) {
      const u64 two = load<u64>(from + 4 * word);
      std::memcpy(words + word, &two, sizeof two);
    }
  }
  std::memcpy(&wave.s[instruction.destination], words, sizeof words);
}
template <u32 kCount>
void scalar_store(Wave& wave, const Instruction& instruction) {
  char* const to = reinterpret_cast<char*>(scalar_address(wave, instruction, false));
  if (!may_touch_if_checked(wave, instruction, kNoLane, to, 4 * kCount, true)) return;
  for (u32 word = 0; word < kCount; ++word) store(to + 4 * word, wave.s[instruction.destination + word]);
}

namespace rows {

#define HAND(format, opcode, name) void name(Wave& wave, const Instruction& instruction);
#define IGNORED(format, opcode, name) \
  void name(Wave&, const Instruction&) {}
#define GCN_ATOMIC_ROW(name, type, expression)                                                               \
  struct name {                                                                                              \
    using Value = type;                                                                                      \
    static type apply([[maybe_unused]] type old, [[maybe_unused]] type data, [[maybe_unused]] type second) { \
      [[maybe_unused]] const type compare = second;                                                          \
      return static_cast<type>(expression);                                                                  \
    }                                                                                                        \
  };
#define ACCESS(opcode, name, ...)
#define ATOMIC(opcode, name, type, ...) GCN_ATOMIC_ROW(name, type, (__VA_ARGS__))
#define ATOMIC_NOT_FLAT ATOMIC
#define DS_ACCESS(opcode, name, ...)
#define DS_TWO(opcode, name, count, distance, stores)
#define DS_ATOMIC(opcode, name, suffix, type, ...) GCN_ATOMIC_ROW(ds_##name##_##suffix, type, (__VA_ARGS__))
#define DS_RETURNING(opcode, name, suffix, type, ...) GCN_ATOMIC_ROW(ds_##name##_rtn_##suffix, type, (__VA_ARGS__))
#define SMEM_LOAD(opcode, name, count, through_descriptor)
#define SMEM_STORE(opcode, name, count)
#include "memory.def"
#undef HAND
#undef IGNORED
#undef ACCESS
#undef ATOMIC
#undef ATOMIC_NOT_FLAT
#undef DS_ACCESS
#undef DS_TWO
#undef DS_ATOMIC
#undef DS_RETURNING
#undef SMEM_LOAD
#undef SMEM_STORE

// ---- lanes' values exchanged through the hardware of a workgroup's memory. Lanes that are not active give 0.
void ds_swizzle_b32(Wave& wave, const Instruction& instruction) {
  const u32 pattern = static_cast<u32>(instruction.offset);
  const u32* const from = wave.v[instruction.source[0].index];
  const u64 exec = wave.exec();
  Room result;
  for (u32 lane = 0; lane < kLanes; ++lane) {
    u32 other = (lane & 32) | ((((lane & 31) & (pattern & 31)) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31));
    if ((pattern & 0x8000) != 0) other = (lane & ~3u) | (pattern >> (2 * (lane & 3)) & 3);
    result.words[lane] = (exec >> other & 1) != 0 ? from[other] : 0;
  }
  store_active(wave, instruction.destination, false, result);
}
void ds_permute_b32(Wave& wave, const Instruction& instruction) {
  const u32* const to = wave.v[instruction.source[0].index];
  const u32* const from = wave.v[instruction.source[1].index];
  Room result;
  std::fill_n(result.words, kLanes, 0u);
  each_active(wave.exec(), [&](u32 lane) {
    result.words[(to[lane] + static_cast<u32>(instruction.offset)) / 4 % kLanes] = from[lane];
  });
  store_active(wave, instruction.destination, false, result);
}
void ds_bpermute_b32(Wave& wave, const Instruction& instruction) {
  const u32* const which = wave.v[instruction.source[0].index];
  const u32* const from = wave.v[instruction.source[1].index];
  const u64 exec = wave.exec();
  Room result;
  for (u32 lane = 0; lane < kLanes; ++lane) {
    const u32 other = (which[lane] + static_cast<u32>(instruction.offset)) / 4 % kLanes;
    result.words[lane] = (exec >> other & 1) != 0 ? from[other] : 0;
  }
  store_active(wave, instruction.destination, false, result);
}
void ds_gws_barrier(Wave& wave, const Instruction&) { wave.stop(State::AtGridBarrier); }

u64 time_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
}
void s_memtime(Wave& wave, const Instruction& instruction) { wave.set_pair(instruction.destination, time_now()); }
void s_memrealtime(Wave& wave, const Instruction& instruction) { wave.set_pair(instruction.destination, time_now()); }

}  // namespace rows

constexpr Operation operation(const char* name, Format format, u16 opcode, Execute run) {
  return {name, format, opcode, kPlain, Type::None, {}, run, nullptr, nullptr};
}
/// Marks operations on a workgroup's memory that give back what was there.
constexpr Operation returning(Operation operation) {
  operation.traits = kOut;
  return operation;
}

const Operation kOperations[] = {
#define HAND(format, opcode, name) operation(#name, Format::format, opcode, rows::name),
#define IGNORED(format, opcode, name) operation(#name, Format::format, opcode, rows::name),
#define ACCESS(opcode, name, ...)                                                              \
  operation("flat_" #name, Format::Flat, opcode, access<FlatSpace, __VA_ARGS__>),              \
      operation("global_" #name, Format::Global, opcode, access<GlobalSpace, __VA_ARGS__>),    \
      operation("scratch_" #name, Format::Scratch, opcode, access<ScratchSpace, __VA_ARGS__>), \
      operation("buffer_" #name, Format::Mubuf, opcode, access_buffer<__VA_ARGS__>),
#define ATOMIC(opcode, name, type, ...)                                                    \
  operation("flat_" #name, Format::Flat, opcode, atomic<FlatSpace, rows::name>),           \
      operation("global_" #name, Format::Global, opcode, atomic<GlobalSpace, rows::name>), \
      operation("buffer_" #name, Format::Mubuf, opcode, atomic<BufferSpace, rows::name>),
#define ATOMIC_NOT_FLAT(opcode, name, type, ...)                                       \
  operation("global_" #name, Format::Global, opcode, atomic<GlobalSpace, rows::name>), \
      operation("buffer_" #name, Format::Mubuf, opcode, atomic<BufferSpace, rows::name>),
#define DS_ACCESS(opcode, name, ...) operation(#name, Format::Ds, opcode, access<GroupSpace, __VA_ARGS__>),
#define DS_TWO(opcode, name, count, distance, stores) \
  operation(#name, Format::Ds, opcode, group_two<count, distance, stores>),
#define DS_ATOMIC(opcode, name, suffix, type, ...)                                                  \
  operation("ds_" #name "_" #suffix, Format::Ds, opcode, group_atomic<rows::ds_##name##_##suffix>), \
      returning(operation("ds_" #name "_rtn_" #suffix, Format::Ds, opcode + 0x20,                   \
                          group_atomic<rows::ds_##name##_##suffix>)),
#define DS_RETURNING(opcode, name, suffix, type, ...) \
  returning(operation("ds_" #name "_rtn_" #suffix, Format::Ds, opcode, group_atomic<rows::ds_##name##_rtn_##suffix>)),
#define SMEM_LOAD(opcode, name, count, through_descriptor) \
  operation(#name, Format::Smem, opcode, scalar_load<count, through_descriptor>),
#define SMEM_STORE(opcode, name, count) operation(#name, Format::Smem, opcode, scalar_store<count>),
#include "memory.def"
};

}  // namespace

Operations memory_operations() { return {std::begin(kOperations), std::end(kOperations)}; }

}  // namespace hsa_cpu::gcn
