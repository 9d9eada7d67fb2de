#include "shim/graphs/tracked_graphs.h"

#include <new>
#include <utility>

#include "shim/capture/capture.h"
#include "shim/costs/step_costs.h"
#include "shim/graphs/node_graphs.h"
#include "shim/hip/entry.h"
#include "shim/hip/next.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/restore.h"
#include "shim/recording/settings.h"

namespace graphpool {

/// Exposes the graph of an open capture, which the program names in a call that is not followed.
void TrackedGraphs::settle(hipGraph_t graph) {
  if (g_named_captures.load(std::memory_order_acquire) != 0) [[unlikely]]
    expose_open_graph(graph, kOpenGraphUsed);
}

hipGraph_t TrackedGraphs::add_deferred(const std::shared_ptr<TrackedGraph>& graph) {
  {
    const LockGuard guard(g_recordings_lock);
    deferred_.add(graph);
  }
  graph->handle = static_cast<hipGraph_t>(handles_.add(graph.get()));
  if (graph->handle != nullptr) return graph->handle;
  const LockGuard guard(g_recordings_lock);
  deferred_.remove(*graph);
  return nullptr;
}

/// Forgets a graph that the runtime has destroyed: it has given the graph's handle to another.
void TrackedGraphs::forget_destroyed(const TrackedGraph& graph) noexcept {
  assume_held(graph.lock);  // nobody else reaches it
  nodes_.forget_all(graph);
  if (graph.recording != nullptr) --graph.recording->users;
}

void TrackedGraphs::add_real(const std::shared_ptr<TrackedGraph>& graph) {
  std::shared_ptr<TrackedGraph> former;
  const LockGuard graph_guard(graph->lock);
  const LockGuard guard(g_recordings_lock);
  graph->handle = graph->real;
  TrackedGraph* const before = find_real(graph->real);
  if (!real_.put(graph->real, {reinterpret_cast<std::uint64_t>(graph.get()), 0, 0})) throw std::bad_alloc();
  graph->kept = graph;
  if (before != nullptr) former = std::move(before->kept);
  if (former != nullptr) forget_destroyed(*former);
  nodes_.put_all(*graph);
}

std::shared_ptr<TrackedGraph> TrackedGraphs::add_open() {
  auto graph = std::make_shared<TrackedGraph>(GraphState::kOpen);
  graph->handle = static_cast<hipGraph_t>(handles_.add(graph.get()));
  return graph->handle != nullptr ? graph : nullptr;
}

void TrackedGraphs::drop_open(TrackedGraph& graph) noexcept {
  assume_held(graph.lock);  // only its capture has it, under a lock of the same rank
  for (const hipGraphNode_t handle : graph.handles)
    if (handle != nullptr) nodes_.remove_handle(handle);
  graph.handles.clear();
  handles_.remove(graph.handle);
}

void TrackedGraphs::capture_ended(const std::shared_ptr<TrackedGraph>& graph) {
  const LockGuard graph_guard(graph->lock);
  const LockGuard guard(g_recordings_lock);
  deferred_.add(graph);
  if (graph->real != nullptr) nodes_.put_all(*graph);
  graph->capture_ended();
}

TrackedGraph* TrackedGraphs::find(hipGraph_t graph) {
  settle(graph);
  if (handles_.owns(graph)) return handles_.find(graph);
  return find_real(graph);
}

TrackedGraph* TrackedGraphs::find_real(hipGraph_t graph) const noexcept {
  PointerTable::Value found;
  return real_.find(graph, &found) ? reinterpret_cast<TrackedGraph*>(found[0]) : nullptr;
}

hipError_t TrackedGraphs::read(hipGraph_t* graph, const char* reason) {
  settle(*graph);
  if (!handles_.owns(*graph)) return hipSuccess;
  TrackedGraph* const tracked = handles_.find(*graph);
  if (tracked == nullptr) return refuse();
  const LockGuard guard(tracked->lock);
  const hipError_t result = builder_.make_real(*tracked, reason);
  if (result == hipSuccess) *graph = tracked->real;
  return result;
}

/// Whether the graph may be a part of another one as its recording and binding say.
bool TrackedGraphs::may_be_part(const TrackedGraph& graph) noexcept {
  // The parent holds a child's user objects, too.
  return graph.unmodified() && graph.recording != nullptr && graph.objects == nullptr &&
         graph.recording->node_count != 0 && graph.recording->rebuildable.load(std::memory_order_acquire) &&
         graph.recording->operations.front().signature.object == settings_epoch();
}

hipError_t TrackedGraphs::read_part(hipGraph_t* graph, const TrackedGraph* parent, ChildGraph* child) {
  TrackedGraph* const tracked = find(*graph);
  if (tracked != nullptr && tracked != parent) {
    const LockGuard guard(tracked->lock);
    if (tracked->build != nullptr) finish_build(*tracked);
    const bool may_stay = may_be_part(*tracked);
    // From the second time on the graph is real. If that fails, it stays deferred.
    if (may_stay && tracked->real == nullptr && tracked->given.load(std::memory_order_relaxed) != 0)
      static_cast<void>(builder_.make_real(*tracked, kUsedAsChild));
    if (may_stay && (tracked->real == nullptr || !outlived_memory(*tracked->recording, tracked->memory_freed))) {
      child->recording = hold(*tracked->recording);
      child->binding = tracked->binding;
      child->real = tracked->real;
      child->nodes = tracked->nodes;
      child->original = tracked->original;
      child->tracked = tracked;
      return hipSuccess;
    }
  }
  return read(graph, kUsedAsChild);
}

hipError_t TrackedGraphs::read_child(const void** params, AnyNodeParams* storage) {
  const auto* const node = static_cast<const AnyNodeParams*>(*params);
  if (node == nullptr || node->type != AnyNodeParams::kChild || !handles_.owns(node->child)) return hipSuccess;
  *storage = *node;
  *params = storage;
  return read(&storage->child, kUsedAsChild);
}

hipError_t TrackedGraphs::expose(hipGraph_t* graph, TrackedGraph* tracked, const char* reason) {
  if (tracked == nullptr) return handles_.owns(*graph) ? refuse() : hipSuccess;
  const LockGuard guard(tracked->lock);
  const hipError_t result = builder_.make_real(*tracked, reason);
  if (result != hipSuccess) return result;
  *graph = no_longer_private(tracked->real);  // a capture into this graph tells the program its handle
  tracked->leave(reason);
  return hipSuccess;
}

/// Takes the graph out of the tables. Null: it is not tracked, or its capture is open.
std::shared_ptr<TrackedGraph> TrackedGraphs::take_out(hipGraph_t graph) {
  if (handles_.owns(graph)) {
    TrackedGraph& tracked = *handles_.find(graph);
    if (tracked.is_open()) return nullptr;
    const LockGuard guard(g_recordings_lock);
    return deferred_.remove(tracked);
  }
  if (find_real(graph) == nullptr) return nullptr;
  const LockGuard guard(g_recordings_lock);
  TrackedGraph* const tracked = find_real(graph);
  if (tracked == nullptr) return nullptr;  // another thread has destroyed it
  real_.erase(graph);
  return std::move(tracked->kept);
}

hipError_t TrackedGraphs::destroy(hipGraph_t graph) {
  const TimedCall timed;
  let_go_of_graphs(true);
  const bool ours = handles_.owns(graph);
  TrackedGraph* const behind = ours ? handles_.find(graph) : nullptr;
  if (ours && behind == nullptr) return next().hipGraphDestroy(graph);  // which looks it up
  settle(graph);
  look_for_completed_objects();
  const std::shared_ptr<TrackedGraph> tracked = take_out(graph);
  if (tracked == nullptr) {
    unknown_ends();
    const CallbackScope callbacks;
    return next().hipGraphDestroy(ours ? real_of_open(*behind) : graph);
  }
  hipGraph_t real;
  Objects objects;
  {
    const LockGuard guard(tracked->lock);
    tracked->note_destroyed();
    objects = std::move(tracked->objects);
    tracked->build.reset();
    for (const hipGraphNode_t handle : tracked->handles)
      if (handle != nullptr) nodes_.remove_handle(handle);
    if (ours) handles_.remove(graph);
    real = tracked->real;
    const LockGuard tables(g_recordings_lock);
    nodes_.forget_all(*tracked);
    if (tracked->recording != nullptr) --tracked->recording->users;
  }
  if (real != nullptr && objects == nullptr) {
    const CallbackScope callbacks;
    return next().hipGraphDestroy(no_longer_private(real));
  }
  if (objects != nullptr) let_go_of_objects(std::move(objects));
  static_cast<void>(calling_device());  // HIP before 7: every call sets the last error; this one sets success
  return hipSuccess;
}

/// The runtime's graph of one whose capture is open.
hipGraph_t TrackedGraphs::real_of_open(const TrackedGraph& graph) noexcept {
  const LockGuard guard(graph.lock);
  return graph.real;
}

bool TrackedGraphs::count_nodes(hipGraph_t graph, std::size_t* count) {
  TrackedGraph* const tracked = handles_.find(graph);
  if (tracked == nullptr) return false;
  const LockGuard guard(tracked->lock);
  if (tracked->real != nullptr || (tracked->build == nullptr && tracked->recording == nullptr)) return false;
  *count = 0;
  if (tracked->build == nullptr) {
    *count = tracked->recording->node_count;
  } else {
    for (const TreeNode* const step : tracked->build->path)
      *count += makes_node(step->operation.signature.kind) ? 1 : 0;
  }
  return true;
}

}  // namespace graphpool
