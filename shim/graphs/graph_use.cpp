#include "shim/graphs/graph_use.h"

#include "shim/graphs/node_graphs.h"

namespace graphpool {

UsedGraph use_graph(TrackedGraph& graph, GraphUsedFor purpose, Recordings& recordings, bool track_operands) {
  UsedGraph used;
  const LockGuard guard(graph.lock);
  if (graph.build != nullptr) finish_build(graph);
  if (!graph.unmodified() || graph.recording == nullptr) return used;
  Recording& recording = *graph.recording;
  if (purpose == GraphUsedFor::kInstantiate) {
    if (graph.objects != nullptr && !recording.rebuildable.load(std::memory_order_acquire)) return used;
    used.objects = graph.objects;
  }
  used.binding = graph.binding;
  used.real = graph.real != nullptr;
  used.outlived = used.real && outlived_memory(recording, graph.memory_freed);
  const LockGuard tables(g_recordings_lock);
  recordings.note_used(recording);
  if (track_operands) recording.moved.note(recording.operations, used.binding);
  ++recording.users;
  used.recording = &recording;
  return used;
}

}  // namespace graphpool
