// pending_frees.h: makes pending blocks, which the program has freed and the device may still use, kept ones.
//
// A pending block waits until the device has passed its fence. If no fence could be made at its free, as while a
// capture is open, it gets one at the next collect(), behind all work of the device it waits for. Only settle() waits.
// Threads: any; the lock is g_blocks_lock, held over no HIP call but one that asks for a fence.
#pragma once

#include "shim/base/function_ref.h"
#include "shim/memory/allocation.h"
#include "shim/memory/kept_memory.h"
#include "shim/streams/stream_work.h"

namespace graphpool {

class PendingFrees {
 public:
  constexpr PendingFrees(KeptMemory& kept, StreamWork& work) noexcept : kept_(kept), work_(work) {}
  PendingFrees(const PendingFrees&) = delete;
  PendingFrees& operator=(const PendingFrees&) = delete;

  /// Keeps pending blocks, of this key or on this device, that the device is done with. Returns whether there were any.
  bool collect(const BlockKey& key) EXCLUDES(g_blocks_lock);
  bool collect(int device) EXCLUDES(g_blocks_lock);
  /// If the device has pending parts of chunks, which hold their chunks back: waits for it as hipFree does, unless no
  /// fence can be made, and then keeps blocks as collect() does.
  void settle(int device) EXCLUDES(g_blocks_lock);

 private:
  using Visit = FunctionRef<void(FreeList&)>;
  using Lists = FunctionRef<void(Visit)>;  ///< calls a visitor for each list that is meant, with the lock held

  bool collect(Lists lists) EXCLUDES(g_blocks_lock);
  void make_missing_fences(Lists lists) EXCLUDES(g_blocks_lock);
  bool keep_passed(FreeList& list) REQUIRES(g_blocks_lock);

  KeptMemory& kept_;
  StreamWork& work_;
};

}  // namespace graphpool
