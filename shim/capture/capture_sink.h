// capture_sink.h: lets a capture speak to those who hold the graphs, and ask them. The one way up from here.
//
// Threads: any. Call real_graph_captured(), untracked_graph_captured(), make_deferred_graph(), nodes_gone(),
// drop_free_execs_of(), capture_differs(), memory_leaves() and read_nodes() without a lock held: they take kCapture or
// lower ranks, or log. The others may take kRecordings and ranks above. walk_begins() holds the tree until
// walk_ended().
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "shim/execs/recording.h"
#include "shim/execs/recording_tree.h"
#include "shim/recording/operation.h"

namespace graphpool {

class TrackedGraph;
struct GraphSettings;
struct Materialisation;
struct TreeNode;

/// The runtime's graph of a capture that has ended.
struct CapturedGraph {
  hipGraph_t graph = nullptr;
  /// The graph that the program knows by a handle of the library's since before the capture's end. Null: there is none.
  std::shared_ptr<TrackedGraph> tracked;
  bool holds_objects = false;   ///< it holds user objects
  const void* place = nullptr;  ///< where the program began the capture; null: it is not judged by its place
};

/// A node of a tracked graph, by the index of its operation. No graph: the node is none of a tracked graph.
struct NodeRef {
  TrackedGraph* graph = nullptr;
  std::uint32_t index = 0;
};

/// What became of a capture that was recorded.
struct RecordedGraph {
  hipGraph_t handle;  ///< by which the program knows the graph
  bool learned;       ///< the recording is new, and there was room for it
};

class CaptureSink {
 public:
  virtual const GraphSettings& settings() const noexcept = 0;

  /// Where captures with this beginning start in the tree. If there is a start, the tree is held until walk_ended().
  virtual TreeWalk walk_begins(const Signature& begin) = 0;
  virtual void walk_ended() noexcept = 0;
  /// Returns the recording that ends at this place of the tree. Empty: it is not kept any more. Pre-condition: the
  /// caller holds the tree.
  virtual HeldRecording hold(const TreeNode& end) noexcept = 0;

  /// Takes the graph of a real capture that has ended, and that is what was recorded.
  virtual RecordedGraph real_graph_captured(CapturedGraph captured, RecordedCapture recording) = 0;
  /// Takes the graph of a real capture without a recording. Returns the handle by which the program knows it.
  virtual hipGraph_t untracked_graph_captured(CapturedGraph captured) = 0;
  /// Makes the graph of a withheld capture that has ended. Returns the handle that the program gets. The graph takes
  /// over what holds the recording. The runtime's graph in `captured` is destroyed where nothing needs it. Returns null
  /// if there is no handle left, and the graph could not be made real either.
  virtual hipGraph_t make_deferred_graph(HeldRecording recording, Binding binding, CapturedGraph captured) = 0;
  /// Destroys the free execs of recordings that were captured last at this place: captures that the program begins
  /// there are left alone from now on. Call it without a lock held.
  virtual void drop_free_execs_of(const void* place) = 0;
  /// Notes that a capture that was to be verified is what was expected of it.
  virtual void capture_verified(Recording& recording) noexcept = 0;
  /// Notes that such a capture differs: no capture matches the recording any more.
  virtual void capture_differs(Recording& recording, const Operation& operation, const Binding& binding,
                               hipGraphNode_t node, const char* reason) = 0;
  /// Notes why a capture gives no recording. `reason`: a literal.
  virtual void note_refused(const char* reason) noexcept = 0;
  virtual void note_materialised(const Materialisation& materialisation) noexcept = 0;

  /// Forgets the nodes of this graph: a capture into it has failed.
  virtual void nodes_gone(hipGraph_t graph) = 0;
  /// Call it before memory of the program goes. Makes real what names it and can be made only while it is there.
  virtual void memory_leaves(const void* address, std::size_t bytes, const char* reason) = 0;

 protected:
  ~CaptureSink() = default;  ///< there is one, and it stays
};

/// Keeps the library's handles for the graphs of open captures and for their nodes. A program gets these handles when
/// it asks for the graph of its capture (open_graph.cpp).
class OpenGraphs {
 public:
  /// Makes a graph and a handle for it. Returns false if there is no handle left.
  virtual bool add(std::shared_ptr<TrackedGraph>* made) = 0;
  /// Drops the graph of a capture that was broken off.
  virtual void drop(TrackedGraph& graph) noexcept = 0;
  /// Notes that the capture has become real: `real` is its graph in the runtime, `nodes` has the node of each
  /// operation.
  virtual void made_real(TrackedGraph& graph, hipGraph_t real, const std::vector<hipGraphNode_t>& nodes) = 0;

  virtual hipGraph_t handle(const TrackedGraph& graph) const noexcept = 0;
  /// Returns the handle of the operation's node. Makes the handle if the program has none yet. Returns null if no
  /// handle is left.
  virtual hipGraphNode_t node_handle(TrackedGraph& graph, std::uint32_t index) = 0;
  /// Returns the handle of the operation's node. Returns null if the program has none.
  virtual hipGraphNode_t known_handle(const TrackedGraph& graph, std::size_t index) const noexcept = 0;

  /// Returns the node that one of the library's handles names. No graph: the handle is not the library's, or its node
  /// is gone.
  virtual NodeRef node(hipGraphNode_t handle) const noexcept = 0;
  virtual bool gave_out(hipGraphNode_t handle) const noexcept = 0;
  /// Replaces the library's handles by the runtime's, for a call that only reads the nodes. If it replaced one, `nodes`
  /// points into `storage` afterwards.
  virtual hipError_t read_nodes(const hipGraphNode_t** nodes, std::size_t count, std::vector<hipGraphNode_t>* storage,
                                const char* reason) = 0;

 protected:
  ~OpenGraphs() = default;  ///< there is one, and it stays
};

// Defined with the graphs.
CaptureSink& capture_sink() noexcept;
OpenGraphs& open_graphs() noexcept;

}  // namespace graphpool
