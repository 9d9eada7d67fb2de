// memory_return.h: how memory goes back to the runtime: which of the kept memory goes next, and who hears of it before.
//
// What was freed first goes first. A chunk goes as a whole once nothing of it is in use; its addresses stay
// (chunk_store.h). Of a chunk in use no physical memory can go: its kept parts stay kept where room is needed, and
// become free for other blocks past the limit.
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
  /// Before the first allocation.
  void configure(Leaving leaving) noexcept { leaving_ = leaving; }

  /// Why kept memory goes back.
  enum class Cause : std::uint8_t {
    kLimit,  ///< more is kept than may be
    kIdle,   ///< nobody has reused it for some time
    kRoom    ///< a call needs memory
  };
  /// Gives the block back that was freed first of those that may go. Returns by how much kept memory shrank; 0: there
  /// is none to give. Waits as hipFree does.
  std::size_t give_back_oldest(int device, Cause cause) noexcept EXCLUDES(g_blocks_lock);

  /// Memory is about to go back to the runtime. No bytes: nobody knows how much.
  void tell_leaving(const void* address, std::size_t bytes) const noexcept EXCLUDES(g_blocks_lock);

 private:
  /// Memory that is out of all lists and about to go.
  struct Going {
    void* classic = nullptr;               ///< a block of its own, or
    PooledChunk* parked = nullptr;         ///< a chunk whose addresses stay, or
    std::unique_ptr<PooledChunk> chunk{};  ///< one whose addresses go, too; else a part that is free for others
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
