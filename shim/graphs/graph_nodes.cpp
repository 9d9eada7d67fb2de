#include "shim/graphs/graph_nodes.h"

#include <new>
#include <utility>

namespace graphpool {

NodeRef GraphNodes::find_handle(hipGraphNode_t handle) const noexcept {
  const NodeRef* const ref = handles_.owns(handle) ? handles_.find(handle) : nullptr;
  return ref == nullptr ? NodeRef{} : *ref;
}

NodeRef GraphNodes::find(hipGraphNode_t node) const noexcept {
  if (handles_.owns(node)) return find_handle(node);
  PointerTable::Value found;
  if (!real_.find(node, &found)) return {};
  return {reinterpret_cast<TrackedGraph*>(found[0]), static_cast<std::uint32_t>(found[1])};
}

hipGraphNode_t GraphNodes::as_program_knows(hipGraphNode_t real) const {
  if (!handles_.used()) return real;
  const NodeRef ref = find(real);
  if (ref.graph == nullptr) return real;
  const LockGuard guard(ref.graph->lock);
  const hipGraphNode_t handle = ref.graph->node_handle(ref.index);
  return handle != nullptr ? handle : real;
}

hipGraphNode_t GraphNodes::add_handle(TrackedGraph& graph, std::uint32_t index) {
  if (graph.refs == nullptr) graph.refs = std::make_unique<std::deque<NodeRef>>();
  NodeRef& ref = graph.refs->emplace_back(NodeRef{&graph, index});
  auto* const handle = static_cast<hipGraphNode_t>(handles_.add(&ref));
  if (handle == nullptr) {
    graph.refs->pop_back();
    return nullptr;
  }
  if (graph.handles.size() <= index) graph.handles.resize(index + 1);
  graph.handles[index] = handle;
  return handle;
}

void GraphNodes::put(hipGraphNode_t node, const NodeRef& ref) {
  if (!real_.put(node, {reinterpret_cast<std::uint64_t>(ref.graph), ref.index, 0})) throw std::bad_alloc();
}

void GraphNodes::put_all(TrackedGraph& graph) {
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i)
    if (graph.nodes[i] != nullptr) put(graph.nodes[i], {&graph, i});
}

void GraphNodes::add(TrackedGraph& graph, hipGraphNode_t node, std::uint32_t index) {
  graph.nodes.resize(index + 1);
  graph.nodes[index] = node;
  const LockGuard guard(g_recordings_lock);
  put(node, {&graph, index});
}

void GraphNodes::erase(TrackedGraph& graph, std::uint32_t index) {
  const GraphPart* const part = graph.part(index);
  const LockGuard guard(g_recordings_lock);
  erase_own(graph, std::exchange(graph.nodes[index], nullptr));
  if (part != nullptr) erase_inside_own(graph, *part);
}

void GraphNodes::forget_all(const TrackedGraph& graph) noexcept {
  for (const hipGraphNode_t node : graph.nodes) erase_own(graph, node);
  for (const GraphPart& part : graph.parts) erase_inside_own(graph, part);
}

/// Erases the node's entry, unless the runtime has given its handle to another graph's node, which has an entry by now.
void GraphNodes::erase_own(const TrackedGraph& graph, hipGraphNode_t node) noexcept {
  PointerTable::Value found;
  if (real_.find(node, &found) && reinterpret_cast<TrackedGraph*>(found[0]) == &graph) real_.erase(node);
}

/// Does the same for the graph inside a child node.
void GraphNodes::erase_inside_own(const TrackedGraph& graph, const GraphPart& part) noexcept {
  const auto found = insides_.find(part.inside);
  if (found != insides_.end() && found->second.graph == &graph) insides_.erase(found);
}

void GraphNodes::put_inside(hipGraph_t inside, const NodeRef& node) {
  const LockGuard guard(g_recordings_lock);
  insides_[inside] = node;
}

std::optional<NodeRef> GraphNodes::find_inside(hipGraph_t inside) const {
  const LockGuard guard(g_recordings_lock);
  const auto found = insides_.find(inside);
  if (found == insides_.end()) return {};
  return found->second;
}

}  // namespace graphpool
