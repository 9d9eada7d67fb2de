// kept_memory.h: has the device memory that the program freed and the library keeps to hand it out again. A block comes
// and goes only by the functions here, so that its list, its place in the order of frees, its chunk and its state
// always agree.
//
//   add_kept, add_pending    the program has freed the block; the device is done with it, or may still use it
//   pending_is_kept          the device is done with a pending block
//   remove                   it is handed out again, goes back to the runtime, or is forgotten
//
// Invariants: count() is the number of blocks that are kept or pending; see free_lists.h and free_order.h.
// Threads: guarded by g_blocks_lock, but for any(), count(), keeping(), the clock, limits and fences, which are atomic.
// Units: blocks. Not here: when memory goes back (memory_room.h), who gets it (block_pool.h).
#pragma once

#include <atomic>
#include <cstddef>

#include "shim/base/trace.h"
#include "shim/memory/block_table.h"
#include "shim/memory/chunk_store.h"
#include "shim/memory/free_lists.h"
#include "shim/memory/free_order.h"
#include "shim/memory/idle_clock.h"
#include "shim/memory/keeping.h"
#include "shim/memory/kept_limits.h"
#include "shim/memory/memory_use.h"
#include "shim/streams/fence_bin.h"

namespace graphpool {

class KeptMemory {
 public:
  constexpr KeptMemory() = default;
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;

  FreeLists& lists() noexcept { return lists_; }
  const FreeOrder& order() const noexcept { return order_; }
  Keeping& keeping() noexcept { return keeping_; }
  IdleClock& clock() noexcept { return clock_; }
  KeptLimits& limits() noexcept { return limits_; }
  /// Fences that blocks no longer need. Empty it when the lock has been left.
  FenceBin& dropped_fences() noexcept { return dropped_fences_; }

  /// Whether any block is kept or pending.
  bool any() const noexcept { return count_.load(std::memory_order_relaxed) != 0; }
  std::size_t count() const noexcept { return count_.load(std::memory_order_relaxed); }

  /// Keeps a block that the program has freed, and that the device is done with.
  void add_kept(Block* block) noexcept REQUIRES(g_blocks_lock) {
    put_back(block);
    order_.enter(block, clock_.now_ms());
    if (trace_on()) [[unlikely]]
      trace_kept(block->device, order_.kept_bytes(block->device));
  }
  /// Makes a block pending that the program has freed, and that the device may still use. Without a fence it gets one
  /// later (pending_frees.h), behind the work of the device `waits_for`.
  void add_pending(Block* block, Fence* fence, int waits_for) noexcept REQUIRES(g_blocks_lock);
  /// Makes a pending block kept: the device is done with it. It keeps its place in the order of frees. The caller has
  /// taken it out of FreeList::pending.
  void pending_is_kept(Block* block) noexcept REQUIRES(g_blocks_lock);
  /// Makes a block kept, but does not enter it into the order of frees. By itself: for a part whose parked chunk got no
  /// memory.
  void put_back(Block* block) noexcept REQUIRES(g_blocks_lock) {
    if (block->chunk != nullptr) block->chunk->part_freed(block->page_bytes(), clock_.now_ms());
    add_to_count(1);
    become_kept(block);
  }

  /// Takes a kept block out. The caller sets its state, and calls part_taken() of its chunk if the program gets the
  /// block.
  void remove_kept(Block* block) noexcept REQUIRES(g_blocks_lock) {
    KeptBlocks& kept = block->list->kept;
    if (kept.lowest() == block)
      kept.remove_lowest();
    else
      kept.remove(block->address());
    add_to_count(~std::size_t{0});
    if (block->chunk != nullptr) ++block->chunk->busy_parts;
    order_.leave(block);
  }
  /// The same for a kept or a pending block.
  void remove(Block* block) noexcept REQUIRES(g_blocks_lock);

  /// leave_order(): the chunk's kept parts take no memory any more. enter_order(): they do again.
  void leave_order(const PooledChunk& chunk) noexcept REQUIRES(g_blocks_lock);
  void enter_order(const PooledChunk& chunk) noexcept REQUIRES(g_blocks_lock);
  /// A kept part of the chunk, or null.
  Block* any_part(const PooledChunk& chunk) const noexcept REQUIRES(g_blocks_lock);

 private:
  void become_kept(Block* block) noexcept REQUIRES(g_blocks_lock) {
    if (block->chunk != nullptr) --block->chunk->busy_parts;
    block->become(BlockState::kKept);
    tell_kept(block->address(), block->bytes());
    block->list->kept.add(block->address(), block);
  }
  void drop_fence(Block* block) noexcept REQUIRES(g_blocks_lock);
  /// There is no barrier: other threads only read the count.
  void add_to_count(std::size_t more) noexcept REQUIRES(g_blocks_lock) {
    count_.store(count_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }

  Keeping keeping_;
  IdleClock clock_;
  std::atomic<std::size_t> count_{0};
  FreeLists lists_;
  FreeOrder order_;
  FenceBin dropped_fences_;
  KeptLimits limits_;
};

}  // namespace graphpool
