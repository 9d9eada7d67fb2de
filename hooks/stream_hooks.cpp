// stream_hooks.cpp: bodies of the calls that make and destroy streams, and of those that wait for streams and devices.
#include "hooks/bodies.h"
#include "shim/capture/capture.h"
#include "shim/capture/momentary_streams.h"
#include "shim/costs/step_costs.h"
#include "shim/graphs/graphs.h"
#include "shim/hip/kept_error.h"
#include "shim/hip/restore.h"
#include "shim/memory/device_memory.h"
#include "shim/streams/outstanding_uses.h"
#include "shim/streams/stream_state.h"
#include "shim/streams/stream_work.h"

namespace graphpool::hooks {
namespace {

template <typename Forward>
hipError_t wait_for_stream(StreamArgument stream, Forward&& forward) {
  settle_failed_end();
  const std::uint64_t clock = launch_clock();
  const WorkCounts::Snapshot work = work_counts().before_stream_sync(plain_handle(stream));
  const hipError_t result = forward();
  if (captures_open()) note_capture_doubt();
  if (result == hipSuccess) {
    stream_waited(stream_key(stream), clock);
    work_counts().idle(work);
    memory_room().waited();
    graphs().store.evict_if_due();
    look_for_completed_objects();
  }
  return result;
}

/// Makes a stream. That may fail for memory (rule 25). From now on the stream is one to wait for.
template <typename Make>
hipError_t make_stream(hipStream_t* stream, int device, Make&& make) {
  const TimedCall timed;
  make_joins();
  const hipError_t result = memory_room().retry_after_trim(device, make);
  if (captures_open()) note_capture_doubt();
  if (result == hipSuccess) work_counts().created(*stream, device);
  return result;
}

/// Makes a stream of a kind of which one may have been kept.
template <typename Make>
hipError_t make_kind(hipStream_t* stream, const StreamKind& kind, Make&& make) {
  if (reuse_stream(kind, stream)) return hipSuccess;
  const hipError_t result = make_stream(stream, kind.device, make);
  if (result == hipSuccess) note_stream_made();
  return result;
}

}  // namespace

hipError_t on_hipStreamCreate(Entry&, hipStream_t* stream) {
  return make_stream(stream, calling_device(), [&] { return next().hipStreamCreate(stream); });
}
hipError_t on_hipStreamCreateWithFlags(Entry&, hipStream_t* stream, unsigned int flags) {
  return make_kind(stream, kind_of_stream(calling_device(), flags),
                   [&] { return next().hipStreamCreateWithFlags(stream, flags); });
}
hipError_t on_hipStreamCreateWithPriority(Entry&, hipStream_t* stream, unsigned int flags, int priority) {
  return make_kind(stream, kind_of_stream(calling_device(), flags, priority),
                   [&] { return next().hipStreamCreateWithPriority(stream, flags, priority); });
}
hipError_t on_hipExtStreamCreateWithCUMask(Entry&, hipStream_t* stream, uint32_t words, const uint32_t* mask) {
  return make_stream(stream, calling_device(),
                     [&] { return next().hipExtStreamCreateWithCUMask(stream, words, mask); });
}
hipError_t on_hipStreamDestroy(Entry&, hipStream_t stream) {
  const TimedCall timed;
  if (!fresh_streams().has(stream)) make_joins();
  // HIP refuses to destroy a stream that has no handle of its own.
  if (!is_stream_handle(stream)) return next().hipStreamDestroy(stream);
  if (uses_tracked()) outstanding_uses().stream_destroyed(stream);  // while the stream's state is still there
  events_leave_destroyed(stream);
  capture_stream_destroyed(stream);
  if (keep_stream(stream)) return hipSuccess;
  stream_work().before_destroy(stream);
  return next().hipStreamDestroy(stream);
}
hipError_t on_hipStreamSynchronize(Entry&, hipStream_t stream) {
  return wait_for_stream({stream, false}, [&] { return next().hipStreamSynchronize(stream); });
}
hipError_t on_hipStreamSynchronize_spt(Entry&, hipStream_t stream) {
  return wait_for_stream({stream, true}, [&] { return next().hipStreamSynchronize_spt(stream); });
}
hipError_t on_hipStreamQuery(Entry&, hipStream_t stream) {
  return wait_for_stream({stream, false}, [&] { return next().hipStreamQuery(stream); });
}
hipError_t on_hipStreamQuery_spt(Entry&, hipStream_t stream) {
  return wait_for_stream({stream, true}, [&] { return next().hipStreamQuery_spt(stream); });
}
hipError_t on_hipDeviceSynchronize(Entry&) {
  const KeptError last_error;
  settle_failed_end();
  const std::uint64_t clock = launch_clock();
  const int device = calling_device();
  const WorkCounts::Snapshot work = work_counts().before_device_sync(device);
  const hipError_t result = next().hipDeviceSynchronize();
  if (captures_open()) note_capture_doubt();
  if (result == hipSuccess) {
    device_waited(device, clock);
    work_counts().idle(work);
    memory_room().waited();
    graphs().store.evict_if_due();
    look_for_completed_objects();
  }
  if (result == hipErrorStreamCaptureUnsupported) last_error.keep();
  return result;
}

}  // namespace graphpool::hooks
