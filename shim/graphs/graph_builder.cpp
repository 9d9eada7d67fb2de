#include "shim/graphs/graph_builder.h"

#include <utility>

#include "shim/base/trace.h"
#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/recording/reissue.h"

namespace graphpool {

/// Builds the real graph. Where the graph holds user objects, builds it in the graph that holds them.
hipError_t GraphBuilder::build(TrackedGraph& graph, const std::vector<Operation>& operations) {
  const PrivateCalls private_calls;
  if (graph.objects == nullptr) return build_graph(operations, graph.binding, &graph.real, &graph.nodes);
  const hipGraph_t holder = graph.objects->graph();
  const hipError_t result = add_all_to_graph(operations, graph.binding, holder, {}, &graph.nodes);
  if (result == hipSuccess) {
    graph.real = holder;
    return hipSuccess;
  }
  const LastErrorScope last_error;
  for (const hipGraphNode_t node : graph.nodes)
    if (node != nullptr) PrivateCalls::gave_back([&] { return next().hipGraphDestroyNode(node); });
  graph.nodes.clear();
  return result;
}

hipError_t GraphBuilder::make_real(TrackedGraph& graph, const char* reason) {
  if (graph.real != nullptr) return hipSuccess;
  const TraceSpan traced(TraceKind::kMadeReal);
  tell_trace(reason, graph.number());
  std::vector<Operation> built;
  if (graph.build != nullptr)
    for (const TreeNode* const step : graph.build->path) built.push_back(step->operation);
  const hipError_t result = build(graph, graph.build != nullptr ? built : graph.recording->operations);
  if (result != hipSuccess) return result;
  if (graph.build != nullptr) {
    graph.build->leave_tree();
    graph.build->operations = std::move(built);
  }
  const LockGuard guard(g_recordings_lock);
  if (graph.recording != nullptr) ++graph.recording->statistics.materialised;
  Materialisation made;
  made.reason = reason;
  made.graph = graph.number();
  materialisations_.count(made);
  nodes_.put_all(graph);
  return hipSuccess;
}

}  // namespace graphpool
