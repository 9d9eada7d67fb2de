// event.cpp: events. An event holds the completion it was last recorded for; recording never blocks.
#include <unistd.h>

#include "api.h"
#include "capture.h"
#include "device.h"
#include "graph.h"
#include "handles.h"
#include "stream.h"

namespace cpuhip {
namespace {

HandleTable<ihipEvent_t>& table() {
  static auto& instance = *new HandleTable<ihipEvent_t>;
  return instance;
}

std::atomic<std::uint64_t> g_generation{0};

Token recorded(ihipEvent_t& event) {
  const std::lock_guard lock(event.mutex);
  return event.recorded;
}

hipError_t create(hipEvent_t* handle, unsigned flags) {
  const unsigned kKnown = hipEventBlockingSync | hipEventDisableTiming | hipEventInterprocess |
                          hipEventReleaseToDevice | hipEventReleaseToSystem;
  const unsigned kReleases = hipEventReleaseToDevice | hipEventReleaseToSystem;
  const bool interprocess_timed = (flags & hipEventInterprocess) != 0 && (flags & hipEventDisableTiming) == 0;
  if (handle == nullptr || (flags & ~kKnown) != 0 || (flags & kReleases) == kReleases || interprocess_timed) {
    return hipErrorInvalidValue;
  }
  *handle = table().create(current_device().ordinal(), flags, ++g_generation);
  return hipSuccess;
}

hipError_t record(Call& call, hipEvent_t handle, hipStream_t stream_handle, bool per_thread) {
  ihipEvent_t* event = nullptr;
  if (const hipError_t result = resolve(handle, &event); result != hipSuccess) return result;
  Stream* stream = nullptr;
  if (const hipError_t result = resolve(call, stream_handle, per_thread, &stream); result != hipSuccess) return result;
  if (stream->capture.load(std::memory_order_acquire) != nullptr && capture_event_record(*stream, *event)) {
    return hipSuccess;
  }
  if (event->device != stream->device().ordinal()) return hipErrorInvalidHandle;
  event->last_stream_generation = stream->generation();
  event->last_stream = stream;
  event->capture_id = 0;
  Token token = stream->marker();
  const std::lock_guard lock(event->mutex);
  event->recorded = std::move(token);
  return hipSuccess;
}

hipError_t elapsed(float* milliseconds, hipEvent_t first, hipEvent_t last) {
  if (milliseconds == nullptr) return hipErrorInvalidValue;
  ihipEvent_t *start = nullptr, *stop = nullptr;
  if (const hipError_t result = resolve(first, &start); result != hipSuccess) return result;
  if (const hipError_t result = resolve(last, &stop); result != hipSuccess) return result;
  if (((start->flags | stop->flags) & hipEventDisableTiming) != 0) return hipErrorInvalidHandle;
  const Token from = recorded(*start), to = recorded(*stop);
  if (!from || !to || start->device != stop->device) return hipErrorInvalidHandle;
  if (!from->done() || !to->done()) return hipErrorNotReady;
  *milliseconds = static_cast<float>(static_cast<double>(to->finished_ns() - from->finished_ns()) * 1e-6);
  return hipSuccess;
}

/// Calls body(event) for a valid handle.
template <typename Body>
hipError_t with_event(const char* name, hipEvent_t handle, Body&& body) {
  return api(name, [&](Call&) {
    ihipEvent_t* event = nullptr;
    const hipError_t result = resolve(handle, &event);
    return result == hipSuccess ? body(*event) : result;
  });
}

}  // namespace

std::size_t live_events() { return table().live(); }

hipError_t resolve(hipEvent_t handle, ihipEvent_t** event) {
  if (handle == nullptr) return hipErrorInvalidHandle;
  switch (table().state(handle)) {
    case HandleState::Unknown:
      return hipErrorInvalidHandle;
    case HandleState::Dead:
      fatal("event %p (generation %llu) was destroyed", static_cast<void*>(handle),
            static_cast<unsigned long long>(handle->generation));
    case HandleState::Live:
      break;
  }
  *event = handle;
  return hipSuccess;
}

void look_at_stream_of(const ihipEvent_t& event) {
  if (!quirks().destroyed_streams_events) return;
  const Stream* const last = event.last_stream;
  if (last == nullptr || (last->generation() == event.last_stream_generation && !last->gone)) return;
  fatal("the stream that event %p (generation %llu) was last recorded on was destroyed",
        static_cast<const void*>(&event), static_cast<unsigned long long>(event.generation));
}

}  // namespace cpuhip

using namespace cpuhip;

CPUHIP_EXPORT hipError_t hipEventCreate(hipEvent_t* event) {
  return api("hipEventCreate", [&](Call&) { return create(event, hipEventDefault); });
}

CPUHIP_EXPORT hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) {
  return api("hipEventCreateWithFlags", [&](Call&) { return create(event, flags); });
}

CPUHIP_EXPORT hipError_t hipEventDestroy(hipEvent_t handle) {
  // AMD's looks it up here, and nowhere else.
  const auto looked_up = [&] { return handle == nullptr || table().state(handle) == HandleState::Live; };
  if (config().gone == Gone::LookedUp && !looked_up())
    return api("hipEventDestroy", [](Call&) { return hipErrorContextIsDestroyed; });
  return with_event("hipEventDestroy", handle, [](ihipEvent_t& event) {
    capture_event_destroyed(event);
    if (!table().kill(&event)) return hipErrorInvalidHandle;
    {
      const std::lock_guard lock(event.mutex);
      event.recorded = nullptr;
    }
    table().give_back(&event);
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  return api("hipEventRecord", [&](Call& call) { return record(call, event, stream, false); });
}

CPUHIP_EXPORT hipError_t hipEventRecord_spt(hipEvent_t event, hipStream_t stream) {
  return api("hipEventRecord_spt", [&](Call& call) { return record(call, event, stream, true); });
}

CPUHIP_EXPORT hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream, unsigned flags) {
  return api("hipEventRecordWithFlags",
             [&](Call& call) { return flags == 0 ? record(call, event, stream, false) : hipErrorNotSupported; });
}

CPUHIP_EXPORT hipError_t hipEventQuery(hipEvent_t handle) {
  return with_event("hipEventQuery", handle, [](ihipEvent_t& event) {
    look_at_stream_of(event);
    const hipError_t result = check_capture_event_query(event);
    if (result != hipSuccess) return result;
    const Token token = recorded(event);
    return !token || token->done() ? hipSuccess : hipErrorNotReady;
  });
}

CPUHIP_EXPORT hipError_t hipEventSynchronize(hipEvent_t handle) {
  return with_event("hipEventSynchronize", handle, [](ihipEvent_t& event) {
    look_at_stream_of(event);
    const hipError_t result = check_capture_event_synchronize(event);
    if (result != hipSuccess) return result;
    const Token token = recorded(event);
    return token ? token->wait_in_call() : hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t start, hipEvent_t stop) {
  return api("hipEventElapsedTime", [&](Call&) { return elapsed(milliseconds, start, stop); });
}
