#include "shim/capture/own_streams.h"

#include <pthread.h>

#include "shim/base/guest_scope.h"
#include "shim/base/owned_count.h"
#include "shim/base/seeded_defect.h"
#include "shim/capture/fork_events.h"
#include "shim/capture/forks.h"
#include "shim/capture/session_list.h"
#include "shim/hip/entry.h"
#include "shim/hip/next.h"
#include "shim/hip/null_stream.h"
#include "shim/hip/restore.h"
#include "shim/staging/rings.h"
#include "shim/streams/calling_thread.h"
#include "shim/streams/launch_marks.h"

/// The C library's: calls the function when the calling thread ends, the last one registered first. `object`: an
/// address inside this library, which is not unloaded before.
extern "C" int __cxa_thread_atexit_impl(void (*function)(void*), void* argument, void* object) noexcept;

namespace graphpool {

// The key of a thread's own stream is above all addresses, and has the thread's number and the device. Work of a thread
// that has ended may still run, so a later thread gets another number, whatever else it has in common with the former.
// Small numbers stand for null streams.
static constexpr StreamKey kOwn = ~(~StreamKey{0} >> 1), kDevices = 64;

/// The keys of the calling thread's own streams, without the device.
static StreamKey own_streams() noexcept { return kOwn | calling_thread() * kDevices; }

bool is_own_stream(StreamKey key) noexcept { return (key & kOwn) != 0; }
bool is_callers_own_stream(StreamKey key) noexcept { return key / kDevices == own_streams() / kDevices; }
bool is_other_threads_own(StreamKey key) noexcept { return is_own_stream(key) && !is_callers_own_stream(key); }

StreamKey unnamed_stream_key(StreamArgument stream) noexcept {
  const auto device = [] { return static_cast<StreamKey>(calling_device()) % kDevices; };
  const bool null = stream.handle == nullptr;
  if (stream.handle != hipStreamPerThread && !(null && stream.per_thread)) return 0x100 + device();
  return own_streams() + device();
}

int device_of(StreamArgument stream) noexcept {
  const hipStream_t handle = plain_handle(stream);
  if (handle == nullptr || handle == kStreamLegacy || handle == hipStreamPerThread) return calling_device();
  hipDevice_t device = -1;
  if (PrivateCalls::answered([&] { return next().hipStreamGetDevice(handle, &device); })) return device;
  // The first releases do not have this call. Where there is one device, it is that one.
  int devices = 0;
  return PrivateCalls::answered([&] { return next().hipGetDeviceCount(&devices); }) && devices == 1 ? 0 : -1;
}

// --- the end of a thread ---

/// Lets the thread's own streams leave their captures. The runtime is not called: what it keeps for the thread is gone
/// already. Where a capture must become real, the next thread that feeds it sees to that.
static void leave_captures(void*) noexcept {
  const GuestScope guest;
  const InsideScope inside;
  while (captures_open() && !seeded_defect(Seeded::kThreadLeavesCaptures)) {
    const auto [key, session] = open_sessions().find_own();
    if (session == nullptr) return;
    bool origin;
    {
      const LockGuard guard(session->lock);
      thread_ended(*session, key);
      origin = session->streams.is_origin(key);
    }
    open_sessions().leave(key, session, origin);
  }
}

void watch_thread_for_captures() noexcept {
  static pthread_key_t key;
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  static bool made = false;
  pthread_once(&once, [] { made = pthread_key_create(&key, leave_captures) == 0; });
  if (made) static_cast<void>(pthread_setspecific(key, &t_thread_token));
}

/// Lets go of what the library has on the thread's own streams. The runtime still has these.
static void own_streams_end(void*) noexcept {
  const GuestScope guest;
  const InsideScope inside;
  if (g_mode.load(std::memory_order_acquire) == Mode::kPassThrough) return;  // a forked child
  rings_before_destroy(own_streams(), kDevices);
  fork_events().streams_destroyed(own_streams(), kDevices);
  launches_own_streams_end(own_streams(), kDevices);
}

// The runtime registered the destructor of what it keeps for the thread when it made the stream. A destructor that is
// registered later is called earlier.
bool watch_own_streams() noexcept {
  static constinit thread_local bool watched = false;
  static char ours;
  if (!watched) watched = __cxa_thread_atexit_impl(own_streams_end, nullptr, &ours) == 0;
  return watched;
}

}  // namespace graphpool
