#include "shim/streams/fresh_streams.h"

#include <algorithm>

namespace graphpool {

constinit FreshStreams g_fresh_streams;

FreshStreams::Entry* FreshStreams::find(hipStream_t stream) noexcept {
  Entry* const end = entries_.data() + count_.load(std::memory_order_relaxed);
  Entry* const found = std::find_if(entries_.data(), end, [=](const Entry& each) { return each.stream == stream; });
  return found == end ? nullptr : found;
}

void FreshStreams::take_out(Entry& entry) noexcept {
  if (entry.awaited != nullptr) g_joins_put_off.fetch_sub(1, std::memory_order_relaxed);
  g_private_handles.remove(entry.stream);
  const std::size_t last = count_.load(std::memory_order_relaxed) - 1;
  entry = entries_[last];
  count_.store(last, std::memory_order_relaxed);
}

void FreshStreams::add(hipStream_t stream, const StreamKind& kind) noexcept {
  const LockGuard guard(lock_);
  if (Entry* const stale = find(stream)) take_out(*stale);
  if (count_.load(std::memory_order_relaxed) == kMost) {
    const auto unused =
        std::find_if(entries_.begin(), entries_.end(), [](const Entry& each) { return each.awaited == nullptr; });
    if (unused == entries_.end()) return;
    take_out(*unused);
  }
  const std::size_t count = count_.load(std::memory_order_relaxed);
  entries_[count] = {stream, kind, nullptr};
  count_.store(count + 1, std::memory_order_relaxed);
  g_private_handles.add(stream);
}

bool FreshStreams::has(hipStream_t stream) noexcept {
  if (!any()) return false;
  const LockGuard guard(lock_);
  return find(stream) != nullptr;
}

bool FreshStreams::put_off_join(hipStream_t stream, hipEvent_t event) noexcept {
  if (!any()) return false;
  const LockGuard guard(lock_);
  Entry* const entry = find(stream);
  if (entry == nullptr || entry->awaited != nullptr) return false;
  entry->awaited = event;
  g_joins_put_off.fetch_add(1, std::memory_order_relaxed);
  return true;
}

bool FreshStreams::awaits(hipEvent_t event) noexcept {
  if (!joins_put_off() || event == nullptr) return false;
  const LockGuard guard(lock_);
  return std::any_of(entries_.begin(),
                     entries_.begin() + static_cast<std::ptrdiff_t>(count_.load(std::memory_order_relaxed)),
                     [=](const Entry& each) { return each.awaited == event; });
}

void FreshStreams::left_capture(hipStream_t stream) noexcept {
  const LockGuard guard(lock_);
  Entry* const entry = find(stream);
  if (entry == nullptr || entry->awaited == nullptr) return;
  entry->awaited = nullptr;
  g_joins_put_off.fetch_sub(1, std::memory_order_relaxed);
}

void FreshStreams::waits(hipStream_t stream) noexcept {
  const LockGuard guard(lock_);
  Entry* const entry = find(stream);
  if (entry != nullptr && entry->awaited == nullptr) take_out(*entry);
}

bool FreshStreams::take(hipStream_t stream, StreamKind* kind) noexcept {
  if (!any()) return false;
  const LockGuard guard(lock_);
  Entry* const entry = find(stream);
  if (entry == nullptr || entry->awaited != nullptr) return false;
  *kind = entry->kind;
  take_out(*entry);
  return true;
}

void FreshStreams::remove(hipStream_t stream) noexcept {
  if (!any()) return;
  const LockGuard guard(lock_);
  if (Entry* const entry = find(stream)) take_out(*entry);
}

void FreshStreams::remove_all() noexcept {
  const LockGuard guard(lock_);
  for (std::size_t i = count_.load(std::memory_order_relaxed); i-- != 0;)
    if (entries_[i].awaited == nullptr) take_out(entries_[i]);
}

}  // namespace graphpool
