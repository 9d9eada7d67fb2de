// block_pool.h: serves allocations of the program from kept memory of the same key, so that a step that repeats gets
// the addresses it had before; else from a chunk (backing "vmm"), or by the runtime.
//
// An allocation waits for nothing (probe malloc_waits_for_nothing), unless memory is short.
//
// Of the kept blocks of a key the one with the lowest address is handed out. A pending block is ready once the device
// has passed its fence, and at once for a hipMallocAsync in the stream that freed it. A part of a parked chunk needs
// physical memory first; if the device has none left, other kept memory goes back for it. While the chunk of the lowest
// block is just being parked or loaded, no kept block of the key is handed out.
//
// While a capture makes the runtime refuse allocations (probes capture_refuses_malloc, refused_call_spoils_capture),
// they are forwarded: the program sees the runtime's error, and its capture is invalidated. With
// PoolSettings::serve_captures a kept block that is ready serves a hipMalloc instead. While any capture is open no
// chunk is mapped, and each hipMallocAsync is the runtime's.
//
// Threads: any; g_blocks_lock is never held over a HIP call that can wait. Units: bytes. Not here: what the rules pool
// (the Decider), frees (block_frees.h).
#pragma once

#include "shim/hip/next.h"
#include "shim/memory/allocation.h"
#include "shim/memory/blocks.h"
#include "shim/memory/chunk_store.h"
#include "shim/memory/kept_memory.h"
#include "shim/memory/memory_room.h"
#include "shim/memory/pending_frees.h"
#include "shim/memory/pool_settings.h"
#include "shim/streams/stream_work.h"

namespace graphpool {

class BlockPool {
 public:
  constexpr BlockPool(KeptMemory& kept, ChunkStore& chunks, Blocks& blocks, PendingFrees& pending, MemoryRoom& room,
                      StreamWork& work) noexcept
      : kept_(kept), blocks_(blocks), chunks_(chunks), pending_(pending), room_(room), work_(work) {}
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// Call it before the first allocation.
  void configure(const PoolSettings& settings, Decider decide) noexcept;

  /// Makes a hipMalloc, hipExtMallocWithFlags or hipMallocAsync of the program, on the current device.
  hipError_t allocate(const AllocationRequest& request, void** ptr);

 private:
  Block* take_ready(const BlockKey& key, const Decision& decision) noexcept EXCLUDES(g_blocks_lock);
  hipError_t allocate_other(const AllocationRequest& request, void** ptr, const Decision& decision, BlockKey key,
                            bool capturing);
  Block* allocate_pooled(const AllocationRequest& request, const Decision& decision, BlockKey key);
  Block* take_kept(const BlockKey& key, const Decision& decision, const hipStream_t* stream);
  Block* take_locked(FreeList& list, const hipStream_t* stream) noexcept REQUIRES(g_blocks_lock);
  bool load_chunk(const NamedBlock& named, const Decision& decision) EXCLUDES(g_blocks_lock);
  Block* allocate_part(const BlockKey& key, const Decision& decision) EXCLUDES(g_blocks_lock);
  Block* allocate_over_kept(const BlockKey& key, const Decision& decision) EXCLUDES(g_blocks_lock);
  Block* enter_part(ChunkStore::Place place, const BlockKey& key, const Decision& decision) REQUIRES(g_blocks_lock);

  KeptMemory& kept_;
  Blocks& blocks_;
  Decider decide_ = nullptr;
  std::size_t large_bytes_ = 0;
  bool serve_captures_ = false;
  ChunkStore& chunks_;
  PendingFrees& pending_;
  MemoryRoom& room_;
  StreamWork& work_;
};

}  // namespace graphpool
