// device_memory.h: puts the parts together that keep the program's device memory, and has the process's own.
//
// Why: device memory that the program freed is kept and handed out again, so that a step that repeats gets the
// addresses it had before. The life of a block (README.md tells it as a story):
//
//   hipMalloc -> kLive -> hipFree -> kLeaving -> kKept ------> hipMalloc of the same key: kLive again, new generation
//                    \               |    \-> kPending ----^ (deferred: once the device has passed its fence)
//                     \              \-> really freed: large, exported, not pooled, past the limit
//                      \-> kKept at once, where the device has nothing left to do
//
//   BlockTable     whose memory an address is          Blocks         memory becomes known, is handed out, forgotten
//   ChunkStore     chunks of VMM memory and parts      KeptMemory     what is kept: lists, order of frees
//   AddressGuard   addresses as the runtime sees them  PendingFrees   freed blocks that the device may still use
//   MemoryRoom     when memory goes back               MemoryReturn   what goes back next, and how
//   BlockPool      allocations                         BlockFrees     frees
//
// Each part has references to those that it needs. Threads: any. One lock, g_blocks_lock, never held over a HIP call
// that can wait; look-ups take none.
#pragma once

#include <vector>

#include "shim/memory/address_guard.h"
#include "shim/memory/block_frees.h"
#include "shim/memory/block_pool.h"
#include "shim/memory/block_table.h"
#include "shim/memory/blocks.h"
#include "shim/memory/chunk_store.h"
#include "shim/memory/kept_memory.h"
#include "shim/memory/memory_return.h"
#include "shim/memory/memory_room.h"
#include "shim/memory/pending_frees.h"
#include "shim/memory/pool_settings.h"

namespace graphpool {

class DeviceMemory {
 public:
  constexpr explicit DeviceMemory(StreamWork& work) noexcept : work_(work) {}
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// Call it before the first allocation.
  void configure(const PoolSettings& settings, Decider decide) noexcept;
  /// Keeps nothing from now on. What is kept goes back in the program's next hipFree, which waits anyway. Memory that
  /// was handed out stays known.
  void stop_keeping() noexcept { kept.keeping().stop(); }
  /// Notes that a call of the program failed. After an error that every later call returns too, malloc and free are the
  /// runtime's own until the device is reset.
  void note_error(hipError_t error) noexcept;

  /// Notes that other devices may access the device's memory from now on (all devices': -1). With some runtimes that
  /// holds only for memory allocated later. So classic memory that was allocated before is not handed out any more, but
  /// for that of hipMallocAsync.
  void peers_enabled(int device) noexcept;
  /// Forgets the device's memory, because the device is about to be reset.
  void device_reset(int device);
  /// Destroys, after the reset, chunks that could not go before, because the device was in error.
  void device_was_reset(int device);

  /// What is kept, for each device of which something is or was kept, or that has chunks.
  std::vector<PoolMemory> memory() const;
  /// For tests: whether everything agrees.
  bool is_valid() const;

 private:
  StreamWork& work_;

 public:
  BlockTable table;
  KeptMemory kept;
  ChunkStore chunks;
  Blocks blocks{table, kept, chunks, work_};
  PendingFrees pending{kept, work_};
  MemoryReturn returns{kept, chunks, blocks, work_};
  MemoryRoom room{kept, chunks, blocks, pending, returns, work_};
  AddressGuard addresses{table, kept, chunks};
  BlockPool pool{kept, chunks, blocks, pending, room, work_};
  BlockFrees frees{table, kept, chunks, blocks, room, returns, work_};
};

/// The process's own. Never destroyed: threads may use it until the process ends.
extern constinit union DeviceMemoryOfProcess {
  DeviceMemory memory{g_stream_work.work};
  ~DeviceMemoryOfProcess() {}
} g_device_memory;

inline DeviceMemory& device_memory() noexcept { return g_device_memory.memory; }
inline BlockTable& block_table() noexcept { return device_memory().table; }
inline Blocks& blocks() noexcept { return device_memory().blocks; }
inline MemoryRoom& memory_room() noexcept { return device_memory().room; }
inline const AddressGuard& address_guard() noexcept { return device_memory().addresses; }

/// MemoryRoom::retry_after_trim() for calls that are made often: the device is the calling thread's, asked for only if
/// the call fails. Which error the program had pending before the call is not known then.
template <typename Call>
inline hipError_t retry_with_room(Call&& call) {
  const hipError_t error = call();
  if (error != hipErrorOutOfMemory) [[likely]]
    return error;
  memory_room().make_room();
  return call();
}

}  // namespace graphpool
