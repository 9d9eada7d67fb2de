#include "shim/streams/launch_marks.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "shim/base/hot.h"
#include "shim/base/lock_rank.h"
#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/streams/open_captures.h"

namespace graphpool {
namespace {

/// The events that later launches are to wait for. Never destroyed.
struct Waiting {
  RankedMutex<LockRank::kStreams> lock;
  ForkWatcher forks GUARDED_BY(lock);
  std::vector<std::weak_ptr<AwaitedLaunch>> events GUARDED_BY(lock);

  void count() noexcept REQUIRES(lock) {
    g_launches_awaited.store(events.size(), std::memory_order_release);
    forks.watch(!events.empty());
  }
  void add(const std::shared_ptr<AwaitedLaunch>& more) {
    const LockGuard guard(lock);
    std::erase_if(events, [](const auto& each) { return each.expired(); });
    events.push_back(more);
    count();
  }
};

Waiting& waiting() {
  static Waiting* const instance = new Waiting;
  return *instance;
}

/// Waits for threads that record or ask for an event now and have not seen what the caller has changed.
void pass_capture_gate() noexcept { const CaptureGate gate; }

std::vector<std::weak_ptr<LaunchEvent>> take_events(StreamState& state) noexcept {
  std::vector<std::weak_ptr<LaunchEvent>> events;
  const LockGuard guard(g_waits_lock);
  events.swap(state.events);
  return events;
}

/// Takes the events that were recorded on the stream off it. Its state is no living stream's any more.
void leave_for_good(StreamState& state, hipStream_t stream) noexcept {
  pass_capture_gate();
  const std::vector<std::weak_ptr<LaunchEvent>> events = take_events(state);
  if (events.empty()) return;
  const SavedDevice current;
  const int device = state.device.load(std::memory_order_relaxed);
  // The handle of a thread's own stream names that of the current device.
  const bool may_ask = device >= 0 && current.set(device) && !may_be_capturing(stream);
  for (const auto& each : events)
    if (const auto event = each.lock()) event->leave_for_good(device, may_ask);
  pass_capture_gate();
}

}  // namespace

void launches_stream_destroyed(StreamKey stream) noexcept {
  if (const auto state = take_stream_state(stream)) leave_for_good(*state, reinterpret_cast<hipStream_t>(stream));
}

void launches_own_streams_end(StreamKey first, StreamKey count) noexcept {
  for (StreamKey key = first; key != first + count; ++key)
    if (const auto state = take_stream_state(key)) leave_for_good(*state, hipStreamPerThread);
}

void launches_device_reset(int device) noexcept {
  device_waited(device, launch_clock());
  while (const auto state = take_stream_state_of(device)) {
    pass_capture_gate();
    for (const auto& each : take_events(*state))
      if (const auto event = each.lock()) event->leave_for_good(device, false);
  }
}

void awaited_launches_before_capture(StreamKey stream) noexcept {
  Waiting& all = waiting();
  try {
    std::vector<std::shared_ptr<AwaitedLaunch>> there;
    {
      const LockGuard guard(all.lock);
      std::erase_if(all.events, [](const auto& each) { return each.expired(); });
      all.count();
      // All of them, because the last reference to one must not go under the lock.
      there.reserve(all.events.size());
      for (const auto& each : all.events)
        if (auto awaited = each.lock()) there.push_back(std::move(awaited));
    }
    for (const auto& awaited : there)
      if (awaited->key == stream && !may_be_capturing(awaited->stream)) awaited->event->leave_stream(awaited->device);
  } catch (const std::bad_alloc&) {
    // A later launch may not be able to come behind one of them.
  }
}

std::vector<LaunchMarks::Mark>::iterator LaunchMarks::find(StreamKey key) noexcept {
  return std::find_if(marks_.begin(), marks_.end(), [key](const Mark& each) {
    return each.key == key && !each.state->destroyed.load(std::memory_order_acquire);
  });
}

HOT void LaunchMarks::add(StreamKey key, hipStream_t stream, std::uint64_t number) {
  auto mark = find(key);
  if (mark == marks_.end()) {
    if (marks_.size() >= most_) forget_complete();
    auto state = stream_state(key);
    const int device = device_of(*state, stream);
    marks_.push_back({key, stream, device, number, std::move(state), nullptr, nullptr, nullptr});
    mark = std::prev(marks_.end());
  }
  mark->number = number;
  const std::shared_ptr<LaunchEvent> before = std::move(mark->event);
  mark->earlier = nullptr;
  if (stream != hipStreamPerThread) return;
  // In another thread the handle names another stream: only here can an event come behind the launch.
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

/// Records an event behind the launch; the mark has none if HIP fails. Pre-condition: the launch's stream lives and
/// does not capture.
void LaunchMarks::record(Mark& mark) {
  std::shared_ptr<LaunchEvent> event = LaunchEvent::record(mark.stream);
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

/// Keeps the marks few, because programs launch an exec on one stream after another and destroy these streams.
void LaunchMarks::forget_complete() {
  std::erase_if(marks_, [](const Mark& mark) { return complete(mark); });
  // If the stream is gone and no event tells, only a wait for its device does: one mark stands for all such marks of a
  // device.
  std::vector<Mark> device_marks;
  device_marks.reserve(marks_.size());
  std::erase_if(marks_, [&](const Mark& mark) {
    if ((mark.event != nullptr && !mark.event->lost()) || !mark.state->destroyed.load(std::memory_order_acquire))
      return false;
    const auto same = std::find_if(device_marks.begin(), device_marks.end(),
                                   [&](const Mark& each) { return each.device == mark.device; });
    if (same == device_marks.end())
      device_marks.push_back(mark);
    else
      same->number = std::max(same->number, mark.number);
    return true;
  });
  marks_.insert(marks_.end(), device_marks.begin(), device_marks.end());
  most_ = std::max(2 * marks_.size(), kFew);
}

void LaunchMarks::add_failed(StreamKey key, std::uint64_t number) noexcept {
  const auto mark = find(key);
  if (mark == marks_.end()) return;
  mark->number = number;
  // It is destroyed later, because that calls HIP.
  if (mark->event != nullptr) mark->earlier = std::move(mark->event);
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
    // The handle of another thread's own stream names the caller's here.
    const bool own = mark.stream == hipStreamPerThread;
    if ((mark.event != nullptr || own) && !captures_open()) continue;
    if (complete(mark) || mark.state->destroyed.load()) continue;
    device.set(mark.device);
    mark.earlier = nullptr;
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
    mark.order = std::make_shared<AwaitedLaunch>(AwaitedLaunch{mark.key, mark.stream, mark.device, mark.event});
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
      ordered &= mark.event != nullptr || mark.state->destroyed.load();
  }
  return ordered;
}

}  // namespace graphpool
