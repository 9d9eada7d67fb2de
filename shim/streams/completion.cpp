#include "shim/streams/completion.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <unordered_map>

#include "shim/base/lock_rank.h"
#include "shim/hip/next.h"
#include "shim/hip/null_stream.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/restore.h"
#include "shim/streams/open_captures.h"

namespace graphpool {

/// Guards Waits, and what it knows of each stream.
static constinit RankedMutex<LockRank::kStreams> g_waits_lock;

/// One stream, as long as it is alive or a mark names it.
struct StreamState {
  std::atomic<std::uint64_t> waited{0};  ///< launches up to this number are complete
  std::atomic<bool> destroyed{false};    ///< its handle must not be used any more
  std::atomic<int> device{-1};           ///< -1: not asked yet
  /// Recorded there, maybe gone or elsewhere by now.
  std::vector<std::weak_ptr<LaunchMarks::Event>> events GUARDED_BY(g_waits_lock);
  std::size_t most_events GUARDED_BY(g_waits_lock) = kFewEvents;  ///< before those that are gone are forgotten
  static constexpr std::size_t kFewEvents = 16;
};

namespace {

constinit std::atomic<std::uint64_t> g_clock{0};

struct Waits {
  std::unordered_map<StreamKey, std::shared_ptr<StreamState>> streams GUARDED_BY(g_waits_lock);  ///< those alive
  std::unordered_map<int, std::uint64_t> devices GUARDED_BY(g_waits_lock);  ///< waited up to this number
  std::size_t most GUARDED_BY(g_waits_lock) = kFewStreams;  ///< streams before those that no mark names are forgotten
  static constexpr std::size_t kFewStreams = 64;
};

Waits& waits() {
  static Waits* const instance = new Waits;
  return *instance;
}

void raise(std::atomic<std::uint64_t>& value, std::uint64_t to) noexcept {
  std::uint64_t now = value.load(std::memory_order_relaxed);
  while (now < to && !value.compare_exchange_weak(now, to, std::memory_order_acq_rel)) {
  }
}

/// The stream's device. By a thread that may name the stream.
int device_of(StreamState& state, hipStream_t stream) noexcept {
  int device = state.device.load(std::memory_order_relaxed);
  if (device >= 0) return device;
  device = graphpool::device_of({stream, false});
  if (device < 0) device = calling_device();
  state.device.store(device, std::memory_order_relaxed);
  return device;
}

bool device_complete(int device, std::uint64_t number) noexcept {
  Waits& all = waits();
  const LockGuard guard(g_waits_lock);
  const auto found = all.devices.find(device);
  return found != all.devices.end() && found->second >= number;
}

}  // namespace

std::shared_ptr<StreamState> stream_state(StreamKey key) {
  Waits& all = waits();
  const LockGuard guard(g_waits_lock);
  if (const auto found = all.streams.find(key); found != all.streams.end()) return found->second;
  // Nobody says when a thread's own stream goes.
  if (all.streams.size() >= all.most) {
    std::erase_if(all.streams, [](const auto& each) { return each.second.use_count() == 1; });
    all.most = std::max(2 * all.streams.size(), Waits::kFewStreams);
  }
  return all.streams[key] = std::make_shared<StreamState>();
}

bool stream_lives(const StreamState& stream) noexcept { return !stream.destroyed.load(std::memory_order_acquire); }

bool launch_waited_for(const StreamState& stream, int device, std::uint64_t number) noexcept {
  return stream.waited.load(std::memory_order_acquire) >= number || device_complete(device, number);
}

std::uint64_t launch_clock() noexcept { return g_clock.load(std::memory_order_acquire); }
[[gnu::hot]] std::uint64_t next_launch() noexcept { return g_clock.fetch_add(1, std::memory_order_acq_rel) + 1; }

void stream_waited(StreamKey stream, std::uint64_t clock) noexcept {
  Waits& all = waits();
  const LockGuard guard(g_waits_lock);
  // A stream no launch was made on has nothing to remember.
  const auto found = all.streams.find(stream);
  if (found != all.streams.end()) raise(found->second->waited, clock);
}

void device_waited(int device, std::uint64_t clock) noexcept {
  Waits& all = waits();
  const LockGuard guard(g_waits_lock);
  std::uint64_t& waited = all.devices[device];
  if (waited < clock) waited = clock;
}

std::size_t streams_known() noexcept {
  Waits& all = waits();
  const LockGuard guard(g_waits_lock);
  return all.streams.size();
}

/// Streams of ours, each with an event for one launch after another. Never destroyed.
class LaunchMarks::OwnStreams {
 public:
  struct Entry {
    int device = 0;
    hipStream_t stream = nullptr;
    hipEvent_t event = nullptr;
    bool taken = true;
    std::atomic<bool> gone{false};  ///< with a reset of the device
  };

  /// One that is idle. The device is current. Null on failure.
  std::shared_ptr<Entry> take(int device) {
    const LockGuard guard(lock_);
    for (const auto& entry : entries_) {
      if (entry->taken || entry->device != device || next().hipEventQuery(entry->event) != hipSuccess) continue;
      entry->taken = true;
      return entry;
    }
    const auto made = std::make_shared<Entry>();
    made->device = device;
    if (!PrivateCalls::worked([&] {
          return made_private(next().hipStreamCreateWithFlags(&made->stream, hipStreamNonBlocking), &made->stream);
        }))
      return nullptr;
    if (PrivateCalls::worked([&] {
          return made_private(next().hipEventCreateWithFlags(&made->event, hipEventDisableTiming), &made->event);
        })) {
      entries_.push_back(made);
      return made;
    }
    static_cast<void>(
        PrivateCalls::gave_back([&] { return next().hipStreamDestroy(no_longer_private(made->stream)); }));
    return nullptr;
  }

  void give_back(Entry& entry) noexcept {
    const LockGuard guard(lock_);
    entry.taken = false;
  }

  void device_reset(int device) noexcept {
    const LockGuard guard(lock_);
    for (const auto& entry : entries_)
      if (entry->device == device) entry->gone = true;
    std::erase_if(entries_, [](const auto& entry) { return entry->gone.load(); });
  }

 private:
  RankedMutex<LockRank::kStreams> lock_;
  std::vector<std::shared_ptr<Entry>> entries_ GUARDED_BY(lock_);
};

LaunchMarks::OwnStreams& LaunchMarks::own_streams() {
  static OwnStreams* const instance = new OwnStreams;
  return *instance;
}

/// An entry that is taken.
class LaunchMarks::Passed : public PassedEvent {
 public:
  explicit Passed(std::shared_ptr<OwnStreams::Entry> own) noexcept : own_(std::move(own)) {}
  Passed(const Passed&) = delete;
  Passed& operator=(const Passed&) = delete;
  ~Passed() override { own_streams().give_back(*own_); }
  hipEvent_t get() const noexcept override { return own_->gone.load() ? nullptr : own_->event; }

 private:
  const std::shared_ptr<OwnStreams::Entry> own_;
};

std::shared_ptr<PassedEvent> PassedEvent::make(hipEvent_t event, int device) {
  const PrivateCalls private_calls;
  const SavedDevice current(device);
  auto own = current.ok() ? LaunchMarks::own_streams().take(device) : nullptr;
  if (own == nullptr) return nullptr;
  const auto made = std::make_shared<LaunchMarks::Passed>(own);
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

/// A private event behind one launch.
class LaunchMarks::Event {
 public:
  /// Null on failure.
  static std::shared_ptr<Event> record(hipStream_t stream) {
    auto made = std::make_shared<Event>();
    if (made_private(next().hipEventCreateWithFlags(&made->event_, hipEventDisableTiming), &made->event_) != hipSuccess)
      made->event_ = nullptr;
    if (made->event_ == nullptr || next().hipEventRecord(made->event_, recorded_on(stream)) != hipSuccess)
      return nullptr;
    return made;
  }
  /// The same event behind another launch. False: it is to be a new one.
  bool record_again(hipStream_t stream) {
    return !off_stream() && own_ == nullptr && next().hipEventRecord(event_, recorded_on(stream)) == hipSuccess;
  }
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() {
    if (event_ != nullptr)
      static_cast<void>(PrivateCalls::worked([&] { return next().hipEventDestroy(no_longer_private(event_)); }));
  }

  /// Null: the launch is complete, or nobody knows (lost()).
  hipEvent_t get() const noexcept {
    switch (place_.load(std::memory_order_acquire)) {
      case Place::kStream:
        return event_;
      case Place::kOwnStream:
        return own_->get();
      default:
        return nullptr;
    }
  }
  /// It may be asked although captures are open.
  bool off_stream() const noexcept { return place_.load(std::memory_order_acquire) != Place::kStream; }
  /// Its stream went before the launch was known to be complete: only who waits for the device can tell.
  bool lost() const noexcept { return place_.load(std::memory_order_acquire) == Place::kLost; }
  /// Whether the device has passed it, once it is off its stream. Captures may be open.
  bool passed() const noexcept {
    const Place place = place_.load(std::memory_order_acquire);
    return place == Place::kPassed || (place == Place::kOwnStream && own_->complete());
  }

  /// The stream it was recorded on is about to go. `may_ask`: it does not capture.
  void leave_for_good(int device, bool may_ask) noexcept {
    try {
      if (may_ask) leave_stream(device);
    } catch (const std::bad_alloc&) {
    }
    Place place = Place::kStream;
    place_.compare_exchange_strong(place, Place::kLost, std::memory_order_acq_rel);
  }

  /// The stream it was recorded on begins to capture, and does not yet.
  void leave_stream(int device) {
    if (off_stream()) return;
    const PrivateCalls private_calls;
    if (next().hipEventQuery(event_) == hipSuccess) {
      place_.store(Place::kPassed, std::memory_order_release);
      return;
    }
    own_ = PassedEvent::make(event_, device);
    if (own_ != nullptr) place_.store(Place::kOwnStream, std::memory_order_release);
  }

 private:
  enum class Place { kStream, kOwnStream, kPassed, kLost };
  hipEvent_t event_ = nullptr;
  std::shared_ptr<PassedEvent> own_;
  std::atomic<Place> place_{Place::kStream};
};

/// An event that a launch to come is to wait for.
struct LaunchMarks::Awaited {
  StreamKey key;
  hipStream_t stream;
  int device;
  std::shared_ptr<Event> event;
};

struct LaunchMarks::Waiting {
  RankedMutex<LockRank::kStreams> lock;
  ForkWatcher forks GUARDED_BY(lock);
  std::vector<std::weak_ptr<Awaited>> events GUARDED_BY(lock);

  void count() noexcept REQUIRES(lock) {
    g_launches_awaited.store(events.size(), std::memory_order_release);
    forks.watch(!events.empty());
  }
  void add(const std::shared_ptr<Awaited>& more) {
    const LockGuard guard(lock);
    std::erase_if(events, [](const auto& each) { return each.expired(); });
    events.push_back(more);
    count();
  }
};

LaunchMarks::Waiting& LaunchMarks::waiting() {
  static Waiting* const instance = new Waiting;
  return *instance;
}

namespace {

/// Returns when whoever records or asks an event has seen what the caller has changed.
void pass_capture_gate() noexcept { const CaptureGate gate; }

/// The state of a stream that goes; null where nobody has one.
std::shared_ptr<StreamState> take_state(StreamKey key) noexcept {
  Waits& all = waits();
  const LockGuard guard(g_waits_lock);
  const auto found = all.streams.find(key);
  if (found == all.streams.end()) return nullptr;
  std::shared_ptr<StreamState> state = std::move(found->second);
  all.streams.erase(found);
  state->destroyed.store(true, std::memory_order_release);
  return state;
}

}  // namespace

/// What was recorded on the stream leaves it. Its state is that of no living stream any more.
void LaunchMarks::leave_for_good(StreamState& state, hipStream_t stream) noexcept {
  pass_capture_gate();
  std::vector<std::weak_ptr<Event>> events;
  {
    const LockGuard guard(g_waits_lock);
    events.swap(state.events);
  }
  if (events.empty()) return;
  const SavedDevice current;
  const int device = state.device.load(std::memory_order_relaxed);
  // The handle of a thread's own stream names that of the current device.
  const bool may_ask = device >= 0 && current.set(device) && !may_be_capturing(stream);
  for (const auto& each : events)
    if (const auto event = each.lock()) event->leave_for_good(device, may_ask);
  pass_capture_gate();
}

void launches_stream_destroyed(StreamKey stream) noexcept {
  if (const auto state = take_state(stream)) LaunchMarks::leave_for_good(*state, reinterpret_cast<hipStream_t>(stream));
}

void launches_own_streams_end(StreamKey first, StreamKey count) noexcept {
  for (StreamKey key = first; key != first + count; ++key)
    if (const auto state = take_state(key)) LaunchMarks::leave_for_good(*state, hipStreamPerThread);
}

void awaited_launches_before_capture(StreamKey stream) noexcept {
  LaunchMarks::Waiting& all = LaunchMarks::waiting();
  try {
    std::vector<std::shared_ptr<LaunchMarks::Awaited>> there;
    {
      const LockGuard guard(all.lock);
      std::erase_if(all.events, [](const auto& each) { return each.expired(); });
      all.count();
      // All, for the last reference to any must not go under the lock.
      there.reserve(all.events.size());
      for (const auto& each : all.events)
        if (auto awaited = each.lock()) there.push_back(std::move(awaited));
    }
    for (const auto& awaited : there)
      if (awaited->key == stream && !may_be_capturing(awaited->stream)) awaited->event->leave_stream(awaited->device);
  } catch (const std::bad_alloc&) {
    // A launch that has to come behind one of them may not be able to.
  }
}

void launches_device_reset(int device) noexcept { LaunchMarks::own_streams().device_reset(device); }

std::vector<LaunchMarks::Mark>::iterator LaunchMarks::find(StreamKey key) noexcept {
  return std::find_if(marks_.begin(), marks_.end(), [key](const Mark& each) {
    return each.key == key && !each.state->destroyed.load(std::memory_order_acquire);
  });
}

[[gnu::hot]] void LaunchMarks::add(StreamKey key, hipStream_t stream, std::uint64_t number) {
  auto mark = find(key);
  if (mark == marks_.end()) {
    if (marks_.size() >= most_) forget_complete();
    auto state = stream_state(key);
    const int device = device_of(*state, stream);
    marks_.push_back({key, stream, device, number, std::move(state), nullptr, nullptr});
    mark = std::prev(marks_.end());
  }
  mark->number = number;
  const std::shared_ptr<Event> before = std::move(mark->event);
  if (stream != hipStreamPerThread) return;
  // In another thread the handle is another stream: only now can an event come behind the launch.
  const LastErrorScope last_error;
  if (!watch_own_streams()) return;
  const CaptureGate gate;
  if (may_be_capturing(stream)) return;
  const bool alone = before != nullptr && before.use_count() == 1;
  if (alone && before->record_again(stream))
    mark->event = before;
  else
    record(*mark);
}

/// An event behind the launch. Its stream lives, and no capture begins.
void LaunchMarks::record(Mark& mark) {
  std::shared_ptr<Event> event = Event::record(mark.stream);
  if (event == nullptr) return;
  const LockGuard guard(g_waits_lock);
  auto& events = mark.state->events;
  if (events.size() >= mark.state->most_events) {
    std::erase_if(events, [](const auto& each) { return each.expired(); });
    mark.state->most_events = std::max(2 * events.size(), StreamState::kFewEvents);
  }
  events.push_back(event);
  mark.event = std::move(event);
}

/// Programs launch an exec on one stream after another that they destroy.
void LaunchMarks::forget_complete() {
  std::erase_if(marks_, [](const Mark& mark) { return complete(mark); });
  // Of a stream that is gone only a wait for its device tells: one such mark stands for all of the device's.
  std::vector<Mark> gone;
  gone.reserve(marks_.size());
  std::erase_if(marks_, [&](const Mark& mark) {
    if ((mark.event != nullptr && !mark.event->lost()) || !mark.state->destroyed.load(std::memory_order_acquire))
      return false;
    const auto same =
        std::find_if(gone.begin(), gone.end(), [&](const Mark& each) { return each.device == mark.device; });
    if (same == gone.end())
      gone.push_back(mark);
    else
      same->number = std::max(same->number, mark.number);
    return true;
  });
  marks_.insert(marks_.end(), gone.begin(), gone.end());
  most_ = std::max(2 * marks_.size(), kFew);
}

void LaunchMarks::add_failed(StreamKey key, std::uint64_t number) noexcept {
  if (const auto mark = find(key); mark != marks_.end()) mark->number = number;
}

bool LaunchMarks::complete(const Mark& mark) noexcept {
  if (launch_waited_for(*mark.state, mark.device, mark.number)) return true;
  if (mark.event == nullptr) return false;
  if (!mark.event->off_stream()) {
    // Asking for an event whose stream is capturing would invalidate the capture.
    const CaptureGate gate;
    if (captures_open()) return false;
    if (!mark.event->off_stream()) {
      const LastErrorScope last_error;
      return next().hipEventQuery(mark.event->get()) == hipSuccess;
    }
  }
  return mark.event->passed();
}

bool LaunchMarks::complete() noexcept {
  std::erase_if(marks_, [](const Mark& mark) { return complete(mark); });
  return marks_.empty();
}

bool LaunchMarks::seal() {
  // Most programs have waited for their launches: then nothing is asked, and there is nothing to restore.
  const auto known = [](const Mark& mark) { return launch_waited_for(*mark.state, mark.device, mark.number); };
  if (std::all_of(marks_.begin(), marks_.end(), known)) return true;
  const LastErrorScope last_error;
  const SavedDevice device;
  bool all = true;
  for (Mark& mark : marks_) {
    // The handle of a thread's own stream names the caller's.
    const bool own = mark.stream == hipStreamPerThread;
    if ((mark.event != nullptr || own) && !captures_open()) continue;
    if (complete(mark) || mark.state->destroyed.load()) continue;
    device.set(mark.device);
    const CaptureGate gate;
    const bool capturing = own ? captures_open() : may_be_capturing(mark.stream);
    if (!capturing && mark.event == nullptr && !own && stream_lives(*mark.state)) record(mark);
    all = all && (!capturing || (mark.event != nullptr && mark.event->off_stream()));
  }
  return all;
}

std::unique_ptr<LaunchMarks> LaunchMarks::copy() {
  if (complete()) return nullptr;
  auto made = std::make_unique<LaunchMarks>();
  made->marks_ = marks_;
  for (Mark& mark : made->marks_) {
    if (mark.event == nullptr) continue;
    mark.order = std::make_shared<Awaited>(Awaited{mark.key, mark.stream, mark.device, mark.event});
    waiting().add(mark.order);
  }
  return made;
}

bool LaunchMarks::order_before(StreamKey key, hipStream_t stream) {
  seal();
  const LastErrorScope last_error;
  bool ordered = true;
  for (const Mark& mark : marks_) {
    if ((mark.key == key && stream_lives(*mark.state)) || complete(mark)) continue;
    const CaptureGate gate;  // no stream goes meanwhile
    const hipEvent_t event = mark.event == nullptr ? nullptr : mark.event->get();
    if (event != nullptr)
      ordered &= next().hipStreamWaitEvent(stream, event, 0) == hipSuccess;
    else
      ordered &= mark.event != nullptr || mark.state->destroyed.load() || !may_be_capturing(mark.stream);
  }
  return ordered;
}

}  // namespace graphpool
