// fused_exec.h: has all of a staged launch in one exec: the copies in, the graph's operations over the slots, the
// copies out and, if launches need one, the event behind them. So a launch is one submission, but for the timeline.
//
// The program's buffers are baked in. The copy nodes are patched when the buffers moved, or memory was really freed
// since: a copy node may hold on to the allocation it was made with (memory/freed_memory.h). That is done only if the
// runtime is known to update copies correctly (rule 9), and no launch of the exec may still run.
// Errors: HIP's. Threads: one at a time, as the ring.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "shim/staging/last_launch.h"
#include "shim/staging/ring_exec.h"

namespace graphpool {

/// The two ends of a copy of a plan, from the program's buffer to its slot or back.
struct CopyEnds {
  void* dst;
  const void* src;
};
CopyEnds ends_of_copy(const StagePlan::Copy& copy, bool in, const SlotSet& slots, const std::vector<char*>& bases);

class FusedExec {
 public:
  /// Makes the exec. `last` knows the launches of the slots; if it needs an event, the exec records that. After an
  /// error the exec is the one that there was.
  hipError_t build(const RingGraph& ring, const SlotSet& slots, const std::vector<char*>& bases,
                   const LastLaunch& last);
  /// Gives the copy nodes other buffers. Returns how many it has patched. After an error the exec may be half patched.
  std::pair<hipError_t, std::uint32_t> patch(const RingGraph& ring, const SlotSet& slots,
                                             const std::vector<char*>& bases);
  /// Whether another patch would pass `budget` patched nodes in all.
  bool worn(std::uint32_t budget) const noexcept { return patches_ + copies_.size() > budget; }

  bool current_for(const std::vector<char*>& bases, std::uint64_t freed) const noexcept {
    return bound_.current_for(bases, freed);
  }
  explicit operator bool() const noexcept { return static_cast<bool>(bound_.exec); }
  hipGraphExec_t exec() const noexcept { return bound_.exec.exec(); }
  /// Whether one of its nodes records the event of its launches.
  bool records_event() const noexcept { return records_event_; }
  void destroy() noexcept { bound_.exec.destroy(); }
  void forget() noexcept { bound_.exec.forget(); }

 private:
  BoundExec bound_;
  std::vector<hipGraphNode_t> copies_;  ///< those in, then those out, in the order of the plan
  bool records_event_ = false;
  std::uint32_t patches_ = 0;
};

}  // namespace graphpool
