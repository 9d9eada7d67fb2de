// captured_graphs.h: what becomes of a capture that has ended, and of a graph that was built: a recording, and a
// tracked graph that the program holds.
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

  /// A real capture ended and its graph is what was recorded.
  RecordedGraph real_graph_captured(CapturedGraph captured, RecordedCapture recording);
  /// A real capture ended of which no recording was made. The handle by which the program knows its graph.
  hipGraph_t untracked_graph_captured(CapturedGraph captured);
  /// A withheld capture ended as the recording says: the handle that the program gets. The graph takes the hold over,
  /// and `captured` goes where nothing needs it.
  hipGraph_t make_deferred_graph(HeldRecording recording, Binding binding, CapturedGraph captured);

  /// The graph was built node by node, or captured at this place, and is what was recorded: it has a recording from now
  /// on. Returns whether the recording is new and there was room for it.
  bool learn(TrackedGraph& graph, std::vector<Operation> operations, const void* place, std::uint32_t call_site = 0)
      REQUIRES(graph.lock) EXCLUDES(g_recordings_lock);
  /// A graph that was built node by node is deferred: it refers to the recording from now on.
  void refer_deferred(Recording& recording) noexcept EXCLUDES(g_recordings_lock);

  /// hipGraphClone: a deferred graph's copy is deferred, too; of any other HIP makes one.
  hipError_t clone(hipGraph_t* copy, hipGraph_t original);
  /// Calls use() with the graph that proved the recording, set to this binding, where there is one and the runtime is
  /// known to set all its differing nodes exactly; else false, and nothing was done.
  bool with_first_graph(Recording& recording, const Binding& binding, GraphUse use, hipError_t* result)
      EXCLUDES(g_recordings_lock);

  /// Result of verifying a capture: it is what was expected of it.
  static void verified(Recording& recording) noexcept EXCLUDES(g_recordings_lock);
  /// It is not: captures of the recording are left to the runtime from now on.
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
