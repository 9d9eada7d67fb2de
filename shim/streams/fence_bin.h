// fence_bin.h: takes fences that nobody needs any more, where a lock is held under which they cannot be given back.
//
// Why: a fence goes back under g_streams_lock, which comes before the lock of blocks in the order of locks. So a holder
// of the later lock drops fences here, and empties the bin when it has left that lock. Threads: any, without a lock.
#pragma once

#include <atomic>

#include "shim/streams/fences.h"

namespace graphpool {

class FenceBin {
 public:
  constexpr FenceBin() = default;
  FenceBin(const FenceBin&) = delete;
  FenceBin& operator=(const FenceBin&) = delete;

  /// Gives up one reference.
  void drop(Fence* fence) noexcept {
    if (!Fences::drop_reference(fence)) return;
    fence->next = dropped_.load();
    while (!dropped_.compare_exchange_weak(fence->next, fence)) {
    }
  }
  /// Gives back all that were dropped. Neither g_streams_lock nor a lock behind it may be held.
  void empty(Fences& fences) noexcept {
    if (dropped_.load(std::memory_order_relaxed) == nullptr) return;
    for (Fence* fence = dropped_.exchange(nullptr); fence != nullptr;) {
      Fence* const after = fence->next;
      fences.recycle(fence);
      fence = after;
    }
  }

 private:
  std::atomic<Fence*> dropped_{nullptr};
};

}  // namespace graphpool
