#include "shim/memory/memory_room.h"

#include <bit>

#include "shim/base/seeded_defect.h"
#include "shim/memory/never_address.h"
#include "shim/memory/slot_set.h"
#include "shim/streams/open_captures.h"

namespace graphpool {

void MemoryRoom::keep_to_limit(int device) noexcept {
  const std::size_t most = kept_.keeping().switched_on() ? kept_.limits().limit(device) : 0;
  for (;;) {
    {
      const LockGuard guard(g_blocks_lock);
      if (kept_.order().kept_bytes(device) <= most) return;
    }
    // Not while a capture is open: runtimes unmap by commands on the null stream.
    if (captures_open()) return keep_to_limit_later(device);
    if (returns_.give_back_oldest(device, Cause::kLimit) == 0) return;
    const LockGuard guard(g_blocks_lock);
    ++blocks_.counters().evicted;
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
  while (!captures_open() && returns_.give_back_oldest(device, Cause::kIdle) != 0) {
    const LockGuard guard(g_blocks_lock);
    ++blocks_.counters().idle;
  }
}

bool MemoryRoom::trim(int device, std::size_t bytes) noexcept {
  if (!valid_device(device)) return false;
  std::size_t given = 0;
  while (given < bytes) {
    const std::size_t more = returns_.give_back_oldest(device, Cause::kRoom);
    if (more == 0) break;
    given += more;
  }
  return given > 0;
}

bool MemoryRoom::release_all(int device) noexcept {
  bool any = false;
  while (valid_device(device) && returns_.give_back_oldest(device, Cause::kLimit) > 0) any = true;
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
    while (returns_.give_back_oldest(each, Cause::kRoom) > 0) {
      any = true;
      const LockGuard guard(g_blocks_lock);
      ++blocks_.counters().trimmed;
    }
    // Kept parts of chunks in use are still there. To the program they are free, so its call is made once more.
    const LockGuard guard(g_blocks_lock);
    any = any || kept_.order().oldest(each) != nullptr;
  }
  return any;
}

bool MemoryRoom::give_back_some(int device) noexcept {
  if (free_retired_slots(device)) return true;
  if (returns_.give_back_oldest(device, Cause::kRoom) == 0) return reclaim(device);
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

}  // namespace graphpool
