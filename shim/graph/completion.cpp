#include "shim/graph/completion.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <mutex>
#include <unordered_map>

#include "shim/capture/open_captures.h"
#include "shim/capture/session.h"
#include "shim/lock_rank.h"
#include "shim/next.h"
#include "shim/restore.h"

namespace graphpool {

/// One stream, as long as it is alive or a mark names it.
struct StreamState {
  std::atomic<std::uint64_t> waited{0};  ///< launches up to this number are complete
  std::atomic<bool> destroyed{false};    ///< its handle must not be used any more
  std::atomic<int> device{-1};           ///< -1: not asked yet
};

namespace {

constinit std::atomic<std::uint64_t> g_clock{0};

struct Waits {
  RankedMutex<LockRank::kStreams> lock;
  std::unordered_map<StreamKey, std::shared_ptr<StreamState>> streams;  ///< those alive
  std::unordered_map<int, std::uint64_t> devices;                       ///< waited up to this number
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
  const std::scoped_lock guard(all.lock);
  const auto found = all.devices.find(device);
  return found != all.devices.end() && found->second >= number;
}

}  // namespace

std::shared_ptr<StreamState> stream_state(StreamKey key) {
  Waits& all = waits();
  const std::scoped_lock guard(all.lock);
  std::shared_ptr<StreamState>& state = all.streams[key];
  if (state == nullptr) state = std::make_shared<StreamState>();
  return state;
}

bool stream_lives(const StreamState& stream) noexcept { return !stream.destroyed.load(std::memory_order_acquire); }

bool launch_waited_for(const StreamState& stream, int device, std::uint64_t number) noexcept {
  return stream.waited.load(std::memory_order_acquire) >= number || device_complete(device, number);
}

std::uint64_t launch_clock() noexcept { return g_clock.load(std::memory_order_acquire); }
std::uint64_t next_launch() noexcept { return g_clock.fetch_add(1, std::memory_order_acq_rel) + 1; }

void stream_waited(StreamKey stream, std::uint64_t clock) noexcept {
  Waits& all = waits();
  const std::scoped_lock guard(all.lock);
  // A stream no launch was made on has nothing to remember.
  const auto found = all.streams.find(stream);
  if (found != all.streams.end()) raise(found->second->waited, clock);
}

void device_waited(int device, std::uint64_t clock) noexcept {
  Waits& all = waits();
  const std::scoped_lock guard(all.lock);
  std::uint64_t& waited = all.devices[device];
  if (waited < clock) waited = clock;
}

void launches_stream_destroyed(StreamKey stream) noexcept {
  Waits& all = waits();
  const std::scoped_lock guard(all.lock);
  const auto found = all.streams.find(stream);
  if (found == all.streams.end()) return;
  found->second->destroyed.store(true, std::memory_order_release);
  all.streams.erase(found);
}

std::size_t streams_known() noexcept {
  Waits& all = waits();
  const std::scoped_lock guard(all.lock);
  return all.streams.size();
}

/// A private event behind one launch.
class LaunchMarks::Event {
 public:
  /// Null on failure.
  static std::shared_ptr<Event> record(hipStream_t stream) {
    auto made = std::make_shared<Event>();
    if (next().hipEventCreateWithFlags(&made->event_, hipEventDisableTiming) != hipSuccess) made->event_ = nullptr;
    if (made->event_ == nullptr || next().hipEventRecord(made->event_, stream) != hipSuccess) return nullptr;
    return made;
  }
  Event() = default;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() {
    if (event_ != nullptr) static_cast<void>(PrivateCalls::worked([&] { return next().hipEventDestroy(event_); }));
  }
  hipEvent_t get() const noexcept { return event_; }

 private:
  hipEvent_t event_ = nullptr;
};

void LaunchMarks::add(StreamKey key, hipStream_t stream, std::uint64_t number) {
  auto mark = std::find_if(marks_.begin(), marks_.end(), [key](const Mark& each) {
    return each.key == key && !each.state->destroyed.load(std::memory_order_acquire);
  });
  if (mark == marks_.end()) {
    auto state = stream_state(key);
    const int device = device_of(*state, stream);
    marks_.push_back({key, stream, device, number, std::move(state), nullptr});
    mark = std::prev(marks_.end());
  }
  mark->number = number;
  mark->event.reset();
  if (stream != hipStreamPerThread) return;
  // In another thread the handle is another stream: only now can an event come behind the launch.
  const LastErrorScope last_error;
  const CaptureGate gate;
  if (!may_be_capturing(stream)) mark->event = Event::record(stream);
}

bool LaunchMarks::complete(const Mark& mark) noexcept {
  if (launch_waited_for(*mark.state, mark.device, mark.number)) return true;
  if (mark.event == nullptr) return false;
  // Asking for an event whose stream is capturing would invalidate the capture.
  const CaptureGate gate;
  if (captures_open()) return false;
  const LastErrorScope last_error;
  return next().hipEventQuery(mark.event->get()) == hipSuccess;
}

bool LaunchMarks::complete() noexcept {
  std::erase_if(marks_, [](const Mark& mark) { return complete(mark); });
  return marks_.empty();
}

void LaunchMarks::seal() {
  const LastErrorScope last_error;
  const SavedDevice device;
  for (Mark& mark : marks_) {
    if (mark.event != nullptr || mark.stream == hipStreamPerThread || complete(mark) || mark.state->destroyed.load())
      continue;
    device.set(mark.device);
    const CaptureGate gate;
    if (!may_be_capturing(mark.stream)) mark.event = Event::record(mark.stream);
  }
}

std::unique_ptr<LaunchMarks> LaunchMarks::copy() {
  if (complete()) return nullptr;
  auto made = std::make_unique<LaunchMarks>();
  made->marks_ = marks_;
  return made;
}

bool LaunchMarks::order_before(StreamKey key, hipStream_t stream) {
  seal();
  const LastErrorScope last_error;
  bool ordered = true;
  for (const Mark& mark : marks_) {
    if (mark.key == key || complete(mark)) continue;
    if (mark.event != nullptr)
      ordered &= next().hipStreamWaitEvent(stream, mark.event->get(), 0) == hipSuccess;
    else
      ordered &= mark.state->destroyed.load() || !may_be_capturing(mark.stream);
  }
  return ordered;
}

}  // namespace graphpool
