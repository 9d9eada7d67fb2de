#include "shim/capture/capture_recorder.h"

#include "shim/base/seeded_defect.h"
#include "shim/capture/stream_tail.h"
#include "shim/hip/restore.h"
#include "shim/recording/operation_functions.h"

namespace graphpool {

void CaptureRecorder::clear() noexcept {
  binding_ = {};
  operations_ = {};
  nodes_ = {};
}

std::vector<hipGraphNode_t> CaptureRecorder::nodes_at(const OperationTail& operations) const {
  std::vector<hipGraphNode_t> nodes;
  for (const std::uint32_t index : operations) nodes.push_back(nodes_[index]);
  return nodes;
}

bool CaptureRecorder::has(OperationTest test) const {
  return std::any_of(operations_.begin(), operations_.end(),
                     [test](const Operation& operation) { return holds(operation, test); });
}

bool CaptureRecorder::set_tail(hipStream_t stream, const OperationTail& tail) const {
  return seeded_defect(Seeded::kForkLost) || replace_tail(stream, nodes_at(tail));
}

bool CaptureRecorder::set_tail_after_wait(hipStream_t stream, const std::vector<hipGraphNode_t>* before,
                                          const OperationTail& tail) const {
  if (before == nullptr) return extend_tail(stream, nodes_at(tail));
  const LastErrorScope last_error;
  std::vector<hipGraphNode_t> nodes = *before;
  for (const std::uint32_t index : tail)
    if (std::find(nodes.begin(), nodes.end(), nodes_[index]) == nodes.end()) nodes.push_back(nodes_[index]);
  return replace_tail(stream, nodes);
}

bool CaptureRecorder::comes_behind(hipStream_t stream, const OperationTail& tail) const {
  const LastErrorScope last_error;
  const StreamTail present = runtime_tail(stream);
  return present.known && present.count == tail.size() &&
         std::equal(tail.begin(), tail.end(), present.begin(),
                    [this](std::uint32_t index, hipGraphNode_t node) { return nodes_[index] == node; });
}

}  // namespace graphpool
