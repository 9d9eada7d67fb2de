#include "shim/graphs/child_graph.h"

#include "shim/graphs/graphs.h"

namespace graphpool {

Status ChildGraph::describe(OperationWriter& to) const {
  return recording ? to.node_child((*recording).number, binding) : Status::kUnsupported;
}

/// Gives the graph that proved the recording, but only for the first time: a program that keeps its own graph gives it
/// again. False: nothing was given.
bool ChildGraph::give_set(GraphUse use, hipError_t* result) const {
  return tracked->given.fetch_add(1, std::memory_order_relaxed) == 0 &&
         graphs().captured.with_first_graph(*recording, binding, use, result);
}

hipError_t ChildGraph::give(hipGraph_t graph, GraphUse use) const {
  if (!recording) return use(graph, {});
  if (real != nullptr) return use(real, nodes);
  hipError_t result = hipSuccess;
  if (give_set(use, &result)) return result;
  Materialisation made;
  made.reason = kUsedAsChild;
  made.graph = (*recording).number;
  graphs().materialisations.note(made);
  return with_graph((*recording).operations, binding, use);
}

hipError_t ChildGraph::give_real(hipGraph_t graph, GraphUse use) const {
  if (!recording || real != nullptr) return give(graph, use);
  hipError_t result = hipSuccess;
  if (give_set(use, &result)) return result;
  result = graphs().tracked.read(&graph, kUsedAsChild);
  if (result != hipSuccess) return result;
  std::vector<hipGraphNode_t> made;
  {
    const LockGuard guard(tracked->lock);
    made = tracked->nodes;
  }
  return use(graph, made);
}

}  // namespace graphpool
