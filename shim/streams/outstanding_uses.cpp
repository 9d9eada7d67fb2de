#include "shim/streams/outstanding_uses.h"

#include <algorithm>
#include <array>

#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/streams/stream_work.h"

namespace graphpool {
namespace {

/// Whether work of the stream and of the null stream runs in the order of the calls.
bool is_blocking(hipStream_t stream) noexcept {
  if (is_null_stream(stream) || stream == hipStreamPerThread) return true;
  unsigned flags = hipStreamNonBlocking;
  return PrivateCalls::answered([&] { return next().hipStreamGetFlags(stream, &flags); }) &&
         (flags & hipStreamNonBlocking) == 0;
}

/// The device whose stream it is; a stream without a handle is one of the current device's.
int device_of_stream(hipStream_t stream) noexcept {
  const int device = work_counts().device_of_stream(stream);
  return device < 0 ? calling_device() : device;
}

void merge(std::unordered_map<StreamKey, std::uint64_t>& into,
           const std::unordered_map<StreamKey, std::uint64_t>& more) {
  for (const auto& [key, number] : more) into[key] = std::max(into[key], number);
}

}  // namespace

OutstandingUses& outstanding_uses() noexcept {
  static OutstandingUses* const instance = new OutstandingUses;
  return *instance;
}

/// Notes a stream that may be the second one ever. Until then nothing was noted of the first: it counts as work that
/// may write to any buffer. Returns whether several streams are used.
bool OutstandingUses::second(StreamKey key, hipStream_t stream) {
  const int device = device_of_stream(stream);
  const LockGuard guard(lock_);
  const StreamKey first = first_.load(std::memory_order_relaxed);
  if (first == 0) {
    first_stream_ = stream;
    first_device_ = device;
    first_used_.store(launch_clock() + 1, std::memory_order_relaxed);
    first_.store(key, std::memory_order_relaxed);
    return false;
  }
  if (first == key) {
    first_used_.store(launch_clock() + 1, std::memory_order_relaxed);
    return false;
  }
  if (!several_.load(std::memory_order_relaxed)) {
    const auto note_first = [&] {
      assume_held(lock_);
      add(nullptr, nullptr, first, first_stream_, first_device_, first_used_.load());
    };
    note_first();
    several_.store(true);
    note_first();  // again: the first stream may have been used meanwhile (several())
  }
  return true;
}

void OutstandingUses::forget_complete() {
  std::erase_if(uses_, [](const Use& use) { return launch_waited_for(*use.state, use.device, use.number); });
}

/// Makes the uses few, because there are too many: tells no buffers and rings apart any more, nor streams of one device
/// that are gone.
void OutstandingUses::coarsen() {
  for (Use& use : uses_) {
    use.base = nullptr;
    use.by = nullptr;
    if (!stream_lives(*use.state)) use.key = 0;  // only a wait for the device completes them; nothing orders them
  }
  const auto together = [](const Use& a, const Use& b) {
    // A stream that goes meanwhile may have uses of both kinds.
    return (a.key == 0) == (b.key == 0) && (a.key == 0 ? a.device == b.device : a.state == b.state);
  };
  std::sort(uses_.begin(), uses_.end(), [&](const Use& a, const Use& b) {
    if (together(a, b)) return a.number > b.number;
    if (a.key == 0 || b.key == 0) return a.key == 0 && (b.key != 0 || a.device < b.device);
    return a.state < b.state;
  });
  uses_.erase(std::unique(uses_.begin(), uses_.end(), together), uses_.end());
}

void OutstandingUses::add(const char* base, const void* by, StreamKey key, hipStream_t stream, int device,
                          std::uint64_t number) {
  for (Use& use : uses_) {
    if (use.key != key || use.base != base || use.by != by || !stream_lives(*use.state)) continue;
    use.number = number;
    return;
  }
  if (uses_.size() >= kMostUses) {
    forget_complete();
    if (uses_.size() >= kMostUses) coarsen();
  }
  uses_.push_back({base, by, key, stream, device, number, stream_state(key)});
}

void OutstandingUses::used(StreamArgument stream, const Bases& bases, const void* by) {
  if (bases.empty()) return;
  const int device = device_of_stream(plain_handle(stream));
  const LockGuard guard(lock_);
  for (const char* const base : bases) add(base, by, stream_key(stream), plain_handle(stream), device, next_launch());
}

/// The clock of a stream. Nobody says here when a thread's own stream goes: if there are too many clocks, all that is
/// known of the order is forgotten.
OutstandingUses::Clock& OutstandingUses::clock_of(StreamKey key) {
  if (clocks_.size() >= kMostClocks && clocks_.find(key) == clocks_.end()) {
    clocks_.clear();
    events_.clear();
  }
  return clocks_[key];
}

void OutstandingUses::recorded(hipEvent_t event, StreamArgument stream) {
  const StreamKey key = stream_key(stream);
  const LockGuard guard(lock_);
  Clock clock = clock_of(key);
  clock[key] = next_launch();
  events_[event] = std::move(clock);
}

void OutstandingUses::waited(StreamArgument stream, hipEvent_t event) {
  const StreamKey key = stream_key(stream);
  const LockGuard guard(lock_);
  const auto found = events_.find(event);
  if (found == events_.end()) return;
  const Clock before = found->second;  // a copy, because clock_of() may forget it
  merge(clock_of(key), before);
}

void OutstandingUses::event_destroyed(hipEvent_t event) {
  const LockGuard guard(lock_);
  events_.erase(event);
}

void OutstandingUses::stream_destroyed(hipStream_t stream) {
  const StreamKey key = stream_key({stream, false});
  const bool busy = work_counts().is_busy(stream);
  const int device = device_of_stream(stream);
  const LockGuard guard(lock_);
  clocks_.erase(key);
  if (!busy) std::erase_if(uses_, [key](const Use& use) { return use.key == key && stream_lives(*use.state); });
  if (several_.load(std::memory_order_relaxed) || first_.load(std::memory_order_relaxed) != key) return;
  if (busy) {
    add(nullptr, nullptr, key, stream, device, next_launch());
    several_.store(true, std::memory_order_relaxed);
  } else {
    first_.store(0, std::memory_order_relaxed);
  }
}

bool OutstandingUses::elsewhere(const Bases& bases, StreamArgument stream, const void* by) {
  if (!several(stream)) return false;
  const StreamKey key = stream_key(stream);
  // The streams to ask HIP about, without the lock.
  struct Asked {
    StreamKey key;
    hipStream_t stream;
    int device;
  };
  std::array<Asked, kMostAsked> asked;
  std::size_t count = 0;
  {
    const LockGuard guard(lock_);
    forget_complete();
    const auto clock = clocks_.find(key);
    for (const Use& use : uses_) {
      const bool lives = stream_lives(*use.state);
      if (use.key == key && lives) continue;
      if (use.by == by && by != nullptr) continue;
      if (use.base != nullptr && std::find(bases.begin(), bases.end(), use.base) == bases.end()) continue;
      if (clock != clocks_.end()) {
        const auto known = clock->second.find(use.key);
        if (known != clock->second.end() && known->second >= use.number) continue;
      }
      if (!lives) return true;
      const auto end = asked.begin() + static_cast<std::ptrdiff_t>(count);
      if (std::any_of(asked.begin(), end, [&](const Asked& each) { return each.key == use.key; })) continue;
      if (count == asked.size()) return true;
      asked[count++] = {use.key, use.stream, use.device};
    }
  }
  if (count == 0) return false;
  const bool null = is_null_stream(plain_handle(stream)), blocking = is_blocking(plain_handle(stream));
  const int device = device_of_stream(plain_handle(stream));
  return std::any_of(asked.begin(), asked.begin() + static_cast<std::ptrdiff_t>(count), [&](const Asked& use) {
    // Each device has a null stream of its own.
    if (blocking && is_null_stream(use.stream) && use.device == device) return false;
    if (null && is_blocking(use.stream) && use.device == device) return false;
    // A thread's own stream may be another thread's.
    return use.stream == hipStreamPerThread || !fences().is_complete(use.device, use.stream);
  });
}

}  // namespace graphpool
