// variants.h: the execs a recording keeps, and which of them serves a binding.
//
// A program exec needs a variant with its binding baked in: obtain() takes a free one that has it; else the cost model
// (costs/cost_model.h) says whether a free one or the exec's own is patched, where the runtime is known to update the
// differing nodes correctly (recording/patch_table.h) and it does not run, or another is made, to keep or for this use
// only; where rules leave staging open, whether it is staged (costs/stage_choice.h). A variant is free when its holder
// is gone and its last launch is known to be complete (rule 20; nothing relies on probe destroyed_exec_completes);
// until then another is made, whose graph need not stay (probe exec_outlives_graph). What serves a binding exists when
// obtain() returns success, so a launch only selects (rule 15). Where the program asks for an update, obtain() may say
// that its own call is to be made instead, on the variant that the exec has (Way::kUpdate, probe
// update_reaches_launch).
//
// Bounded: so many variants a recording, so many bytes of device memory a device; the least recently used free ones go
// first. They go only in calls of the program that make, free, update or wait for something themselves (evict(),
// evict_due(), reclaim()), and never while they may still run. What an exec holds is an estimate (exec_size.h),
// and more with every patch.
//
// Invariants: a variant whose patch failed, or that was patched `patch_budget` times, or that has no room left for the
// arguments of patched kernels (exec_size.h), serves no further binding.
// Errors: HIP's. Threads: any. Lock: that of Graphs (kRecordings), never held across next but where a function says
// "under the lock": its caller holds it.
// Not here: handles, graphs and launches (graphs/graphs.h), slots (memory/slot_set.h), what a launch copies
// (staging/staging.h).
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "policy/values.h"
#include "shim/base/function_ref.h"
#include "shim/base/lock_rank.h"
#include "shim/base/units.h"
#include "shim/execs/program_exec.h"
#include "shim/execs/recording.h"

namespace graphpool {

struct GraphSettings {
  bool compare = true;
  bool reuse = true;
  bool weigh = true;  ///< captures are left alone where comparing costs more than it saves (costs/step_costs.h)
  Strategy strategy = Strategy::kAuto;
  std::size_t most_recordings = 256;
  std::size_t most_recording_bytes = 64 * kMiB;                      ///< host memory of all recordings
  std::size_t most_variants = 16;                                    ///< of one recording
  std::size_t most_variant_bytes = 512 * kMiB;                       ///< device memory of all variants, a device
  std::uint32_t patch_budget = 100'000;                              ///< patches of one exec before it is replaced
  bool track_operands = false;                                       ///< for a report: which operands moved
  Verify verify;                                                     ///< matches that also take the real path
  bool check = false;                                                ///< launches look for stale addresses
  bool looks_at_launches = false;                                    ///< verify, check or both
  std::chrono::nanoseconds ring_timeout = std::chrono::seconds(30);  ///< longest wait for a free slot set
};

class Variants {
 public:
  /// Makes a variant from the program's own graph.
  using NativeVariant = FunctionRef<hipError_t(std::unique_ptr<Variant>*)>;
  /// Variants on their way out: destroyed by the caller, after unlocking.
  using Retired = std::vector<std::unique_ptr<Variant>>;
  using Lock = RankedMutex<LockRank::kRecordings>;

  Variants(Lock& lock, const GraphSettings& settings) noexcept : lock_(lock), settings_(settings) {}

  struct Served {
    Variant* variant = nullptr;
    Way way = Way::kSame;
    bool made = false;  ///< for this binding: an exec, or a ring
  };
  /// What else than the library's own calls can give an exec the binding.
  struct Others {
    const NativeVariant* native = nullptr;  ///< an exec of the program's own graph
    bool update = false;                    ///< the program asks for an update and can make it itself
  };
  /// The variant that serves this binding, owned by `exec`. Way::kUpdate: none does, the program is to update its own.
  hipError_t obtain(ProgramExec& exec, const Binding& binding, const Others& others, Served* served);
  /// The same over the program's own memory, whatever the rules say.
  hipError_t obtain_unstaged(ProgramExec& exec, const Binding& binding, const Others& others, Served* served);

  /// An exec from a graph of our own.
  hipError_t build(Recording& recording, const Binding& binding, int device, std::unique_ptr<Variant>* made);

  /// Whether memory was freed since the variant was made, and it has nodes that may hold on to it
  /// (memory/freed_memory.h). Such a variant serves what it serves already, and no other binding.
  static bool outlived_memory(const Recording& recording, const Variant& variant) noexcept {
    return outlived_memory(recording, variant.memory_freed);
  }
  /// The same of anything that was made when memory had been freed so often.
  static bool outlived_memory(const Recording& recording, std::uint64_t memory_freed_before) noexcept;
  /// The same of one of its nodes.
  static bool outlived_memory(const Operation& operation, const Variant& variant) noexcept {
    return outlived_memory(operation, variant.memory_freed);
  }

  /// Under the lock, before another binding is baked in: `verify` wants to know what it may still write to where the
  /// runtime updates it wrongly.
  void note_reached(const Recording& recording, Variant& variant) const;

  /// Under the lock: it is this exec's, or nobody's.
  void give(Variant& variant, const ProgramExec* owner) noexcept;
  /// Takes a variant that was just instantiated into the recording.
  Variant* adopt(Recording& recording, std::unique_ptr<Variant> variant, const ProgramExec* owner);
  /// Under the lock: the same of one that was instantiated before.
  Variant* take_in(Recording& recording, std::unique_ptr<Variant> variant, const ProgramExec* owner);
  /// Under the lock: a free variant that has this binding, or null; it is the owner's then.
  Variant* take_free(Recording& recording, const Binding& binding, int device, const ProgramExec* owner);
  /// The same for that binding with another payload of one operation.
  Variant* take_free(Recording& recording, const Binding& binding, const Operation& changed, const Binding& payload,
                     int device, const ProgramExec* owner);
  /// Under the lock: takes a variant out of its recording.
  std::unique_ptr<Variant> remove(Recording& recording, Variant* variant) noexcept;
  /// Under the lock: whether the runtime is known to update every node of such an exec correctly.
  static bool updates_are_exact(const Recording& recording) noexcept;
  /// Under the lock, after the program's own update of a whole variant, begun when memory had been freed so often: it
  /// has this binding now. Where the runtime is not known to do all of it correctly it serves its holder only.
  void updated(Recording& recording, Variant& variant, const Binding& binding, std::uint64_t memory_freed_before);

  /// Under the lock: what is not to be kept goes, and, where there is too much, the least recently used.
  void evict(Recording& recording, Retired* retired);
  /// Whether evict() may find something. Cost: a load.
  bool eviction_due() const noexcept { return due_.load(std::memory_order_relaxed); }
  /// Under the lock: the same of all recordings that have a variant.
  void evict_due(Retired* retired);
  /// Memory has run out: every free variant of the device (all: -1) goes. Returns whether there was one.
  bool reclaim(int device) noexcept;
  /// Under the lock: the device is being reset; what the runtime made there is forgotten without a call.
  void device_reset(int device) noexcept;

  /// Under the lock: bytes held on a device.
  std::vector<int> devices() const;
  std::size_t held_bytes(int device) const noexcept;
  std::size_t peak_bytes(int device) const noexcept;

 private:
  struct Held {
    std::size_t bytes = 0, peak_bytes = 0;
    std::size_t free = 0;  ///< how many nobody owns
  };
  static bool outlived_memory(const Operation& operation, std::uint64_t memory_freed_before) noexcept;
  struct Candidate {
    Variant* variant = nullptr;
    std::vector<std::uint32_t> differing;  ///< the operations to be set
    bool served = false;                   ///< it was the exec's own before
  };
  using Plan = std::shared_ptr<const StagePlan>;
  using Plans = std::shared_ptr<const StagePlans>;
  Plans plans_for(Recording& recording, const Binding& binding);
  void note_not_staged(Recording& recording, const char* why) noexcept;
  bool make_room_for_plans(Recording& recording);
  hipError_t obtain_staged(ProgramExec& exec, const Binding& binding, const Plan& plan, Served* served);
  hipError_t obtain_by_cost(ProgramExec& exec, const Binding& binding, const Others& others, const Plan& open,
                            Served* served);
  Way decide(const ProgramExec& exec, const Binding& binding, const StagePlan* open, bool update, Candidate* candidate);
  bool staging_is_open(const ProgramExec& exec, const StagePlan* open) const noexcept;
  bool stays_staged(const ProgramExec& exec, const Binding& binding, const StagePlan& open, bool seen,
                    double otherwise_ns);
  bool becomes_staged(const ProgramExec& exec, const Binding& binding, const StagePlan& open,
                      const CostModel::Question& question, Way way, bool other_ring);
  bool chooses_open_plan(const ProgramExec& exec, const Binding& binding, const StagePlans& plans);
  hipError_t obtain_open(ProgramExec& exec, const Binding& binding, const Plan& open, Served* served);
  double staged_ns(const Recording& recording, const StagePlan& plan) const noexcept;
  static bool has_ring(const Recording& recording, const StagePlan& plan, const Binding& binding,
                       const ProgramExec* exec);
  static double ring_ns(const Recording& recording, const StagePlan& open) noexcept;
  Candidate find_patchable(const ProgramExec& exec, const Binding& binding);
  Candidate find_patchable(const ProgramExec& exec, const Binding& binding, bool patched);
  bool patch(Recording& recording, const Binding& binding, const Candidate& candidate);
  static bool has_base(Recording& recording, int device) noexcept;
  static bool differs_exactly(const ProgramExec& exec, const Binding& binding, std::size_t* differing) noexcept;
  static bool only_kernels_differ(const ProgramExec& exec, const Binding& binding, std::size_t* differing) noexcept;
  bool over_limit(const Variant& variant) const noexcept;
  template <typename Visit>
  static void for_each_reachable(const ProgramExec& exec, Visit&& visit);
  static void older(Variant& variant, Variant** oldest);
  static Variant* oldest_free(const Recording& recording);
  Variant* oldest_free(int device);
  void hold(Variant& variant, std::size_t bytes);
  void hold_ring(const Recording& recording, Variant& variant);

  template <typename HasBinding>
  Variant* take_free(Recording& recording, int device, const ProgramExec* owner, HasBinding&& has_binding);

  static constexpr std::size_t kNear = 128;  ///< bytes on each side of a payload: about one operation's
  static constexpr std::size_t kMostReached = 65536;
  Lock& lock_;
  const GraphSettings& settings_;
  std::uint64_t clock_ = 0;     ///< orders uses of variants
  std::vector<Variant*> kept_;  ///< of all recordings
  std::atomic<bool> due_{false};
  std::unordered_map<int, Held> held_;
};

}  // namespace graphpool
