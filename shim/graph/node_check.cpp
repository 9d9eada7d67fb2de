#include "shim/graph/node_check.h"

#include <algorithm>

#include "shim/kernel/argument_layout.h"
#include "shim/next.h"

namespace graphpool {
namespace {

/// HIP 5 counts node types from Kernel = 1, later versions from 0; plain copies have a type of their own in 5.
bool type_matches(hipGraphNode_t node, OperationKind kind) {
  static const int runtime_version = [] {
    int version = 0;
    return next().hipRuntimeGetVersion(&version) == hipSuccess ? version : 0;
  }();
  hipGraphNodeType type{};
  if (next().hipGraphNodeGetType(node, &type) != hipSuccess) return false;
  const int from_zero = static_cast<int>(type) - (runtime_version < 60000000 ? 1 : 0);
  constexpr int kKernel = 0, kMemcpy = 1, kMemset = 2, kHost = 3, kFirstOther = 4;
  switch (kind) {
    case OperationKind::kKernel:
      return from_zero == kKernel;
    case OperationKind::kCopy:
      return from_zero == kMemcpy || from_zero > kFirstOther;
    case OperationKind::kCopy2D:
      return from_zero == kMemcpy;
    case OperationKind::kFill:
      return from_zero == kMemset;
    case OperationKind::kHost:
      return from_zero == kHost;
    default:
      return false;
  }
}

bool kernel_matches(hipGraphNode_t node, const Operation& operation, const Binding& binding) {
  hipKernelNodeParams params{};
  if (next().hipGraphKernelNodeGetParams(node, &params) != hipSuccess) return false;
  const auto& payload = payload_at<KernelPayload>(binding, operation.payload_offset);
  const auto same = [](const dim3& a, const std::uint32_t(&b)[3]) { return a.x == b[0] && a.y == b[1] && a.z == b[2]; };
  if (reinterpret_cast<std::uint64_t>(params.func) != operation.signature.object ||
      params.sharedMemBytes != payload.shared_bytes || !same(params.gridDim, payload.grid) ||
      !same(params.blockDim, payload.block))
    return false;
  const std::byte* const segment = binding.data() + operation.payload_offset + sizeof(KernelPayload);
  if (params.kernelParams == nullptr) return operation.layout->arguments().empty();
  return operation.layout->equal_params(params.kernelParams, segment);
}

bool fill_matches(hipGraphNode_t node, const Operation& operation, const Binding& binding) {
  hipMemsetParams params{};
  if (next().hipGraphMemsetNodeGetParams(node, &params) != hipSuccess) return false;
  const auto& fill = payload_at<FillPayload>(binding, operation.payload_offset);
  return reinterpret_cast<std::uint64_t>(params.dst) == fill.dst && params.width == fill.width &&
         params.height == fill.height && params.elementSize == (operation.signature.validity & 0xff);
}

bool dependencies_match(hipGraphNode_t node, const Operation& operation, const std::vector<hipGraphNode_t>& nodes) {
  std::size_t count = 0;
  if (next().hipGraphNodeGetDependencies(node, nullptr, &count) != hipSuccess) return false;
  if (count != operation.after.size()) return false;
  if (count == 0) return true;
  std::vector<hipGraphNode_t> found(count);
  if (next().hipGraphNodeGetDependencies(node, found.data(), &count) != hipSuccess) return false;
  return std::all_of(operation.after.begin(), operation.after.end(), [&](std::uint32_t index) {
    return std::find(found.begin(), found.end(), nodes[index]) != found.end();
  });
}

}  // namespace

bool nodes_match(hipGraph_t graph, const std::vector<Operation>& operations, const Binding& binding,
                 const std::vector<hipGraphNode_t>& nodes, const char** why) {
  std::size_t expected = 0, count = 0;
  for (const Operation& operation : operations) expected += makes_node(operation.signature.kind) ? 1 : 0;
  if (next().hipGraphGetNodes(graph, nullptr, &count) != hipSuccess || count != expected) {
    *why = "the graph has nodes that nobody issued through the library";
    return false;
  }
  std::vector<hipGraphNode_t> seen;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = operations[i];
    if (!makes_node(operation.signature.kind)) continue;
    if (nodes[i] == nullptr || !type_matches(nodes[i], operation.signature.kind)) {
      *why = "a node's type differs from the recorded operation";
      return false;
    }
    if ((operation.signature.kind == OperationKind::kKernel && !kernel_matches(nodes[i], operation, binding)) ||
        (operation.signature.kind == OperationKind::kFill && !fill_matches(nodes[i], operation, binding))) {
      *why = "a node's parameters differ from the recorded operation";
      return false;
    }
    if (!dependencies_match(nodes[i], operation, nodes)) {
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

}  // namespace graphpool
