// capture.h: what the rest of the runtime needs to know of stream capture; implemented by the graph half (graph.cpp,
// capture.cpp). HIP's rules are those of HIP 6.3's clr: see the tables in the comments of capture.cpp.
#pragma once

#include "operation.h"
#include "stream.h"

namespace cpuhip {

/// Adds one captured operation to the stream's capture (the caller saw stream.capture != null).
hipError_t capture_operation(Stream& stream, Operation operation);
/// hipExtLaunchKernel with events on a capturing stream: `operation` is a KernelWork; either event may be null.
hipError_t capture_launch_with_events(Stream& stream, Operation operation, ihipEvent_t* start, ihipEvent_t* stop);
/// hipEventRecord on a stream that takes part in a capture. False when that is invalidated: then the event is recorded
/// as if there were none.
bool capture_event_record(Stream& stream, ihipEvent_t& event);
/// hipStreamWaitEvent: *captured says whether it belonged to a capture (then nothing is left to do but return the
/// code).
hipError_t capture_wait_event(Stream& stream, ihipEvent_t& event, bool* captured);
/// hipMallocAsync, hipFreeAsync and hipMallocFromPoolAsync on a capturing stream (alloc and free nodes).
hipError_t capture_malloc(Stream& stream, void** pointer, std::size_t bytes);
hipError_t capture_free(Stream& stream, void* pointer);
/// hipFree: true when the memory was an alloc node's; its graph keeps the address.
bool free_graph_memory(void* pointer);

/// Checks that calls make before they act; a failing check invalidates the captures that HIP would invalidate.
hipError_t check_capture_unsafe_call();         ///< hipMalloc, hipFree and their like: by the thread's capture mode
hipError_t check_capture_device_synchronize();  ///< hipDeviceSynchronize: any capture in the process
hipError_t check_capture_ordered_memory(const Stream& stream);  ///< hipMallocAsync, hipFreeAsync: blocking streams
hipError_t check_capture_implicit();                    ///< synchronous copies and fills: hipErrorStreamCaptureImplicit
hipError_t check_capture_stream_query(Stream& stream);  ///< hipStreamQuery, hipStreamSynchronize
hipError_t check_capture_event_query(ihipEvent_t& event);        ///< hipEventQuery
hipError_t check_capture_event_synchronize(ihipEvent_t& event);  ///< hipEventSynchronize
/// hipStreamDestroy: ends the stream's part in a capture.
void capture_stream_destroyed(Stream& stream);
/// hipEventDestroy.
void capture_event_destroyed(ihipEvent_t& event);

}  // namespace cpuhip
