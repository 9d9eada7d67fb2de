#include "shim/streams/kept_streams.h"

#include <algorithm>

#include "shim/base/seeded_defect.h"
#include "shim/hip/next.h"
#include "shim/hip/restore.h"

namespace graphpool {

constinit KeptStreams g_kept_streams;

bool KeptStreams::keep(hipStream_t stream, const StreamKind& kind) noexcept {
  const LockGuard guard(lock_);
  const std::size_t count = count_.load(std::memory_order_relaxed);
  const auto same = std::count_if(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(count),
                                  [&](const Entry& each) { return each.kind == kind; });
  if (count == kMost || static_cast<std::size_t>(same) >= kMostOfKind) return false;
  entries_[count] = {stream, kind};
  count_.store(count + 1, std::memory_order_relaxed);
  if (!seeded_defect(Seeded::kKeptStreamLives)) g_private_handles.add(stream);
  return true;
}

template <typename Which>
hipStream_t KeptStreams::take_out(const Which& which) noexcept {
  if (!any()) return nullptr;
  const LockGuard guard(lock_);
  for (std::size_t last = count_.load(std::memory_order_relaxed), i = last; i-- != 0;) {
    if (!which(entries_[i])) continue;
    const hipStream_t stream = entries_[i].stream;
    entries_[i] = entries_[last - 1];
    count_.store(last - 1, std::memory_order_relaxed);
    return no_longer_private(stream);
  }
  return nullptr;
}

hipStream_t KeptStreams::take(const StreamKind& kind) noexcept {
  return take_out([&](const Entry& each) { return each.kind == kind; });
}

bool KeptStreams::end(hipStream_t stream) noexcept {
  if (take_out([=](const Entry& each) { return each.stream == stream; }) == nullptr) return false;
  destroy(stream);
  return true;
}

bool KeptStreams::give_back(int device) noexcept {
  bool any = false;
  const auto goes = [device](const Entry& each) { return device < 0 || each.kind.device == device; };
  while (const hipStream_t stream = take_out(goes)) {
    destroy(stream);
    any = true;
  }
  return any;
}

void KeptStreams::destroy(hipStream_t stream) noexcept {
  const PrivateCalls private_calls;
  static_cast<void>(PrivateCalls::gave_back([&] { return next().hipStreamDestroy(stream); }));
}

}  // namespace graphpool
