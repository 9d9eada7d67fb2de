// memory_room.h: decides when kept memory goes back to the runtime, and how much of it.
//
// To the program kept memory is free. Memory that was freed first goes back first:
//   - what is more than the limit of its device, in the free that passes the limit, or in a later call if that free
//     must not wait;
//   - what nobody has reused for some time (PoolSettings::idle), in a later malloc, free or wait of the program, if
//     nothing is known to run on the device, so that nothing is waited for, and no capture is open;
//   - all of it, when a call fails for memory; that call is then made once more (rule 25). This waits as hipFree does.
// A kept part of a chunk in use becomes free for other blocks past the limit (memory_return.h), and if a part of
// another size finds no other place.
//
// Threads: any; the lock is g_blocks_lock, never held over a HIP call. Units: bytes. Not here: which memory is kept
// (block_pool.h, block_frees.h), how much may be (kept_limits.h), which goes next (memory_return.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shim/base/function_ref.h"
#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/memory/blocks.h"
#include "shim/memory/chunk_store.h"
#include "shim/memory/kept_memory.h"
#include "shim/memory/memory_return.h"
#include "shim/memory/pending_frees.h"
#include "shim/streams/stream_work.h"

namespace graphpool {

class MemoryRoom {
 public:
  constexpr MemoryRoom(KeptMemory& kept, ChunkStore& chunks, Blocks& blocks, PendingFrees& pending,
                       MemoryReturn& returns, StreamWork& work) noexcept
      : kept_(kept), chunks_(chunks), blocks_(blocks), pending_(pending), returns_(returns), work_(work) {}
  MemoryRoom(const MemoryRoom&) = delete;
  MemoryRoom& operator=(const MemoryRoom&) = delete;

  /// Gives back device memory that is kept elsewhere, when a call has failed for memory. Returns whether there was any.
  /// All devices: -1. Called without a lock held.
  using Reclaim = bool (*)(int device);
  void set_reclaim(Reclaim reclaim) noexcept { reclaim_ = reclaim; }
  bool reclaim(int device) const noexcept { return reclaim_ != nullptr && reclaim_(device); }

  /// Gives back what is kept past the limit of the device, and all if none is kept from now on. Waits as hipFree does.
  /// Put off while a capture is open.
  void keep_to_limit(int device) noexcept EXCLUDES(g_blocks_lock);
  /// Does so later, once the device has nothing left to do: for a free that must not wait.
  void keep_to_limit_later(int device) noexcept {
    excess_.fetch_or(std::uint64_t{1} << device, std::memory_order_relaxed);
  }

  /// Does what was put off until the program waits. Call it when the program has waited for a stream or the device.
  void waited() noexcept EXCLUDES(g_blocks_lock) {
    if (kept_.clock().moment_passed()) [[unlikely]]
      look_at_clock();
    else if (excess_.load(std::memory_order_relaxed) != 0)
      end_excess();
  }
  /// Looks at the clock: what was kept too long goes, now or when the device has nothing left to do.
  void look_at_clock() noexcept EXCLUDES(g_blocks_lock);

  /// Gives kept memory back: this many bytes or more, or all that can go. Waits as hipFree does. Returns whether any
  /// was given back.
  bool trim(int device, std::size_t bytes) noexcept EXCLUDES(g_blocks_lock);
  /// Gives all kept memory back, because none is kept from now on. Kept parts of chunks in use are forgotten.
  bool release_all(int device) noexcept EXCLUDES(g_blocks_lock);
  void release_all() noexcept;

  /// Makes the call. If it fails for memory, gives the device's kept memory back (all devices: -1) and makes the call
  /// once more. Makes it once more also if nothing was kept, but calls of ours replaced the last error that the program
  /// is to find.
  template <typename Call>
  hipError_t retry_after_trim(int device, Call&& call) {
    const hipError_t pending = pending_error(), owed = t_owed_error;
    const hipError_t error = call();
    if (error != hipErrorOutOfMemory || (!give_back(device) && next().hipPeekAtLastError() == error)) return error;
    t_owed_error = owed;
    clear_error(pending);
    return call();
  }
  /// Makes a call of ours that needs so many bytes. While it fails for memory, gives kept memory back, one block or
  /// chunk after another, and makes it again. If kept memory would not be enough, none is given back.
  hipError_t retry_bit_by_bit(int device, std::size_t bytes, FunctionRef<hipError_t()> call) noexcept
      EXCLUDES(g_blocks_lock);
  /// Makes the place of the oldest kept part free, for a new part that found no place. Returns false if there is none.
  bool forget_oldest_part(int device) noexcept EXCLUDES(g_blocks_lock);
  /// Gives all kept memory of the calling thread's device back, after a call has failed for memory, and takes the
  /// failure out of the program's sight. The caller makes the call once more, whatever was given back: its result is
  /// the last error again.
  void make_room() noexcept EXCLUDES(g_blocks_lock);

  /// How many bytes the program does not use although the runtime counts them as used: to be added to free memory.
  std::size_t hidden_free_bytes(int device) noexcept EXCLUDES(g_blocks_lock);

 private:
  using Cause = MemoryReturn::Cause;

  void end_excess() noexcept EXCLUDES(g_blocks_lock);
  void give_back_idle(int device) noexcept EXCLUDES(g_blocks_lock);
  bool give_back(int device) noexcept EXCLUDES(g_blocks_lock);
  bool give_back_some(int device) noexcept EXCLUDES(g_blocks_lock);

  KeptMemory& kept_;
  ChunkStore& chunks_;
  Blocks& blocks_;
  PendingFrees& pending_;
  MemoryReturn& returns_;
  StreamWork& work_;
  std::atomic<std::uint64_t> excess_{0};  ///< a bit for each device: something is to go back once it has nothing to do
  Reclaim reclaim_ = nullptr;
};

}  // namespace graphpool
