#include "shim/recording/node_check.h"

#include <algorithm>
#include <string_view>

#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/kernel/functions.h"
#include "shim/recording/edges.h"
#include "shim/recording/materialisation.h"
#include "shim/recording/node_creation.h"
#include "shim/recording/operation_functions.h"

namespace graphpool {
namespace {

/// Returns the runtime's number for kernel nodes: 1 in the first releases, then 0. Also 0 where it does not tell. The
/// number of empty nodes is always five more (probe node_types_are_in_order).
int number_of_kernels() {
  const LastErrorScope last_error;
  hipGraph_t graph = nullptr;
  hipGraphNode_t node = nullptr;
  hipGraphNodeType type{};
  if (next().hipGraphCreate(&graph, 0) != hipSuccess) return 0;
  const auto add = [&] {
    const NodeCreation making;
    return next().hipGraphAddEmptyNode(&node, graph, nullptr, 0);
  };
  const bool known = add() == hipSuccess && next().hipGraphNodeGetType(node, &type) == hipSuccess;
  static_cast<void>(next().hipGraphDestroy(graph));
  return known ? static_cast<int>(type) - 5 : 0;
}

bool type_matches(hipGraphNode_t node, OperationKind kind) {
  static const int first = number_of_kernels();
  hipGraphNodeType type{};
  if (next().hipGraphNodeGetType(node, &type) != hipSuccess) return false;
  const int from_kernels = static_cast<int>(type) - first;
  return with_kind(kind, [&](auto functions) { return functions.has_type(from_kernels); });
}

/// Returns what of the node's parameters differs from the operation; null: nothing that the runtime tells.
const char* difference(const NodeQuestion& asked) {
  return with_kind(asked.operation.signature.kind, [&](auto kind) { return kind.node_difference(asked); });
}

bool dependencies_match(hipGraphNode_t node, const std::vector<std::uint32_t>& after,
                        const std::vector<hipGraphNode_t>& nodes) {
  std::size_t count = 0;
  if (next().hipGraphNodeGetDependencies(node, nullptr, &count) != hipSuccess) return false;
  if (count != after.size()) return false;
  if (count == 0) return true;
  std::vector<hipGraphNode_t> found(count);
  if (next().hipGraphNodeGetDependencies(node, found.data(), &count) != hipSuccess) return false;
  return std::all_of(after.begin(), after.end(), [&](std::uint32_t index) {
    return std::find(found.begin(), found.end(), nodes[index]) != found.end();
  });
}

}  // namespace

bool nodes_match(hipGraph_t graph, const std::vector<Operation>& operations, const Binding& binding,
                 const std::vector<hipGraphNode_t>& nodes, const char** reason, std::uint32_t* which,
                 NodesInside inside) {
  const LastErrorScope last_error;
  std::size_t expected = 0, count = 0;
  for (const Operation& operation : operations) expected += makes_node(operation.signature.kind) ? 1 : 0;
  if (next().hipGraphGetNodes(graph, nullptr, &count) != hipSuccess || count != expected) {
    *reason = "the graph has nodes that nobody issued through the library";
    return false;
  }
  const auto dependencies = dependencies_of(operations);
  std::vector<hipGraphNode_t> seen;
  if (which != nullptr) *which = 0;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = operations[i];
    if (!makes_node(operation.signature.kind)) continue;
    if (which != nullptr) *which = static_cast<std::uint32_t>(i);
    if (nodes[i] == nullptr || !type_matches(nodes[i], operation.signature.kind)) {
      *reason = "a node's type differs from the recorded operation";
      return false;
    }
    std::size_t argument = 0;
    std::vector<hipGraphNode_t> its;
    if (operation.signature.kind == OperationKind::kChild) its = inside(i);
    if (difference({nodes[i], operation, binding, &argument, &its}) != nullptr) {
      *reason = "a node's parameters differ from the recorded operation";
      return false;
    }
    if (!dependencies_match(nodes[i], dependencies[i], nodes)) {
      *reason = "a node's dependencies differ from the recorded ones";
      return false;
    }
    seen.push_back(nodes[i]);
  }
  std::sort(seen.begin(), seen.end());
  if (std::adjacent_find(seen.begin(), seen.end()) != seen.end()) {
    *reason = "two operations share a node";
    return false;
  }
  return true;
}

bool child_matches(hipGraph_t child, const Operation& operation, const Binding& binding,
                   std::vector<hipGraphNode_t>* nodes) {
  const LastErrorScope last_error;
  const char* reason = nullptr;
  if (nodes->size() == operation.child->size())
    return nodes_match(child, *operation.child, payload_of(operation, binding), *nodes, &reason);
  std::size_t count = 0;
  nodes->clear();
  if (next().hipGraphGetNodes(child, nullptr, &count) != hipSuccess) return false;
  std::vector<hipGraphNode_t> listed(count);
  if (count != 0 && next().hipGraphGetNodes(child, listed.data(), &count) != hipSuccess) return false;
  auto each = listed.begin();
  for (const Operation& inner : *operation.child) {
    const bool has_node = makes_node(inner.signature.kind) && each != listed.end();
    nodes->push_back(has_node ? *each++ : nullptr);
  }
  return nodes_match(child, *operation.child, payload_of(operation, binding), *nodes, &reason);
}

std::vector<hipGraphNode_t> nodes_inside(hipGraphNode_t node, const std::vector<hipGraphNode_t>& made_of) {
  const PrivateCalls private_calls;
  const LastErrorScope last_error;
  hipGraph_t child = nullptr;
  std::vector<hipGraphNode_t> nodes(made_of.size());
  if (next().hipGraphChildGraphNodeGetGraph(node, &child) != hipSuccess) return {};
  for (std::size_t i = 0; i < made_of.size(); ++i)
    if (made_of[i] != nullptr && next().hipGraphNodeFindInClone(&nodes[i], made_of[i], child) != hipSuccess) return {};
  return nodes;
}

std::string operation_name(const Signature& signature) {
  std::string text = kind_name(signature.kind);
  const void* const kernel = kernel_of(signature);
  if (kernel == nullptr) return text;
  const char* const name = functions().find(kernel).name;
  return text + " " + (name == nullptr ? "(unknown)" : name);
}

std::string difference_of(hipGraphNode_t node, const Operation& operation, const Binding& binding) {
  std::string text = operation_name(operation.signature);
  std::size_t argument = 0;
  const char* const what = node == nullptr ? nullptr : difference({node, operation, binding, &argument, nullptr});
  if (what == nullptr) return text;
  text.append(": ").append(what);
  if (std::string_view(what) == "argument") text.append(" ").append(std::to_string(argument));
  return text;
}

}  // namespace graphpool
