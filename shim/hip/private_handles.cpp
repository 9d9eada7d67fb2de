#include "shim/hip/private_handles.h"

#include <new>

#include "shim/hip/hip_version.h"
#include "shim/hip/next.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"

namespace graphpool {

constinit PrivateHandles g_private_handles;

bool PrivateHandles::is_entered(const void* handle) const noexcept {
  const Table* const table = table_.load(std::memory_order_acquire);
  return table != nullptr && table->has(reinterpret_cast<std::uintptr_t>(handle));
}

/// The former tables stay, for they may still be read; each is half as large as the next.
bool PrivateHandles::grow() noexcept {
  Table* const before = table_.load(std::memory_order_relaxed);
  const std::size_t size = before == nullptr ? kFewPlaces : 2 * (before->mask + 1);
  auto* const places = new (std::nothrow) std::atomic<std::uintptr_t>[size]();
  auto* const table = places == nullptr ? nullptr : new (std::nothrow) Table(size, before);
  if (table == nullptr) {
    delete[] places;
    return false;
  }
  table->places = places;
  used_ = 0;
  for (std::size_t i = 0; before != nullptr && i <= before->mask; ++i) {
    const std::uintptr_t handle = before->places[i].load(std::memory_order_relaxed);
    if (handle == 0 || handle == kRemoved) continue;
    places[table->place_of(handle)].store(handle, std::memory_order_relaxed);
    ++used_;
  }
  table_.store(table, std::memory_order_release);
  return true;
}

void PrivateHandles::add(const void* handle) noexcept {
  const auto value = reinterpret_cast<std::uintptr_t>(handle);
  if (value == 0 || value == kRemoved) return;
  const LockGuard guard(lock_);
  const Table* table = table_.load(std::memory_order_relaxed);
  if (table == nullptr || 2 * (used_ + 1) > table->mask + 1) {
    if (!grow()) return;
    table = table_.load(std::memory_order_relaxed);
  }
  std::size_t place = table->place_of(value);
  if (table->places[place].load(std::memory_order_relaxed) != 0) return;
  if (const std::size_t removed = table->place_of(value, kRemoved); table->is_removed(removed))
    place = removed;
  else
    ++used_;
  table->places[place].store(value, std::memory_order_relaxed);
  filter_.add(hash_of(value));
}

void PrivateHandles::remove(const void* handle) noexcept {
  if (!has(handle)) return;
  const LockGuard guard(lock_);
  const Table* const table = table_.load(std::memory_order_relaxed);
  std::size_t place = table->place_of(reinterpret_cast<std::uintptr_t>(handle));
  if (table->places[place].load(std::memory_order_relaxed) == 0) return;
  filter_.remove(hash_of(reinterpret_cast<std::uintptr_t>(handle)));
  // No handle moves, for others search meanwhile. No search goes on behind marks that an empty place follows.
  table->places[place].store(kRemoved, std::memory_order_relaxed);
  if (table->places[(place + 1) & table->mask].load(std::memory_order_relaxed) != 0) return;
  for (; table->is_removed(place); place = (place - 1) & table->mask) {
    table->places[place].store(0, std::memory_order_relaxed);
    --used_;
  }
}

void PrivateHandles::forget_all() noexcept {
  const LockGuard guard(lock_);
  const Table* const table = table_.load(std::memory_order_relaxed);
  for (std::size_t i = 0; table != nullptr && i <= table->mask; ++i)
    table->places[i].store(0, std::memory_order_relaxed);
  filter_.clear();
  used_ = 0;
}

hipError_t refuse_private(PrivateKind kind, EntryId call) noexcept {
  static char nobodys;
  // A runtime that does not look a handle up must not be given this one. hipEventDestroy looks events up from 5.5 on;
  // streams are looked up before 7.0.
  constexpr int kLooksEventsUp = hip_version(5, 5), kTrustsStreams = hip_version(7, 0);
  unsigned flags = 0;
  switch (kind) {
    case PrivateKind::kStream:
      if (runtime_version() < kTrustsStreams)
        return next().hipStreamGetFlags(reinterpret_cast<hipStream_t>(&nobodys), &flags);
      return refuse_private(PrivateKind::kEvent, call);
    case PrivateKind::kEvent:
      return runtime_version() < kLooksEventsUp ? next().hipEventQuery(nullptr)
                                                : next().hipEventDestroy(reinterpret_cast<hipEvent_t>(&nobodys));
    case PrivateKind::kGraph:
      if (call == EntryId::hipGraphDestroy) return next().hipGraphDestroy(reinterpret_cast<hipGraph_t>(&nobodys));
      return refuse();
    case PrivateKind::kExec:
    case PrivateKind::kNone:
      break;
  }
  return refuse();
}

}  // namespace graphpool
