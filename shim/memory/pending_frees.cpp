#include "shim/memory/pending_frees.h"

#include <utility>

#include "shim/hip/restore.h"

namespace graphpool {

bool PendingFrees::collect(const BlockKey& key) {
  return collect([this, &key](Visit visit) {
    assume_held(g_blocks_lock);
    if (FreeList* const list = kept_.lists().find(key)) visit(*list);
  });
}

bool PendingFrees::collect(int device) {
  return collect([this, device](Visit visit) {
    assume_held(g_blocks_lock);
    kept_.lists().for_each([&](FreeList& list) {
      if (list.key.device == device) visit(list);
    });
  });
}

bool PendingFrees::collect(Lists lists) {
  const PrivateCalls private_calls;
  make_missing_fences(lists);
  bool any = false;
  {
    const LockGuard guard(g_blocks_lock);
    lists([&](FreeList& list) {
      assume_held(g_blocks_lock);
      any = keep_passed(list) || any;
    });
  }
  kept_.dropped_fences().empty(work_.fences);
  return any;
}

/// Makes one fence after another, each for one block, as long as fences can be made.
void PendingFrees::make_missing_fences(Lists lists) {
  for (;;) {
    Block* without = nullptr;
    int waits_for = -1;
    const auto look = [&](FreeList& list) {
      assume_held(g_blocks_lock);
      for (Block* block : list.pending)
        if (block->fence == nullptr && (waits_for < 0 || block->waits_for == waits_for)) without = block;
    };
    {
      const LockGuard guard(g_blocks_lock);
      lists(look);
      if (without != nullptr) waits_for = without->waits_for;
    }
    Fence* fence = without == nullptr ? nullptr : work_.fences.make(waits_for);
    if (fence == nullptr) return;
    const LockGuard guard(g_blocks_lock);
    without = nullptr;  // the block may be another allocation's by now
    lists(look);
    if (without != nullptr) without->fence = std::exchange(fence, nullptr);
    if (fence != nullptr) kept_.dropped_fences().drop(fence);
  }
}

bool PendingFrees::keep_passed(FreeList& list) {
  bool any = false;
  for (std::size_t i = 0; i < list.pending.size();) {
    Block* const block = list.pending[i];
    if (block->fence == nullptr || !work_.fences.passed(block->fence)) {
      ++i;
      continue;
    }
    list.pending.erase(list.pending.begin() + static_cast<std::ptrdiff_t>(i));
    kept_.pending_is_kept(block);
    any = true;
  }
  return any;
}

void PendingFrees::settle(int device) {
  bool any_part = false;
  {
    const LockGuard guard(g_blocks_lock);
    kept_.lists().for_each([&](const FreeList& list) {
      assume_held(g_blocks_lock);
      any_part =
          any_part || (list.key.device == device && list.key.backing == BlockBacking::kVmm && !list.pending.empty());
    });
  }
  if (!any_part) return;
  const PrivateCalls private_calls;
  if (Fence* const fence = work_.fences.make(device)) {
    (void)work_.fences.wait(fence);
    work_.fences.release(fence);
  }
  (void)collect(device);
}

}  // namespace graphpool
