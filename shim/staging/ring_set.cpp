#include "shim/staging/ring_set.h"

#include <utility>

#include "shim/costs/cost_model.h"
#include "shim/hip/next.h"
#include "shim/hip/quirks.h"
#include "shim/recording/patch_table.h"

namespace graphpool {

hipError_t RingSet::make(const RingGraph& graph, const std::vector<char*>& bases) {
  hipError_t result = graph.plan.make_slots(&slots);
  if (result == hipSuccess) result = last.make(graph.plan);
  if (result == hipSuccess) result = fused.build(graph, *slots, bases, last);
  serves = result == hipSuccess;
  return result;
}

hipError_t RingSet::build_plain(const RingGraph& graph) {
  RingExec made;
  std::vector<hipGraphNode_t> nodes;
  hipError_t result = made.build_graph(graph, graph.plan.translated(graph.canonical, *slots), &nodes);
  if (result == hipSuccess) result = made.instantiate(graph.plan.device(), OnNoMemory::kTrim);
  if (result == hipSuccess) plain = std::move(made);
  return result;
}

bool RingSet::can_follow(const std::vector<char*>& bases, std::uint64_t freed) const {
  return fused.current_for(bases, freed) ||
         (fused && patch_is_exact(NodeClass::kDeviceCopy, runtime_version()) && last.complete());
}

hipError_t RingSet::follow(const RingGraph& graph, const std::vector<char*>& bases, std::uint32_t patch_budget,
                           RingCounts* counts) {
  hipError_t result = hipErrorUnknown;
  const bool worn = fused.worn(patch_budget);
  if (!worn) {
    const auto [patch_result, patched] = fused.patch(graph, *slots, bases);
    counts->patched += patched;
    if (patch_result == hipSuccess) return hipSuccess;
  }
  fused.destroy();  // half patched, or to be replaced
  if (worn) result = fused.build(graph, *slots, bases, last);
  return result == hipSuccess || plain ? hipSuccess : build_plain(graph);
}

hipError_t RingSet::copy(const std::vector<StagePlan::Copy>& copies, bool in, const std::vector<char*>& bases,
                         hipStream_t stream, RingCounts* counts) const {
  const CostTimer timer;
  for (const StagePlan::Copy& each : copies) {
    const CopyEnds ends = ends_of_copy(each, in, *slots, bases);
    const hipError_t result = next().hipMemcpyAsync(ends.dst, ends.src, each.bytes, hipMemcpyDeviceToDevice, stream);
    if (result != hipSuccess) return result;
    counts->bytes += each.bytes;
    ++counts->submissions;
  }
  timer.stop(Cost::kCopy, copies.size());
  return hipSuccess;
}

}  // namespace graphpool
