// captured_graphs.h: makes a recording, and a tracked graph that the program holds, of a capture that has ended, or of
// a graph that was built.
//
// Errors are HIP's. Threads: any.
#pragma once

#include <hip/hip_runtime_api.h>

#include <memory>
#include <vector>

#include "shim/capture/capture_sink.h"
#include "shim/execs/recordings.h"
#include "shim/graphs/tracked_graphs.h"
#include "shim/recording/reissue.h"

namespace graphpool {

/// What of a capture is not what its recording says.
struct CaptureDifference {
  const Operation& operation;
  const Binding& binding;
  hipGraphNode_t node;
  const char* reason;
};

class CapturedGraphs {
 public:
  CapturedGraphs(Recordings& recordings, TrackedGraphs& graphs, GraphBuilder& builder) noexcept
      : recordings_(recordings), graphs_(graphs), builder_(builder) {}

  /// Takes the graph of a real capture that has ended, and that is what was recorded.
  RecordedGraph real_graph_captured(CapturedGraph captured, RecordedCapture recording);
  /// Takes the graph of a real capture without a recording. Returns the handle by which the program knows it.
  hipGraph_t untracked_graph_captured(CapturedGraph captured);
  /// Makes the graph of a withheld capture that ended as the recording says. Returns the handle that the program gets.
  /// The graph takes over what holds the recording. The runtime's graph is destroyed where nothing needs it.
  hipGraph_t make_deferred_graph(HeldRecording recording, Binding binding, CapturedGraph captured);

  /// Gives its recording to a graph that was built node by node, or captured at this place, and is what was recorded.
  /// Returns whether the recording is new and there was room for it.
  bool learn(TrackedGraph& graph, std::vector<Operation> operations, const void* place, std::uint32_t call_site = 0)
      REQUIRES(graph.lock) EXCLUDES(g_recordings_lock);
  /// Notes that a graph that was built node by node is deferred, and refers to the recording from now on.
  void refer_deferred(Recording& recording) noexcept EXCLUDES(g_recordings_lock);

  /// hipGraphClone: the copy of a deferred graph without user objects is deferred, too; HIP makes any other.
  hipError_t clone(hipGraph_t* copy, hipGraph_t original);
  /// Calls use() with the graph that proved the recording, set to this binding. Returns false, without that call, if
  /// there is no such graph, if it has outlived memory, or if its nodes cannot all be set exactly.
  bool with_first_graph(Recording& recording, const Binding& binding, GraphUse use, hipError_t* result)
      EXCLUDES(g_recordings_lock);

  /// Notes that a verified capture is what was expected of it.
  static void verified(Recording& recording) noexcept EXCLUDES(g_recordings_lock);
  /// Notes that it is not: captures of the recording are left to the runtime from now on.
  static void differs(Recording& recording, const CaptureDifference& difference) EXCLUDES(g_recordings_lock);

 private:
  hipGraph_t clone_deferred(TrackedGraph& original) EXCLUDES(original.lock, g_recordings_lock);
  hipGraph_t give_real(const std::shared_ptr<TrackedGraph>& graph) EXCLUDES(g_recordings_lock);
  static void prove(Recording& recording, const TrackedGraph& graph) REQUIRES(graph.lock) EXCLUDES(g_recordings_lock);

  Recordings& recordings_;
  TrackedGraphs& graphs_;
  GraphBuilder& builder_;
};

/// Captures of the process that were left alone, so far (costs/returns.h).
std::uint64_t all_captures_left_alone() noexcept;

}  // namespace graphpool
