#include "shim/recording/node_check.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/kernel/argument_layout.h"
#include "shim/kernel/functions.h"
#include "shim/recording/edges.h"
#include "shim/recording/materialisation.h"
#include "shim/recording/node_creation.h"

namespace graphpool {
namespace {

/// The runtime's number for kernel nodes: 1 in the first releases, then 0. An empty node is always five further (probe
/// node_types_are_in_order).
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

/// Plain copies have a type of their own where kernels are 1.
bool type_matches(hipGraphNode_t node, OperationKind kind) {
  static const int first = number_of_kernels();
  hipGraphNodeType type{};
  if (next().hipGraphNodeGetType(node, &type) != hipSuccess) return false;
  const int from_zero = static_cast<int>(type) - first;
  constexpr int kKernel = 0, kMemcpy = 1, kMemset = 2, kHost = 3, kChild = 4, kEmpty = 5;
  switch (kind) {
    case OperationKind::kKernel:
      return from_zero == kKernel;
    case OperationKind::kCopy:
      return from_zero == kMemcpy || from_zero > kChild;
    case OperationKind::kCopy2D:
    case OperationKind::kCopy3D:
      return from_zero == kMemcpy;
    case OperationKind::kEmpty:
      return from_zero == kEmpty;
    case OperationKind::kFill:
      return from_zero == kMemset;
    case OperationKind::kHost:
      return from_zero == kHost;
    case OperationKind::kChild:
      return from_zero == kChild;
    default:
      return false;
  }
}

/// What of the node's parameters differs from the operation; null: nothing that the runtime tells. *argument: of a
/// kernel, when it is that.
const char* kernel_difference(hipGraphNode_t node, const Operation& operation, const Binding& binding,
                              std::size_t* argument) {
  hipKernelNodeParams params{};
  if (next().hipGraphKernelNodeGetParams(node, &params) != hipSuccess) return "parameters";
  const auto& payload = payload_at<KernelPayload>(binding, operation.payload_offset);
  const auto same = [](const dim3& a, const std::uint32_t(&b)[3]) { return a.x == b[0] && a.y == b[1] && a.z == b[2]; };
  if (reinterpret_cast<std::uint64_t>(params.func) != operation.signature.object) return "function";
  if (params.sharedMemBytes != payload.shared_bytes) return "shared memory";
  if (!same(params.gridDim, payload.grid)) return "grid";
  if (!same(params.blockDim, payload.block)) return "block";
  const auto arguments = operation.layout->arguments();
  const std::byte* const segment = binding.data() + operation.payload_offset + sizeof(KernelPayload);
  if (params.kernelParams == nullptr && params.extra != nullptr) {
    std::vector<std::byte> packed(operation.layout->bytes());
    if (operation.layout->pack_extra(params.extra, packed.data()) != Status::kOk) return "arguments";
    return packed.empty() || std::memcmp(packed.data(), segment, packed.size()) == 0 ? nullptr : "arguments";
  }
  if (params.kernelParams == nullptr) return arguments.empty() ? nullptr : "arguments";
  for (*argument = 0; *argument < arguments.size(); ++*argument) {
    const Argument& each = arguments[*argument];
    if (std::memcmp(params.kernelParams[*argument], segment + each.offset, each.bytes) != 0) return "argument";
  }
  return nullptr;
}

const char* fill_difference(hipGraphNode_t node, const Operation& operation, const Binding& binding) {
  hipMemsetParams params{};
  if (next().hipGraphMemsetNodeGetParams(node, &params) != hipSuccess) return "parameters";
  const auto& fill = payload_at<FillPayload>(binding, operation.payload_offset);
  if (reinterpret_cast<std::uint64_t>(params.dst) != fill.dst) return "address";
  if (params.width != fill.width || params.height != fill.height) return "size";
  if (params.elementSize != (operation.signature.validity & 0xff)) return "element size";
  // What does not fit into an element does not count.
  const std::uint64_t unused = params.elementSize < 4 ? ~std::uint64_t{0} << (8 * params.elementSize) : 0;
  return ((params.value ^ fill.value) & ~unused & 0xffffffff) == 0 ? nullptr : "value";
}

const char* host_difference(hipGraphNode_t node, const Operation& operation, const Binding& binding) {
  hipHostNodeParams params{};
  if (next().hipGraphHostNodeGetParams(node, &params) != hipSuccess) return "parameters";
  if (reinterpret_cast<std::uint64_t>(params.fn) != operation.signature.object) return "function";
  const auto& host = payload_at<HostPayload>(binding, operation.payload_offset);
  return reinterpret_cast<std::uint64_t>(params.userData) == host.user ? nullptr : "user data";
}

const char* child_difference(hipGraphNode_t node, const Operation& operation, const Binding& binding,
                             std::vector<hipGraphNode_t> nodes) {
  hipGraph_t child = nullptr;
  if (next().hipGraphChildGraphNodeGetGraph(node, &child) != hipSuccess) return "parameters";
  return child_matches(child, operation, binding, &nodes) ? nullptr : "nodes";
}

/// Copies have no question of their own: hipGraphMemcpyNodeGetParams of a plain copy's node reads past it in HIP 5.
/// `inside`: NodesInside of a child graph; null: not known.
using Inside = std::vector<hipGraphNode_t>;
const char* difference(hipGraphNode_t node, const Operation& operation, const Binding& binding, std::size_t* argument,
                       const Inside* inside = nullptr) {
  switch (operation.signature.kind) {
    case OperationKind::kKernel:
      return kernel_difference(node, operation, binding, argument);
    case OperationKind::kFill:
      return fill_difference(node, operation, binding);
    case OperationKind::kHost:
      return host_difference(node, operation, binding);
    case OperationKind::kChild:
      return child_difference(node, operation, binding, inside == nullptr ? Inside() : *inside);
    default:
      return nullptr;
  }
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
                 const std::vector<hipGraphNode_t>& nodes, const char** why, std::uint32_t* which, NodesInside inside) {
  const LastErrorScope last_error;
  std::size_t expected = 0, count = 0;
  for (const Operation& operation : operations) expected += makes_node(operation.signature.kind) ? 1 : 0;
  if (next().hipGraphGetNodes(graph, nullptr, &count) != hipSuccess || count != expected) {
    *why = "the graph has nodes that nobody issued through the library";
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
      *why = "a node's type differs from the recorded operation";
      return false;
    }
    std::size_t argument = 0;
    const Inside its = operation.signature.kind == OperationKind::kChild ? inside(i) : Inside();
    if (difference(nodes[i], operation, binding, &argument, &its) != nullptr) {
      *why = "a node's parameters differ from the recorded operation";
      return false;
    }
    if (!dependencies_match(nodes[i], dependencies[i], nodes)) {
      *why = "a node's dependencies differ from the recorded ones";
      return false;
    }
    seen.push_back(nodes[i]);
  }
  std::sort(seen.begin(), seen.end());
  if (std::adjacent_find(seen.begin(), seen.end()) != seen.end()) {
    *why = "two operations share a node";
    return false;
  }
  return true;
}

bool child_matches(hipGraph_t child, const Operation& operation, const Binding& binding,
                   std::vector<hipGraphNode_t>* nodes) {
  const LastErrorScope last_error;
  const char* why = nullptr;
  if (nodes->size() == operation.child->size())
    return nodes_match(child, *operation.child, payload_of(operation, binding), *nodes, &why);
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
  return nodes_match(child, *operation.child, payload_of(operation, binding), *nodes, &why);
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
  if (signature.kind != OperationKind::kKernel) return text;
  const char* const name = functions().find(reinterpret_cast<const void*>(signature.object)).name;
  return text + " " + (name == nullptr ? "(unknown)" : name);
}

std::string difference_of(hipGraphNode_t node, const Operation& operation, const Binding& binding) {
  std::string text = operation_name(operation.signature);
  std::size_t argument = 0;
  const char* const what = node == nullptr ? nullptr : difference(node, operation, binding, &argument);
  if (what == nullptr) return text;
  text.append(": ").append(what);
  if (std::string_view(what) == "argument") text.append(" ").append(std::to_string(argument));
  return text;
}

}  // namespace graphpool
