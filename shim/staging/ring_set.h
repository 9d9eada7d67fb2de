// ring_set.h: has a slot set of a ring and its execs over the same slots.
//
//   fused  the copies and the operations in one (fused_exec.h).
//   plain  the operations alone; a launch enqueues the copies around it. Made when the buffers moved and the fused exec
//          cannot follow: its launch may still run, the runtime is not known to update copies correctly, or an update
//          or a rebuild failed.
// Errors: HIP's. Threads: one at a time, as the ring; `last` locks for itself.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "shim/memory/slot_set.h"
#include "shim/staging/fused_exec.h"
#include "shim/staging/last_launch.h"
#include "shim/staging/ring_exec.h"

namespace graphpool {

/// What launches through a ring did.
struct RingCounts {
  std::uint64_t launches = 0;
  std::uint64_t without_copies = 0;  ///< of these: over the program's own memory
  std::uint64_t submissions = 0;     ///< operations enqueued for them
  std::uint64_t bytes = 0;           ///< copied in and out
  std::uint64_t patched = 0;         ///< copy nodes given other buffers

  RingCounts& operator+=(const RingCounts& more) noexcept {
    launches += more.launches;
    without_copies += more.without_copies;
    submissions += more.submissions;
    bytes += more.bytes;
    patched += more.patched;
    return *this;
  }
};

struct RingSet {
  std::unique_ptr<SlotSet> slots;
  LastLaunch last;
  FusedExec fused;
  RingExec plain;
  bool serves = false;  ///< `fused` has the ring's present buffers (SlotRing::bases())

  /// Makes the slots and the fused exec for these buffers of the program.
  hipError_t make(const RingGraph& graph, const std::vector<char*>& bases);
  hipError_t build_plain(const RingGraph& graph);
  /// Whether the fused exec has these buffers, or may be given them now. `freed`: as in BoundExec.
  bool can_follow(const std::vector<char*>& bases, std::uint64_t freed) const;
  /// Gives the fused exec these buffers. If that fails, the fused exec is gone, and on hipSuccess there is a plain one.
  /// `patch_budget`: patched nodes before the exec is replaced.
  hipError_t follow(const RingGraph& graph, const std::vector<char*>& bases, std::uint32_t patch_budget,
                    RingCounts* counts);
  /// Enqueues the copies in, or those out, between these buffers and the slots.
  hipError_t copy(const std::vector<StagePlan::Copy>& copies, bool in, const std::vector<char*>& bases,
                  hipStream_t stream, RingCounts* counts) const;
};

}  // namespace graphpool
