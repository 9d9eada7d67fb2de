#include "shim/graphs/tracked_nodes.h"

#include <algorithm>
#include <utility>

#include "shim/capture/capture.h"
#include "shim/hip/entry.h"
#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/recording/node_check.h"
#include "shim/recording/node_creation.h"
#include "shim/recording/operation_functions.h"

namespace graphpool {
namespace {

/// Whether the runtime takes the graph inside a node for a copy of the one that was added.
bool runtime_finds_inside() {
  const PrivateCalls private_calls;
  const LastErrorScope last_error;
  hipGraph_t graph = nullptr, child = nullptr, inside = nullptr;
  hipGraphNode_t node = nullptr, parent = nullptr, found = nullptr;
  if (next().hipGraphCreate(&child, 0) != hipSuccess) return false;
  const bool there = next().hipGraphCreate(&graph, 0) == hipSuccess;
  const auto add = [&] {
    const NodeCreation making;
    return next().hipGraphAddEmptyNode(&node, child, nullptr, 0) == hipSuccess &&
           next().hipGraphAddChildGraphNode(&parent, graph, nullptr, 0, child) == hipSuccess;
  };
  const bool finds = there && add() && next().hipGraphChildGraphNodeGetGraph(parent, &inside) == hipSuccess &&
                     next().hipGraphNodeFindInClone(&found, node, inside) == hipSuccess;
  if (there) static_cast<void>(next().hipGraphDestroy(graph));
  static_cast<void>(next().hipGraphDestroy(child));
  return finds;
}

/// Whether the graph has the node now. The program may have destroyed the node.
bool runtime_has_node(hipGraph_t graph, hipGraphNode_t node) {
  const LastErrorScope last_error;
  std::size_t count = 0;
  if (next().hipGraphGetNodes(graph, nullptr, &count) != hipSuccess || count == 0) return false;
  std::vector<hipGraphNode_t> nodes(count);
  return next().hipGraphGetNodes(graph, nodes.data(), &count) == hipSuccess &&
         std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

/// Exposes the open capture whose node the program uses in a call that is not followed. Under no graph's lock.
void settle_node(hipGraphNode_t node) {
  if (g_named_captures.load(std::memory_order_acquire) != 0) [[unlikely]]
    expose_open_node(node, kOpenGraphUsed);
}

}  // namespace

hipError_t TrackedNodes::read(hipGraphNode_t* node, const char* reason) {
  settle_node(*node);
  if (!table_.gave_out(*node)) return hipSuccess;
  const NodeRef ref = table_.find_handle(*node);
  if (ref.graph == nullptr) return refuse();
  const LockGuard guard(ref.graph->lock);
  const hipError_t result = builder_.make_real(*ref.graph, reason);
  if (result == hipSuccess) *node = ref.graph->nodes[ref.index];
  return result;
}

hipError_t TrackedNodes::read_all(const hipGraphNode_t** nodes, std::size_t count, std::vector<hipGraphNode_t>* storage,
                                  const char* reason) {
  if (*nodes == nullptr || std::none_of(*nodes, *nodes + count, [&](auto node) { return table_.gave_out(node); }))
    return hipSuccess;
  storage->assign(*nodes, *nodes + count);
  for (hipGraphNode_t& node : *storage)
    if (const hipError_t result = read(&node, reason); result != hipSuccess) return result;
  *nodes = storage->data();
  return hipSuccess;
}

hipError_t TrackedNodes::expose(hipGraphNode_t* node, const char* reason) {
  if (const hipError_t result = read(node, reason); result != hipSuccess) return result;
  const NodeRef ref = table_.find(*node);
  if (ref.graph == nullptr || !ref.graph->unmodified()) return hipSuccess;
  const LockGuard guard(ref.graph->lock);
  ref.graph->leave(reason);
  return hipSuccess;
}

hipError_t TrackedNodes::destroy(hipGraphNode_t node, NativeNodeCall forward) {
  hipGraphNode_t real = node;
  if (const hipError_t failed = expose(&real, "hipGraphDestroyNode"); failed != hipSuccess) return failed;
  const NodeRef ref = table_.find(node);  // afterwards the handle may be that of another thread's new node
  const hipError_t result = forward(real);
  if (result == hipSuccess && ref.graph != nullptr) forget(ref);
  return result;
}

/// Forgets a node that the program has destroyed.
void TrackedNodes::forget(const NodeRef& ref) {
  const LockGuard guard(ref.graph->lock);
  if (ref.graph->node_handle(ref.index) != nullptr)
    table_.remove_handle(std::exchange(ref.graph->handles[ref.index], nullptr));
  table_.erase(*ref.graph, ref.index);
}

void TrackedNodes::forget_all(hipGraph_t graph) {
  TrackedGraph* const tracked = graphs_.find(graph);
  if (tracked == nullptr) return;
  const LockGuard guard(tracked->lock);
  const LockGuard tables(g_recordings_lock);
  table_.forget_all(*tracked);
}

/// Whether the runtime has accepted this payload there, or one that it judges alike.
bool TrackedNodes::takes_payload(const TrackedGraph& graph, std::uint32_t index, const Binding& payload) const {
  const Operation& operation = graph.operation(index);
  return !launches_kernel(operation) || same_grid(payload.begin(), graph.binding.begin() + operation.payload_offset) ||
         graph.tree_node(index)->accepts_payload(payload, 0);
}

hipError_t TrackedNodes::set(hipGraphNode_t node, Describe describe, NativeNodeCall forward) {
  settle_node(node);
  const NodeRef ref = table_.find(node);
  if (ref.graph == nullptr) return table_.gave_out(node) ? refuse() : forward(node);
  TrackedGraph& graph = *ref.graph;
  const LockGuard guard(graph.lock);
  Binding payload;
  const bool same = graph.unmodified() && same_but_payload(graph.operation(ref.index), describe, &payload);
  const bool deferred = graph.real == nullptr;
  if (deferred && same && takes_payload(graph, ref.index, payload)) {
    static_cast<void>(calling_device());  // HIP before 7: every call sets the last error; this one sets success
    put_payload(graph.operation(ref.index), payload.begin(), graph.binding);
    deferred_.bound_anew(graph);
    return hipSuccess;
  }
  constexpr const char* kNeverWas = "a node was set to what it never was";
  if (const hipError_t result = builder_.make_real(graph, kNeverWas); result != hipSuccess) return result;
  if (same) static_cast<void>(graph.binding.data());  // its own bytes from here on: what needs memory comes first
  const hipError_t result = forward(graph.nodes[ref.index]);
  // What a refused call leaves of a node is not known.
  if (result == hipSuccess && same)
    put_payload(graph.operation(ref.index), payload.begin(), graph.binding);
  else
    graph.leave(result == hipSuccess ? kNeverWas : "the runtime refused to set a node");
  return result;
}

void TrackedNodes::note_inside(hipGraphNode_t node, hipGraph_t inside) {
  const NodeRef ref = table_.find(node);
  if (ref.graph == nullptr) return;
  TrackedGraph& graph = *ref.graph;
  const LockGuard guard(graph.lock);
  GraphPart* const part = graph.part(ref.index);
  if (part == nullptr || part->inside != nullptr) return;
  if (graph.build == nullptr && graph.recording == nullptr) return;  // it has turned out to be another than it seemed
  std::vector<hipGraphNode_t> nodes;
  if (part->nodes.empty() && child_matches(inside, graph.operation(ref.index), graph.binding, &nodes))
    part->nodes = std::move(nodes);
  table_.put_inside(inside, ref);
  part->inside = inside;
}

hipGraphNode_t TrackedNodes::find_in_copy(hipGraphNode_t original, hipGraph_t copy) {
  const NodeRef ref = table_.find(original);
  if (ref.graph == nullptr) return nullptr;
  TrackedGraph* const tracked = graphs_.find(copy);
  if (tracked == nullptr) return find_inside(ref, copy);
  if (tracked == ref.graph || tracked->original != ref.graph->original) return nullptr;
  const LockGuard guard(tracked->lock);
  if (builder_.make_real(*tracked, "hipGraphNodeFindInClone") != hipSuccess) return nullptr;
  return ref.index < tracked->nodes.size() ? tracked->nodes[ref.index] : nullptr;
}

/// Finds the node that stands for this one in the graph inside a child node. The runtime may not find it there, because
/// it was given another graph than the program's own.
hipGraphNode_t TrackedNodes::find_inside(const NodeRef& original, hipGraph_t inside) {
  const auto parent = table_.find_inside(inside);
  if (!parent) return nullptr;
  hipGraphNode_t node = nullptr;
  {
    const LockGuard guard(parent->graph->lock);
    const GraphPart* const part = parent->graph->part(parent->index);
    if (part == nullptr || part->original != original.graph->original || original.index >= part->nodes.size())
      return nullptr;
    node = part->nodes[original.index];
  }
  static const bool runtime_finds = runtime_finds_inside();
  return runtime_finds && runtime_has_node(inside, node) ? node : nullptr;
}

}  // namespace graphpool
