#include "shim/memory/memory_return.h"

#include <utility>

#include "shim/base/trace.h"
#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/memory/freed_memory.h"

namespace graphpool {
namespace {

void trace_given_back(int device, std::size_t bytes, const char* reason) noexcept {
  const std::uint64_t now = trace_begins();
  if (now != 0) trace({TraceKind::kGivenBack, 0, now, now, reason, static_cast<std::uint64_t>(device), bytes});
}

}  // namespace

/// The block that was freed first of those that may go now. If memory is idle, or room is needed, a chunk goes only
/// once no part of it is in use: before that no memory would come free.
Block* MemoryReturn::next_to_go(int device, Cause cause) const noexcept {
  const bool only_idle = cause == Cause::kIdle;
  const IdleClock& clock = kept_.clock();
  for (Block* block = kept_.order().oldest(device); block != nullptr; block = block->newer) {
    if (only_idle && !clock.is_old(block->freed_ms)) break;
    const PooledChunk* const chunk = block->chunk;
    if (chunk == nullptr) return block;
    if (block->state.load() == BlockState::kPending || chunk->state != ChunkState::kResident) continue;
    if (cause != Cause::kLimit && chunk->busy_parts > 0) continue;
    if (!only_idle || clock.is_old(chunk->freed_ms)) return block;
  }
  return nullptr;
}

/// Takes the block out of the order of frees, with its whole chunk if no part of that is in use. If the chunk's
/// addresses stay, its parts stay in their lists; else what goes is forgotten.
MemoryReturn::Going MemoryReturn::take_out(Block* block) noexcept {
  Going going{.bytes = block->bytes()};
  PooledChunk* const chunk = block->chunk;
  if (chunk == nullptr) {
    going.classic = block->pointer();
    blocks_.forget(block);
  } else if (chunk->busy_parts > 0) {
    blocks_.forget(block);
  } else if (chunks_.begin_parking(*chunk)) {
    going.parked = chunk;
    kept_.leave_order(*chunk);
  } else {
    going.chunk = chunks_.take_out(*chunk);
    while (Block* const part = kept_.any_part(*chunk)) blocks_.forget(part);
  }
  return going;
}

void MemoryReturn::give(Going going) noexcept {
  if (going.classic != nullptr) {
    tell_leaving(going.classic, going.bytes);
    const PrivateCalls private_calls;
    (void)PrivateCalls::gave_back([&] { return next().hipFree(going.classic); });
    return;
  }
  const PooledChunk* const chunk = going.parked != nullptr ? going.parked : going.chunk.get();
  if (chunk != nullptr) tell_leaving(reinterpret_cast<const void*>(chunk->base()), chunk->bytes());
  if (going.parked != nullptr) chunks_.park(*going.parked);
}

std::size_t MemoryReturn::give_back_oldest(int device, Cause cause) noexcept {
  Going going;
  std::size_t bytes = 0;
  {
    const LockGuard guard(g_blocks_lock);
    Block* const block = next_to_go(device, cause);
    if (block == nullptr) return 0;
    const std::size_t before = kept_.order().kept_bytes(device);
    going = take_out(block);
    bytes = before - kept_.order().kept_bytes(device);
  }
  kept_.dropped_fences().empty(work_.fences);
  give(std::move(going));
  trace_given_back(device, bytes,
                   cause == Cause::kIdle ? "nobody used it for pool.idle" : "over a limit, or room was needed");
  return bytes;
}

void MemoryReturn::tell_leaving(const void* address, std::size_t bytes) const noexcept {
  note_memory_freed();
  if (leaving_ == nullptr) return;
  leaving_(address, bytes);
  note_memory_freed();  // execs were made of graphs that name it
}

}  // namespace graphpool
