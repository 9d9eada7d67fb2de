#include "shim/streams/fences.h"

#include <new>
#include <utility>

#include "shim/hip/null_stream.h"
#include "shim/hip/private_objects.h"
#include "shim/hip/restore.h"
#include "shim/streams/open_captures.h"

namespace graphpool {

/// Makes the stream and the event that fences need. Pre-condition: the device is current. Returns false on failure.
bool Fences::prepare(Device& device) noexcept {
  if (device.waiter == nullptr && !PrivateCalls::worked([&] { return make_private_waiter(&device.waiter); }))
    return false;
  return make_scratch(device);
}

bool Fences::make_scratch(Device& device) noexcept {
  return device.scratch != nullptr || PrivateCalls::worked([&] { return make_private(&device.scratch); });
}

bool Fences::make_after_null(Device& device) noexcept {
  return device.after_null != nullptr ||
         PrivateCalls::worked([&] { return make_private_waiter(&device.after_null, hipStreamDefault); });
}

/// Makes the waiter wait for what is on the stream. The waiter waits for what the event stands for now, so the event
/// may be recorded again at once. Returns false if HIP fails, or if a failed end has left the stream in a capture.
bool Fences::join(Device& device, hipStream_t stream) noexcept {
  const hipEvent_t scratch = device.scratch;
  const hipStream_t waiter = device.waiter;
  if (may_be_capturing(stream)) return false;
  return PrivateCalls::worked([&] { return next().hipEventRecord(scratch, recorded_on(stream)); }) &&
         PrivateCalls::worked([&] { return next().hipStreamWaitEvent(waiter, scratch, 0); });
}

/// Records an event behind all that is outstanding. Null on failure.
hipEvent_t Fences::record_behind(Device& device, const WorkCounts::Outstanding& work) {
  for (const hipStream_t stream : work.streams)
    if (!join(device, stream)) return nullptr;
  if (work.own && !join(device, hipStreamPerThread)) return nullptr;
  if (work.null_stream && !(make_after_null(device) && join(device, device.after_null))) return nullptr;
  hipEvent_t event = nullptr;
  if (!device.events.empty()) {
    event = device.events.back();
    device.events.pop_back();
  } else if (!PrivateCalls::worked([&] { return make_private(&event); })) {
    return nullptr;
  }
  if (PrivateCalls::worked([&, waiter = device.waiter] { return next().hipEventRecord(event, waiter); })) return event;
  device.events.push_back(event);
  return nullptr;
}

/// Makes a fence, or shares the latest one of the whole device if nothing was enqueued or completed since. `only`: the
/// stream it is for; std::nullopt: all of the device's.
Fence* Fences::make_locked(int device, std::optional<hipStream_t> only) {
  Device& state = device_of(device);
  if (captures_open() || !counts_.can_be_fenced(device)) return nullptr;
  // The counts are read before anything is recorded: what is enqueued later is not covered.
  auto work = only ? counts_.outstanding_on(*only) : counts_.outstanding(device);
  if (!work) return nullptr;
  if (!only && state.latest != nullptr && state.latest->marks_ == work->marks) {
    state.latest->references_.fetch_add(1);
    return state.latest;
  }
  const SavedDevice current(device);
  if (!current.ok() || !prepare(state)) return nullptr;
  auto made = std::make_unique<Fence>();  // before the event, which would be lost
  const hipEvent_t event = work->any() ? record_behind(state, *work) : nullptr;
  if (event == nullptr && work->any()) return nullptr;
  Fence* const fence = made.release();
  fence->device_ = device;
  fence->all_ = !only;
  fence->serial_ = work->serial;
  fence->event_ = event;
  fence->passed_.store(event == nullptr);
  fence->epoch_ = state.epoch.load();
  fence->marks_ = std::move(work->marks);
  fence->references_.store(1);
  if (!only && event != nullptr) {
    forget_latest(state);
    state.latest = fence;
    fence->references_.fetch_add(1);
  }
  return fence;
}

Fence* Fences::make(int device) noexcept {
  if (!valid_device(device)) return nullptr;
  const PrivateCalls private_calls;
  const LockGuard guard(g_streams_lock);
  const Making making(*this);
  try {
    return make_locked(device, std::nullopt);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

Fence* Fences::make_behind(int device, hipStream_t stream) noexcept {
  if (!valid_device(device)) return nullptr;
  if (is_stream_handle(stream) && !counts_.is_known(stream)) counts_.note_work(stream);
  const PrivateCalls private_calls;
  const LockGuard guard(g_streams_lock);
  const Making making(*this);
  try {
    return make_locked(device, stream);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

bool Fences::is_complete(int device, hipStream_t stream) noexcept {
  if (!valid_device(device) || stream == hipStreamPerThread) return false;
  const PrivateCalls private_calls;
  const SavedDevice current(device);
  // No capture begins meanwhile, so the event may be asked for.
  const LockGuard guard(g_streams_lock);
  const Making making(*this);
  Device& state = device_of(device);
  if (captures_open() || counts_.busy_anywhere(device) || !current.ok() || !make_scratch(state)) return false;
  if (!is_stream_handle(stream)) {
    if (!make_after_null(state)) return false;
    stream = state.after_null;
  } else if (!counts_.is_known(stream)) {
    return false;  // another thread has destroyed it
  } else if (may_be_capturing(stream)) {
    return false;  // a failed end has left it in a capture
  }
  const hipEvent_t scratch = state.scratch;
  return PrivateCalls::worked([&] { return next().hipEventRecord(scratch, stream); }) &&
         PrivateCalls::worked([&] { return next().hipEventQuery(scratch); });
}

void Fences::enter_null_stream() noexcept {
  const PrivateCalls private_calls;
  const int device = current_device();
  if (!valid_device(device)) return;
  const LockGuard guard(g_streams_lock);
  Device& state = device_of(device);
  if (!make_scratch(state) && !make_scratch(state)) return;  // as for the record: once more
  static_cast<void>(
      PrivateCalls::answered([scratch = state.scratch] { return next().hipEventRecord(scratch, nullptr); }));
}

bool Fences::wait(Fence* fence) noexcept {
  if (!fence->passed_.load()) {
    if (fence->epoch_ != device_of(fence->device_).epoch.load()) return true;
    if (!PrivateCalls::worked([&] { return next().hipEventSynchronize(fence->event_); })) return false;
    fence->passed_.store(true);
  }
  complete(fence->marks_);
  return true;
}

bool Fences::passed(Fence* fence) noexcept {
  if (fence->passed_.load()) return true;
  if (fence->epoch_ != device_of(fence->device_).epoch.load()) return true;
  const hipError_t pending = pending_error();
  const hipError_t error = next().hipEventQuery(fence->event_);
  // From HIP 7 on hipGetLastError does not keep hipErrorNotReady, and what the program has there stays.
  if (error == hipErrorNotReady && next().hipPeekAtLastError() != hipErrorNotReady) return false;
  if (error != hipSuccess) {
    clear_error(pending);
    return false;
  }
  fence->passed_.store(true);
  complete(fence->marks_);
  return true;
}

bool Fences::same_stream(const Fence* fence, int device, hipStream_t stream) const noexcept {
  if (fence->all_ || fence->epoch_ != device_of(fence->device_).epoch.load()) return false;
  if (stream == hipStreamPerThread) return false;
  if (is_null_stream(stream)) return fence->serial_ == StreamTable::kNullSerial && fence->device_ == device;
  const std::uint64_t serial = counts_.serial_of(stream);
  return serial != StreamTable::kNoSerial && serial == fence->serial_;
}

void Fences::recycle(Fence* fence) noexcept {
  const LockGuard guard(g_streams_lock);
  recycle_locked(fence);
}

void Fences::recycle_locked(Fence* fence) noexcept {
  Device& state = device_of(fence->device_);
  if (fence->event_ != nullptr && fence->epoch_ == state.epoch.load()) {
    try {
      state.events.push_back(fence->event_);
    } catch (const std::bad_alloc&) {
      // One event is lost until the device is reset.
    }
  }
  delete fence;
}

void Fences::forget_latest(Device& device) noexcept {
  Fence* const latest = std::exchange(device.latest, nullptr);
  if (latest != nullptr && drop_reference(latest)) recycle_locked(latest);
}

void Fences::capture_begins() noexcept {
  if (!making_.load()) return;
  const LockGuard until_made(g_streams_lock);
}

bool Fences::stays_fenced(int device, hipStream_t stream) noexcept {
  const SavedDevice current(device);
  Device& state = device_of(device);
  return !captures_open() && current.ok() && prepare(state) && join(state, stream);
}

void Fences::device_reset(int device) noexcept {
  Device& state = device_of(device);
  state.epoch.fetch_add(1);
  forget_latest(state);
  state.waiter = nullptr;
  state.after_null = nullptr;
  state.scratch = nullptr;
  state.events.clear();
}

}  // namespace graphpool
