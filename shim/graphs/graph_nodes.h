// graph_nodes.h: keeps the nodes of tracked graphs: which real node, and which handle of the library's, stands for
// which operation of which graph; and the graphs inside child nodes that the program was given.
//
// A real node's entry is erased when the node goes, because the runtime may hand its handle out again. Threads: any;
// find() takes no lock.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "shim/graphs/handle_table.h"
#include "shim/graphs/real_table.h"
#include "shim/graphs/tracked_graph.h"
#include "shim/recording/recordings_lock.h"

namespace graphpool {

class GraphNodes {
 public:
  /// The operation that a real node, or a handle of the library's, stands for. No graph: the node is none of a tracked
  /// graph's. May be called under a graph's lock.
  NodeRef find(hipGraphNode_t node) const noexcept;
  /// Whether the library made this handle. Its node may be gone since.
  bool gave_out(hipGraphNode_t node) const noexcept { return handles_.owns(node); }
  /// The node that one of the library's handles names. No graph: the handle is not the library's, or its node is gone.
  NodeRef find_handle(hipGraphNode_t handle) const noexcept;
  /// The handle by which the program knows a real node.
  hipGraphNode_t as_program_knows(hipGraphNode_t real) const;

  /// Makes a handle for the operation's node. Null: none is to be had.
  hipGraphNode_t add_handle(TrackedGraph& graph, std::uint32_t index) REQUIRES(graph.lock);
  void remove_handle(hipGraphNode_t handle) { handles_.remove(handle); }

  /// Enters the graph's nodes: they are found from now on. Throws std::bad_alloc.
  void put_all(TrackedGraph& graph) REQUIRES(graph.lock, g_recordings_lock);
  /// Enters a node that the real graph has got.
  void add(TrackedGraph& graph, hipGraphNode_t node, std::uint32_t index) REQUIRES(graph.lock)
      EXCLUDES(g_recordings_lock);
  /// Takes out the node of an operation: the program has destroyed it.
  void erase(TrackedGraph& graph, std::uint32_t index) REQUIRES(graph.lock) EXCLUDES(g_recordings_lock);
  /// Takes out the graph's nodes, and the graphs inside them: the runtime may give their handles to others.
  void forget_all(const TrackedGraph& graph) noexcept REQUIRES(graph.lock, g_recordings_lock);

  /// Notes that the program has been given the graph inside a child node.
  void put_inside(hipGraph_t inside, const NodeRef& node) EXCLUDES(g_recordings_lock);
  /// The node that has this graph inside. Empty: the program was given no such graph.
  std::optional<NodeRef> find_inside(hipGraph_t inside) const EXCLUDES(g_recordings_lock);

 private:
  void put(hipGraphNode_t node, const NodeRef& ref) REQUIRES(g_recordings_lock);
  void erase_own(const TrackedGraph& graph, hipGraphNode_t node) noexcept REQUIRES(g_recordings_lock);
  void erase_inside_own(const TrackedGraph& graph, const GraphPart& part) noexcept REQUIRES(g_recordings_lock);

  RealTable real_;  ///< nodes: the graph and the index
  HandleTable<NodeRef> handles_;
  std::unordered_map<hipGraph_t, NodeRef> insides_ GUARDED_BY(g_recordings_lock);
};

}  // namespace graphpool
