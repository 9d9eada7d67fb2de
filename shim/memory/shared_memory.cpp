#include "shim/memory/shared_memory.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/memory/device_memory.h"

namespace graphpool {
namespace {

std::uint64_t number(const void* address) noexcept { return reinterpret_cast<std::uint64_t>(address); }

/// Adds the allocation of the runtime's that an address lies in. If the runtime knows none, it adds so many bytes from
/// the address on. Returns the end of what it has added.
std::uint64_t add_whole(const void* address, std::size_t unknown_bytes) noexcept {
  hipDeviceptr_t base = nullptr;
  std::size_t bytes = 0;
  const auto asked = const_cast<void*>(address);
  const bool known =
      PrivateCalls::answered([&] { return next().hipMemGetAddressRange(&base, &bytes, asked); }) && bytes != 0;
  if (!known) base = asked, bytes = unknown_bytes;
  shared_memory().add(base, bytes);
  return number(base) + bytes;
}

}  // namespace

SharedMemory& shared_memory() noexcept {
  static SharedMemory* const instance = new SharedMemory;
  return *instance;
}

/// Calls body() with the lock held: it returns whether something may have become shared.
template <typename Change>
void SharedMemory::change(Change&& body) noexcept {
  const LockGuard guard(lock_);
  ranges_held_.store(true, std::memory_order_release);
  bool shared = true;
  try {
    shared = body();
  } catch (const std::bad_alloc&) {
    all_ = true;
  }
  if (!shared) return;
  any_.store(true, std::memory_order_release);
  note();
}

std::map<std::uint64_t, SharedMemory::Range>::iterator SharedMemory::range_of(std::uint64_t address) {
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return ranges_.end();
  return address < (--after)->second.end ? after : ranges_.end();
}

void SharedMemory::add(const void* base, std::size_t bytes) noexcept {
  change([&] {
    assume_held(lock_);
    Range& range = ranges_[number(base)];
    range = {std::max(range.end, number(base) + bytes), kNone, true};
    return true;
  });
}

void SharedMemory::remove(const void* address) noexcept {
  if (!any_.load(std::memory_order_acquire)) return;
  const LockGuard guard(lock_);
  const auto found = range_of(number(address));
  if (found != ranges_.end() && found->second.handle == kNone) ranges_.erase(found);
}

void SharedMemory::made(Handle handle) noexcept {
  if (!any_.load(std::memory_order_acquire)) return;
  const LockGuard guard(lock_);
  if (handles_.erase(handle) == 0) return;
  // Mappings of the older handle with this value stay shared.
  for (auto& [base, range] : ranges_)
    if (range.handle == handle && range.shared) range.handle = kNone;
}

void SharedMemory::share(Handle handle) noexcept {
  change([&] {
    assume_held(lock_);
    handles_.insert(handle);
    for (auto& [base, range] : ranges_) range.shared = range.shared || range.handle == handle;
    return true;
  });
}

void SharedMemory::also(Handle handle, const void* mapped) noexcept {
  change([&] {
    assume_held(lock_);
    const auto found = range_of(number(mapped));
    if (found == ranges_.end() || found->second.handle == handle) return false;
    if (found->second.shared) handles_.insert(handle);
    found->second.handle = handle;
    return found->second.shared;
  });
}

void SharedMemory::map(const void* base, std::size_t bytes, Handle handle) noexcept {
  change([&] {
    assume_held(lock_);
    const bool shared = handles_.contains(handle);
    ranges_[number(base)] = {number(base) + bytes, handle, shared};
    return shared;
  });
}

void SharedMemory::unmap(const void* base, std::size_t bytes) noexcept {
  const LockGuard guard(lock_);
  auto range = ranges_.lower_bound(number(base));
  while (range != ranges_.end() && range->first < number(base) + bytes) range = ranges_.erase(range);
}

bool SharedMemory::holds(std::uint64_t address) noexcept {
  if (!any_.load(std::memory_order_acquire)) return false;
  const LockGuard guard(lock_);
  const auto found = range_of(address);
  return all_ || (found != ranges_.end() && found->second.shared);
}

bool SharedMemory::knows(std::uint64_t address) noexcept {
  if (!ranges_held_.load(std::memory_order_acquire)) return false;
  const LockGuard guard(lock_);
  return all_ || range_of(address) != ranges_.end();
}

void memory_exported(const void* address, std::size_t bytes) noexcept {
  if (blocks().mark_shared(address, bytes)) return shared_memory().note();
  const std::uint64_t end = number(address) + std::max<std::size_t>(bytes, 1);
  // The runtime knows each mapping by itself.
  std::uint64_t at = number(address), before = at;
  do {
    before = std::exchange(at, add_whole(reinterpret_cast<const void*>(at), end - at));
  } while (before < at && at < end);
}

void memory_opened(const void* address) noexcept { static_cast<void>(add_whole(address, 1)); }

bool is_shared(std::uint64_t address) noexcept {
  if (address == 0) return false;
  const Block* const block = block_table().find(reinterpret_cast<const void*>(address));
  if (block != nullptr && block->shared.load(std::memory_order_acquire)) return true;
  return shared_memory().holds(address);
}

}  // namespace graphpool
