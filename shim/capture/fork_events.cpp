#include "shim/capture/fork_events.h"

#include "shim/hip/next.h"
#include "shim/hip/private_objects.h"
#include "shim/hip/restore.h"

namespace graphpool {
namespace {

hipEvent_t make_event(int device) {
  const SavedDevice current(device);
  hipEvent_t event = nullptr;
  return PrivateCalls::answered([&] { return make_private(&event); }) ? event : nullptr;
}

void destroy(hipEvent_t event) noexcept {
  static_cast<void>(PrivateCalls::gave_back([&] { return destroy_private(event); }));
}

}  // namespace

bool ForkEvents::record(StreamKey key, hipStream_t stream, int device) {
  hipEvent_t event = find(key);
  if (event == nullptr) {
    {
      const LockGuard guard(lock_);
      events_.try_emplace(key, nullptr);  // before there is an event to lose
    }
    if ((event = make_event(device)) == nullptr) return false;
    const LockGuard guard(lock_);
    events_[key] = event;  // the caller holds the capture's lock, so no other thread has made one
  }
  return PrivateCalls::answered([&] { return next().hipEventRecord(event, stream); });
}

hipEvent_t ForkEvents::find(StreamKey key) noexcept {
  const LockGuard guard(lock_);
  const auto found = events_.find(key);
  return found == events_.end() ? nullptr : found->second;
}

void ForkEvents::streams_destroyed(StreamKey first, StreamKey count) noexcept {
  for (StreamKey key = first; key != first + count; ++key) {
    hipEvent_t gone = nullptr;
    {
      const LockGuard guard(lock_);
      if (const auto event = events_.extract(key)) gone = event.mapped();
    }
    if (gone != nullptr) destroy(gone);
  }
}

void ForkEvents::device_reset() noexcept {
  std::unordered_map<StreamKey, hipEvent_t> gone;
  {
    const LockGuard guard(lock_);
    gone.swap(events_);
  }
  for (const auto& [key, event] : gone)
    if (event != nullptr) destroy(event);
}

ForkEvents& fork_events() {
  static ForkEvents* const instance = new ForkEvents;
  return *instance;
}

}  // namespace graphpool
