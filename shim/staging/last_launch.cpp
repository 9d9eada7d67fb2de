#include "shim/staging/last_launch.h"

#include <new>
#include <utility>

#include "shim/hip/next.h"
#include "shim/hip/null_stream.h"
#include "shim/hip/private_objects.h"
#include "shim/hip/restore.h"
#include "shim/staging/staging.h"
#include "shim/streams/open_captures.h"

namespace graphpool {

LastLaunch::~LastLaunch() {
  if (event_ != nullptr) static_cast<void>(destroy_private(event_));
}

hipError_t LastLaunch::make(const StagePlan& plan) {
  const SavedDevice device;
  device.set(plan.device());
  const hipError_t result = make_private(&event_);
  if (result != hipSuccess) return result;
  device_ = plan.device();
  overlap_ = plan.overlap();
  const LockGuard guard(lock_);
  if (plan.sets() > 1 || overlap_) timeline_ = Timeline::make(device_);
  return result;
}

bool LastLaunch::needs_event() const noexcept {
  const LockGuard guard(lock_);
  return !overlap_ || timeline_ == nullptr;
}

std::size_t LastLaunch::launched(StreamKey key, hipStream_t stream, bool recorded) {
  std::size_t enqueued = 0;
  std::shared_ptr<PassedEvent> former;  // let go of without the lock
  const LockGuard guard(lock_);
  former = std::move(passed_);
  if (timeline_ != nullptr) {
    if (timeline_->advance(stream))
      ++enqueued;
    else
      timeline_.reset();  // this runtime does not write values: events only
  }
  recorded_ = recorded;
  if (!recorded_ && (!overlap_ || timeline_ == nullptr)) {
    const LastErrorScope last_error;
    recorded_ = next().hipEventRecord(event_, recorded_on(stream)) == hipSuccess;
    ++enqueued;
  }
  if (key_ != key || !stream_lives(*state_)) state_ = stream_state(key);
  key_ = key;
  stream_ = stream;
  if (stream == hipStreamPerThread) static_cast<void>(watch_own_streams());
  number_ = next_launch();  // all of it is enqueued: a wait made before does not count for it
  return enqueued;
}

bool LastLaunch::complete() const noexcept {
  const LockGuard guard(lock_);
  return is_complete();
}

bool LastLaunch::is_complete() const noexcept {
  if (key_ == 0) return true;
  if (timeline_ != nullptr) return timeline_->reached();
  if (launch_waited_for(*state_, device_, number_)) return true;
  if (passed_ != nullptr) return passed_->complete();
  if (!recorded_) return false;
  // Asking for an event whose stream is capturing would invalidate the capture.
  const CaptureGate gate;
  if (captures_open()) return false;
  const LastErrorScope last_error;
  return next().hipEventQuery(event_) == hipSuccess;
}

LastLaunch::Turn LastLaunch::order(StreamKey key, hipStream_t stream, IfRunning if_running) {
  const bool on_device = if_running == IfRunning::kOnDevice;
  const LockGuard guard(lock_);
  if (key_ == 0 || (key_ == key && stream_lives(*state_)) || is_complete()) return {};
  if (overlap_ && !on_device) {
    // While a capture is open the event is not asked for: its stream might be in it. A passed event may be asked for.
    if (timeline_ == nullptr && captures_open() && !may_be_capturing(stream_)) pass_on();
    return {.busy = true};
  }
  return wait_on_device(stream, !on_device);
}

/// Makes the stream wait on the device. `busy_if_not`: the turn is busy if the device cannot be made to wait.
LastLaunch::Turn LastLaunch::wait_on_device(hipStream_t stream, bool busy_if_not) noexcept {
  hipEvent_t event = event_;
  if (passed_ != nullptr)
    event = passed_->get();
  else if (!record())
    return {.busy = busy_if_not};
  if (event == nullptr) return {};
  const hipError_t pending = pending_error();
  const hipError_t result = next().hipStreamWaitEvent(stream, event, 0);
  if (result == hipErrorStreamCaptureIsolation) {
    // The event's stream is capturing now: HIP lets nobody wait for it, whenever it was recorded.
    clear_error(pending);
    return {.busy = busy_if_not};
  }
  return {.result = result, .waits = true};
}

/// Records the event now if the launch did not record it: a later point in the stream is behind the launch as well.
/// Returns false if HIP fails, if the stream may be capturing or was destroyed, or if it is a thread's own: another
/// thread means another stream by that handle.
bool LastLaunch::record() noexcept {
  if (recorded_) return true;
  const LastErrorScope last_error;
  const CaptureGate gate;
  recorded_ = stream_ != hipStreamPerThread && stream_lives(*state_) && !may_be_capturing(stream_) &&
              next().hipEventRecord(event_, recorded_on(stream_)) == hipSuccess;
  return recorded_;
}

/// Lets an event of a stream of the library's stand for the launch. If that cannot be done, later launches wait until
/// the stream is not captured any more.
void LastLaunch::pass_on() noexcept {
  if (passed_ != nullptr || is_complete() || !record()) return;
  try {
    passed_ = PassedEvent::make(event_, device_);
  } catch (const std::bad_alloc&) {
  }
}

void LastLaunch::before_capture(StreamKey stream) noexcept {
  const LockGuard guard(lock_);
  if (key_ == stream && stream_lives(*state_)) pass_on();
}

/// Afterwards the event is not asked for until it is recorded again. If there is no timeline, and the event cannot be
/// passed on, only a wait of the program for the device tells that the launch is complete.
void LastLaunch::before_destroy(StreamKey first, StreamKey count) noexcept {
  const LockGuard guard(lock_);
  if (key_ - first >= count || !stream_lives(*state_)) return;
  const SavedDevice current(device_);
  if (is_complete()) {
    key_ = 0;
    return;
  }
  if (current.ok() && !may_be_capturing(stream_)) pass_on();
  recorded_ = false;
}

void LastLaunch::forget() noexcept {
  std::unique_ptr<Timeline> timeline;  // given back without the lock
  const LockGuard guard(lock_);
  timeline = std::move(timeline_);
  event_ = nullptr;
  key_ = 0;
}

}  // namespace graphpool
