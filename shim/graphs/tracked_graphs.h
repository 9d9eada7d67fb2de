// tracked_graphs.h: finds the tracked graph that a handle stands for, and the graph that the runtime gets in its place.
//
// A handle is the runtime's, or the library's own: of a deferred graph, or of one whose capture was open when the
// program asked for it. A call that only reads a graph gets the real one (read()); a call that may change it, or keep
// it, makes it modified (expose()).
//
// Errors are HIP's: a handle of ours that the program has destroyed is an invalid value. Threads: any. Locks: each
// graph's own (kCapture), held while calls that neither wait nor call back are forwarded.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <memory>

#include "shim/graphs/child_graph.h"
#include "shim/graphs/deferred_graphs.h"
#include "shim/graphs/graph_builder.h"
#include "shim/graphs/graph_nodes.h"
#include "shim/graphs/handle_table.h"
#include "shim/graphs/real_table.h"
#include "shim/graphs/tracked_graph.h"
#include "shim/hip/hip_abi.h"
#include "shim/recording/recordings_lock.h"

namespace graphpool {

/// A call that is not followed has named the graph, or a node, of an open capture.
inline constexpr const char* kOpenGraphUsed = "the program used the graph of an open capture";

class TrackedGraphs {
 public:
  TrackedGraphs(GraphNodes& nodes, GraphBuilder& builder, DeferredGraphs& deferred) noexcept
      : nodes_(nodes), builder_(builder), deferred_(deferred) {}

  /// Makes a handle for a deferred graph. Null when no handle is to be had.
  hipGraph_t add_deferred(const std::shared_ptr<TrackedGraph>& graph) EXCLUDES(g_recordings_lock);
  /// Enters a real graph. Pre-condition: graph->real is the program's graph.
  void add_real(const std::shared_ptr<TrackedGraph>& graph) EXCLUDES(g_recordings_lock);
  /// The tracked graph behind a handle, or null. It lives until the program destroys it. If its capture is open, that
  /// is exposed first (expose_open_graph()).
  TrackedGraph* find(hipGraph_t graph);
  /// Whether the library made this handle. The graph may have been destroyed since.
  bool gave_out(hipGraph_t graph) const noexcept { return handles_.owns(graph); }

  /// Puts the real graph in place of a handle, for a call that only reads it. Makes a deferred graph real; fails with
  /// HIP's error where that fails. A handle of the runtime's, or null, is given to HIP as it is.
  hipError_t read(hipGraph_t* graph, const char* reason);
  /// Tells what the graph is that is to be a part of `parent`, which may be null. If *child has no recording then, the
  /// graph is not known, and *graph is the real one. A build ends. A deferred graph whose recording may stand for it
  /// stays deferred the first time, and becomes real the second time. hipErrorInvalidValue: it is gone.
  hipError_t read_part(hipGraph_t* graph, const TrackedGraph* parent, ChildGraph* child);
  /// Reads the child graph that a node's parameters name: `params` becomes `storage` where it had to be replaced.
  hipError_t read_child(const void** params, AnyNodeParams* storage);
  /// Puts the real graph in place of a handle, for a call that may change it, or keep it: it is modified from now on.
  hipError_t expose(hipGraph_t* graph, const char* reason) { return expose(graph, find(*graph), reason); }
  /// `tracked`: what find() says of it.
  hipError_t expose(hipGraph_t* graph, TrackedGraph* tracked, const char* reason);
  hipError_t destroy(hipGraph_t graph);
  /// Tells how many nodes a deferred graph has. False: HIP must be asked.
  bool count_nodes(hipGraph_t graph, std::size_t* count);

  // --- graphs of open captures (capture/open_graph.cpp) ---

  /// Makes a graph and a handle for it. Returns null if there is no handle left.
  std::shared_ptr<TrackedGraph> add_open();
  /// Drops the graph of a capture that was broken off.
  void drop_open(TrackedGraph& graph) noexcept;
  /// Notes that its capture has ended: from now on the graph is as any other.
  void capture_ended(const std::shared_ptr<TrackedGraph>& graph) EXCLUDES(g_recordings_lock);

 private:
  TrackedGraph* find_real(hipGraph_t graph) const noexcept;
  static void settle(hipGraph_t graph);
  static bool may_be_part(const TrackedGraph& graph) noexcept REQUIRES(graph.lock);
  static hipGraph_t real_of_open(const TrackedGraph& graph) noexcept;
  std::shared_ptr<TrackedGraph> take_out(hipGraph_t graph) EXCLUDES(g_recordings_lock);
  void forget_destroyed(const TrackedGraph& graph) noexcept REQUIRES(g_recordings_lock);

  GraphNodes& nodes_;
  GraphBuilder& builder_;
  DeferredGraphs& deferred_;
  RealTable real_;  ///< tracked graphs
  HandleTable<TrackedGraph> handles_;
};

}  // namespace graphpool
