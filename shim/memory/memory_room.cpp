#include "shim/memory/memory_room.h"

#include <bit>
#include <utility>

#include "shim/base/seeded_defect.h"
#include "shim/base/trace.h"
#include "shim/memory/freed_memory.h"
#include "shim/memory/never_address.h"
#include "shim/memory/slot_set.h"
#include "shim/streams/open_captures.h"

namespace graphpool {
namespace {

void trace_given_back(int device, std::size_t bytes, const char* reason) noexcept {
  const std::uint64_t now = trace_begins();
  if (now != 0) trace({TraceKind::kGivenBack, 0, now, now, reason, static_cast<std::uint64_t>(device), bytes});
}

}  // namespace

void MemoryRoom::configure(const PoolSettings& settings) noexcept {
  limit_bytes_ = settings.limit_bytes;
  limit_percent_ = settings.limit_percent;
  leaving_ = settings.leaving;
  for (std::atomic<std::size_t>& limit : limits_) limit.store(kUnknown, std::memory_order_relaxed);
}

std::size_t MemoryRoom::find_limit(int device) noexcept {
  std::size_t limit = limit_bytes_;
  if (limit == 0) {
    std::size_t total = 0;
    if (!PrivateCalls::worked([&] { return next().hipDeviceTotalMem(&total, device); })) return 0;
    limit = total / 100 * limit_percent_;
  }
  limits_[static_cast<std::size_t>(device)].store(limit, std::memory_order_relaxed);
  return limit;
}

void MemoryRoom::keep_to_limit(int device) noexcept {
  const std::size_t most = limit(device);
  for (;;) {
    {
      const LockGuard guard(g_blocks_lock);
      if (kept_.order().kept_bytes(device) <= most) return;
      ++blocks_.counters().evicted;
    }
    if (give_back_oldest(device, Cause::kLimit) == 0) return;
  }
}

void MemoryRoom::end_excess() noexcept {
  if (captures_open()) return;
  for (std::uint64_t left = excess_.load(std::memory_order_relaxed); left != 0; left &= left - 1) {
    const int device = std::countr_zero(left);
    if (!work_.counts.is_idle(device)) continue;
    excess_.fetch_and(~(std::uint64_t{1} << device), std::memory_order_relaxed);
    (void)pending_.collect(device);
    keep_to_limit(device);
    give_back_idle(device);
  }
}

[[gnu::cold, gnu::noinline]] void MemoryRoom::look_at_clock() noexcept {
  const IdleClock& clock = kept_.clock();
  if (!kept_.clock().look()) return;
  std::uint64_t idle = 0;
  {
    const LockGuard guard(g_blocks_lock);
    for (int device = 0; device < kMaxDevices; ++device) {
      const Block* const oldest = kept_.order().oldest(device);
      if (oldest != nullptr && clock.is_old(oldest->freed_ms)) idle |= std::uint64_t{1} << device;
    }
  }
  if (idle != 0) excess_.fetch_or(idle, std::memory_order_relaxed);
  if (excess_.load(std::memory_order_relaxed) != 0) end_excess();
}

void MemoryRoom::give_back_idle(int device) noexcept {
  if (!kept_.clock().limits()) return;
  while (!captures_open() && give_back_oldest(device, Cause::kIdle) != 0) {
    const LockGuard guard(g_blocks_lock);
    ++blocks_.counters().idle;
  }
}

/// The block that was freed first of those that may go now. For idleness, or for room, a chunk goes once nothing of it
/// is in use: before that no memory would be had.
Block* MemoryRoom::next_to_go(int device, Cause cause) const noexcept {
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

/// Takes the block out of all lists, with all its chunk where nothing of that is in use.
MemoryRoom::Going MemoryRoom::take_out(Block* block) noexcept {
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

void MemoryRoom::give(Going going) noexcept {
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

/// Gives the block back that was freed first. Returns by how much kept memory shrank; 0: there is none to give.
std::size_t MemoryRoom::give_back_oldest(int device, Cause cause) noexcept {
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

bool MemoryRoom::trim(int device, std::size_t bytes) noexcept {
  if (!valid_device(device)) return false;
  std::size_t given = 0;
  while (given < bytes) {
    const std::size_t more = give_back_oldest(device, Cause::kRoom);
    if (more == 0) break;
    given += more;
  }
  return given > 0;
}

bool MemoryRoom::release_all(int device) noexcept {
  bool any = false;
  while (valid_device(device) && give_back_oldest(device, Cause::kLimit) > 0) any = true;
  return any;
}

void MemoryRoom::release_all() noexcept {
  for (int device = 0; device < kMaxDevices; ++device) (void)release_all(device);
}

bool MemoryRoom::give_back(int device) noexcept {
  bool any = reclaim(device);
  any = free_retired_slots(device) || any;
  const int first = device < 0 ? 0 : device, last = device < 0 ? kMaxDevices - 1 : device;
  for (int each = first; each <= last; ++each) {
    any = free_too_small_memory(each) || any;
    pending_.settle(each);
    while (give_back_oldest(each, Cause::kRoom) > 0) {
      any = true;
      const LockGuard guard(g_blocks_lock);
      ++blocks_.counters().trimmed;
    }
    // Parts of chunks in use are still kept. To the program they are free, so its call is made once more all the same.
    const LockGuard guard(g_blocks_lock);
    any = any || kept_.order().oldest(each) != nullptr;
  }
  return any;
}

bool MemoryRoom::give_back_some(int device) noexcept {
  if (free_retired_slots(device)) return true;
  if (give_back_oldest(device, Cause::kRoom) == 0) return reclaim(device);
  const LockGuard guard(g_blocks_lock);
  ++blocks_.counters().trimmed;
  return true;
}

hipError_t MemoryRoom::retry_bit_by_bit(int device, std::size_t bytes, FunctionRef<hipError_t()> call) noexcept {
  hipError_t error = call();
  if (error != hipErrorOutOfMemory) return error;
  std::size_t free = 0, total = 0;
  {
    const PrivateCalls private_calls;
    const SavedDevice current(device);
    if (!current.ok() || !PrivateCalls::answered([&] { return next().hipMemGetInfo(&free, &total); })) return error;
  }
  if (free + hidden_free_bytes(device) < bytes) return error;
  pending_.settle(device);
  while (error == hipErrorOutOfMemory && give_back_some(device)) error = call();
  return error;
}

bool MemoryRoom::forget_oldest_part(int device) noexcept {
  {
    const LockGuard guard(g_blocks_lock);
    Block* part = kept_.order().oldest(device);
    while (part != nullptr && (part->chunk == nullptr || part->state.load() != BlockState::kKept)) part = part->newer;
    if (part == nullptr) return false;
    blocks_.forget(part);
    ++blocks_.counters().trimmed;
  }
  kept_.dropped_fences().empty(work_.fences);
  return true;
}

[[gnu::cold]] void MemoryRoom::make_room() noexcept {
  clear_error(hipSuccess);
  static_cast<void>(give_back(calling_device()));
}

std::size_t MemoryRoom::hidden_free_bytes(int device) noexcept {
  if (!valid_device(device) || seeded_defect(Seeded::kKeptNotCounted)) return 0;
  const std::size_t bytes = retired_slot_bytes(device) + too_small_bytes(device);
  const LockGuard guard(g_blocks_lock);
  return bytes + kept_.order().classic_bytes(device) + chunks_.unused_bytes(device);
}

void MemoryRoom::tell_leaving(const void* address, std::size_t bytes) const noexcept {
  note_memory_freed();
  if (leaving_ != nullptr) leaving_(address, bytes);
}

}  // namespace graphpool
