// tracked_nodes.h: serves calls on nodes of graphs that the program holds.
//
// A call that takes nodes asks for the real ones: read() where it only reads, expose() where it changes the node. A
// call that gives nodes out gives the program's own handles back (GraphNodes::as_program_knows()). Errors are HIP's.
// Threads: any.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <vector>

#include "shim/base/function_ref.h"
#include "shim/graphs/deferred_graphs.h"
#include "shim/graphs/graph_builder.h"
#include "shim/graphs/graph_nodes.h"
#include "shim/graphs/tracked_graphs.h"

namespace graphpool {

using NativeNodeCall = FunctionRef<hipError_t(hipGraphNode_t node)>;

class TrackedNodes {
 public:
  TrackedNodes(GraphNodes& table, GraphBuilder& builder, DeferredGraphs& deferred, TrackedGraphs& graphs) noexcept
      : table_(table), builder_(builder), deferred_(deferred), graphs_(graphs) {}

  /// No graph: the node is none of a tracked graph's.
  NodeRef find(hipGraphNode_t node) const noexcept { return table_.find(node); }
  /// Puts the real node in place of a handle, for a call that only reads it.
  hipError_t read(hipGraphNode_t* node, const char* reason);
  /// Reads many: `nodes` points into `storage` where one had to be replaced.
  hipError_t read_all(const hipGraphNode_t** nodes, std::size_t count, std::vector<hipGraphNode_t>* storage,
                      const char* reason);
  /// Puts the real node in place of a handle, for a call that changes it: its graph is modified from now on.
  hipError_t expose(hipGraphNode_t* node, const char* reason);
  /// Destroys a node, named by the handle that the program knows: its graph is modified from now on.
  hipError_t destroy(hipGraphNode_t node, NativeNodeCall forward);
  /// Forgets the nodes of this graph, which the runtime may have destroyed.
  void forget_all(hipGraph_t graph);
  /// Sets what a node of a graph does. A tracked graph whose operation stays the same but for its payload has another
  /// binding from then on, and is no less tracked.
  hipError_t set(hipGraphNode_t node, Describe describe, NativeNodeCall forward);

  /// Notes that the program has been given the graph inside a node, which is a copy of the one that was added.
  void note_inside(hipGraphNode_t node, hipGraph_t inside);
  /// The node of a copy that stands for this one; null: HIP must be asked. As in HIP, copies of copies are copies.
  hipGraphNode_t find_in_copy(hipGraphNode_t original, hipGraph_t copy);

 private:
  void forget(const NodeRef& ref);
  hipGraphNode_t find_inside(const NodeRef& original, hipGraph_t inside);
  bool takes_payload(const TrackedGraph& graph, std::uint32_t index, const Binding& payload) const REQUIRES(graph.lock);

  GraphNodes& table_;
  GraphBuilder& builder_;
  DeferredGraphs& deferred_;
  TrackedGraphs& graphs_;
};

}  // namespace graphpool
