// pending_frees.h: blocks that the program has freed and that the device may still use become kept ones.
//
// A pending block waits for its fence. One that was freed where no fence could be made, as while a capture is open, has
// none and gets one at the next look, behind all work of the device it waits for. Nothing here waits, but settle().
// Threads: any; the lock is g_blocks_lock, not held over HIP calls that make a fence or wait.
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

  /// Keeps the blocks, of this key or on this device, that the device is done with. Returns whether there was any.
  bool collect(const BlockKey& key) EXCLUDES(g_blocks_lock);
  bool collect(int device) EXCLUDES(g_blocks_lock);
  /// Pending parts of chunks hold their chunk back. Where the device has any, waits for it as hipFree does.
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
