// capture_hooks.cpp: begin, end and queries of stream captures, and the events that fork and join them.
#include "hooks/bodies.h"
#include "shim/capture/capture.h"
#include "shim/capture/momentary_streams.h"
#include "shim/costs/step_costs.h"
#include "shim/graphs/graphs.h"
#include "shim/hip/restore.h"
#include "shim/streams/stream_state.h"

namespace graphpool::hooks {

namespace {

/// Answers what the program asks about a stream's capture. The runtime answers a question for neither graph nor nodes,
/// one without a status, and all questions while no capture is followed.
template <typename Forward>
hipError_t tell(StreamArgument stream, const CaptureQuestion& asked, Forward&& forward) {
  const TimedCall timed;
  const bool more = asked.graph != nullptr || asked.nodes != nullptr || asked.count != nullptr;
  if (more && asked.status != nullptr && !nobody_follows()) return tell_capture(stream, asked, forward);
  make_joins();
  return forward();
}

}  // namespace

hipError_t on_hipStreamBeginCapture(Entry&, hipStream_t stream, hipStreamCaptureMode mode) {
  return begin_capture({stream, false}, mode, [&] { return next().hipStreamBeginCapture(stream, mode); });
}
hipError_t on_hipStreamBeginCapture_spt(Entry&, hipStream_t stream, hipStreamCaptureMode mode) {
  return begin_capture({stream, true}, mode, [&] { return next().hipStreamBeginCapture_spt(stream, mode); });
}
hipError_t on_hipStreamBeginCaptureToGraph(Entry&, hipStream_t stream, hipGraph_t graph,
                                           const hipGraphNode_t* dependencies, const void* edges, size_t count,
                                           hipStreamCaptureMode mode) {
  std::vector<hipGraphNode_t> storage;
  const hipGraph_t into = graph;
  hipError_t failed = graphs().tracked.expose(&graph, "captured into");
  if (failed == hipSuccess) failed = graphs().nodes.read_all(&dependencies, count, &storage, "captured into");
  if (failed != hipSuccess) return failed;
  return begin_foreign_capture({stream, false}, mode, into, [&] {
    return next().hipStreamBeginCaptureToGraph(stream, graph, dependencies, edges, count, mode);
  });
}

hipError_t on_hipStreamEndCapture(Entry&, hipStream_t stream, hipGraph_t* graph) {
  return end_capture({stream, false}, graph, [&] { return next().hipStreamEndCapture(stream, graph); });
}
hipError_t on_hipStreamEndCapture_spt(Entry&, hipStream_t stream, hipGraph_t* graph) {
  return end_capture({stream, true}, graph, [&] { return next().hipStreamEndCapture_spt(stream, graph); });
}

hipError_t on_hipStreamGetCaptureInfo_v2(Entry&, hipStream_t stream, hipStreamCaptureStatus* status,
                                         unsigned long long* id, hipGraph_t* graph, const hipGraphNode_t** dependencies,
                                         size_t* count) {
  return tell({stream, false}, {status, id, graph, dependencies, count},
              [&] { return next().hipStreamGetCaptureInfo_v2(stream, status, id, graph, dependencies, count); });
}
hipError_t on_hipStreamGetCaptureInfo_v2_spt(Entry&, hipStream_t stream, hipStreamCaptureStatus* status,
                                             unsigned long long* id, hipGraph_t* graph,
                                             const hipGraphNode_t** dependencies, size_t* count) {
  return tell({stream, true}, {status, id, graph, dependencies, count},
              [&] { return next().hipStreamGetCaptureInfo_v2_spt(stream, status, id, graph, dependencies, count); });
}
hipError_t on_hipStreamUpdateCaptureDependencies(Entry&, hipStream_t stream, hipGraphNode_t* dependencies, size_t count,
                                                 unsigned int flags) {
  const TimedCall timed;
  return update_capture_dependencies(stream, {dependencies, count, flags}, [&](hipGraphNode_t* named) {
    return next().hipStreamUpdateCaptureDependencies(stream, named, count, flags);
  });
}

hipError_t on_hipEventRecord(Entry&, hipEvent_t event, hipStream_t stream) {
  return record_event(event, {stream, false}, [&] { return next().hipEventRecord(event, stream); });
}
hipError_t on_hipEventRecord_spt(Entry&, hipEvent_t event, hipStream_t stream) {
  return record_event(event, {stream, true}, [&] { return next().hipEventRecord_spt(event, stream); });
}
hipError_t on_hipEventRecordWithFlags(Entry&, hipEvent_t event, hipStream_t stream, unsigned int flags) {
  // External records make a node that holds the event (rule 26).
  if (flags != 0) expose_capture({stream, false}, "hipEventRecordWithFlags");
  return record_event(event, {stream, false}, [&] { return next().hipEventRecordWithFlags(event, stream, flags); });
}
hipError_t on_hipStreamWaitEvent(Entry&, hipStream_t stream, hipEvent_t event, unsigned int flags) {
  if (flags != 0) {
    expose_capture({stream, false}, "hipStreamWaitEvent with flags");
    any_stream_named();
  }
  const hipError_t result = wait_event(
      {stream, false}, event, [&](hipEvent_t named) { return next().hipStreamWaitEvent(stream, named, flags); });
  if (fresh_streams().any()) fresh_streams().waits(stream);
  return result;
}
hipError_t on_hipStreamWaitEvent_spt(Entry&, hipStream_t stream, hipEvent_t event, unsigned int flags) {
  if (flags != 0) expose_capture({stream, true}, "hipStreamWaitEvent_spt with flags");
  return wait_event({stream, true}, event,
                    [&](hipEvent_t named) { return next().hipStreamWaitEvent_spt(stream, named, flags); });
}
hipError_t on_hipEventDestroy(Entry&, hipEvent_t event) {
  capture_event_destroyed(event);
  return next().hipEventDestroy(event);
}

}  // namespace graphpool::hooks
