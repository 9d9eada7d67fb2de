#include "shim/graphs/node_graphs.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "shim/graphs/graphs.h"
#include "shim/hip/entry.h"
#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/recording/edges.h"
#include "shim/recording/node_check.h"
#include "shim/recording/node_creation.h"
#include "shim/recording/operand.h"
#include "shim/recording/reason_counts.h"
#include "shim/recording/settings.h"
#include "shim/recording/signature_bits.h"

namespace graphpool {
namespace {

/// Finds the operations that the program lets a node depend on. False where the runtime must judge them.
bool dependencies_of(const TrackedGraph& graph, const NodePlace& place, std::vector<std::uint32_t>* after) {
  if (place.count == 0) return true;
  if (place.dependencies == nullptr) return false;
  after->reserve(place.count);
  for (std::size_t i = 0; i < place.count; ++i) {
    const NodeRef ref = graphs().node_table.find(place.dependencies[i]);
    if (ref.graph != &graph) return false;
    after->push_back(ref.index);
  }
  if (place.count == 1) return true;
  std::vector<std::uint32_t> sorted = *after;
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}

hipError_t add_natively(const NodePlace& place, hipGraph_t graph, NativeAdd forward) {
  const hipGraphNode_t* dependencies = place.dependencies;
  std::vector<hipGraphNode_t> storage;
  const hipError_t failed =
      graphs().nodes.read_all(&dependencies, place.count, &storage, "its nodes are named by another graph");
  return failed == hipSuccess ? forward(graph, dependencies) : failed;
}

/// Adds to a graph whose own nodes are real.
hipError_t add_to_own(const TrackedGraph& graph, const std::vector<std::uint32_t>& after, NativeAdd forward)
    REQUIRES(graph.lock) {
  std::vector<hipGraphNode_t> dependencies;
  for (const std::uint32_t index : after) dependencies.push_back(graph.nodes[index]);
  return forward(graph.real, dependencies.data());
}

/// Whether each node depends on exactly the one before, so that only one order is possible.
bool in_line(const std::vector<Operation>& operations) {
  const auto dependencies = dependencies_of(operations);
  std::uint32_t before = 0;
  bool first = true;
  for (std::uint32_t i = 0; i < operations.size(); ++i) {
    if (!makes_node(operations[i].signature.kind)) continue;
    const auto& after = dependencies[i];
    if (first ? !after.empty() : after.size() != 1 || after.front() != before) return false;
    first = false;
    before = i;
  }
  return true;
}

/// Takes a step in the tree. True: the operation matched, *node is a handle of ours, and HIP is not called.
bool step(TrackedGraph& graph, const Signature& signature, std::uint32_t offset,
          const std::vector<std::uint32_t>& after, hipGraphNode_t* node) REQUIRES(graph.lock) {
  NodeBuild& build = *graph.build;
  TreeNode* const child = build.path.back()->find(signature, after);
  if (child == nullptr || !child->accepts_payload(graph.binding, offset)) return false;
  const hipGraphNode_t handle = graphs().node_table.add_handle(graph, child->index);
  if (handle == nullptr) return false;
  build.path.push_back(child);
  *node = handle;
  return true;
}

}  // namespace

void NodeBuild::leave_tree() noexcept {
  if (path.empty()) return;
  path.clear();
  graphs().recordings.walk_ended();
}

namespace {

/// Begins a deferred graph where such graphs begin in the tree. Null: the runtime must make the graph.
hipGraph_t create_deferred(const std::shared_ptr<TrackedGraph>& graph, TreeNode* start) {
  {
    const LockGuard guard(graph->lock);
    graph->build->path.push_back(start);
  }
  if (const hipGraph_t handle = graphs().tracked.add_deferred(graph)) return handle;
  const LockGuard guard(graph->lock);
  graph->build->leave_tree();
  return nullptr;
}

}  // namespace

hipError_t create_graph(hipGraph_t* handle, bool plain, Forward forward) {
  const GraphSettings& settings = graphs().settings;
  if (handle == nullptr || !active() || !settings.reuse) return forward();
  if (!plain || captures_bypassed()) {
    g_refusals.count(plain ? "the library does not see every call of this process" : "created with flags");
    return forward();
  }
  Signature begin;
  begin.kind = OperationKind::kCreate;
  begin.device = packed_devices(calling_device(), calling_device());
  begin.object = settings_epoch();
  const TreeWalk walk = settings.compare ? graphs().recordings.walk_begins(begin) : TreeWalk{};
  if (walk.start != nullptr && walk.verify) graphs().recordings.walk_ended();
  auto graph = std::make_shared<TrackedGraph>();
  {
    const LockGuard guard(graph->lock);
    graph->build = std::make_unique<NodeBuild>();
    graph->build->verify = walk.verify;
  }
  if (walk.start != nullptr && !walk.verify) {
    if (const hipGraph_t deferred = create_deferred(graph, walk.start)) {
      *handle = deferred;
      return hipSuccess;
    }
  }
  const hipError_t result = forward();
  if (result != hipSuccess) return result;
  {
    const LockGuard guard(graph->lock);
    graph->build->operations.push_back({begin, 0, {nullptr}, {}});
    graph->nodes.push_back(nullptr);
    graph->real = *handle;
  }
  graphs().tracked.add_real(graph);
  return hipSuccess;
}

hipError_t add_child_graph(const NodePlace& place, hipGraph_t child, NativeAddChild forward) {
  ChildGraph inner;
  TrackedGraphs& tracked = graphs().tracked;
  const TrackedGraph* const parent = tracked.find(place.graph);
  const bool followed = parent != nullptr && parent->unmodified();
  const hipError_t failed = followed ? tracked.read_part(&child, parent, &inner) : tracked.read(&child, kUsedAsChild);
  if (failed != hipSuccess) return failed;
  AddedChild added{inner, {}};
  return add_described(
      place, [&](OperationWriter& to) { return inner.describe(to); },
      [&](hipGraph_t graph, const hipGraphNode_t* dependencies) {
        return inner.give(child, [&](hipGraph_t real, const std::vector<hipGraphNode_t>& nodes) {
          const hipError_t result = [&] {
            const NodeCreation making;
            return forward(graph, dependencies, real);
          }();
          if (result == hipSuccess && inner.recording && !in_line((*inner.recording).operations))
            added.nodes = nodes_inside(*place.node, nodes);
          return result;
        });
      },
      inner.recording ? &added : nullptr);
}

hipError_t add_node(const NodePlace& place, Describe describe, NativeAdd forward) {
  return add_described(
      place, describe,
      [&](hipGraph_t graph, const hipGraphNode_t* dependencies) {
        const NodeCreation making;
        return forward(graph, dependencies);
      },
      nullptr);
}

namespace {

/// A node that is added to a tracked graph, and what the graph's build makes of it.
struct BuiltNode {
  const NodePlace& place;
  AddedChild* child;  ///< null: the node is no tracked child graph
  Signature signature{};
  std::uint32_t offset = 0;            ///< of its payload in the binding
  std::vector<std::uint32_t> after{};  ///< the operations that it depends on
  const ArgumentLayout* layout = nullptr;
  bool placed = false;     ///< the dependencies are known
  bool described = false;  ///< so is what it does
};

/// Puts the node's payload into the binding, where it is known.
void describe_node(TrackedGraph& graph, Describe describe, BuiltNode* node) REQUIRES(graph.lock) {
  node->offset = static_cast<std::uint32_t>(graph.binding.size());
  OperationWriter writer(node->signature, graph.binding);
  node->placed = dependencies_of(graph, node->place, &node->after);
  node->described = node->placed && node->place.node != nullptr && describe(writer) == Status::kOk;
  if (!node->described) {
    graph.binding.resize(node->offset);
    return;
  }
  node->layout = writer.layout();
  node->signature.device = packed_devices(calling_device(), calling_device());
  node->signature.payload_bytes = static_cast<std::uint32_t>(graph.binding.size() - node->offset);
  if (node->child != nullptr) graph.build->children.push_back(hold(*node->child->child.recording));
}

/// Makes the graph real as it was before this node, whose payload is taken out of the binding meanwhile.
hipError_t make_real_before(TrackedGraph& graph, std::uint32_t offset) REQUIRES(graph.lock) {
  const Binding own(graph.binding.begin() + offset, graph.binding.end());
  graph.binding.resize(offset);
  const hipError_t failed = graphs().graph_builder.make_real(graph, "a node differs from every recording");
  if (failed == hipSuccess) graph.binding.append(own.begin(), own.end());
  return failed;
}

/// Takes back what describe_node() put into the graph, which has not got the node.
void take_back(TrackedGraph& graph, const BuiltNode& node) REQUIRES(graph.lock) {
  graph.binding.resize(node.offset);
  if (node.described && node.child != nullptr) graph.build->children.pop_back();
}

/// Notes a node that the runtime has added.
void record_node(TrackedGraph& graph, BuiltNode& node) REQUIRES(graph.lock) {
  note_judged_operands(node.signature, graph.binding, node.offset);
  const std::uint32_t index = graph.build->size();
  graph.build->operations.push_back({node.signature, node.offset, {node.layout}, std::move(node.after)});
  if (node.child != nullptr) {
    const ChildGraph& child = node.child->child;
    graph.build->operations.back().child = &(*child.recording).operations;
    graph.parts.push_back({index, child.original, nullptr, std::move(node.child->nodes)});
  }
  graphs().node_table.add(graph, *node.place.node, index);
}

/// Adds a node to a graph that is being built. Empty: the caller must call add_natively(), without a lock held.
std::optional<hipError_t> add_to_build(TrackedGraph& graph, Describe describe, NativeAdd forward, BuiltNode& node)
    REQUIRES(graph.lock) {
  describe_node(graph, describe, &node);
  if (node.described && graph.build->walks() && step(graph, node.signature, node.offset, node.after, node.place.node)) {
    if (node.child != nullptr)
      graph.parts.push_back({graph.build->size() - 1, node.child->child.original, nullptr, {}});
    return hipSuccess;
  }
  if (graph.real == nullptr)
    if (const hipError_t failed = make_real_before(graph, node.offset); failed != hipSuccess) {
      take_back(graph, node);
      return failed;
    }
  if (!node.placed) {
    // Only the runtime knows what it makes of such dependencies. Nodes of other graphs are looked up later, by
    // add_natively(), without this lock.
    graph.leave("a node whose dependencies only the runtime can judge");
    return {};
  }
  const hipError_t result = add_to_own(graph, node.after, forward);
  if (result != hipSuccess)
    take_back(graph, node);
  else if (!node.described)
    graph.leave("a node that cannot be compared");
  else
    record_node(graph, node);
  return result;
}

/// Adds a node to a graph that is not being built: it is modified from now on, if it was followed.
hipError_t add_to_exposed(const NodePlace& place, NativeAdd forward) {
  hipGraph_t graph = place.graph;
  const hipError_t failed = graphs().tracked.expose(&graph, "a node was added after its first use");
  return failed == hipSuccess ? add_natively(place, graph, forward) : failed;
}

}  // namespace

hipError_t add_described(const NodePlace& place, Describe describe, NativeAdd forward, AddedChild* added) {
  TrackedGraph* const graph = graphs().tracked.find(place.graph);
  if (graph == nullptr) return add_to_exposed(place, forward);
  BuiltNode node{place, added};
  hipGraph_t real = nullptr;
  bool followed = false;
  {
    const LockGuard guard(graph->lock);
    followed = graph->unmodified() && graph->build != nullptr;
    if (followed)
      if (const auto result = add_to_build(*graph, describe, forward, node)) return *result;
    real = graph->real;
  }
  return followed ? add_natively(place, real, forward) : add_to_exposed(place, forward);
}

namespace {

/// Finds the operations that edges go from and to, in turn. False where the runtime must judge them: where it would
/// refuse them, or where an edge goes to a node that was added before the one that it comes from.
bool ends_of_edges(const TrackedGraph& graph, const hipGraphNode_t* from, const hipGraphNode_t* to, std::size_t count,
                   std::vector<std::uint32_t>* ends) {
  if (count == 0 || from == nullptr || to == nullptr) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const NodeRef first = graphs().node_table.find(from[i]), last = graphs().node_table.find(to[i]);
    if (first.graph != &graph || last.graph != &graph || first.index >= last.index) return false;
    ends->push_back(first.index);
    ends->push_back(last.index);
  }
  return true;
}

}  // namespace

bool add_edges(hipGraph_t handle, const hipGraphNode_t* from, const hipGraphNode_t* to, std::size_t count,
               hipError_t* result) {
  TrackedGraph* const found = graphs().tracked.find(handle);
  if (found == nullptr) return false;
  TrackedGraph& graph = *found;
  const LockGuard guard(graph.lock);
  if (!graph.unmodified() || graph.build == nullptr) return false;
  std::vector<std::uint32_t> ends;
  if (!ends_of_edges(graph, from, to, count, &ends)) return false;
  NodeBuild& build = *graph.build;
  Signature signature;
  signature.kind = OperationKind::kEdges;
  if (build.walks()) {
    if (TreeNode* const child = build.path.back()->find(signature, ends)) {
      build.path.push_back(child);
      static_cast<void>(calling_device());  // HIP before 7: every call sets the last error; this one sets success
      *result = hipSuccess;
      return true;
    }
    *result = graphs().graph_builder.make_real(graph, "edges differ from every recording");
    if (*result != hipSuccess) return true;
  }
  std::vector<hipGraphNode_t> real_from, real_to;
  for (std::size_t i = 0; i < ends.size(); i += 2) {
    real_from.push_back(graph.nodes[ends[i]]);
    real_to.push_back(graph.nodes[ends[i + 1]]);
  }
  *result = next().hipGraphAddDependencies(graph.real, real_from.data(), real_to.data(), count);
  if (*result != hipSuccess) {
    graph.leave("the runtime refused an edge");  // of several it may have taken some
    return true;
  }
  build.operations.push_back({signature, static_cast<std::uint32_t>(graph.binding.size()), {nullptr}, std::move(ends)});
  graph.nodes.resize(build.operations.size());
  return true;
}

namespace {

/// Returns the recording that ends where the walk is. None: the graph cannot stay deferred.
HeldRecording matched_end(const NodeBuild& build, const Signature& end_signature) {
  TreeNode* const end = build.path.back()->find(end_signature);
  HeldRecording recording = end == nullptr ? HeldRecording() : graphs().recordings.hold(*end);
  const bool matched = recording && (*recording).rebuildable.load(std::memory_order_acquire);
  return matched ? std::move(recording) : HeldRecording();
}

/// Makes a recording of the real graph if its nodes are what was recorded; else stops following it.
void finish_recorded(TrackedGraph& graph) REQUIRES(graph.lock) {
  NodeBuild& build = *graph.build;
  const char* reason = nullptr;
  const auto inside = [&](std::size_t index) {
    assume_held(graph.lock);
    const GraphPart* const part = graph.part(static_cast<std::uint32_t>(index));
    return part == nullptr ? std::vector<hipGraphNode_t>() : part->nodes;
  };
  if (!nodes_match(graph.real, build.operations, graph.binding, graph.nodes, &reason, nullptr, inside)) {
    graph.leave(reason);
    return;
  }
  graphs().captured.learn(graph, std::move(build.operations), nullptr);
  if (!build.verify) return;
  const LockGuard guard(g_recordings_lock);
  if (graph.recording->statistics.captures > 1) ++graph.recording->statistics.verified;
}

}  // namespace

void finish_build(TrackedGraph& graph) {
  if (!graph.unmodified()) return;
  Signature signature;
  signature.kind = OperationKind::kEnd;
  if (graph.build->walks()) {
    if (const HeldRecording recording = matched_end(*graph.build, signature)) {
      graphs().captured.refer_deferred(*recording);
      graph.recording = &*recording;
      graph.build.reset();
      return;
    }
    if (graphs().graph_builder.make_real(graph, "it was used before its recording ended") != hipSuccess) return;
  }
  graph.build->operations.push_back({signature, static_cast<std::uint32_t>(graph.binding.size()), {nullptr}, {}});
  graph.nodes.push_back(nullptr);
  finish_recorded(graph);
  graph.build.reset();
}

}  // namespace graphpool
