#include "shim/staging/direct_exec.h"

#include <algorithm>

#include "shim/base/seeded_defect.h"
#include "shim/hip/restore.h"
#include "shim/memory/freed_memory.h"

namespace graphpool {

DirectExec::DirectExec(const RingGraph& ring)
    : holds_memory_(std::any_of(ring.operations.begin(), ring.operations.end(),
                                [](const Operation& operation) { return may_hold_memory(operation.signature.kind); })) {
}

/// Whether the exec works on these buffers. Freed memory matters only if nodes may hold on to it.
bool DirectExec::serves(const std::vector<char*>& bases, std::uint64_t freed) const noexcept {
  if (seeded_defect(Seeded::kDirectNotFollowed) && bound_.exec) return true;
  return bound_.current_for(bases, holds_memory_ ? freed : 0);
}

/// Makes the exec of the graph over the program's buffers, with the event behind it. Returns false on failure.
bool DirectExec::build(const RingGraph& ring, const std::vector<char*>& bases) {
  const SavedDevice device;
  device.set(ring.plan.device());
  BoundExec made{{}, bases, memory_freed()};
  std::vector<hipGraphNode_t> nodes;
  if (!last_.made() && last_.make(ring.plan) != hipSuccess) return false;
  hipError_t result = made.exec.build_graph(ring, ring.plan.translated(ring.canonical, bases), &nodes);
  if (result == hipSuccess) result = made.exec.record_behind(leaf_nodes(ring.operations, nodes, {}), last_.event());
  if (result == hipSuccess) result = made.exec.instantiate(ring.plan.device(), OnNoMemory::kGiveUp);
  if (result != hipSuccess) return false;
  bound_ = std::move(made);
  return true;
}

void DirectExec::settle(const RingGraph& ring, const std::vector<char*>& bases, bool stayed, std::uint64_t freed) {
  stayed_ = stayed ? stayed_ + 1 : 1;
  in_use_ = serves(bases, freed);
  if (in_use_) return;
  if (bound_.exec) {
    stayed_ = 1;
    if (!last_.complete()) return;  // a later binding destroys it
    destroy();
    wanted_stays_ = std::min(2 * wanted_stays_, kMostBindings);
  }
  if (stayed_ < wanted_stays_) return;
  stayed_ = 0;  // if it cannot be made now, not every binding tries again
  in_use_ = build(ring, bases);
}

void DirectExec::forget() noexcept {
  in_use_ = false;
  bound_.exec.forget();
  last_.forget();
}

}  // namespace graphpool
