#include "shim/graphs/tracked_graphs.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shim/base/trace.h"
#include "shim/capture/capture.h"
#include "shim/costs/step_costs.h"
#include "shim/graphs/graphs.h"
#include "shim/graphs/node_graphs.h"
#include "shim/hip/entry.h"
#include "shim/hip/next.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/restore.h"
#include "shim/memory/freed_memory.h"
#include "shim/recording/node_check.h"
#include "shim/recording/node_creation.h"
#include "shim/recording/operation_functions.h"
#include "shim/recording/reissue.h"
#include "shim/recording/settings.h"
#include "shim/recording/signature_bits.h"

namespace graphpool {
namespace {

std::uint64_t next_id() noexcept {
  static constinit std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

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

constexpr const char* kToldGraphUsed = "the program used the graph of an open capture";

/// The program uses a node of an open capture in a call that is not followed. Under no graph's lock.
void settle_node(hipGraphNode_t node) {
  if (g_told_captures.load(std::memory_order_acquire) != 0) [[unlikely]]
    expose_told_node(node, kToldGraphUsed);
}

GraphPart* part_at(TrackedGraph& known, std::uint32_t index) noexcept {
  const auto found = std::find_if(known.parts.begin(), known.parts.end(),
                                  [index](const GraphPart& part) { return part.index == index; });
  return found == known.parts.end() ? nullptr : &*found;
}

}  // namespace

bool same_but_payload(const Operation& operation, Describe describe, Binding* payload) {
  Signature signature;
  OperationWriter writer(signature, *payload);
  if (describe(writer) != Status::kOk) return false;
  // Where the node is and how a kernel was named stays as it was made.
  signature.form = operation.signature.form;
  signature.stream = operation.signature.stream;
  signature.thread = operation.signature.thread;
  signature.device = operation.signature.device;
  signature.payload_bytes = static_cast<std::uint32_t>(payload->size());
  if ((signature.validity & kDriverStyle) != 0) signature.object = operation.signature.object;
  return signature == operation.signature;
}

TrackedGraph::TrackedGraph() : id(next_id()), memory_freed(graphpool::memory_freed()) {}

void TrackedGraph::give_up(const char* why) noexcept {
  if (exact_.exchange(false, std::memory_order_acq_rel)) graphs().note_refused(why);
}

// --- graphs ---

hipGraph_t TrackedGraphs::add_deferred(const std::shared_ptr<TrackedGraph>& known) {
  {
    const LockGuard guard(lock_);
    known->place = deferred_.size();
    deferred_.push_back(known);
  }
  known->handle = static_cast<hipGraph_t>(graph_handles_.add(known.get()));
  if (known->handle != nullptr) return known->handle;
  const LockGuard guard(lock_);
  take_out(*known);
  return nullptr;
}

void TrackedGraphs::add_real(const std::shared_ptr<TrackedGraph>& known) {
  std::shared_ptr<TrackedGraph> gone;
  const LockGuard guard(lock_);
  known->handle = known->real;
  TrackedGraph* const before = find_real(known->real);
  if (!real_.put(known->real, {reinterpret_cast<std::uint64_t>(known.get()), 0, 0})) throw std::bad_alloc();
  known->kept = known;
  if (before != nullptr) gone = std::move(before->kept);
  if (gone != nullptr) {  // the runtime has destroyed it
    forget_nodes(*gone);
    if (gone->recording != nullptr) --gone->recording->users;
  }
  put_nodes(*known);
}

/// Under lock_. Throws std::bad_alloc.
void TrackedGraphs::put_node(hipGraphNode_t node, const NodeRef& ref) {
  if (!nodes_.put(node, {reinterpret_cast<std::uint64_t>(ref.graph), ref.index, 0})) throw std::bad_alloc();
}

/// Under lock_. They may come back as others.
void TrackedGraphs::forget_nodes(TrackedGraph& known) noexcept {
  for (const hipGraphNode_t node : known.nodes) nodes_.erase(node);
  for (const GraphPart& part : known.parts)
    if (part.inside != nullptr) insides_.erase(part.inside);
}

void TrackedGraphs::put_nodes(TrackedGraph& known) {
  for (std::uint32_t i = 0; i < known.nodes.size(); ++i)
    if (known.nodes[i] != nullptr) put_node(known.nodes[i], {&known, i});
}

/// The program names the graph of an open capture in a call that is not followed.
void TrackedGraphs::settle(hipGraph_t graph) {
  if (g_told_captures.load(std::memory_order_acquire) != 0) [[unlikely]]
    expose_told_graph(graph, kToldGraphUsed);
}

bool TrackedGraphs::add_told(std::shared_ptr<TrackedGraph>* made) {
  auto known = std::make_shared<TrackedGraph>();
  known->open.store(true, std::memory_order_relaxed);
  known->handle = static_cast<hipGraph_t>(graph_handles_.add(known.get()));
  if (known->handle == nullptr) return false;
  *made = std::move(known);
  return true;
}

hipGraphNode_t TrackedGraphs::told_handle(TrackedGraph& known, std::uint32_t index) {
  if (index < known.handles.size() && known.handles[index] != nullptr) return known.handles[index];
  return add_handle(known, index);
}

NodeRef TrackedGraphs::told_node(hipGraphNode_t node) const noexcept {
  const NodeRef* const ref = node_handles_.owns(node) ? node_handles_.find(node) : nullptr;
  return ref == nullptr ? NodeRef{} : *ref;
}

void TrackedGraphs::drop_told(TrackedGraph& known) noexcept {
  for (const hipGraphNode_t handle : known.handles)
    if (handle != nullptr) node_handles_.remove(handle);
  known.handles.clear();
  graph_handles_.remove(known.handle);
}

void TrackedGraphs::told_ended(const std::shared_ptr<TrackedGraph>& known) {
  const LockGuard guard(lock_);
  known->place = deferred_.size();
  deferred_.push_back(known);
  if (known->real != nullptr) put_nodes(*known);
  known->open.store(false, std::memory_order_release);
}

TrackedGraph* TrackedGraphs::find(hipGraph_t graph) {
  settle(graph);
  if (graph_handles_.owns(graph)) return graph_handles_.find(graph);
  return find_real(graph);
}

TrackedGraph* TrackedGraphs::find_real(hipGraph_t graph) const noexcept {
  PointerTable::Value found;
  return real_.find(graph, &found) ? reinterpret_cast<TrackedGraph*>(found[0]) : nullptr;
}

/// A graph that holds user objects is made where it holds them.
hipError_t TrackedGraphs::build_real(TrackedGraph& known, const std::vector<Operation>& operations) {
  const PrivateCalls private_calls;
  if (known.objects == nullptr) return build_graph(operations, known.binding, &known.real, &known.nodes);
  const hipGraph_t holder = known.objects->graph();
  const hipError_t result = add_all_to_graph(operations, known.binding, holder, {}, &known.nodes);
  if (result == hipSuccess) {
    known.real = holder;
    return hipSuccess;
  }
  const LastErrorScope last_error;
  for (const hipGraphNode_t node : known.nodes)
    if (node != nullptr) PrivateCalls::gave_back([&] { return next().hipGraphDestroyNode(node); });
  known.nodes.clear();
  return result;
}

hipError_t TrackedGraphs::make_real(TrackedGraph& known, const char* why) {
  if (known.real != nullptr) return hipSuccess;
  const TraceSpan traced(TraceKind::kMadeReal);
  tell_trace(why, known.recording != nullptr ? known.recording->number : 0);
  std::vector<Operation> built;
  if (known.build != nullptr)
    for (const TreeNode* const step : known.build->path) built.push_back(step->operation);
  const std::vector<Operation>& operations = known.build != nullptr ? built : known.recording->operations;
  const hipError_t result = build_real(known, operations);
  if (result != hipSuccess) return result;
  if (known.build != nullptr) {
    known.build->leave_tree();
    known.build->operations = std::move(built);
  }
  const LockGuard guard(lock_);
  if (known.recording != nullptr) ++known.recording->statistics.materialised;
  Materialisation told;
  told.why = why;
  if (known.recording != nullptr) told.graph = known.recording->number;
  count_materialisation(told);
  put_nodes(known);
  return hipSuccess;
}

hipError_t TrackedGraphs::read(hipGraph_t* graph, const char* why) {
  settle(*graph);
  if (!graph_handles_.owns(*graph)) return hipSuccess;
  TrackedGraph* const known = graph_handles_.find(*graph);
  if (known == nullptr) return refuse();
  const LockGuard guard(known->lock);
  const hipError_t result = make_real(*known, why);
  if (result == hipSuccess) *graph = known->real;
  return result;
}

Status ChildGraph::describe(OperationWriter& to) const {
  return recording ? to.node_child((*recording).number, binding) : Status::kUnsupported;
}

/// The graph that proved the recording serves, once: a program that keeps its graph gives it again.
bool ChildGraph::give_set(GraphUse use, hipError_t* result) const {
  return known->given.fetch_add(1, std::memory_order_relaxed) == 0 &&
         graphs().with_first_graph(*recording, binding, use, result);
}

hipError_t ChildGraph::give(hipGraph_t graph, GraphUse use) const {
  if (!recording) return use(graph, {});
  if (real != nullptr) return use(real, nodes);
  hipError_t result = hipSuccess;
  if (give_set(use, &result)) return result;
  Materialisation told;
  told.why = kUsedAsChild;
  told.graph = (*recording).number;
  graphs().known().note_materialised(told);
  return with_graph((*recording).operations, binding, use);
}

hipError_t ChildGraph::give_real(hipGraph_t graph, GraphUse use) const {
  if (!recording || real != nullptr) return give(graph, use);
  hipError_t result = hipSuccess;
  if (give_set(use, &result)) return result;
  result = graphs().known().read(&graph, kUsedAsChild);
  return result == hipSuccess ? use(graph, known->nodes) : result;
}

hipError_t TrackedGraphs::read_part(hipGraph_t* graph, const TrackedGraph* parent, ChildGraph* child) {
  TrackedGraph* const known = find(*graph);
  if (known != nullptr && known != parent) {
    const LockGuard guard(known->lock);
    if (known->build != nullptr) finish_build(*known);
    // What a child's user objects are held by its parent holds, too.
    const bool may_stay = known->exact() && known->recording != nullptr && known->objects == nullptr &&
                          known->recording->node_count != 0 &&
                          known->recording->rebuildable.load(std::memory_order_acquire) &&
                          known->recording->operations.front().signature.object == settings_epoch();
    // It is real from the second time on. Where that fails it is given as it was the first time.
    if (may_stay && known->real == nullptr && known->given.load(std::memory_order_relaxed) != 0)
      static_cast<void>(make_real(*known, kUsedAsChild));
    if (may_stay && (known->real == nullptr || !Variants::outlived_memory(*known->recording, known->memory_freed))) {
      child->recording = graphs().hold(*known->recording);
      child->binding = known->binding;
      child->real = known->real;
      child->nodes = known->nodes;
      child->original = known->original;
      child->known = known;
      return hipSuccess;
    }
  }
  return read(graph, kUsedAsChild);
}

hipError_t TrackedGraphs::read_child(const void** params, AnyNodeParams* storage) {
  const auto* const node = static_cast<const AnyNodeParams*>(*params);
  if (node == nullptr || node->type != AnyNodeParams::kChild || !graph_handles_.owns(node->child)) return hipSuccess;
  *storage = *node;
  *params = storage;
  return read(&storage->child, kUsedAsChild);
}

hipError_t TrackedGraphs::expose(hipGraph_t* graph, const char* why) { return expose(graph, find(*graph), why); }

hipError_t TrackedGraphs::expose(hipGraph_t* graph, TrackedGraph* known, const char* why) {
  if (known == nullptr) return graph_handles_.owns(*graph) ? refuse() : hipSuccess;
  const LockGuard guard(known->lock);
  const hipError_t result = make_real(*known, why);
  if (result != hipSuccess) return result;
  *graph = no_longer_private(known->real);  // who captures into it and asks for the capture's graph is told it
  known->give_up(why);
  return hipSuccess;
}

hipError_t TrackedGraphs::destroy(hipGraph_t graph) {
  const TimedCall timed;
  let_go_of_graphs(true);
  std::shared_ptr<TrackedGraph> known;
  const bool ours = graph_handles_.owns(graph);
  TrackedGraph* const deferred_one = ours ? graph_handles_.find(graph) : nullptr;
  if (ours && deferred_one == nullptr) return next().hipGraphDestroy(graph);  // which looks it up
  settle(graph);
  look_for_completed_objects();
  if (ours && !deferred_one->open.load(std::memory_order_acquire)) {
    const LockGuard guard(lock_);
    known = deferred_[deferred_one->place];
    take_out(*known);
  } else if (!ours && find_real(graph) != nullptr) {
    const LockGuard guard(lock_);
    if (TrackedGraph* const real_one = find_real(graph)) {  // still: no other thread has destroyed it
      known = std::move(real_one->kept);
      real_.erase(graph);
    }
  }
  if (known == nullptr) {
    unknown_ends();
    const CallbackScope callbacks;
    return next().hipGraphDestroy(ours ? deferred_one->real : graph);
  }
  hipGraph_t real;
  Objects objects;
  {
    const LockGuard guard(known->lock);
    known->gone = true;
    objects = std::move(known->objects);
    known->build.reset();
    for (const hipGraphNode_t handle : known->handles)
      if (handle != nullptr) node_handles_.remove(handle);
    if (ours) graph_handles_.remove(graph);
    real = known->real;
    const LockGuard tables(lock_);
    forget_nodes(*known);
    if (known->recording != nullptr) --known->recording->users;
  }
  if (real != nullptr && objects == nullptr) {
    const CallbackScope callbacks;
    return next().hipGraphDestroy(no_longer_private(real));
  }
  if (objects != nullptr) let_go_of_objects(std::move(objects));
  static_cast<void>(calling_device());  // HIP before 7: any call's result is the last error
  return hipSuccess;
}

bool TrackedGraphs::count_nodes(hipGraph_t graph, std::size_t* count) {
  TrackedGraph* const known = graph_handles_.find(graph);
  if (known == nullptr) return false;
  const LockGuard guard(known->lock);
  if (known->real != nullptr || (known->build == nullptr && known->recording == nullptr)) return false;
  *count = 0;
  if (known->build == nullptr) {
    *count = known->recording->node_count;
  } else {
    for (const TreeNode* const step : known->build->path) *count += makes_node(step->operation.signature.kind) ? 1 : 0;
  }
  return true;
}

hipGraphNode_t TrackedGraphs::find_in_copy(hipGraphNode_t original, hipGraph_t copy) {
  const NodeRef ref = find_node(original);
  TrackedGraph* const known = ref.graph == nullptr ? nullptr : find(copy);
  if (known == nullptr && ref.graph != nullptr) return find_inside(ref, copy);
  if (known == nullptr || known == ref.graph || known->original != ref.graph->original) return nullptr;
  const LockGuard guard(known->lock);
  if (make_real(*known, "hipGraphNodeFindInClone") != hipSuccess) return nullptr;
  return ref.index < known->nodes.size() ? known->nodes[ref.index] : nullptr;
}

void TrackedGraphs::note_inside(hipGraphNode_t node, hipGraph_t inside) {
  const NodeRef ref = find_node(node);
  if (ref.graph == nullptr) return;
  const LockGuard guard(ref.graph->lock);
  GraphPart* const part = part_at(*ref.graph, ref.index);
  if (part == nullptr || part->inside != nullptr) return;
  if (ref.graph->build == nullptr && ref.graph->recording == nullptr)
    return;  // it has turned out to be another than it seemed
  const Operation& operation = ref.graph->operation(ref.index);
  std::vector<hipGraphNode_t> nodes;
  if (part->nodes.empty() && child_matches(inside, operation, ref.graph->binding, &nodes))
    part->nodes = std::move(nodes);
  const LockGuard tables(lock_);
  insides_[inside] = ref;
  part->inside = inside;
}

/// The graph inside a node may have been made of another one than the program's own.
hipGraphNode_t TrackedGraphs::find_inside(const NodeRef& original, hipGraph_t inside) {
  NodeRef parent;
  {
    const LockGuard guard(lock_);
    const auto found = insides_.find(inside);
    if (found == insides_.end()) return nullptr;
    parent = found->second;
  }
  hipGraphNode_t node = nullptr;
  {
    const LockGuard guard(parent.graph->lock);
    const GraphPart* const part = part_at(*parent.graph, parent.index);
    if (part == nullptr || part->original != original.graph->original || original.index >= part->nodes.size())
      return nullptr;
    node = part->nodes[original.index];
  }
  static const bool runtime_finds = runtime_finds_inside();
  // The program may have destroyed it.
  const LastErrorScope last_error;
  std::size_t count = 0;
  if (!runtime_finds || next().hipGraphGetNodes(inside, nullptr, &count) != hipSuccess || count == 0) return nullptr;
  std::vector<hipGraphNode_t> nodes(count);
  const bool there = next().hipGraphGetNodes(inside, nodes.data(), &count) == hipSuccess &&
                     std::find(nodes.begin(), nodes.end(), node) != nodes.end();
  return there ? node : nullptr;
}

std::vector<std::shared_ptr<TrackedGraph>> TrackedGraphs::all_deferred() const {
  const LockGuard guard(lock_);
  return deferred_;
}

/// Under lock_.
void TrackedGraphs::exchange_places(std::size_t a, std::size_t b) noexcept {
  std::swap(deferred_[a], deferred_[b]);
  deferred_[a]->place = a;
  deferred_[b]->place = b;
}

/// The graph is to be looked at again. Under lock_.
void TrackedGraphs::watch(TrackedGraph& known) noexcept {
  if (known.place >= unwatched_) return;
  exchange_places(known.place, --unwatched_);
  index_.remove(std::exchange(known.indexed, 0));
}

/// Under lock_.
void TrackedGraphs::stop_watching(TrackedGraph& known) noexcept {
  if (known.place >= unwatched_) exchange_places(known.place, unwatched_++);
}

/// Under lock_.
void TrackedGraphs::take_out(TrackedGraph& known) noexcept {
  watch(known);
  exchange_places(known.place, deferred_.size() - 1);
  known.place = TrackedGraph::kNowhere;
  deferred_.pop_back();
}

/// Also others.
std::vector<std::shared_ptr<TrackedGraph>> TrackedGraphs::that_may_name(const void* address, std::size_t bytes) {
  const LockGuard guard(lock_);
  if (bytes == 0) return deferred_;
  std::vector<std::shared_ptr<TrackedGraph>> all(deferred_.begin() + static_cast<std::ptrdiff_t>(unwatched_),
                                                 deferred_.end());
  for (void* const owner : index_.find(address, bytes))
    all.push_back(deferred_[static_cast<TrackedGraph*>(owner)->place]);
  return all;
}

void TrackedGraphs::memory_leaves(const void* address, std::size_t bytes, const char* why) {
  for (const auto& known : that_may_name(address, bytes)) {
    const LockGuard guard(known->lock);
    if (known->gone) continue;
    if (known->real == nullptr && (bytes == 0 || names_memory(known->binding, address, bytes)))
      static_cast<void>(make_real(*known, why));
    if (known->real == nullptr && (known->build != nullptr || ++known->looks != kLooks)) continue;
    const std::vector<std::uint64_t> pages =
        known->real != nullptr ? std::vector<std::uint64_t>() : MemoryIndex::pages_of(known->binding);
    const LockGuard tables(lock_);
    if (known->place == TrackedGraph::kNowhere) continue;
    if (known->real == nullptr)
      known->indexed = index_.add(known.get(), pages);
    else
      watch(*known);  // which takes it out of the index
    stop_watching(*known);
  }
}

void TrackedGraphs::make_real_with(OperationTest test, const char* why) {
  for (const auto& known : all_deferred()) {
    const LockGuard guard(known->lock);
    if (known->gone || known->real != nullptr || (known->build == nullptr && known->recording == nullptr)) continue;
    const auto count = known->build != nullptr ? known->build->size() : known->recording->operations.size();
    for (std::uint32_t i = 0; i < count; ++i) {
      if (!holds(known->operation(i), test)) continue;
      static_cast<void>(make_real(*known, why));
      break;
    }
  }
}

void TrackedGraphs::end_builds(const char* why) {
  for (const auto& known : all_deferred()) {
    const LockGuard guard(known->lock);
    if (!known->gone && known->build != nullptr && known->build->walks()) static_cast<void>(make_real(*known, why));
  }
}

// --- nodes ---

hipGraphNode_t TrackedGraphs::add_handle(TrackedGraph& known, std::uint32_t index) {
  if (known.refs == nullptr) known.refs = std::make_unique<std::deque<NodeRef>>();
  NodeRef& ref = known.refs->emplace_back(NodeRef{&known, index});
  auto* const handle = static_cast<hipGraphNode_t>(node_handles_.add(&ref));
  if (handle == nullptr) {
    known.refs->pop_back();
    return nullptr;
  }
  if (known.handles.size() <= index) known.handles.resize(index + 1);
  known.handles[index] = handle;
  return handle;
}

void TrackedGraphs::add_node(TrackedGraph& known, hipGraphNode_t node, std::uint32_t index) {
  known.nodes.resize(index + 1);
  known.nodes[index] = node;
  const LockGuard guard(lock_);
  put_node(node, {&known, index});
}

/// Also under a graph's lock, so a node of an open capture stays what it is: calls that use it settle that first.
NodeRef TrackedGraphs::find_node(hipGraphNode_t node) { return look_up(node); }

NodeRef TrackedGraphs::look_up(hipGraphNode_t node) const noexcept {
  if (node_handles_.owns(node)) return told_node(node);
  PointerTable::Value found;
  if (!nodes_.find(node, &found)) return {};
  return {reinterpret_cast<TrackedGraph*>(found[0]), static_cast<std::uint32_t>(found[1])};
}

hipError_t TrackedGraphs::read_node(hipGraphNode_t* node, const char* why) {
  settle_node(*node);
  if (!node_handles_.owns(*node)) return hipSuccess;
  const NodeRef* const ref = node_handles_.find(*node);
  if (ref == nullptr) return refuse();
  const LockGuard guard(ref->graph->lock);
  const hipError_t result = make_real(*ref->graph, why);
  if (result == hipSuccess) *node = ref->graph->nodes[ref->index];
  return result;
}

hipError_t TrackedGraphs::read_nodes(const hipGraphNode_t** nodes, std::size_t count,
                                     std::vector<hipGraphNode_t>* storage, const char* why) {
  if (*nodes == nullptr || std::none_of(*nodes, *nodes + count, [&](auto node) { return node_handles_.owns(node); }))
    return hipSuccess;
  storage->assign(*nodes, *nodes + count);
  for (hipGraphNode_t& node : *storage)
    if (const hipError_t result = read_node(&node, why); result != hipSuccess) return result;
  *nodes = storage->data();
  return hipSuccess;
}

hipError_t TrackedGraphs::expose_node(hipGraphNode_t* node, const char* why) {
  if (const hipError_t result = read_node(node, why); result != hipSuccess) return result;
  const NodeRef ref = find_node(*node);
  if (ref.graph == nullptr || !ref.graph->exact()) return hipSuccess;
  const LockGuard guard(ref.graph->lock);
  ref.graph->give_up(why);
  return hipSuccess;
}

void TrackedGraphs::node_destroyed(hipGraphNode_t node) {
  const NodeRef ref = find_node(node);
  if (ref.graph == nullptr) return;
  const LockGuard guard(ref.graph->lock);
  if (ref.index < ref.graph->handles.size() && ref.graph->handles[ref.index] != nullptr)
    node_handles_.remove(std::exchange(ref.graph->handles[ref.index], nullptr));
  const GraphPart* const part = part_at(*ref.graph, ref.index);
  const LockGuard tables(lock_);
  nodes_.erase(std::exchange(ref.graph->nodes[ref.index], nullptr));
  if (part != nullptr && part->inside != nullptr) insides_.erase(part->inside);
}

void TrackedGraphs::nodes_gone(hipGraph_t graph) {
  TrackedGraph* const known = find(graph);
  if (known == nullptr) return;
  const LockGuard guard(known->lock);
  const LockGuard tables(lock_);
  forget_nodes(*known);
}

hipGraphNode_t TrackedGraphs::as_program_knows(hipGraphNode_t real) {
  if (!node_handles_.used()) return real;
  const NodeRef ref = look_up(real);
  if (ref.graph == nullptr) return real;
  const LockGuard guard(ref.graph->lock);
  const auto& handles = ref.graph->handles;
  return ref.index < handles.size() && handles[ref.index] != nullptr ? handles[ref.index] : real;
}

hipError_t TrackedGraphs::set_node(hipGraphNode_t node, Describe describe, NativeNodeCall forward) {
  settle_node(node);
  const NodeRef ref = find_node(node);
  if (ref.graph == nullptr) return node_handles_.owns(node) ? refuse() : forward(node);
  TrackedGraph& known = *ref.graph;
  const LockGuard guard(known.lock);
  Binding payload;
  const bool same = known.exact() && same_but_payload(known.operation(ref.index), describe, &payload);
  const auto bind = [&] {
    put_payload(known.operation(ref.index), payload.begin(), known.binding);
    if (known.real != nullptr) return;
    known.looks = 0;
    const LockGuard tables(lock_);
    watch(known);
  };
  if (known.real == nullptr && same) {
    const Operation& operation = known.operation(ref.index);
    if (!launches_kernel(operation) || same_grid(payload.begin(), known.binding.begin() + operation.payload_offset) ||
        known.tree_node(ref.index)->accepts_payload(payload, 0)) {
      static_cast<void>(calling_device());  // HIP before 7: any call's result is the last error
      bind();
      return hipSuccess;
    }
  }
  if (const hipError_t result = make_real(known, "a node was set to what it never was"); result != hipSuccess)
    return result;
  const hipError_t result = forward(known.nodes[ref.index]);
  // What a refused call leaves of a node is not known.
  if (result == hipSuccess && same)
    bind();
  else
    known.give_up(result == hipSuccess ? "a node was set to what it never was" : "the runtime refused to set a node");
  return result;
}

void TrackedGraphs::note_materialised(const Materialisation& told) noexcept {
  const LockGuard guard(lock_);
  count_materialisation(told);
}

/// Under lock_.
void TrackedGraphs::count_materialisation(const Materialisation& told) {
  const auto counted = [&](const Materialisation& wanted) {
    for (Materialisation& known : materialisations_)
      if (known.same(wanted)) {
        ++known.count;
        return true;
      }
    return false;
  };
  if (counted(told)) return;
  Materialisation added = told;
  if (materialisations_.size() >= kMostMaterialisations) {
    added = {};
    added.why = told.why;
    if (counted(added)) return;
  }
  materialisations_.push_back(added);
}

std::vector<Materialisation> TrackedGraphs::materialisations() const {
  const LockGuard guard(lock_);
  return materialisations_;
}

}  // namespace graphpool
