#include "shim/staging/ring_exec.h"

#include "shim/hip/next.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/restore.h"
#include "shim/memory/device_memory.h"
#include "shim/recording/edges.h"
#include "shim/recording/node_creation.h"
#include "shim/recording/reissue.h"
#include "shim/streams/stream_work.h"

namespace graphpool {

std::vector<hipGraphNode_t> leaf_nodes(const std::vector<Operation>& operations,
                                       const std::vector<hipGraphNode_t>& nodes,
                                       const std::vector<hipGraphNode_t>& head) {
  std::vector<bool> followed(operations.size(), false);
  for (const auto& dependencies : dependencies_of(operations))
    for (const std::uint32_t index : dependencies) followed[index] = true;
  std::vector<hipGraphNode_t> leaves;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i] != nullptr && !followed[i]) leaves.push_back(nodes[i]);
  return leaves.empty() ? head : leaves;
}

hipError_t RingExec::create_graph() { return made_private(next().hipGraphCreate(&graph_, 0), &graph_); }

hipError_t RingExec::build_graph(const RingGraph& ring, const Binding& binding, std::vector<hipGraphNode_t>* nodes) {
  return graphpool::build_graph(ring.operations, binding, &graph_, nodes);
}

hipError_t RingExec::record_behind(const std::vector<hipGraphNode_t>& nodes, hipEvent_t event) {
  hipGraphNode_t node = nullptr;
  const NodeCreation making;
  return next().hipGraphAddEventRecordNode(&node, graph_, nodes.data(), nodes.size(), event);
}

hipError_t RingExec::instantiate(int device, OnNoMemory on_no_memory) {
  const SavedDevice current;
  current.set(device);
  const auto call = [&] {
    return made_private(next().hipGraphInstantiate(&exec_, graph_, nullptr, nullptr, 0), &exec_);
  };
  device_ = device;
  const hipError_t result = on_no_memory == OnNoMemory::kTrim ? memory_room().retry_after_trim(device, call) : call();
  if (result != hipSuccess) exec_ = nullptr;
  return result;
}

void RingExec::destroy() noexcept {
  if (exec_ != nullptr) static_cast<void>(stream_work().destroy_exec(exec_, device_));
  if (graph_ != nullptr) static_cast<void>(next().hipGraphDestroy(no_longer_private(graph_)));
  forget();
}

}  // namespace graphpool
