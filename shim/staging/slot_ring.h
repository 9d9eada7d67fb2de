// slot_ring.h: has some slot sets for one graph, with their execs. Launches that copy use the sets in turn.
//
// Why: a slot set serves one launch at a time. With one set a staged launch comes behind the launch before it; with
// more, launches that a rule declares independent (`overlap`) run at the same time, and a set whose launch is complete
// can be given the program's new buffers while another one works.
//
// The life of a ring: make() at the program's instantiate or update -> bind() at each later one, with the buffers that
// the program has then -> launch() -> it goes with its variant. All execs exist when make() or bind() has
// returned hipSuccess (rule 15).
//
// A set has one or two execs over the same slots (ring_set.h).
// Beside the sets a ring may have one exec over the program's own memory, without copies (direct_exec.h).
// A set is free when its last launch is complete, or when the next launch is ordered behind that one (last_launch.h).
// If neither is so, launch() says busy, and its caller waits with back-off, up to the policy's time-out.
//
// launch() enqueues all work of a launch before it returns, so before any wait of the program (rule 19). Only an event
// may be recorded later (last_launch.h). The program's stream runs the copies: no other stream runs ahead (rule 3).
//
// Errors: HIP's. Threads: launch() is called under the lock of the program exec, bind() in the call that changes the
// exec, when a launch that runs has let go of that lock; before_capture() and before_destroy() are called by any thread
// (rings.h). Units: bytes. Not here: what is copied (staging.h), who waits and for how long (graphs/staged_launch.h).
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "shim/base/function_ref.h"
#include "shim/costs/copy_timer.h"
#include "shim/recording/operation.h"
#include "shim/staging/direct_exec.h"
#include "shim/staging/last_launch.h"
#include "shim/staging/ring_exec.h"
#include "shim/staging/ring_set.h"
#include "shim/staging/staging.h"

namespace graphpool {

/// How far one call of launch() has come.
struct RingLaunch {
  enum class Reached : std::uint8_t {
    kNothing,  ///< the graph was not enqueued; a launch that failed may be made again
    kBusy,     ///< nothing was enqueued for it: an earlier launch may still run, and the stream does not come behind it
    kGraph,    ///< the graph was enqueued
  };
  hipError_t result = hipSuccess;
  Reached reached = Reached::kNothing;
};

class SlotRing {
 public:
  using NativeLaunch = FunctionRef<hipError_t(hipGraphExec_t exec)>;

  /// Makes a ring with as many sets as the plan says, for these buffers of the program. `patch_budget`: patched nodes
  /// before an exec is replaced. `may_be_direct`: false while all launches must copy. It and what `graph` names outlive
  /// the ring.
  static hipError_t make(RingGraph graph, std::vector<char*> bases, std::uint32_t patch_budget,
                         const std::atomic<bool>& may_be_direct, std::unique_ptr<SlotRing>* ring);
  ~SlotRing();
  SlotRing(const SlotRing&) = delete;
  SlotRing& operator=(const SlotRing&) = delete;

  /// Gives the ring these buffers of the program: every set can serve them when this returns hipSuccess. Launches in
  /// flight keep theirs. After an error launches work on the buffers that they had. But a set without a plain
  /// exec that had followed, or lost its exec, refuses its launches (hipErrorOutOfMemory).
  hipError_t bind(std::vector<char*> bases, RingCounts* counts);
  /// Does the same for launches that `verify` makes. It counts as no move of the program's buffers, and makes no direct
  /// exec.
  hipError_t work_on(std::vector<char*> bases, RingCounts* counts);

  /// Launches the next set, or the direct exec, on the stream, by `native`. Adds to *counts what it did. kOnDevice: the
  /// stream waits for the launch before, where it can be made to; never busy.
  RingLaunch launch(StreamKey key, hipStream_t stream, NativeLaunch native, LastLaunch::IfRunning if_running,
                    RingCounts* counts);
  /// Makes the stream wait for the last launch, unless it comes behind that anyway. Returns false if it cannot; with
  /// `overlap` true also then.
  bool order_behind_last(StreamKey key, hipStream_t stream);

  /// The buffers bound last: the program's, or copies while `verify` works on those (work_on()).
  const std::vector<char*>& bases() const noexcept { return bases_; }
  /// Those of them that launches copy out whole.
  const std::vector<const char*>& whole() const noexcept { return whole_; }
  std::size_t sets() const noexcept { return sets_.size(); }
  std::size_t slots() const noexcept;
  std::size_t slot_bytes() const noexcept;
  /// How many execs there are, of all sets and beside them.
  std::size_t execs() const noexcept;
  /// Whether launches work on the program's own memory now, and copy nothing.
  bool direct() const noexcept { return direct_.in_use() && may_be_direct_.load(std::memory_order_relaxed); }
  /// The buffers that they work on then.
  const std::vector<char*>& direct_bases() const noexcept { return direct_.bases(); }

  /// The stream is about to take part in a capture. Any thread.
  void before_capture(StreamKey stream) noexcept;
  /// `count` streams, from this key on, are about to go. Any thread.
  void before_destroy(StreamKey first, StreamKey count) noexcept;
  /// Forgets what the runtime made on the device, which is being reset: it is gone, and is not to be destroyed. Gives
  /// the slots back. From now on launches fail, and no buffers may be bound.
  void forget() noexcept;

 private:
  SlotRing(RingGraph graph, std::uint32_t patch_budget, const std::atomic<bool>& may_be_direct);
  hipError_t serve(std::vector<char*> bases, std::uint64_t freed, RingCounts* counts);
  hipError_t copy_in(const RingSet& set, hipStream_t stream, RingCounts* counts);
  RingLaunch launch_fused(RingSet& set, StreamKey key, hipStream_t stream, NativeLaunch native, RingCounts* counts);
  RingLaunch launch_plain(RingSet& set, StreamKey key, hipStream_t stream, NativeLaunch native, RingCounts* counts);
  RingLaunch launch_whole(hipGraphExec_t exec, NativeLaunch native, RingCounts* counts);
  void launched(LastLaunch& last, StreamKey key, hipStream_t stream, bool recorded, RingCounts* counts);

  const RingGraph graph_;
  const std::uint32_t patch_budget_;
  const std::atomic<bool>& may_be_direct_;
  std::vector<RingSet> sets_;
  DirectExec direct_;
  std::unique_ptr<CopyTimer> copy_timer_;  ///< null: nothing is to be measured
  std::vector<char*> bases_;
  std::vector<const char*> whole_;
  std::uint64_t memory_freed_ = 0;  ///< memory_freed() when they were bound
  std::size_t next_ = 0;            ///< the set of the next launch
  LastLaunch* last_ = nullptr;      ///< null: there was no launch
};

}  // namespace graphpool
