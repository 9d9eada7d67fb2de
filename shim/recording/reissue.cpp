#include "shim/recording/reissue.h"

#include <algorithm>
#include <array>
#include <atomic>

#include "shim/hip/next.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"
#include "shim/recording/node_creation.h"
#include "shim/recording/operation_functions.h"
#include "shim/recording/patch_table.h"
#include "shim/recording/signature_bits.h"

namespace graphpool {
namespace {

/// Graphs that were not destroyed after a failed use: before HIP 7 that would have cleared the program's last error.
constinit std::array<std::atomic<hipGraph_t>, 16> g_left{};
constinit std::atomic<int> g_number_left{0};

bool leave(hipGraph_t graph) noexcept {
  for (std::atomic<hipGraph_t>& place : g_left) {
    hipGraph_t none = nullptr;
    if (!place.compare_exchange_strong(none, graph, std::memory_order_acq_rel)) continue;
    g_number_left.fetch_add(1, std::memory_order_release);
    return true;
  }
  return false;
}

}  // namespace

hipError_t reissue_into_stream(const Signature& signature, std::uint32_t offset, const ArgumentLayout* layout,
                               const Binding& binding, hipStream_t stream) {
  return with_kind(signature.kind, [&](auto kind) { return kind.issue(signature, offset, layout, binding, stream); });
}

hipError_t add_to_graph(const Operation& operation, const Binding& binding, hipGraph_t graph,
                        const std::vector<hipGraphNode_t>& after, hipGraphNode_t* node) {
  // The child's nodes are made first, each with the lock.
  const NodeCreation making(operation.signature.kind != OperationKind::kChild);
  return with_kind(operation.signature.kind, [&](auto kind) {
    return kind.add(operation, binding, {graph, after, node});
  });
}

/// Adds edges between nodes that are there.
static hipError_t add_edges_to_graph(const Operation& edges, hipGraph_t graph,
                                     const std::vector<hipGraphNode_t>& nodes) {
  std::vector<hipGraphNode_t> from, to;
  for (std::size_t i = 0; i + 1 < edges.after.size(); i += 2) {
    from.push_back(nodes[edges.after[i]]);
    to.push_back(nodes[edges.after[i + 1]]);
  }
  return next().hipGraphAddDependencies(graph, from.data(), to.data(), from.size());
}

hipError_t add_all_to_graph(const std::vector<Operation>& operations, const Binding& binding, hipGraph_t graph,
                            const std::vector<hipGraphNode_t>& head, std::vector<hipGraphNode_t>* nodes) {
  const SavedDevice device;
  nodes->assign(operations.size(), nullptr);
  std::vector<hipGraphNode_t> after;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = operations[i];
    if (operation.signature.kind == OperationKind::kEdges) {
      const hipError_t result = add_edges_to_graph(operation, graph, *nodes);
      if (result != hipSuccess) return result;
    }
    if (!makes_node(operation.signature.kind)) continue;
    after.clear();
    for (const std::uint32_t index : operation.after) after.push_back((*nodes)[index]);
    device.set(node_device_of(operation.signature));
    const hipError_t result = add_to_graph(operation, binding, graph, after.empty() ? head : after, &(*nodes)[i]);
    if (result != hipSuccess) return result;
  }
  return hipSuccess;
}

hipError_t build_graph(const std::vector<Operation>& operations, const Binding& binding, hipGraph_t* graph,
                       std::vector<hipGraphNode_t>* nodes) {
  const SavedDevice device;
  // The graph belongs to that device: the runtime does not update another device's exec by it.
  if (!device.set(node_device_of(operations.front().signature))) return hipErrorInvalidDevice;
  hipError_t result = made_private(next().hipGraphCreate(graph, 0), graph);
  if (result != hipSuccess) return result;
  result = add_all_to_graph(operations, binding, *graph, {}, nodes);
  if (result != hipSuccess) {
    static_cast<void>(next().hipGraphDestroy(no_longer_private(*graph)));
    *graph = nullptr;
    nodes->clear();
  }
  return result;
}

// Probe set_node_reaches_next_exec.
bool graph_is_settable(const std::vector<Operation>& operations, const Binding& baked,
                       const Binding& binding) noexcept {
  return baked.size() == binding.size() &&
         std::all_of(operations.begin(), operations.end(), [&](const Operation& operation) {
           return same_payload(operation, baked, binding) || (operation.signature.kind == OperationKind::kKernel &&
                                                              patch_is_exact(NodeClass::kKernel, runtime_version()));
         });
}

bool set_graph(const std::vector<Operation>& operations, const Binding& binding,
               const std::vector<hipGraphNode_t>& nodes, Binding* baked) {
  const SavedDevice device;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = operations[i];
    if (same_payload(operation, *baked, binding)) continue;
    device.set(node_device_of(operation.signature));
    if (!KernelKind::set_in_graph(operation, binding, nodes[i])) return false;
  }
  *baked = binding;
  return true;
}

void let_go_of_graphs(bool destroy) noexcept {
  if (g_number_left.load(std::memory_order_acquire) == 0) return;
  for (std::atomic<hipGraph_t>& place : g_left) {
    const hipGraph_t graph = place.exchange(nullptr, std::memory_order_acq_rel);
    if (graph == nullptr) continue;
    g_number_left.fetch_sub(1, std::memory_order_relaxed);
    if (destroy) PrivateCalls::gave_back([&] { return next().hipGraphDestroy(no_longer_private(graph)); });
  }
}

hipError_t with_graph(const std::vector<Operation>& operations, const Binding& binding, GraphUse use) {
  hipGraph_t graph = nullptr;
  std::vector<hipGraphNode_t> nodes;
  {
    const PrivateCalls private_calls;
    let_go_of_graphs(true);
    const hipError_t failed = build_graph(operations, binding, &graph, &nodes);
    if (failed != hipSuccess) return failed;
  }
  const hipError_t result = use(graph, nodes);
  if (result != hipSuccess && runtime_version() < kKeepsErrors && leave(graph)) return result;
  const LastErrorScope last_error;
  PrivateCalls::gave_back([&] { return next().hipGraphDestroy(no_longer_private(graph)); });
  return result;
}

hipError_t patch_exec(const Operation& operation, const Binding& binding, hipGraphExec_t exec, hipGraphNode_t node) {
  return with_kind(operation.signature.kind, [&](auto kind) { return kind.patch(operation, binding, exec, node); });
}

}  // namespace graphpool
