// slot_ring.h: N slot sets and N execs for one graph: launch i works on set i mod N.
//
// Why: a slot set serves one launch at a time. With one set a staged launch comes behind the launch before it; with
// more, launches that a rule declares independent (`overlap`) run at the same time, and a set whose launch is complete
// can be given the program's new buffers while another one works.
//
// The life of a ring: make() at the program's instantiate -> bind() there and at each update, with the buffers the
// program has now -> launch() -> gone with its variant. All execs exist when make() and bind() return (rule 15).
//
// One set has one or two execs over the same slots:
//   fused  the copies in, the graph's operations, the copies out and the event behind them: a launch is one submission.
//          The program's buffers are baked in. When they moved and the set's last launch is complete, the copy nodes
//          are patched, where the runtime is known to update them correctly (rule 9). The same when memory was really
//          freed since: a copy node may hold on to the allocation it was made with (memory/freed_memory.h).
//   plain  the operations alone; a launch enqueues the copies around it. Made when the buffers moved and the fused exec
//          cannot follow: its launch may still run, or the runtime is not known to update copies.
// Beside the sets a ring may have one exec more:
//   home   the operations over the program's own memory, without copies. Made in bind(), once the buffers have stayed
//          where they are for so many bindings in a row, and gone in a bind() after they moved. It serves all launches
//          of a binding or none; those are in order with the launches of the sets. Not with overlap: independent
//          launches need slots of their own.
//
// When is a set free? A launch of a ring with more than one set, or with overlap, raises the set's timeline
// (streams/timeline.h; rule 19: others do not); one atomic load tells. Otherwise:
//   - same stream as the set's last launch: the stream orders them;
//   - launches that are ordered anyway (rule 3): the stream waits for the event of the launch before, recorded with it;
//   - independent launches are never made to wait for each other on the device: they could in truth wait for each
//     other. launch() says busy, and its caller waits with back-off, up to the policy's time-out.
//
// An event of a stream that is being captured can be neither waited for nor asked. So before a stream takes part in a
// capture, what its events stand for is passed on to a stream of ours (rings_before_capture()); and before it is
// destroyed, for then AMD's runtime must not be asked for them (rings_before_destroy()).
//
// What is enqueued for a launch (rule 19: events and values included) is enqueued before launch() returns, so before
// any wait of the program. Copies are enqueued in the program's stream, never earlier elsewhere (rule 3).
//
// Errors: HIP's. Threads: one at a time (the lock of the program exec that owns the ring); but streams of last launches
// may begin to capture in any thread: lock kRing, held over event records and waits only. Units: bytes.
// Not here: what is copied (staging.h), who waits and for how long (graphs/staged_launch.h).
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "shim/base/function_ref.h"
#include "shim/base/lock_rank.h"
#include "shim/costs/copy_timer.h"
#include "shim/memory/slot_set.h"
#include "shim/recording/operation.h"
#include "shim/staging/staging.h"
#include "shim/streams/passed_event.h"
#include "shim/streams/stream_key.h"
#include "shim/streams/stream_state.h"
#include "shim/streams/timeline.h"

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

class SlotRing {
 public:
  using NativeLaunch = FunctionRef<hipError_t(hipGraphExec_t exec)>;
  /// Bindings in a row with the buffers where they are before launches do without copies; each time they move after
  /// that it takes twice as many, up to the most.
  static constexpr std::uint32_t kBindingsAtHome = 8, kMostBindingsAtHome = 1024;

  /// As many sets as the plan says, for the binding `canonical` (StagePlan::canonical) over these buffers of the
  /// program. `operations` and `plan` are the recording's. `patch_budget`: patched nodes before an exec is replaced.
  /// `may_be_at_home`: the recording's, too; false: all launches copy.
  static hipError_t make(const std::vector<Operation>& operations, const StagePlan& plan, Binding canonical,
                         std::vector<char*> bases, std::uint32_t patch_budget, const std::atomic<bool>& may_be_at_home,
                         std::unique_ptr<SlotRing>* ring);
  ~SlotRing();
  SlotRing(const SlotRing&) = delete;
  SlotRing& operator=(const SlotRing&) = delete;

  /// The program's buffers are these from now on: every set can serve them when this returns hipSuccess. Launches in
  /// flight keep theirs. An error leaves the launches with the buffers they had, as far as memory allows.
  hipError_t bind(std::vector<char*> bases, RingCounts* counts);
  /// The same for launches that are not the program's: it tells nothing of where its buffers stay.
  hipError_t work_on(std::vector<char*> bases, RingCounts* counts);

  /// Launches the next set on the stream, by `native`. *busy: nothing was enqueued, because the set may still work for
  /// an independent launch; with `on_device` the stream is made to wait for that one. *replayed: the graph has been
  /// enqueued; where it has not, a launch that failed may be made again.
  hipError_t launch(StreamKey key, hipStream_t stream, NativeLaunch native, bool on_device, RingCounts* counts,
                    bool* busy, bool* replayed);

  /// Makes the stream wait for the last launch, where it has not to be waited for otherwise. False: that cannot be.
  bool order_behind_last(StreamKey key, hipStream_t stream);

  /// The program's buffers.
  const std::vector<char*>& bases() const noexcept { return bases_; }
  /// Those that launches copy out whole.
  const std::vector<const char*>& whole() const noexcept { return whole_; }
  std::size_t sets() const noexcept { return sets_.size(); }
  std::size_t slots() const noexcept;
  std::size_t slot_bytes() const noexcept;
  /// The stream is about to take part in a capture. Any thread.
  void before_capture(StreamKey stream) noexcept;
  /// So many streams are about to go. Any thread.
  void before_destroy(StreamKey first, StreamKey count) noexcept;
  /// Execs there are, of all sets and beside them.
  std::size_t execs() const noexcept;
  /// Whether launches work on the program's own memory now, and copy nothing.
  bool at_home() const noexcept { return at_home_ && may_be_at_home_.load(std::memory_order_relaxed); }
  /// What they work on then.
  const std::vector<char*>& home_bases() const noexcept { return home_.bases; }
  /// The device is being reset: what the runtime made on it is gone, and is not to be destroyed. The slots are given
  /// back; no launch works any more, nor may buffers be bound.
  void forget() noexcept;

 private:
  struct Exec {
    hipGraph_t graph = nullptr;
    hipGraphExec_t exec = nullptr;
  };
  /// What serves one launch at a time.
  struct Server {
    std::unique_ptr<Timeline> timeline;  ///< null: not needed, or the runtime has none
    hipEvent_t done = nullptr;           ///< behind the last launch
    bool recorded = false;               ///< it stands for the last launch
    StreamKey last_on = 0;               ///< the stream of the last launch; 0: there was none
    hipStream_t last_stream = nullptr;
    std::shared_ptr<StreamState> state;   ///< its
    std::uint64_t number = 0;             ///< of the last launch
    std::shared_ptr<PassedEvent> passed;  ///< stands for `done` where its stream captures
    Exec fused;                           ///< all of a launch, over `bases`
    bool done_in_graph = false;           ///< a node of `fused` records `done`
    std::vector<char*> bases;             ///< baked into `fused`
    std::uint64_t memory_freed = 0;       ///< memory_freed() before they were: nodes may hold on to allocations
  };
  struct Set : Server {
    std::unique_ptr<SlotSet> slots;
    Exec plain;
    std::vector<hipGraphNode_t> copies;  ///< of `fused`: those in, then those out, in the order of the plan
    bool serves = false;                 ///< `fused` has the program's present buffers
    std::uint32_t patches = 0;
  };

  SlotRing(const std::vector<Operation>& operations, const StagePlan& plan, Binding canonical,
           std::uint32_t patch_budget, const std::atomic<bool>& may_be_at_home);
  hipError_t make_set(const std::vector<char*>& bases, Set& set);
  hipError_t make_server(Server& server) const;
  hipError_t build_fused(Set& set, const std::vector<char*>& bases);
  bool build_home();
  bool home_serves(std::uint64_t freed) const noexcept;
  void settle(bool stayed, std::uint64_t freed);
  hipError_t serve(std::vector<char*> bases, std::uint64_t freed, RingCounts* counts);
  hipError_t build_plain(Set& set);
  static bool has(const Server& server, const std::vector<char*>& bases, std::uint64_t freed) noexcept;
  bool follows(const Set& set, const std::vector<char*>& bases, std::uint64_t freed) const;
  hipError_t follow(Set& set, const std::vector<char*>& bases, RingCounts* counts);
  hipError_t patch(Set& set, const std::vector<char*>& bases, RingCounts* counts);
  hipError_t instantiate(Exec& exec) const;
  hipError_t copy(const Set& set, const std::vector<StagePlan::Copy>& copies, bool in, hipStream_t stream,
                  RingCounts* counts) const;
  hipError_t copy_in(const Set& set, hipStream_t stream, RingCounts* counts);
  hipError_t order(Server* before, StreamKey key, hipStream_t stream, bool on_device, RingCounts* counts, bool* busy);
  hipError_t order_locked(Server& before, StreamKey key, hipStream_t stream, bool on_device, RingCounts* counts,
                          bool* busy) REQUIRES(order_lock_);
  static bool record(Server& server) noexcept;
  void pass_on(Server& server) noexcept REQUIRES(order_lock_);
  void leave_stream(Server& server) noexcept REQUIRES(order_lock_);
  hipError_t launch_fused(Server& server, StreamKey key, hipStream_t stream, NativeLaunch native, RingCounts* counts,
                          bool* replayed);
  void launched(Server& server, StreamKey key, hipStream_t stream, bool fused, RingCounts* counts);
  bool complete(const Server& server) const;
  bool complete_locked(const Server& server) const REQUIRES(order_lock_);
  bool counts_timeline() const noexcept { return sets_.size() > 1 || plan_.overlap(); }
  static void destroy(Exec& exec) noexcept;
  static void destroy(Server& server) noexcept;

  const std::vector<Operation>& operations_;
  const StagePlan& plan_;
  const Binding canonical_;
  const std::uint32_t patch_budget_;
  const std::atomic<bool>& may_be_at_home_;
  const bool holds_memory_;                          ///< some node may (memory/freed_memory.h)
  mutable RankedMutex<LockRank::kRing> order_lock_;  ///< of what servers know of their last launches
  std::vector<Set> sets_;
  std::unique_ptr<CopyTimer> copy_timer_;  ///< null: nothing is to be measured
  Server home_;
  bool at_home_ = false;
  std::uint32_t stayed_ = 1;                      ///< bindings in a row with these buffers
  std::uint32_t wanted_stays_ = kBindingsAtHome;  ///< before the next home
  std::vector<char*> bases_;
  std::vector<const char*> whole_;
  std::uint64_t memory_freed_ = 0;  ///< memory_freed() when they were bound
  std::size_t next_ = 0;            ///< the set of the next launch
  Server* last_ = nullptr;          ///< of the last launch
};

/// How many rings there are.
inline constinit std::atomic<std::size_t> g_rings{0};
void all_rings_before_capture(StreamKey stream) noexcept;
/// A stream is about to take part in a capture.
inline void rings_before_capture(StreamKey stream) noexcept {
  if (g_rings.load(std::memory_order_acquire) != 0) [[unlikely]]
    all_rings_before_capture(stream);
}
/// So many streams, from this key on, are about to be destroyed, or to end with the calling thread.
void rings_before_destroy(StreamKey first, StreamKey count) noexcept;

}  // namespace graphpool
