// blocks.h: makes memory known as blocks, hands blocks out, and forgets them. Also changes and tells facts of live
// blocks, for calls of the program.
//
// Why one place: a block is in the table, is a member of a list and may be a part of a chunk; what enters or leaves one
// of these enters or leaves all.
// Invariant: a block in the table is what the runtime, or a chunk, has there now. If memory was freed past the library,
// its block is forgotten when the runtime hands the address out again. Threads: any; the lock is g_blocks_lock. Units:
// bytes.
// Not here: freed memory (kept_memory.h), who gets it (block_pool.h), what a free waits for (block_frees.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/base/seeded_defect.h"
#include "shim/memory/allocation.h"
#include "shim/memory/block_table.h"
#include "shim/memory/chunk_store.h"
#include "shim/memory/kept_memory.h"
#include "shim/memory/memory_use.h"
#include "shim/memory/pool_settings.h"
#include "shim/streams/stream_work.h"

namespace graphpool {

/// A block, with the allocation that it was when we looked.
struct NamedBlock {
  Block* block = nullptr;  ///< null: none
  std::uint64_t generation = 0;
  int device = 0;
  MemoryKind kind = MemoryKind::kDevice;
  bool pooled = false;           ///< it has a list to go to
  PooledChunk* chunk = nullptr;  ///< that it is part of
};

/// Where memory goes when the program frees it.
enum class WhenFreed : bool { kToTheRuntime, kToItsList };

class Blocks {
 public:
  constexpr Blocks(BlockTable& table, KeptMemory& kept, ChunkStore& chunks, StreamWork& work) noexcept
      : table_(table), kept_(kept), chunks_(chunks), work_(work) {}
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  /// Makes memory known that the runtime or a chunk has there from now on, and hands it out. Null: the table cannot
  /// take it. May throw std::bad_alloc; then it is not known.
  Block* enter(void* ptr, const BlockKey& key, WhenFreed when_freed, MemoryKind kind, const Decision& decision)
      REQUIRES(g_blocks_lock);
  /// Makes the block the program's, as another allocation than before.
  void hand_out(Block* block, const Decision& decision) noexcept REQUIRES(g_blocks_lock) {
    block->rule = decision.rule;
    block->call_site = decision.call_site;
    block->order = ++last_order_;
    block->generation = ++last_generation_;
    if (!seeded_defect(Seeded::kSameBufferId) || block->buffer_id == kRuntimesId) block->buffer_id = kOwnId;
    block->become(BlockState::kLive);
    tell_handed_out(block->address(), block->bytes());
  }
  /// Forgets the block. If it is a part of a chunk, its place is free for others.
  void forget(Block* block) noexcept REQUIRES(g_blocks_lock);
  /// Takes a part of a chunk out of use for good, because another process may hold it.
  void abandon(Block* block) noexcept REQUIRES(g_blocks_lock);

  /// Notes memory that the program got from the runtime itself: it is known, but never pooled. `key` says what it is;
  /// its rule and call site are those of `decision`.
  void note_native(void* ptr, const BlockKey& key, MemoryKind kind, const Decision& decision = {}) noexcept
      EXCLUDES(g_blocks_lock);
  /// Notes memory that the runtime made for the pool.
  void note_fresh(void* ptr, const BlockKey& key, const Decision& decision) noexcept EXCLUDES(g_blocks_lock);

  static NamedBlock named(Block* block) noexcept REQUIRES(g_blocks_lock) {
    return {block, block->generation, block->device, block->kind, block->list != nullptr, block->chunk};
  }
  /// Whether the block is still the allocation that was named.
  static bool is_same(const NamedBlock& named) noexcept REQUIRES(g_blocks_lock) {
    return named.block->generation == named.generation && named.block->state.load() != BlockState::kFree;
  }
  /// Begins the free of the live block that the address is in. No block: there is none.
  NamedBlock start_free(const void* ptr) noexcept EXCLUDES(g_blocks_lock);
  /// Takes start_free() back: the free has failed.
  static void back_to_live(const NamedBlock& named) noexcept EXCLUDES(g_blocks_lock);
  /// Forgets a block that the runtime has freed.
  void freed_by_runtime(const NamedBlock& named) noexcept EXCLUDES(g_blocks_lock);

  /// Marks the block, which has been changed, as never to be handed out again. Returns false if no live block is there.
  bool mark_exported(const void* ptr) noexcept EXCLUDES(g_blocks_lock);
  /// Marks blocks as shared: a handle of so many bytes from there on leaves the process (0: of the block). Returns
  /// false if no live block is at the address, and if there was no memory to look for others.
  bool mark_shared(const void* ptr, std::size_t bytes) noexcept EXCLUDES(g_blocks_lock);

  /// A number that tells the allocation at the address from all earlier ones (HIP_POINTER_ATTRIBUTE_BUFFER_ID), if the
  /// runtime's own number does not: for memory that was handed out again, and for parts of chunks. 0: the runtime's
  /// does.
  std::uint32_t buffer_id(const void* ptr) noexcept EXCLUDES(g_blocks_lock);

  PoolCounters& counters() noexcept REQUIRES(g_blocks_lock) { return counters_; }
  PoolCounters counted() const noexcept EXCLUDES(g_blocks_lock);

  /// For tests: whether everything agrees.
  bool is_valid() const REQUIRES(g_blocks_lock);

 private:
  static constexpr std::uint32_t kRuntimesId = 0, kOwnId = 1;

  void enter_counted(void* ptr, const BlockKey& key, WhenFreed when_freed, MemoryKind kind,
                     const Decision& decision) noexcept EXCLUDES(g_blocks_lock);
  bool lists_are_valid(std::size_t members) const REQUIRES(g_blocks_lock);

  BlockTable& table_;
  KeptMemory& kept_;
  ChunkStore& chunks_;
  StreamWork& work_;
  std::uint64_t last_order_ GUARDED_BY(g_blocks_lock) = 0;
  std::uint64_t last_generation_ GUARDED_BY(g_blocks_lock) = 0;
  /// Ours count down, AMD's runtimes up (probe buffer_ids_count_up).
  std::uint32_t last_buffer_id_ GUARDED_BY(g_blocks_lock) = 0;
  PoolCounters counters_ GUARDED_BY(g_blocks_lock);
};

}  // namespace graphpool
