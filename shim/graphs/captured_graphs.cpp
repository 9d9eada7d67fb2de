#include "shim/graphs/captured_graphs.h"

#include <utility>

#include "shim/base/log.h"
#include "shim/base/trace.h"
#include "shim/callsite/callsite.h"
#include "shim/capture/capture.h"
#include "shim/costs/hit_rate.h"
#include "shim/graphs/node_graphs.h"
#include "shim/hip/entry.h"
#include "shim/hip/next.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/restore.h"
#include "shim/memory/freed_memory.h"
#include "shim/recording/node_check.h"
#include "shim/recording/patch_table.h"
#include "shim/recording/reason_counts.h"

namespace graphpool {

std::uint64_t all_captures_left_alone() noexcept {
  const char* reason = nullptr;
  return captures_left_alone(0, &reason) + captures_left_alone(1, &reason);
}

void CapturedGraphs::verified(Recording& recording) noexcept {
  const LockGuard guard(g_recordings_lock);
  ++recording.statistics.verified;
}

void CapturedGraphs::differs(Recording& recording, const CaptureDifference& difference) {
  if (!recording.rebuildable.exchange(false)) return;
  {
    const LockGuard guard(g_recordings_lock);
    ++recording.statistics.differences;
  }
  log_error("verify: graph %llu, %s: %s; captures of it are left to the runtime from now on",
            static_cast<unsigned long long>(recording.number),
            difference_of(difference.node, difference.operation, difference.binding).c_str(), difference.reason);
}

bool CapturedGraphs::learn(TrackedGraph& graph, std::vector<Operation> operations, const void* place,
                           std::uint32_t call_site) {
  for (const Operation& operation : operations) static_cast<void>(patch_is_exact(operation.signature));  // without lock
  std::vector<Recording*> children;
  if (graph.build != nullptr)
    for (const HeldRecording& child : graph.build->children) children.push_back(&*child);
  bool learned = false;
  {
    const LockGuard guard(g_recordings_lock);
    const Recordings::Recorded recorded =
        recordings_.recorded(std::move(operations), graph.binding, std::move(children), all_captures_left_alone());
    graph.recording = &recorded.recording;
    if (recorded.away != 0 && place != nullptr) hit_rates().came_back(place, recorded.away);
    tell_trace(nullptr, graph.recording->number);
    if (!recorded.is_first) return false;
    graph.recording->captured_by = call_site;
    graph.recording->captured_at = place;
    learned = recorded.has_room;
  }
  prove(*graph.recording, graph);
  return learned;
}

/// Proves that a graph of our own can be made of a new recording. The first exec will use that graph.
void CapturedGraphs::prove(Recording& recording, const TrackedGraph& graph) {
  auto first = std::make_unique<Variant>();
  first->memory_freed = memory_freed();
  const PrivateCalls private_calls;
  const LastErrorScope last_error;
  if (build_graph(recording.operations, graph.binding, &first->graph, &first->nodes) != hipSuccess) return;
  first->bake(graph.binding);
  {
    const LockGuard guard(g_recordings_lock);
    recording.first = std::move(first);
  }
  recording.rebuildable.store(true, std::memory_order_release);
}

RecordedGraph CapturedGraphs::real_graph_captured(CapturedGraph captured, RecordedCapture recording) {
  const auto graph = captured.tracked != nullptr ? captured.tracked : std::make_shared<TrackedGraph>();
  const std::uint32_t call_site = callsites().here();  // without lock
  bool learned = false;
  {
    const LockGuard guard(graph->lock);
    graph->real = captured.graph;
    graph->memory_freed = recording.memory_freed;
    graph->binding = std::move(recording.binding);
    graph->nodes = std::move(recording.nodes);
    if (captured.holds_objects) graph->objects = std::make_shared<ObjectHolder>(captured.graph);
    learned = learn(*graph, std::move(recording.operations), captured.place, call_site);
  }
  if (captured.tracked == nullptr) {
    graphs_.add_real(graph);
  } else {
    static_cast<void>(made_private(hipSuccess, &captured.graph));  // the program knows it by our handle only
    graphs_.capture_ended(graph);
  }
  return {graph->handle, learned};
}

hipGraph_t CapturedGraphs::untracked_graph_captured(CapturedGraph captured) {
  if (captured.tracked == nullptr) return captured.graph;
  {
    const LockGuard guard(captured.tracked->lock);
    captured.tracked->real = captured.graph;
    captured.tracked->note_modified();
  }
  graphs_.capture_ended(captured.tracked);
  return captured.tracked->handle;
}

hipGraph_t CapturedGraphs::make_deferred_graph(HeldRecording recording, Binding binding, CapturedGraph captured) {
  const auto graph = captured.tracked != nullptr ? captured.tracked : std::make_shared<TrackedGraph>();
  Objects objects;
  if (captured.holds_objects) {
    objects = std::make_shared<ObjectHolder>(captured.graph);
    objects->hide();
  } else {
    static_cast<void>(PrivateCalls::worked([&] { return next().hipGraphDestroy(captured.graph); }));
  }
  {
    const LockGuard guard(graph->lock);
    graph->objects = std::move(objects);
    graph->binding = std::move(binding);
    graph->recording = recording.release();
    const LockGuard recordings(g_recordings_lock);
    const std::uint64_t away = recordings_.withheld(*graph->recording, all_captures_left_alone());
    if (captured.place != nullptr) hit_rates().came_back(captured.place, away);
    graph->recording->place = captured.place;
  }
  if (captured.tracked != nullptr) {
    graphs_.capture_ended(graph);
    return graph->handle;
  }
  if (const hipGraph_t handle = graphs_.add_deferred(graph)) return handle;
  return give_real(graph);
}

/// Gives the program a graph of its own, because no handle is to be had. Null: that could not be made.
hipGraph_t CapturedGraphs::give_real(const std::shared_ptr<TrackedGraph>& graph) {
  hipGraph_t real = nullptr;
  {
    const LockGuard guard(graph->lock);
    static_cast<void>(builder_.make_real(*graph, "no handle left"));
    real = graph->real;
    if (real == nullptr) {
      const LockGuard recordings(g_recordings_lock);
      --graph->recording->users;
    }
  }
  if (real != nullptr) graphs_.add_real(graph);
  return real;
}

void CapturedGraphs::refer_deferred(Recording& recording) noexcept {
  const LockGuard guard(g_recordings_lock);
  ++recording.users;
  recordings_.withheld(recording, all_captures_left_alone());
}

bool CapturedGraphs::with_first_graph(Recording& recording, const Binding& binding, GraphUse use, hipError_t* result) {
  std::unique_ptr<Variant> first;
  {
    const LockGuard guard(g_recordings_lock);
    if (recording.first == nullptr || outlived_memory(recording, *recording.first) ||
        !graph_is_settable(recording.operations, recording.first->baked, binding))
      return false;
    first = std::move(recording.first);  // nobody else has it meanwhile
  }
  {
    const PrivateCalls private_calls;
    if (!set_graph(recording.operations, binding, first->nodes, &first->baked)) return false;
  }
  *result = use(first->graph, first->nodes);
  const LockGuard guard(g_recordings_lock);
  recording.first = std::move(first);
  return true;
}

/// Returns the handle of the copy. Null: HIP must make the copy.
hipGraph_t CapturedGraphs::clone_deferred(TrackedGraph& original) {
  const auto copy = std::make_shared<TrackedGraph>();
  const LockGuard guard(original.lock);
  if (original.build != nullptr) finish_build(original);
  // The runtime's copy of a graph that holds user objects holds them, too. So HIP makes that.
  if (!original.unmodified() || original.recording == nullptr || original.real != nullptr ||
      original.objects != nullptr)
    return nullptr;
  copy->copy_deferred(original);
  const hipGraph_t handle = graphs_.add_deferred(copy);
  if (handle == nullptr) return nullptr;
  static_cast<void>(calling_device());  // HIP before 7: every call sets the last error; this one sets success
  const LockGuard recordings(g_recordings_lock);
  ++original.recording->users;
  return handle;
}

hipError_t CapturedGraphs::clone(hipGraph_t* copy, hipGraph_t original) {
  TrackedGraph* const tracked = copy != nullptr && active() ? graphs_.find(original) : nullptr;
  if (tracked != nullptr) {
    if (const hipGraph_t handle = clone_deferred(*tracked)) {
      *copy = handle;
      return hipSuccess;
    }
    g_refusals.count("a copy of a graph that is real");
  }
  const hipError_t failed = graphs_.read(&original, "hipGraphClone");
  return failed == hipSuccess ? next().hipGraphClone(copy, original) : failed;
}

}  // namespace graphpool
