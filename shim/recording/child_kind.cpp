#include "shim/recording/child_kind.h"

#include "shim/hip/next.h"
#include "shim/recording/node_check.h"
#include "shim/recording/node_creation.h"
#include "shim/recording/operation_functions.h"
#include "shim/recording/reissue.h"

namespace graphpool {

hipError_t ChildKind::add(const Operation& operation, const Binding& binding, const NewNode& place) {
  return with_graph(*operation.child, payload_of(operation, binding), [&](hipGraph_t child, const auto&) {
    const NodeCreation making;
    return next().hipGraphAddChildGraphNode(place.node, place.graph, place.after.data(), place.after.size(), child);
  });
}

hipError_t ChildKind::patch(const Operation& operation, const Binding& binding, hipGraphExec_t exec,
                            hipGraphNode_t node) {
  return with_graph(*operation.child, payload_of(operation, binding), [&](hipGraph_t child, const auto&) {
    return next().hipGraphExecChildGraphNodeSetParams(exec, node, child);
  });
}

const char* ChildKind::node_difference(const NodeQuestion& asked) {
  hipGraph_t child = nullptr;
  if (next().hipGraphChildGraphNodeGetGraph(asked.node, &child) != hipSuccess) return "parameters";
  std::vector<hipGraphNode_t> nodes;
  if (asked.inside != nullptr) nodes = *asked.inside;
  return child_matches(child, asked.operation, asked.binding, &nodes) ? nullptr : "nodes";
}

std::size_t ChildKind::argument_memory(const Operation& operation) noexcept {
  std::size_t bytes = 0;
  for (const Operation& inner : *operation.child)
    bytes += with_kind(inner.signature.kind, [&](auto kind) { return kind.argument_memory(inner); });
  return bytes;
}

}  // namespace graphpool
