#include "shim/memory/block_pool.h"

#include "shim/base/seeded_defect.h"
#include "shim/hip/restore.h"
#include "shim/streams/open_captures.h"

namespace graphpool {
namespace {

bool later(const Block* a, const Block* b) noexcept { return a->address() > b->address(); }

/// Makes the call that the program made.
hipError_t call_native(const AllocationRequest& request, void** ptr) noexcept {
  if (request.function == AllocationFunction::kExtMalloc)
    return next().hipExtMallocWithFlags(ptr, request.bytes, request.flags);
  if (request.function == AllocationFunction::kMallocAsync)
    return next().hipMallocAsync(ptr, request.bytes, request.stream);
  return next().hipMalloc(ptr, request.bytes);
}

/// Gets new memory that we may keep later: not owned by one of the runtime's memory pools.
hipError_t call_fresh(const AllocationRequest& request, void** ptr) noexcept {
  if (request.function == AllocationFunction::kMallocAsync) return next().hipMalloc(ptr, request.bytes);
  return call_native(request, ptr);
}

}  // namespace

void BlockPool::configure(const PoolSettings& settings, Decider decide) noexcept {
  decide_ = decide;
  large_bytes_ = settings.large_bytes;
  serve_captures_ = settings.serve_captures;
}

/// Hands out the kept block of the key with the lowest address, if that takes no call of the runtime. Null: it takes
/// one, or there is no such block.
[[gnu::always_inline]] inline Block* BlockPool::take_ready(const BlockKey& key, const Decision& decision) noexcept {
  const LockGuard guard(g_blocks_lock);
  FreeList* const list = kept_.lists().find(key);
  if (list == nullptr || list->kept.empty()) return nullptr;
  Block* const block = list->kept.lowest();
  if (PooledChunk* const chunk = block->chunk) {
    if (chunk->state != ChunkState::kResident) return nullptr;
    chunk->part_taken(block->page_bytes());
  }
  kept_.remove_kept(block);
  blocks_.hand_out(block, decision);
  ++blocks_.counters().reused;
  return block;
}

hipError_t BlockPool::allocate(const AllocationRequest& request, void** ptr) {
  if (ptr == nullptr || request.bytes == 0) return call_native(request, ptr);
  const bool in_stream_order = request.function == AllocationFunction::kMallocAsync;
  // An allocation of a stream that captures is a node.
  const bool capturing = in_stream_order ? captures_open() : captures_refuse_memory_calls();
  // The decider is asked even if nothing is pooled: rules also say what is staged.
  Decision decision{.pool = false};
  if (valid_device(request.device) && decide_ != nullptr) decision = decide_(request);
  decision.pool = decision.pool && kept_.keeping().on() && request.flags == hipDeviceMallocDefault &&
                  request.bytes < large_bytes_ && !(in_stream_order && capturing);
  const BlockKey key{.bytes = request.bytes,
                     .device = request.device,
                     .flags = request.flags,
                     .rule = decision.rule,
                     .call_site = decision.by_call_site ? decision.call_site : 0,
                     .function = request.function,
                     .backing = decision.backing};
  const bool served = capturing ? serve_captures_ && request.function == AllocationFunction::kMalloc : !in_stream_order;
  if (decision.pool && served) [[likely]] {
    if (const Block* const block = take_ready(key, decision)) {
      *ptr = block->pointer();
      if (kept_.clock().moment_passed()) [[unlikely]]
        room_.look_at_clock();
      return hipSuccess;
    }
  }
  const hipError_t error = allocate_other(request, ptr, decision, key, capturing);
  // After a call that failed nothing is done that could replace its error.
  if (error == hipSuccess && kept_.clock().moment_passed()) room_.look_at_clock();
  return error;
}

/// Serves a request for which no kept block is ready. `capturing`: a capture forbids the call; for hipMallocAsync: some
/// capture is open.
[[gnu::noinline]] hipError_t BlockPool::allocate_other(const AllocationRequest& request, void** ptr,
                                                       const Decision& decision, BlockKey key, bool capturing) {
  if (decision.pool && !capturing) {
    if (const Block* const block = allocate_pooled(request, decision, key)) {
      *ptr = block->pointer();
      return hipSuccess;
    }
  }
  const bool wants_part = decision.pool && !capturing && key.backing == BlockBacking::kVmm;
  const hipError_t pending = wants_part ? pending_error() : hipSuccess, owed = t_owed_error;
  const hipError_t error = room_.retry_after_trim(
      request.device, [&] { return decision.pool ? call_fresh(request, ptr) : call_native(request, ptr); });
  if (error == hipErrorOutOfMemory && wants_part) {
    if (const Block* const block = allocate_over_kept(key, decision)) {
      t_owed_error = owed;
      clear_error(pending);
      *ptr = block->pointer();
      return hipSuccess;
    }
  }
  if (error != hipSuccess) return error;
  key.backing = BlockBacking::kClassic;
  if (decision.pool) {
    blocks_.note_fresh(*ptr, key, decision);
    return error;
  }
  const bool in_stream_order = request.function == AllocationFunction::kMallocAsync;
  // Memory of a captured allocation belongs to the graph: it comes and goes without a call that we see.
  if (!capturing || !in_stream_order)
    blocks_.note_native(*ptr, key, in_stream_order ? MemoryKind::kStreamOrdered : MemoryKind::kDevice, decision);
  return error;
}

/// Serves the request from kept memory, or from a chunk. Null: that cannot be done.
Block* BlockPool::allocate_pooled(const AllocationRequest& request, const Decision& decision, BlockKey key) {
  const hipStream_t* const stream = request.function == AllocationFunction::kMallocAsync ? &request.stream : nullptr;
  Block* block = take_kept(key, decision, stream);
  if (block != nullptr || key.backing == BlockBacking::kClassic) return block;
  block = allocate_part(key, decision);
  if (block != nullptr) return block;
  key.backing = BlockBacking::kClassic;
  return take_kept(key, decision, stream);
}

/// Hands out a kept block of the key. Null: none can be handed out now. With a stream: also a pending one freed in its
/// order.
Block* BlockPool::take_kept(const BlockKey& key, const Decision& decision, const hipStream_t* stream) {
  for (bool collected = false;; collected = true) {
    Block* block = nullptr;
    NamedBlock parked{};
    bool pending = false;
    {
      const LockGuard guard(g_blocks_lock);
      FreeList* const list = kept_.lists().find(key);
      if (list == nullptr) return nullptr;
      block = take_locked(*list, stream);
      if (block == nullptr) {
        pending = !list->pending.empty();
      } else if (block->chunk != nullptr && block->chunk->state == ChunkState::kParked) {
        block->chunk->become(ChunkState::kLoading);
        block->become(BlockState::kLeaving);
        parked = Blocks::named(block);
      } else {
        blocks_.hand_out(block, decision);
        ++blocks_.counters().reused;
      }
    }
    kept_.dropped_fences().empty(work_.fences);
    if (parked.block != nullptr) return load_chunk(parked, decision) ? block : nullptr;
    if (block != nullptr || !pending || collected || !pending_.collect(key)) return block;
  }
}

/// Takes out of the list the block with the lowest address that the device is done with, or that was freed in the order
/// of the stream. Null: there is none, or its chunk is being parked or loaded.
Block* BlockPool::take_locked(FreeList& list, const hipStream_t* stream) noexcept {
  Block* best = list.kept.empty() ? nullptr : list.kept.lowest();
  if (seeded_defect(Seeded::kPendingServesCaptured) && best == nullptr && !list.pending.empty() && captures_open())
    best = list.pending.front();
  if (stream != nullptr) {
    for (Block* block : list.pending)
      if (block->fence != nullptr && (best == nullptr || later(best, block)) &&
          work_.fences.same_stream(block->fence, block->device, *stream))
        best = block;
  }
  if (best == nullptr) return nullptr;
  if (PooledChunk* const chunk = best->chunk) {
    if (chunk->state == ChunkState::kParking || chunk->state == ChunkState::kLoading) return nullptr;
    chunk->part_taken(best->page_bytes());
  }
  kept_.remove(best);
  return best;
}

/// Gives a parked chunk, which is kLoading, its physical memory, and hands out the block, which is out of its list.
/// Returns false if that failed: then the block is kept again.
bool BlockPool::load_chunk(const NamedBlock& named, const Decision& decision) {
  PooledChunk& chunk = *named.chunk;
  const auto load = [&] { return ChunkStore::load(chunk); };
  const bool loaded = room_.retry_bit_by_bit(chunk.device(), chunk.bytes(), load) == hipSuccess;
  const LockGuard guard(g_blocks_lock);
  chunks_.loaded(chunk, loaded);
  if (!loaded) {
    kept_.put_back(named.block);
    return false;
  }
  kept_.enter_order(chunk);
  blocks_.hand_out(named.block, decision);
  ++blocks_.counters().reused;
  return true;
}

Block* BlockPool::allocate_part(const BlockKey& key, const Decision& decision) {
  const std::size_t bytes = round_up(key.bytes, kPageBytes);
  {
    const LockGuard guard(g_blocks_lock);
    const ChunkStore::Place place = chunks_.take_place(key.device, bytes);
    if (place.chunk != nullptr) return enter_part(place, key, decision);
  }
  const ChunkStore::Place place = chunks_.make_place(key.device, bytes);
  if (place.chunk == nullptr) return nullptr;
  const LockGuard guard(g_blocks_lock);
  return enter_part(place, key, decision);
}

/// Makes a part in the place of kept ones, because the runtime has no memory left: to the program kept memory is free.
Block* BlockPool::allocate_over_kept(const BlockKey& key, const Decision& decision) {
  while (room_.forget_oldest_part(key.device)) {
    const LockGuard guard(g_blocks_lock);
    const ChunkStore::Place place = chunks_.take_place(key.device, round_up(key.bytes, kPageBytes));
    if (place.chunk != nullptr) return enter_part(place, key, decision);
  }
  return nullptr;
}

/// Makes the part a block. Gives its place back if the table cannot take it.
Block* BlockPool::enter_part(ChunkStore::Place place, const BlockKey& key, const Decision& decision) {
  Block* block = nullptr;
  try {
    block = blocks_.enter(reinterpret_cast<void*>(place.address), key, WhenFreed::kToItsList, MemoryKind::kDevice,
                          decision);
  } catch (const std::bad_alloc&) {
  }
  if (block == nullptr) {
    chunks_.give_place(place, round_up(key.bytes, kPageBytes), true);
    return nullptr;
  }
  block->chunk = place.chunk;
  ++blocks_.counters().fresh;
  return block;
}

}  // namespace graphpool
