// block_frees.h: does the frees of the program. Memory that may be handed out again is kept; else the runtime frees it.
//
// What the program sees stays HIP's:
//   - a free waits as the runtime's does (deferred: not at all), by a fence (streams/fences.h), never by
//     hipDeviceSynchronize. If no fence can be made, as while a capture is open, the runtime frees a page instead, and
//     so waits (probes free_waits_for_streams, relaxed_thread_may_wait, relaxed_thread_may_allocate);
//   - where a capture makes the runtime refuse frees, the runtime makes the free, gives its error and invalidates the
//     capture; the free of a part of a chunk ends in the same way. Where a stream's own capture takes the free of a
//     part, the part stays the program's for good, because launches of the graph may use it;
//   - kept memory that is freed again gets the runtime's answer for an address that it does not know;
//   - an address inside an allocation frees it where the runtime does so (probe interior_free_is_refused). One in a
//     chunk but in no block never reaches the runtime, which would take the chunk apart.
//
// The runtime really frees memory that the pool does not have, classic memory that was exported, and classic memory
// that another function than hipFree frees (from hipMallocAsync: than hipFree and hipFreeAsync), or hipFree by an
// address inside. Threads: any; g_blocks_lock is never held over a HIP call that can wait. Units: bytes. Not here: when
// kept memory goes back (memory_room.h).
#pragma once

#include <optional>

#include "shim/base/function_ref.h"
#include "shim/hip/hip_version.h"
#include "shim/hip/next.h"
#include "shim/memory/block_table.h"
#include "shim/memory/blocks.h"
#include "shim/memory/chunk_store.h"
#include "shim/memory/kept_memory.h"
#include "shim/memory/memory_return.h"
#include "shim/memory/memory_room.h"
#include "shim/streams/stream_work.h"

namespace graphpool {

/// The first version whose captures are known to take frees (probe capture_takes_frees).
inline constexpr int kCapturesFrees = hip_version(6, 0);

class BlockFrees {
 public:
  constexpr BlockFrees(const BlockTable& table, KeptMemory& kept, ChunkStore& chunks, Blocks& blocks, MemoryRoom& room,
                       MemoryReturn& returns, StreamWork& work) noexcept
      : table_(table), kept_(kept), room_(room), blocks_(blocks), work_(work), chunks_(chunks), returns_(returns) {}
  BlockFrees(const BlockFrees&) = delete;
  BlockFrees& operator=(const BlockFrees&) = delete;

  /// Call it before the first allocation.
  void configure(bool deferred_free) noexcept { deferred_ = deferred_free; }

  using Forward = hipError_t (*)(void*);
  /// Makes hipFree and, with another function to forward to, hipHostFree and hipFreeHost.
  hipError_t free(void* ptr, Forward forward);
  hipError_t free_async(void* ptr, hipStream_t stream);
  /// Makes a hipFree of a classic block that can be kept, if no capture is open, the device has nothing left to do and
  /// no other memory has to go back for it. Else returns false: then nothing was done, and free() is to do it.
  bool free_at_once(void* ptr) noexcept;

 private:
  /// Whether the device is done with memory that is freed.
  enum class Done : std::uint8_t {
    kYes,
    kLater,   ///< once it has passed the fence; without one, a fence that is made later
    kUnknown  ///< nobody can tell: the runtime is to free the memory
  };
  struct Waited {
    Done done;
    Fence* fence = nullptr;
  };

  hipError_t free_native(const NamedBlock& named, void* ptr, Forward forward);
  hipError_t free_by_runtime(const NamedBlock& named, FunctionRef<hipError_t()> forward);
  hipError_t free_kept(const NamedBlock& named, void* ptr, Forward forward);
  hipError_t free_part(const NamedBlock& named, bool inside, Forward forward);
  Waited wait_for_classic(int device) noexcept;
  Waited wait_for_part(int device, bool capturing) noexcept;
  /// What the runtime answers to a free of an address inside an allocation, in a stream's order; hipSuccess: it frees.
  static hipError_t judge_in_order(const NamedBlock& named, hipStream_t stream) noexcept;
  std::optional<hipError_t> keep_in_order(const NamedBlock& named, hipStream_t stream, bool keepable, bool capturing);
  void keep(const NamedBlock& named, Waited waited, int waits_for) noexcept;

  const BlockTable& table_;
  KeptMemory& kept_;
  MemoryRoom& room_;
  Blocks& blocks_;
  StreamWork& work_;
  bool deferred_ = false;
  ChunkStore& chunks_;
  MemoryReturn& returns_;
};

}  // namespace graphpool
