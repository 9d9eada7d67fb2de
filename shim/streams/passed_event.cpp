#include "shim/streams/passed_event.h"

#include <atomic>
#include <utility>
#include <vector>

#include "shim/base/lock_rank.h"
#include "shim/hip/next.h"
#include "shim/hip/private_objects.h"
#include "shim/hip/restore.h"

namespace graphpool {
namespace {

/// Streams of ours, each with one event, which serves one launch after another. Never destroyed.
class OwnStreams {
 public:
  struct Entry {
    int device = 0;
    hipStream_t stream = nullptr;
    hipEvent_t event = nullptr;
    bool taken = true;
    std::atomic<bool> lost{false};  ///< gone with a reset of the device
  };

  /// Takes an idle entry, or makes one. Pre-condition: the device is current. Null on failure.
  std::shared_ptr<Entry> take(int device) {
    const LockGuard guard(lock_);
    for (const auto& entry : entries_) {
      if (entry->taken || entry->device != device || next().hipEventQuery(entry->event) != hipSuccess) continue;
      entry->taken = true;
      return entry;
    }
    const auto made = std::make_shared<Entry>();
    entries_.reserve(entries_.size() + 1);  // so that no stream is lost below
    made->device = device;
    if (!PrivateCalls::worked([&] { return make_private_waiter(&made->stream); })) return nullptr;
    if (PrivateCalls::worked([&] { return make_private(&made->event); })) {
      entries_.push_back(made);
      return made;
    }
    static_cast<void>(PrivateCalls::gave_back([&] { return destroy_private(made->stream); }));
    return nullptr;
  }

  void give_back(Entry& entry) noexcept {
    const LockGuard guard(lock_);
    entry.taken = false;
  }

  void device_reset(int device) noexcept {
    const LockGuard guard(lock_);
    for (const auto& entry : entries_)
      if (entry->device == device) entry->lost = true;
    std::erase_if(entries_, [](const auto& entry) { return entry->lost.load(); });
  }

 private:
  RankedMutex<LockRank::kStreams> lock_;
  std::vector<std::shared_ptr<Entry>> entries_ GUARDED_BY(lock_);
};

OwnStreams& own_streams() {
  static OwnStreams* const instance = new OwnStreams;
  return *instance;
}

/// A PassedEvent that has taken an entry and gives it back at its end.
class Passed : public PassedEvent {
 public:
  Passed() = default;
  Passed(const Passed&) = delete;
  Passed& operator=(const Passed&) = delete;
  ~Passed() override {
    if (own != nullptr) own_streams().give_back(*own);
  }
  hipEvent_t get() const noexcept override { return own->lost.load() ? nullptr : own->event; }

  std::shared_ptr<OwnStreams::Entry> own;
};

}  // namespace

std::shared_ptr<PassedEvent> PassedEvent::make(hipEvent_t event, int device) {
  const PrivateCalls private_calls;
  const SavedDevice current(device);
  const auto made = std::make_shared<Passed>();
  made->own = current.ok() ? own_streams().take(device) : nullptr;
  const auto& own = made->own;
  if (own == nullptr) return nullptr;
  const bool passed = PrivateCalls::worked([&] { return next().hipStreamWaitEvent(own->stream, event, 0); }) &&
                      PrivateCalls::worked([&] { return next().hipEventRecord(own->event, own->stream); });
  return passed ? made : nullptr;
}

bool PassedEvent::complete() const noexcept {
  const hipEvent_t event = get();
  if (event == nullptr) return true;
  const PrivateCalls private_calls;
  return next().hipEventQuery(event) == hipSuccess;
}

void passed_events_device_reset(int device) noexcept { own_streams().device_reset(device); }

}  // namespace graphpool
