#include "shim/capture/keeping_events.h"

#include <array>
#include <atomic>

#include "shim/hip/next.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/private_objects.h"
#include "shim/hip/restore.h"
#include "shim/recording/node_creation.h"

namespace graphpool {
namespace {

bool works(hipError_t result) noexcept { return result == hipSuccess; }

hipError_t add_node(hipGraph_t graph, hipGraphNode_t* node) {
  const NodeCreation making;
  return next().hipGraphAddEmptyNode(node, graph, nullptr, 0);
}

/// Records the event behind a node in a capture of the library's own, on a stream of its own. Returns that capture's
/// graph, or null.
hipGraph_t record_behind_a_node(hipEvent_t event, hipStream_t stream) {
  if (!works(next().hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed))) return nullptr;
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  hipGraph_t graph = nullptr, ended = nullptr;
  hipGraphNode_t node = nullptr;
  if (works(next().hipStreamGetCaptureInfo_v2(stream, &status, nullptr, &graph, nullptr, nullptr)) &&
      works(add_node(graph, &node)) &&
      works(next().hipStreamUpdateCaptureDependencies(stream, &node, 1, hipStreamSetCaptureDependencies)))
    static_cast<void>(next().hipEventRecord(event, stream));
  return works(made_private(next().hipStreamEndCapture(stream, &ended), &ended)) ? ended : nullptr;
}

/// Keeps the graph for a while: once its node is gone, another may have the node's address.
void keep(hipGraph_t graph) {
  static constinit std::array<std::atomic<hipGraph_t>, 16> kept{};
  static constinit std::atomic<std::size_t> count{0};
  const hipGraph_t oldest = kept[count.fetch_add(1) % kept.size()].exchange(graph);
  if (oldest != nullptr) static_cast<void>(next().hipGraphDestroy(no_longer_private(oldest)));
}

}  // namespace

void KeepingEvents::recorded(hipEvent_t event, bool in_shell) {
  const LockGuard guard(lock_);
  events_[event] = in_shell;
}

void KeepingEvents::keeps_nodes(hipEvent_t event, bool in_shell, int device) {
  {
    const LockGuard guard(lock_);
    const auto found = events_.find(event);
    if (found == events_.end() || !(found->second || in_shell)) return;
    events_.erase(found);
  }
  const PrivateCalls private_calls;
  const SavedDevice current(device);
  hipStream_t stream = nullptr;
  if (!works(make_private(&stream))) return;
  if (const hipGraph_t graph = record_behind_a_node(event, stream)) keep(graph);
  static_cast<void>(destroy_private(stream));
}

void KeepingEvents::event_destroyed(hipEvent_t event) noexcept {
  const LockGuard guard(lock_);
  events_.erase(event);
}

KeepingEvents& keeping_events() {
  static KeepingEvents* const instance = new KeepingEvents;
  return *instance;
}

}  // namespace graphpool
