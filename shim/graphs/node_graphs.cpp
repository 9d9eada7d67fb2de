#include "shim/graphs/node_graphs.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "shim/graphs/graphs.h"
#include "shim/hip/entry.h"
#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/recording/edges.h"
#include "shim/recording/node_check.h"
#include "shim/recording/node_creation.h"
#include "shim/recording/operand.h"
#include "shim/recording/settings.h"
#include "shim/recording/signature_bits.h"

namespace graphpool {
namespace {

/// The operations a node is to depend on, as the program names them. False where the runtime must judge them.
bool dependencies_of(const TrackedGraph& known, const NodePlace& place, std::vector<std::uint32_t>* after) {
  if (place.count == 0) return true;
  if (place.dependencies == nullptr) return false;
  after->reserve(place.count);
  for (std::size_t i = 0; i < place.count; ++i) {
    const NodeRef ref = graphs().known().find_node(place.dependencies[i]);
    if (ref.graph != &known) return false;
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
      graphs().known().read_nodes(&dependencies, place.count, &storage, "its nodes are named by another graph");
  return failed == hipSuccess ? forward(graph, dependencies) : failed;
}

/// The same under the graph's lock, where its own nodes are real.
hipError_t add_to_own(const TrackedGraph& known, const std::vector<std::uint32_t>& after, NativeAdd forward) {
  std::vector<hipGraphNode_t> dependencies;
  for (const std::uint32_t index : after) dependencies.push_back(known.nodes[index]);
  return forward(known.real, dependencies.data());
}

/// Whether each operation comes behind the one before: there is one order of their nodes.
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

/// Takes a step in the tree: true when the recordings decide what becomes of the call.
bool step(TrackedGraph& known, const Signature& signature, std::uint32_t offset,
          const std::vector<std::uint32_t>& after, hipGraphNode_t* node) {
  NodeBuild& build = *known.build;
  TreeNode* const child = build.path.back()->find(signature, after);
  if (child == nullptr || !child->accepts_payload(known.binding, offset)) return false;
  const hipGraphNode_t handle = graphs().known().add_handle(known, child->index);
  if (handle == nullptr) return false;
  build.path.push_back(child);
  *node = handle;
  return true;
}

}  // namespace

void NodeBuild::leave_tree() noexcept {
  if (path.empty()) return;
  path.clear();
  graphs().walk_ended();
}

hipError_t create_graph(hipGraph_t* graph, bool plain, Forward forward) {
  const GraphSettings& settings = graphs().settings();
  if (graph == nullptr || !active() || !settings.reuse) return forward();
  if (!plain || captures_bypassed()) {
    graphs().note_refused(plain ? "the library does not see every call of this process" : "created with flags");
    return forward();
  }
  Signature begin;
  begin.kind = OperationKind::kCreate;
  begin.device = packed_devices(calling_device(), calling_device());
  begin.object = settings_epoch();
  auto known = std::make_shared<TrackedGraph>();
  known->build = std::make_unique<NodeBuild>();
  bool verify = false;
  TreeNode* const start = settings.compare ? graphs().walk_begins(begin, &verify) : nullptr;
  if (start != nullptr && verify) graphs().walk_ended();
  known->build->verify = verify;
  if (start != nullptr && !verify) {
    known->build->path.push_back(start);
    if (const hipGraph_t handle = graphs().known().add_deferred(known)) {
      *graph = handle;
      return hipSuccess;
    }
    known->build->leave_tree();
  }
  const hipError_t result = forward();
  if (result != hipSuccess) return result;
  known->build->operations.push_back({begin, 0, {nullptr}, {}});
  known->nodes.push_back(nullptr);
  known->real = *graph;
  graphs().known().add_real(known);
  return hipSuccess;
}

hipError_t add_child_graph(const NodePlace& place, hipGraph_t child, NativeAddChild forward) {
  ChildGraph inner;
  TrackedGraphs& known = graphs().known();
  const TrackedGraph* const parent = known.find(place.graph);
  const bool followed = parent != nullptr && parent->exact();
  const hipError_t failed = followed ? known.read_part(&child, parent, &inner) : known.read(&child, kUsedAsChild);
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

hipError_t add_described(const NodePlace& place, Describe describe, NativeAdd forward, AddedChild* added) {
  const ChildGraph* const child = added == nullptr ? nullptr : &added->child;
  TrackedGraph* const found = graphs().known().find(place.graph);
  std::unique_lock<RankedMutex<LockRank::kCapture>> guard;
  if (found != nullptr) guard = std::unique_lock(found->lock);
  if (found == nullptr || !found->exact() || found->build == nullptr) {
    if (found != nullptr) guard.unlock();
    hipGraph_t graph = place.graph;
    const hipError_t failed = graphs().known().expose(&graph, "a node was added after its first use");
    return failed == hipSuccess ? add_natively(place, graph, forward) : failed;
  }
  TrackedGraph& known = *found;
  const auto offset = static_cast<std::uint32_t>(known.binding.size());
  Signature signature;
  OperationWriter writer(signature, known.binding);
  std::vector<std::uint32_t> after;
  const bool placed = dependencies_of(known, place, &after);
  const bool described = placed && place.node != nullptr && describe(writer) == Status::kOk;
  if (!described) {
    known.binding.resize(offset);
  } else {
    signature.device = packed_devices(calling_device(), calling_device());
    signature.payload_bytes = static_cast<std::uint32_t>(known.binding.size() - offset);
    if (child != nullptr) known.build->children.push_back(graphs().hold(*child->recording));
    const bool stepped = known.build->walks() && step(known, signature, offset, after, place.node);
    if (stepped && child != nullptr) known.parts.push_back({known.build->size() - 1, child->original, nullptr, {}});
    if (stepped) return hipSuccess;
  }
  if (known.real == nullptr) {
    // The payload of the node that differs is not part of what is built.
    const Binding own(known.binding.begin() + offset, known.binding.end());
    known.binding.resize(offset);
    const hipError_t failed = graphs().known().make_real(known, "a node differs from every recording");
    if (failed != hipSuccess) return failed;
    known.binding.append(own.begin(), own.end());
  }
  if (!placed) {
    // What the runtime makes of such dependencies is its own affair. Nodes of other graphs are asked for without lock.
    known.give_up("a node whose dependencies only the runtime can judge");
    const hipGraph_t real = known.real;
    guard.unlock();
    return add_natively(place, real, forward);
  }
  const hipError_t result = add_to_own(known, after, forward);
  if (result != hipSuccess) {
    known.binding.resize(offset);  // nothing was added
  } else if (!described) {
    known.give_up("a node that cannot be compared");
  } else {
    note_judged_operands(signature, known.binding, offset);
    const std::uint32_t index = known.build->size();
    known.build->operations.push_back({signature, offset, {writer.layout()}, std::move(after)});
    if (child != nullptr) {
      known.build->operations.back().child = &(*child->recording).operations;
      known.parts.push_back({index, child->original, nullptr, std::move(added->nodes)});
    }
    graphs().known().add_node(known, *place.node, index);
  }
  return result;
}

namespace {

/// The operations that edges go from and to, in turn. False where the runtime must judge them: what it would refuse,
/// and edges to nodes that were added before those they come from.
bool ends_of_edges(const TrackedGraph& known, const hipGraphNode_t* from, const hipGraphNode_t* to, std::size_t count,
                   std::vector<std::uint32_t>* ends) {
  if (count == 0 || from == nullptr || to == nullptr) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const NodeRef first = graphs().known().find_node(from[i]), last = graphs().known().find_node(to[i]);
    if (first.graph != &known || last.graph != &known || first.index >= last.index) return false;
    ends->push_back(first.index);
    ends->push_back(last.index);
  }
  return true;
}

}  // namespace

bool add_edges(hipGraph_t graph, const hipGraphNode_t* from, const hipGraphNode_t* to, std::size_t count,
               hipError_t* result) {
  TrackedGraph* const found = graphs().known().find(graph);
  if (found == nullptr) return false;
  TrackedGraph& known = *found;
  const LockGuard guard(known.lock);
  if (!known.exact() || known.build == nullptr) return false;
  std::vector<std::uint32_t> ends;
  if (!ends_of_edges(known, from, to, count, &ends)) return false;
  NodeBuild& build = *known.build;
  Signature signature;
  signature.kind = OperationKind::kEdges;
  if (build.walks()) {
    if (TreeNode* const child = build.path.back()->find(signature, ends)) {
      build.path.push_back(child);
      static_cast<void>(calling_device());  // HIP before 7: any call's result is the last error
      *result = hipSuccess;
      return true;
    }
    *result = graphs().known().make_real(known, "edges differ from every recording");
    if (*result != hipSuccess) return true;
  }
  std::vector<hipGraphNode_t> real_from, real_to;
  for (std::size_t i = 0; i < ends.size(); i += 2) {
    real_from.push_back(known.nodes[ends[i]]);
    real_to.push_back(known.nodes[ends[i + 1]]);
  }
  *result = next().hipGraphAddDependencies(known.real, real_from.data(), real_to.data(), count);
  if (*result != hipSuccess) {
    known.give_up("the runtime refused an edge");  // of several it may have taken some
    return true;
  }
  build.operations.push_back({signature, static_cast<std::uint32_t>(known.binding.size()), {nullptr}, std::move(ends)});
  known.nodes.resize(build.operations.size());
  return true;
}

void finish_build(TrackedGraph& known) {
  if (!known.exact()) return;
  Signature signature;
  signature.kind = OperationKind::kEnd;
  if (known.build->walks()) {
    TreeNode* const end = known.build->path.back()->find(signature);
    const HeldRecording recording = end == nullptr ? HeldRecording() : graphs().hold(*end);
    if (recording && (*recording).rebuildable.load(std::memory_order_acquire)) {
      graphs().handed_out(*recording);
      known.recording = &*recording;
      known.build.reset();
      return;
    }
    if (graphs().known().make_real(known, "it was used before its recording ended") != hipSuccess) return;
  }
  NodeBuild& build = *known.build;
  build.operations.push_back({signature, static_cast<std::uint32_t>(known.binding.size()), {nullptr}, {}});
  known.nodes.push_back(nullptr);
  const char* why = nullptr;
  const auto inside = [&](std::size_t index) {
    const auto part = std::find_if(known.parts.begin(), known.parts.end(),
                                   [index](const GraphPart& each) { return each.index == index; });
    return part == known.parts.end() ? std::vector<hipGraphNode_t>() : part->nodes;
  };
  if (nodes_match(known.real, build.operations, known.binding, known.nodes, &why, nullptr, inside)) {
    graphs().learn(known, std::move(build.operations));
    if (build.verify && known.recording->statistics.captures > 1) graphs().capture_verified(*known.recording);
  } else {
    known.give_up(why);
  }
  known.build.reset();
}

}  // namespace graphpool
