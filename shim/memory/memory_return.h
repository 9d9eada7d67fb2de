// memory_return.h: gives kept memory back to the runtime: chooses which goes next, and tells those who must know.
//
// Memory that was freed first goes first. A chunk goes as a whole once no part of it is in use; its addresses stay
// (chunk_store.h). No physical memory of a chunk in use can go. If room is needed or memory is idle, the chunk's kept
// parts stay kept; past the limit they become free for other blocks.
//
// Threads: any; the lock is g_blocks_lock, never held over a HIP call. Units: bytes. Not here: when memory goes back,
// and how much of it (memory_room.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "shim/memory/blocks.h"
#include "shim/memory/chunk_store.h"
#include "shim/memory/kept_memory.h"
#include "shim/streams/stream_work.h"

namespace graphpool {

class MemoryReturn {
 public:
  constexpr MemoryReturn(KeptMemory& kept, ChunkStore& chunks, Blocks& blocks, StreamWork& work) noexcept
      : kept_(kept), chunks_(chunks), blocks_(blocks), work_(work) {}
  MemoryReturn(const MemoryReturn&) = delete;
  MemoryReturn& operator=(const MemoryReturn&) = delete;

  /// PoolSettings::leaving.
  using Leaving = void (*)(const void* address, std::size_t bytes) noexcept;
  /// Call it before the first allocation.
  void configure(Leaving leaving) noexcept { leaving_ = leaving; }

  /// Why kept memory goes back.
  enum class Cause : std::uint8_t {
    kLimit,  ///< more is kept than may be
    kIdle,   ///< nobody has reused it for some time
    kRoom    ///< a call needs memory
  };
  /// Gives back the block that was freed first, of those that may go. Returns by how many bytes kept memory shrank; 0:
  /// there is none to give. Waits as hipFree does.
  std::size_t give_back_oldest(int device, Cause cause) noexcept EXCLUDES(g_blocks_lock);

  /// Tells that memory is about to go back to the runtime. `bytes` 0: nobody knows how much.
  void tell_leaving(const void* address, std::size_t bytes) const noexcept EXCLUDES(g_blocks_lock);

 private:
  /// Memory that is out of the order of frees and about to go. If nothing is named here, it is a part that is free for
  /// others.
  struct Going {
    void* classic = nullptr;               ///< a block of its own, or
    PooledChunk* parked = nullptr;         ///< a chunk whose addresses stay, or
    std::unique_ptr<PooledChunk> chunk{};  ///< a chunk whose addresses go, too, or nothing
    std::size_t bytes = 0;                 ///< of the block
  };

  Block* next_to_go(int device, Cause cause) const noexcept REQUIRES(g_blocks_lock);
  Going take_out(Block* block) noexcept REQUIRES(g_blocks_lock);
  void give(Going going) noexcept EXCLUDES(g_blocks_lock);

  KeptMemory& kept_;
  ChunkStore& chunks_;
  Blocks& blocks_;
  StreamWork& work_;
  Leaving leaving_ = nullptr;
};

}  // namespace graphpool
