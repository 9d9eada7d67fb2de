#include "shim/staging/fused_exec.h"

#include "shim/base/seeded_defect.h"
#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/memory/freed_memory.h"
#include "shim/recording/node_creation.h"
#include "shim/recording/reissue.h"

namespace graphpool {

CopyEnds ends_of_copy(const StagePlan::Copy& copy, bool in, const SlotSet& slots, const std::vector<char*>& bases) {
  char* const slot = static_cast<char*>(slots.address(copy.buffer)) + copy.offset;
  char* const program = bases[copy.buffer] + copy.offset;
  return in ? CopyEnds{slot, program} : CopyEnds{program, slot};
}

hipError_t FusedExec::build(const RingGraph& ring, const SlotSet& slots, const std::vector<char*>& bases,
                            const LastLaunch& last) {
  const SavedDevice device;
  device.set(ring.plan.device());
  BoundExec made{{}, bases, memory_freed()};
  std::vector<hipGraphNode_t> copies, nodes, tail;
  // Copies are put one behind the other. So a graph that is one list stays one list, which runtimes launch faster.
  const auto add = [&](const std::vector<StagePlan::Copy>& all, bool in) {
    for (const StagePlan::Copy& copy : all) {
      const CopyEnds ends = ends_of_copy(copy, in, slots, bases);
      const std::size_t bytes = copy.bytes - (seeded_defect(Seeded::kCopyOutShort) && !in ? sizeof(int) : 0);
      hipGraphNode_t node = nullptr;
      const NodeCreation making;
      const hipError_t result = next().hipGraphAddMemcpyNode1D(&node, made.exec.graph(), tail.data(), tail.size(),
                                                               ends.dst, ends.src, bytes, hipMemcpyDeviceToDevice);
      if (result != hipSuccess) return result;
      copies.push_back(node);
      tail.assign(1, node);
    }
    return hipSuccess;
  };
  hipError_t result = made.exec.create_graph();
  if (result != hipSuccess) return result;
  result = add(ring.plan.copies_in(), true);
  if (result == hipSuccess)
    result =
        add_all_to_graph(ring.operations, ring.plan.translated(ring.canonical, slots), made.exec.graph(), tail, &nodes);
  if (result == hipSuccess) {
    tail = leaf_nodes(ring.operations, nodes, tail);
    result = add(ring.plan.copies_out(), false);
  }
  const bool needs_event = last.needs_event();
  if (result == hipSuccess && needs_event) result = made.exec.record_behind(tail, last.event());
  if (result == hipSuccess) result = made.exec.instantiate(ring.plan.device(), OnNoMemory::kTrim);
  if (result != hipSuccess) return result;
  bound_ = std::move(made);
  copies_ = std::move(copies);
  records_event_ = needs_event;
  patches_ = 0;
  return hipSuccess;
}

std::pair<hipError_t, std::uint32_t> FusedExec::patch(const RingGraph& ring, const SlotSet& slots,
                                                      const std::vector<char*>& bases) {
  const SavedDevice device;
  device.set(ring.plan.device());
  const std::uint64_t freed = memory_freed();
  std::uint32_t patched = 0;
  auto node = copies_.begin();
  for (const bool in : {true, false})
    for (const StagePlan::Copy& copy : in ? ring.plan.copies_in() : ring.plan.copies_out()) {
      const hipGraphNode_t copy_node = *node++;
      if (bases[copy.buffer] == bound_.bases[copy.buffer] && bound_.memory_freed == freed) continue;
      const CopyEnds ends = ends_of_copy(copy, in, slots, bases);
      const hipError_t result = next().hipGraphExecMemcpyNodeSetParams1D(exec(), copy_node, ends.dst, ends.src,
                                                                         copy.bytes, hipMemcpyDeviceToDevice);
      if (result != hipSuccess) return {result, patched};
      ++patches_;
      ++patched;
    }
  bound_.bases = bases;
  bound_.memory_freed = freed;
  return {hipSuccess, patched};
}

}  // namespace graphpool
