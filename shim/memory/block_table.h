// block_table.h: finds every allocation of the program that we know by any address inside it.
//
// Why: each captured operand, each copy and each free asks "whose memory is this?", so a lookup must cost a few
// nanoseconds and take no lock. A radix tree over 4 KiB pages does that: three dependent loads.
//
//   root[bits 46..36] -> region[bits 35..24] -> leaf[bits 23..12] -> block, or a list where several share the page
//                        a region also holds, for each 16 MiB, the block that covers them; a leaf the blocks that reach
//                        into its 16 MiB from below and beyond them, and for each 64 KiB the block that covers them
//                        (so a 64 GiB allocation costs 4097 stores, not 16 million, and one within a leaf < 300)
//
// Invariants (tests ask is_valid()):
//   - ranges never overlap;
//   - nodes, page lists and Block objects are recycled, never given back to the heap: a reader that races with a
//     removal reads stale words, never unmapped memory, and a Block's sequence number tells it that they are stale.
// Threads: find() from any thread without a lock; what changes the table is done with g_blocks_lock held. A thread that
// got a pointer into the block from the program may read the members under "Fixed while live".
// Units: bytes. Not here: which block is reused (free_lists.h).
#pragma once

#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "shim/base/short_lock.h"
#include "shim/base/units.h"

namespace graphpool {

/// Guards what is known of device memory: blocks, lists of kept ones, chunks. It has a cache line of its own, because
/// every allocation takes it.
alignas(64) inline constinit ShortLock<LockRank::kBlocks> g_blocks_lock;

struct PooledChunk;
class Fence;
struct FreeList;

/// Which of the program's calls made the memory.
enum class AllocationFunction : std::uint8_t {
  kMalloc,
  kExtMalloc,    ///< hipExtMallocWithFlags
  kMallocAsync,  ///< hipMallocAsync, from a memory pool or by rule from ours
  kMallocFromPool,
  kMallocPitch,  ///< hipMallocPitch, hipMemAllocPitch
  kMalloc3D,
  kMallocManaged,
  kHostMalloc,  ///< every function that returns pinned host memory
};

enum class MemoryKind : std::uint8_t {
  kDevice,
  kStreamOrdered,  ///< device memory owned by one of the runtime's memory pools
  kManaged,
  kHost,
};

enum class BlockBacking : std::uint8_t { kClassic, kVmm };

/// Who has the memory. The table makes a block kFree when it takes it out; all other changes are made by
/// Block::become(), and these only:
///
///   kFree -> kLive -> kLeaving -> kPending -> kKept
///              ^----------------------v----------v
///   kLive, kLeaving -> kKept
///   kLeaving -> kLive         the free failed, or its chunk got physical memory
///   kKept -> kLeaving         its chunk gets physical memory first
enum class BlockState : std::uint8_t {
  kFree,     ///< not in the table, or just entered
  kLive,     ///< the program's
  kLeaving,  ///< a free is under way, or memory for it comes back
  kPending,  ///< freed by the program; reusable once the device has passed its fence
  kKept,     ///< freed by the program, ours to hand out again
};

constexpr bool may_become(BlockState now, BlockState next) noexcept {
  switch (next) {
    case BlockState::kFree:
      return false;
    case BlockState::kLive:
      return now != BlockState::kLive;
    case BlockState::kLeaving:
      return now == BlockState::kLive || now == BlockState::kKept;
    case BlockState::kPending:
      return now == BlockState::kLeaving;
    case BlockState::kKept:
      return now == BlockState::kLive || now == BlockState::kLeaving || now == BlockState::kPending;
  }
  return false;
}

/// A member that look-ups may read while another thread frees the block.
template <typename Value>
class Relaxed {
 public:
  constexpr explicit Relaxed(Value value) noexcept : value_(value) {}
  Relaxed& operator=(Value value) noexcept {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  operator Value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<Value> value_;
};

struct alignas(64) Block {
  // Look-ups read these without a lock: `sequence` is odd while `base` and `end` change.
  std::atomic<std::uint32_t> sequence{0};
  std::atomic<std::uintptr_t> base{0};
  std::atomic<std::uintptr_t> end{0};  ///< base + the bytes the program asked for
  std::atomic<BlockState> state{BlockState::kFree};

  // Fixed while live.
  Relaxed<int> device{0};
  Relaxed<unsigned> flags{0};
  Relaxed<MemoryKind> kind{MemoryKind::kDevice};
  Relaxed<BlockBacking> backing{BlockBacking::kClassic};
  Relaxed<AllocationFunction> function{AllocationFunction::kMalloc};
  Relaxed<std::uint32_t> rule{0};       ///< number of the buffer rule that decided, from 1; 0: none
  Relaxed<std::uint32_t> call_site{0};  ///< 0: unknown
  Relaxed<std::uint64_t> order{0};      ///< its number among the process's allocations
  /// Changes with every hand-out of the address: (base, generation) names one allocation.
  Relaxed<std::uint64_t> generation{0};
  std::atomic<bool> exported{false};  ///< changed since it was made: once freed, it is never handed out again
  std::atomic<bool> shared{false};    ///< exported, and other processes can reach it (shared_memory.h)

  bool linked GUARDED_BY(g_blocks_lock) = false;         ///< in the order of frees
  std::uint8_t waits_for GUARDED_BY(g_blocks_lock) = 0;  ///< while pending: the device whose work it waits for
  std::uint32_t freed_ms GUARDED_BY(g_blocks_lock) = 0;  ///< when it entered the order of frees, by the IdleClock
  std::uint32_t buffer_id GUARDED_BY(g_blocks_lock) =
      0;  ///< HIP_POINTER_ATTRIBUTE_BUFFER_ID; 0: the runtime's, 1: one of ours, not given yet
  FreeList* list GUARDED_BY(g_blocks_lock) = nullptr;  ///< the list that it goes to when freed; null: not pooled
  Block* older GUARDED_BY(g_blocks_lock) = nullptr;    ///< neighbours in the order of frees, while kept or pending
  Block* newer GUARDED_BY(g_blocks_lock) = nullptr;
  PooledChunk* chunk GUARDED_BY(g_blocks_lock) = nullptr;  ///< the VMM chunk it is part of
  Fence* fence GUARDED_BY(g_blocks_lock) = nullptr;        ///< while pending
  Block* next_free GUARDED_BY(g_blocks_lock) = nullptr;    ///< in the table's store of unused blocks

  std::uintptr_t address() const noexcept { return base.load(std::memory_order_relaxed); }
  void* pointer() const noexcept { return reinterpret_cast<void*>(address()); }
  std::size_t bytes() const noexcept { return end.load(std::memory_order_relaxed) - address(); }
  /// How much of the device's memory the allocation takes.
  std::size_t page_bytes() const noexcept { return round_up(bytes(), kPageBytes); }
  void become(BlockState next) noexcept REQUIRES(g_blocks_lock) {
    assert(may_become(state.load(std::memory_order_relaxed), next) && "a block changes hands as BlockState says");
    state.store(next, std::memory_order_release);
  }
  bool live() const noexcept {
    const BlockState now = state.load(std::memory_order_acquire);
    return now == BlockState::kLive || now == BlockState::kLeaving;
  }
};

static_assert(sizeof(Block) == 128, "a Block is two cache lines");

class BlockTable {
 public:
  BlockTable() = default;
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  /// The block with this address inside, in whatever state. Null: we know none.
  Block* find(const void* address) const noexcept;

  /// Blocks that share an address with [base, base + bytes), appended to `found`.
  void overlaps(std::uintptr_t base, std::size_t bytes, std::vector<Block*>* found) const REQUIRES(g_blocks_lock);

  /// Enters a block for [base, base + bytes), which overlaps no other. The caller sets its members, and then its state.
  /// Null if that cannot be done: no bytes, an address that is null or beyond user space, no host memory.
  Block* insert(std::uintptr_t base, std::size_t bytes) noexcept REQUIRES(g_blocks_lock);

  /// Takes the block out; the object may serve another allocation.
  void remove(Block* block) noexcept REQUIRES(g_blocks_lock);

  std::size_t size() const noexcept REQUIRES(g_blocks_lock) { return count_; }

  /// Calls visit(Block*) for every block, in rising address order; visit must not change the table.
  template <typename Visit>
  void for_each(Visit visit) const REQUIRES(g_blocks_lock) {
    for (const Block* block : blocks_in_order()) visit(const_cast<Block*>(block));
  }

  /// Whether all invariants hold. Slow.
  bool is_valid() const REQUIRES(g_blocks_lock);

 private:
  static constexpr unsigned kPageShift = 12, kRegionShift = 24, kRootShift = 36;
  static constexpr unsigned kAddressBits = 47;
  static constexpr unsigned kPartShift = 16;
  static constexpr std::size_t kFan = 4096;
  static constexpr std::size_t kParts = std::size_t{1} << (kRegionShift - kPartShift);
  static constexpr std::size_t kRootFan = std::size_t{1} << (kAddressBits - kRootShift);
  static constexpr std::size_t kListItems = 8;

  /// Blocks that share a page, in no order; holes are null. Chained when more than kListItems share it.
  struct PageList {
    std::array<std::atomic<Block*>, kListItems> items{};
    std::atomic<PageList*> more{nullptr};
  };
  /// 0, a Block*, or a PageList* with bit 0 set.
  using Slot = std::atomic<std::uintptr_t>;
  struct Leaf {
    std::array<Slot, kFan> pages{};
    std::array<std::atomic<Block*>, 2> across{};      ///< a block that begins below, one that ends above
    std::array<std::atomic<Block*>, kParts> parts{};  ///< a block that covers the whole part
    std::array<std::uint32_t, kParts> in_pages GUARDED_BY(g_blocks_lock){};  ///< entries of blocks in each part's pages
    std::size_t entries GUARDED_BY(g_blocks_lock) = 0;  ///< entries in pages, across and parts together
  };
  struct Region {
    std::array<std::atomic<Leaf*>, kFan> leaves{};
    std::array<std::atomic<Block*>, kFan> whole{};
  };

  Leaf* leaf_for(std::uintptr_t address) noexcept REQUIRES(g_blocks_lock);
  Region* region_for(std::uintptr_t address) noexcept REQUIRES(g_blocks_lock);
  bool add_to_slot(Slot& slot, Block* block) noexcept REQUIRES(g_blocks_lock);
  /// Returns how often it was there.
  static std::size_t remove_from_slot(Slot& slot, const Block* block) noexcept;
  static std::size_t entries_of(std::uintptr_t slot) noexcept;
  static std::atomic<Block*>* across_of(Leaf* leaf, std::uintptr_t address, std::uintptr_t base,
                                        std::uintptr_t end) noexcept;
  static Block* find_in_slot(std::uintptr_t slot, std::uintptr_t address) noexcept;
  bool fill(Block* block, std::uintptr_t base, std::uintptr_t end) noexcept REQUIRES(g_blocks_lock);
  void clear(Block* block) noexcept REQUIRES(g_blocks_lock);
  void recycle(Block* block) noexcept REQUIRES(g_blocks_lock);
  std::vector<const Block*> blocks_in_order() const;

  std::array<std::atomic<Region*>, kRootFan> root_{};
  Block* unused_ GUARDED_BY(g_blocks_lock) = nullptr;
  std::size_t count_ GUARDED_BY(g_blocks_lock) = 0;
};

}  // namespace graphpool
