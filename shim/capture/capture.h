// capture.h: records what a program captures, and, where it captures a sequence seen before, compares instead of
// forwarding (withheld capture).
//
// The life of a capture:
//   begin            forwarded. Where recordings with the same beginning exist the capture is a shell, unless `verify`
//                    picks it: begin, forks, joins and end are forwarded (a join perhaps later, put_off_joins.h),
//                    operations are withheld (probes empty_capture_ends, empty_forks_join, capture_id_stays).
//   each operation   in a shell: matched with the prefix tree; the first mismatch makes the capture real (the matched
//                    prefix is issued into it). In a real capture: forwarded, then noted with its node
//                    (probes operations_are_captured, queries_are_no_nodes).
//   end              forwarded. A shell that matched to the end becomes a deferred graph; a real capture whose
//                    every node is what we noted becomes a recording.
// A capture becomes no recording, and the report says why, where for example an operation failed; where an operation
// has no row or its arguments' layout is unknown; where two threads issued operations to one stream at the same time;
// where the program used the capture's graph or nodes in a way that open_graph.cpp does not follow; where a node is in
// it that no call we saw has added.
//
// Threads: a capture has a lock of its own (rank kCapture) held while an operation of it is forwarded: capturing calls
// neither wait nor call back. Errors are HIP's own; where the library cannot follow, the program's call is forwarded.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <type_traits>

#include "shim/base/function_ref.h"
#include "shim/capture/failed_end.h"
#include "shim/capture/left_alone.h"
#include "shim/hip/entry.h"
#include "shim/hip/hook_table.h"
#include "shim/memory/device_memory.h"
#include "shim/recording/operation_writer.h"
#include "shim/streams/open_captures.h"
#include "shim/streams/stream_key.h"
#include "shim/streams/stream_work.h"

namespace graphpool {

using Forward = FunctionRef<hipError_t()>;
/// Makes the program's wait, for the event that the program names or for another.
using ForwardWait = FunctionRef<hipError_t(hipEvent_t event)>;

/// What hipStreamGetCaptureInfo_v2 is asked for; null: not asked for.
struct CaptureQuestion {
  hipStreamCaptureStatus* status;
  unsigned long long* id;
  hipGraph_t* graph;
  const hipGraphNode_t** nodes;
  std::size_t* count;
};
/// What hipStreamUpdateCaptureDependencies is given; or an added node's dependencies, without flags.
struct NamedNodes {
  hipGraphNode_t* nodes;
  std::size_t count;
  unsigned flags;
};
/// The first arguments of a call that adds a node to the graph of an open capture by that graph's handle.
struct AddedNode {
  hipGraphNode_t* node;
  const hipGraphNode_t* after;
  std::size_t count;
};
/// The program's calls with the runtime's own nodes and graph.
using NativeDependencies = FunctionRef<hipError_t(hipGraphNode_t* nodes)>;
using NativeCapturedAdd = FunctionRef<hipError_t(hipGraph_t graph, const hipGraphNode_t* after)>;
using NativeGraphCall = FunctionRef<hipError_t(hipGraph_t graph)>;

/// Takes an operation while some capture is open in the process. Call captured_operation() below instead.
hipError_t operation_while_capturing(StreamArgument stream, Describe describe, Forward forward);

/// Whether note_use() is to note what streams enqueue outside of captures (streams/outstanding_uses.h).
inline constinit std::atomic<bool> g_uses_tracked{false};
inline bool uses_tracked() noexcept { return g_uses_tracked.load(std::memory_order_relaxed); }
void note_use(StreamArgument stream, Describe describe);

/// The body of calls that a capture records: describes the call to a capture, or forwards it where none is open.
template <typename DescribeCall, typename ForwardCall>
inline hipError_t captured_operation(StreamArgument stream, DescribeCall&& describe, ForwardCall&& forward) {
  if (!captures_open()) [[likely]] {
    const hipError_t result = retry_with_room(forward);
    work_counts().note_work(plain_handle(stream));
    if (uses_tracked()) [[unlikely]]
      note_use(stream, describe);
    return result;
  }
  return operation_while_capturing(stream, describe, forward);
}

template <typename DescribeCall, typename... Arguments>
[[gnu::noinline]] hipError_t captured_call_while_capturing(StreamArgument stream, hipError_t (*next_call)(Arguments...),
                                                           DescribeCall describe, Arguments... arguments) {
  return operation_while_capturing(
      stream, [&](OperationWriter& to) { return describe(to, arguments...); }, [&] { return next_call(arguments...); });
}

template <typename... Arguments>
[[gnu::noinline, gnu::cold]] hipError_t captured_call_again(hipError_t (*next_call)(Arguments...),
                                                            Arguments... arguments) {
  memory_room().make_room();
  return next_call(arguments...);
}

template <typename DescribeCall, typename... Arguments>
[[gnu::noinline]] void captured_call_use(StreamArgument stream, DescribeCall describe, Arguments... arguments) {
  note_use(stream, [&](OperationWriter& to) { return describe(to, arguments...); });
}

/// Does what captured_operation() does, for the calls that programs make most. Forwards to `next_call` with these
/// arguments. `describe` is a lambda that captures nothing and gets the same arguments. So the arguments stay in
/// registers if no capture is open.
template <typename DescribeCall, typename... Arguments>
[[gnu::always_inline]] inline hipError_t captured_call(StreamArgument stream, hipError_t (*next_call)(Arguments...),
                                                       DescribeCall describe,
                                                       std::type_identity_t<Arguments>... arguments) {
  if (!captures_open()) [[likely]] {
    hipError_t result = next_call(arguments...);
    if (result == hipErrorOutOfMemory) [[unlikely]]
      result = captured_call_again<Arguments...>(next_call, arguments...);
    work_counts().note_work(plain_handle(stream));
    if (uses_tracked()) [[unlikely]]
      captured_call_use(stream, describe, arguments...);
    return result;
  }
  return captured_call_while_capturing(stream, next_call, describe, arguments...);
}

/// A kernel as a program launches it, with its arguments one pointer each or as one buffer.
struct KernelLaunch {
  hipStream_t stream;
  const void* function;
  void** params;
  KernelPayload shape;  ///< without the size of its arguments
  KernelForm form;
  void** extra = nullptr;      ///< the buffer; then there are no `params`
  std::uint32_t validity = 0;  ///< of its signature
};

/// Withholds a launch in a shell, as operation_while_capturing() would. It does so only if the thread fed the shell by
/// this stream last, and the launch is the first child of the shell's node, but for grid and arguments. Returns false
/// if it did nothing: the caller asks operation_while_capturing().
bool matched_launch(const KernelLaunch& launch);

/// Whether the stream takes part in a capture that is followed, or is the origin of one that is left alone.
bool in_open_capture(StreamArgument stream);

/// Forwards work that no recording can hold. A capture that the stream takes part in becomes real for good.
hipError_t other_stream_work(StreamArgument stream, Forward forward);

hipError_t begin_capture(StreamArgument stream, hipStreamCaptureMode mode, Forward forward);
/// Begins a capture into this graph of the program's. It is counted, and never becomes a recording.
hipError_t begin_foreign_capture(StreamArgument stream, hipStreamCaptureMode mode, hipGraph_t into, Forward forward);
hipError_t end_capture(StreamArgument stream, hipGraph_t* graph, Forward forward);

/// How many open captures are followed, or at least looked into.
inline constinit std::atomic<std::size_t> g_followed_captures{0};
inline bool nobody_follows() noexcept { return g_followed_captures.load(std::memory_order_acquire) == 0; }
/// Whether the library looks into no open capture, nor at what streams use.
inline bool nobody_looks() noexcept { return nobody_follows() && !uses_tracked(); }
hipError_t record_event(hipEvent_t event, StreamArgument stream, Forward forward);
/// Makes a stream wait for an event. A wait that the runtime performs is work of the stream; one that it captures is an
/// edge, and no work.
hipError_t wait_event(StreamArgument stream, hipEvent_t event, ForwardWait forward);

// The graph of an open capture, as a program may ask for it: communication libraries do, to bind what a captured
// collective needs to the graph's life and to order their own stream behind it.

/// Answers hipStreamGetCaptureInfo_v2 where it asks for more than the status and the id. The status is not null.
hipError_t tell_capture(StreamArgument stream, const CaptureQuestion& asked, Forward forward);
hipError_t update_capture_dependencies(hipStream_t stream, const NamedNodes& named, NativeDependencies forward);
/// Adds a node to the graph of an open capture. Returns false, and does nothing, if the graph belongs to no open
/// capture.
bool add_to_capture(hipGraph_t graph, const AddedNode& added, Describe describe, NativeCapturedAdd forward,
                    hipError_t* result);
/// Lets the graph of an open capture hold on to user objects. Returns false, and does nothing, if the graph belongs to
/// no open capture.
bool hold_by_capture(hipGraph_t graph, NativeGraphCall forward, hipError_t* result);
/// How many open captures there are of which the program knows the graph, or nodes.
inline constinit std::atomic<int> g_named_captures{0};
/// Call these where the program makes another call than those above on such a graph, or on a node of it: the capture
/// becomes real, and no recording.
void expose_open_graph(hipGraph_t graph, const char* reason);
void expose_open_node(hipGraphNode_t node, const char* reason);

/// Makes the stream's capture real for good. Call it before an operation on the stream that no recording can hold.
void expose_capture(StreamArgument stream, const char* reason);

/// Ends the stream's part in a capture. Call before forwarding the destruction.
void capture_stream_destroyed(hipStream_t stream) noexcept;
/// Takes our events away from a stream that is about to be destroyed. Call it before capture_stream_destroyed().
void events_leave_destroyed(hipStream_t stream) noexcept;
void capture_event_destroyed(hipEvent_t event) noexcept;

/// Makes every open withheld capture real (rules 7 and 38: settings or kinds of memory change, a device is reset).
void materialise_open_captures(const char* reason);
/// Makes the open withheld captures real that name memory of this range. 0 bytes: the size is not known, and all of
/// them become real.
void materialise_captures_naming(const void* address, std::size_t bytes, const char* reason);

/// Makes every open withheld capture real that has withheld an operation for which the test is true.
void materialise_captures_with(OperationTest test, const char* reason);
/// Makes every open capture that has such an operation, withheld or not, real and no recording: what it names goes.
void end_comparing_with(OperationTest test, const char* reason);

/// Lets all open captures leave the tree of recordings. The withheld ones are made real.
void end_walks(const char* reason);

/// Call it before memory of the program goes by a call that is not the pool's. Makes real what names the memory and can
/// be made only while it is there.
void memory_goes(const void* address, std::size_t bytes, const char* reason);

/// Whether operations reach captures past the library, or may, or run at once: then no capture is withheld.
bool captures_bypassed() noexcept;

}  // namespace graphpool
