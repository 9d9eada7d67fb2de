// stream_hooks.cpp: streams end, and the program waits: what completes, and what may invalidate a capture.
#include "hooks/bodies.h"
#include "shim/capture/capture.h"
#include "shim/graph/completion.h"
#include "shim/memory/stream_work.h"
#include "shim/restore.h"

namespace graphpool::hooks {
namespace {

template <typename Forward>
hipError_t wait_for_stream(StreamArgument stream, Forward&& forward) {
  const std::uint64_t clock = launch_clock();
  const StreamWork::Snapshot work = stream_work().before_stream_sync(plain_handle(stream));
  const hipError_t result = forward();
  if (captures_open()) note_capture_doubt();
  if (result == hipSuccess) {
    stream_waited(stream_key(stream), clock);
    stream_work().idle(work);
  }
  return result;
}

}  // namespace

hipError_t on_hipStreamDestroy(Entry&, hipStream_t stream) {
  capture_stream_destroyed(stream);
  launches_stream_destroyed(stream_key({stream, false}));
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
  const std::uint64_t clock = launch_clock();
  const int device = calling_device();
  const StreamWork::Snapshot work = stream_work().before_device_sync(device);
  const hipError_t result = next().hipDeviceSynchronize();
  if (captures_open()) note_capture_doubt();
  if (result == hipSuccess) {
    device_waited(device, clock);
    stream_work().idle(work);
  }
  return result;
}

}  // namespace graphpool::hooks
