#include "shim/streams/stream_state.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "shim/base/hot.h"
#include "shim/hip/restore.h"

namespace graphpool {
namespace {

constinit std::atomic<std::uint64_t> g_clock{0};

struct Waits {
  using Streams = std::unordered_map<StreamKey, std::shared_ptr<StreamState>>;
  Streams streams GUARDED_BY(g_waits_lock);                                 ///< those alive
  std::unordered_map<int, std::uint64_t> devices GUARDED_BY(g_waits_lock);  ///< waited up to this number
  std::size_t most GUARDED_BY(g_waits_lock) = kFewStreams;  ///< at so many, streams that no mark names are forgotten
  static constexpr std::size_t kFewStreams = 64;

  std::shared_ptr<StreamState> take(Streams::iterator found) noexcept REQUIRES(g_waits_lock) {
    if (found == streams.end()) return nullptr;
    std::shared_ptr<StreamState> state = std::move(found->second);
    streams.erase(found);
    state->destroyed.store(true, std::memory_order_release);
    return state;
  }
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

bool device_complete(int device, std::uint64_t number) noexcept {
  Waits& all = waits();
  const LockGuard guard(g_waits_lock);
  const auto found = all.devices.find(device);
  return found != all.devices.end() && found->second >= number;
}

}  // namespace

std::uint64_t launch_clock() noexcept { return g_clock.load(std::memory_order_acquire); }
HOT std::uint64_t next_launch() noexcept { return g_clock.fetch_add(1, std::memory_order_acq_rel) + 1; }

void stream_waited(StreamKey stream, std::uint64_t clock) noexcept {
  Waits& all = waits();
  const LockGuard guard(g_waits_lock);
  // A stream on which no launch was made has nothing to remember.
  const auto found = all.streams.find(stream);
  if (found != all.streams.end()) raise(found->second->waited, clock);
}

void device_waited(int device, std::uint64_t clock) noexcept {
  Waits& all = waits();
  const LockGuard guard(g_waits_lock);
  std::uint64_t& waited = all.devices[device];
  if (waited < clock) waited = clock;
}

std::shared_ptr<StreamState> stream_state(StreamKey key) {
  Waits& all = waits();
  const LockGuard guard(g_waits_lock);
  if (const auto found = all.streams.find(key); found != all.streams.end()) return found->second;
  // A thread's own streams go when the thread ends, and the library does not learn of every end. So it forgets the
  // states that nobody else holds.
  if (all.streams.size() >= all.most) {
    std::erase_if(all.streams, [](const auto& each) { return each.second.use_count() == 1; });
    all.most = std::max(2 * all.streams.size(), Waits::kFewStreams);
  }
  return all.streams[key] = std::make_shared<StreamState>();
}

bool stream_lives(const StreamState& stream) noexcept { return !stream.destroyed.load(std::memory_order_acquire); }

std::shared_ptr<StreamState> take_stream_state(StreamKey key) noexcept {
  Waits& all = waits();
  const LockGuard guard(g_waits_lock);
  return all.take(all.streams.find(key));
}

std::shared_ptr<StreamState> take_stream_state_of(int device) noexcept {
  Waits& all = waits();
  const LockGuard guard(g_waits_lock);
  return all.take(std::find_if(all.streams.begin(), all.streams.end(), [device](const auto& each) {
    return each.second->device.load(std::memory_order_relaxed) == device;
  }));
}

int device_of(StreamState& state, hipStream_t stream) noexcept {
  int device = state.device.load(std::memory_order_relaxed);
  if (device >= 0) return device;
  device = device_of(StreamArgument{stream, false});
  if (device < 0) device = calling_device();
  state.device.store(device, std::memory_order_relaxed);
  return device;
}

bool launch_waited_for(const StreamState& stream, int device, std::uint64_t number) noexcept {
  return stream.waited.load(std::memory_order_acquire) >= number || device_complete(device, number);
}

std::size_t streams_known() noexcept {
  Waits& all = waits();
  const LockGuard guard(g_waits_lock);
  return all.streams.size();
}

}  // namespace graphpool
