#include "shim/execs/exec_supply.h"

#include <utility>

#include "shim/base/log.h"
#include "shim/costs/step_costs.h"
#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/memory/freed_memory.h"

namespace graphpool {
namespace {

void say_staging(const Recording& recording, const StagePlan& plan) {
  bool staged;
  double launches, through_slots_ns;
  {
    const LockGuard guard(g_recordings_lock);
    staged = recording.stage_choice.staged();
    launches = recording.stage_choice.launches();
    through_slots_ns = StagingChooser::staged_ns(recording, plan);
  }
  log_debug("graph %llu is %s: %.1f launches of a binding through slots, %llu bytes each, cost %.0f ns",
            static_cast<unsigned long long>(recording.number), staged ? "staged" : "not staged", launches,
            static_cast<unsigned long long>(plan.copied_bytes()), through_slots_ns);
}

/// Logs at level info what serves the graph, the first time and when it changes.
void say_change(Recording& recording, Way way) {
  constexpr std::uint32_t kMostWayMessages = 16;
  const int before = recording.way_in_log.exchange(static_cast<int>(way), std::memory_order_relaxed);
  if (before == static_cast<int>(way)) return;
  const std::uint32_t changes = recording.way_messages.fetch_add(1, std::memory_order_relaxed);
  const auto number = static_cast<unsigned long long>(recording.number);
  if (before < 0)
    log_info("graph %llu is new: %s, %zu nodes; served by %s", number, recording.name().c_str(), recording.node_count,
             way_in_words(way));
  else if (changes <= kMostWayMessages)
    log_info("graph %llu is served by %s, before by %s%s", number, way_in_words(way),
             way_in_words(static_cast<Way>(before)),
             changes == kMostWayMessages ? "; further changes are not logged" : "");
}

}  // namespace

void ExecSupply::say_way(const Recording& recording, Way way, std::size_t differing) const {
  const double exec_ns = costs().exec_ns(recording.node_count, &recording.exec_costs);
  const auto number = static_cast<unsigned long long>(recording.number);
  const bool known = recording.exec_costs.ns(Cost::kInstantiateNode) != 0 || costs().measured(Cost::kInstantiateNode);
  const char* const origin = known ? "" : " (built in)";
  if (differing == 0) {
    log_debug("graph %llu: addresses without an exec are served by %s; a new exec would cost %.1f us%s", number,
              way_in_words(way), exec_ns / 1e3, origin);
    return;
  }
  log_debug(
      "graph %llu: addresses without an exec are served by %s; a new exec would cost %.1f us%s, patching %zu nodes "
      "%.1f us%s",
      number, way_in_words(way), exec_ns / 1e3, origin, differing,
      costs().patch_ns(exec_ns, differing, patch_budget(recording, settings_)) / 1e3,
      costs().measured(Cost::kPatchNode) ? "" : " (built in)");
}

hipError_t ExecSupply::obtain(ProgramExec& exec, const Binding& binding, const OtherSources& others, Served* served) {
  const hipError_t result = obtain_by_rules(exec, binding, others, served);
  if (result == hipSuccess && log_enabled(LogLevel::kInfo)) say_change(*exec.recording_in_call(), served->way);
  return result;
}

hipError_t ExecSupply::obtain_by_rules(ProgramExec& exec, const Binding& binding, const OtherSources& others,
                                       Served* served) {
  Recording& recording = *exec.recording_in_call();
  const StagePlanTable::Plans plans = plans_.plans_for(recording, binding);
  if (plans == nullptr) return obtain_unstaged(exec, recording, binding, others, served);
  const Plan always(plans, plans->always.get()), open(plans, plans->open.get());
  const char* reason = nullptr;
  if (always == nullptr && open == nullptr) reason = "buffers of it are of another device";
  if (!recording.may_be_staged()) reason = "verification has found a difference, or it cannot be built";
  StagePlanTable::note_not_staged(recording, reason);
  if (always == nullptr) return obtain_by_cost(exec, recording, binding, others, open, served);
  served->way = Way::kStage;
  if (recording.may_be_staged() &&
      ((staging_.chooses_open_plan(exec, binding, *plans) && obtain_open(exec, binding, open, served) == hipSuccess) ||
       obtain_staged(exec, binding, always, served) == hipSuccess))
    return hipSuccess;
  return obtain_unstaged(exec, recording, binding, others, served);
}

hipError_t ExecSupply::obtain_unstaged(ProgramExec& exec, Recording& recording, const Binding& binding,
                                       const OtherSources& others, Served* served) {
  return obtain_by_cost(exec, recording, binding, others, nullptr, served);
}

/// `noted`: what noting the binding has told, if it was noted for a way that failed.
hipError_t ExecSupply::obtain_by_cost(ProgramExec& exec, Recording& recording, const Binding& binding,
                                      const OtherSources& others, const Plan& open, Served* served,
                                      std::optional<BindingHistory::Noted> noted) {
  PatchCandidate candidate;
  {
    const LockGuard guard(g_recordings_lock);
    if (exec.recording_in_call() != &recording) return hipErrorInvalidHandle;
    if (!noted && recording.staging_open()) StagingChooser::note_launches(recording);
    served->variant = store_.take_free(recording, binding, exec.device, exec);
    if (served->variant != nullptr) {
      served->way = Way::kSame;
      return hipSuccess;
    }
    if (!noted) t_step.note_work(recording.node_count);
    served->way = ways_.choose({exec, binding, open.get(), others.update, &noted}, &candidate);
    if (served->way == Way::kPatch) {
      candidate.served = candidate.variant->owner() == &exec;
      store_.give(*candidate.variant, &exec);
      store_.note_used(*candidate.variant);
    }
  }
  if (log_enabled(LogLevel::kDebug)) {
    say_way(recording, served->way, candidate.differing.size());
    if (open != nullptr) say_staging(recording, *open);
  }
  if (served->way == Way::kStage) {
    if (obtain_open(exec, binding, open, served) == hipSuccess) return hipSuccess;
    return obtain_by_cost(exec, recording, binding, others, nullptr, served, noted);
  }
  if (served->way == Way::kPatch) {
    if (builder_.patch(recording, binding, candidate)) {
      served->variant = candidate.variant;
      return hipSuccess;
    }
    // If the exec's own variant is half patched, the program cannot update it.
    served->way = others.update && !candidate.served ? Way::kUpdate : Way::kNewExec;
  }
  return served->way == Way::kUpdate ? hipSuccess : obtain_new(exec, recording, binding, others, served);
}

/// Makes a new exec of a graph of our own, whose nodes can be patched; if that cannot be, of the program's.
hipError_t ExecSupply::obtain_new(ProgramExec& exec, Recording& recording, const Binding& binding,
                                  const OtherSources& others, Served* served) {
  std::unique_ptr<Variant> made;
  hipError_t result = hipErrorNotSupported;
  if (recording.rebuildable.load(std::memory_order_acquire)) {
    const LastErrorScope last_error;
    result = builder_.build(recording, binding, exec.device, &made);
  }
  if (result != hipSuccess && others.native != nullptr) {
    store_.make_room(exec.device, recording.exec_bytes);
    const std::uint64_t freed = memory_freed();
    result = (*others.native)(&made);
    if (result == hipSuccess) made->memory_freed = freed;
  }
  if (result != hipSuccess) return result;
  served->variant =
      store_.adopt(recording, std::move(made), &exec, served->way == Way::kOneShot ? Keep::kThisUse : Keep::kForLater);
  served->made = true;
  return hipSuccess;
}

/// Finds or makes a variant of the open plan. If the binding does not fit the plan, it fails, and the graph is not
/// staged by an open plan until staging is chosen again. After any other failure it is never staged by an open plan
/// again.
hipError_t ExecSupply::obtain_open(ProgramExec& exec, const Binding& binding, const Plan& open, Served* served) {
  Recording& recording = *exec.recording_in_call();
  const hipError_t result = obtain_staged(exec, binding, open, served);
  if (result == hipSuccess) return result;
  const LockGuard guard(g_recordings_lock);
  if (result == hipErrorInvalidValue)
    recording.stage_choice.change(false);
  else
    recording.stage_choice.refuse();
  return result;
}

/// Takes a ring with this binding that there is already: the exec's own; else a free one that works on these buffers,
/// so that nothing has to be bound; else any free one. Null: there is none.
Variant* ExecSupply::take_ring(ProgramExec& exec, const Plan& staged, const Binding& canonical,
                               const std::vector<char*>& bases) {
  const Recording& recording = *exec.recording_in_call();
  Variant* chosen = nullptr;
  int best = 0;
  const LockGuard guard(g_recordings_lock);
  ExecStore::for_each_reachable(exec, [&](Variant& held) {
    assume_held(g_recordings_lock);
    const bool own = held.owner() == &exec;
    if (held.plan != staged || held.is_broken() || !(own || held.idle())) return;
    const int fits = own ? 3 : held.ring->bases() == bases ? 2 : 1;
    if (fits <= best || outlived_memory(recording, held) || !equal(held.baked, canonical)) return;
    chosen = &held;
    best = fits;
  });
  if (chosen != nullptr) {
    store_.give(*chosen, &exec);
    store_.note_used(*chosen);
  }
  return chosen;
}

hipError_t ExecSupply::make_ring(ProgramExec& exec, const Plan& staged, Binding canonical, std::vector<char*> bases,
                                 Variant** made) {
  Recording& recording = *exec.recording_in_call();
  auto variant = std::make_unique<Variant>();
  variant->memory_freed = memory_freed();
  variant->plan = staged;
  store_.make_room(exec.device, staged->sets() * recording.exec_bytes);
  const auto began = CostModel::Clock::now();
  const hipError_t result = SlotRing::make({recording.operations, *staged, canonical}, std::move(bases),
                                           settings_.patch_budget, recording.may_be_direct, &variant->ring);
  if (result != hipSuccess) return result;
  if (staged->open()) {
    const LockGuard guard(g_recordings_lock);
    recording.ring_ns = static_cast<double>((CostModel::Clock::now() - began).count());
  }
  variant->device = exec.device;
  variant->bake(std::move(canonical));
  *made = store_.adopt(recording, std::move(variant), &exec);
  if (staged->overlap_refused())
    log_warn("overlap has no effect on a staged graph that may also write memory no rule stages");
  return hipSuccess;
}

/// Finds or makes a variant that works on slots. Fails if the binding does not have the plan's shape or device, or
/// memory runs out: then the graph is served by a plan that always stages, or without staging, which is always exact.
hipError_t ExecSupply::obtain_staged(ProgramExec& exec, const Binding& binding, const Plan& staged, Served* served) {
  Recording& recording = *exec.recording_in_call();
  std::vector<char*> bases;
  if (exec.device != staged->device() || !staged->locate(recording.operations, binding, &bases)) {
    StagePlanTable::note_not_staged(recording,
                                    "its buffers have other sizes or overlaps, or a structure argument may name one");
    return hipErrorInvalidValue;
  }
  Binding canonical = staged->canonical(binding);
  Variant* chosen = take_ring(exec, staged, canonical, bases);
  const PrivateCalls private_calls;
  const LastErrorScope last_error;
  hipError_t result = hipSuccess;
  if (chosen != nullptr) {
    RingCounts counts;
    {
      const LockGuard launch(exec.lock);  // a launch that has begun to run may still be inside the ring
    }
    result = chosen->ring->bind(std::move(bases), &counts);
    const LockGuard guard(g_recordings_lock);
    recording.statistics.staged += counts;
    store_.limits.count_ring(recording, *chosen);
    if (result != hipSuccess && exec.variant_in_call() != chosen) store_.give(*chosen, nullptr);
  } else {
    result = make_ring(exec, staged, std::move(canonical), std::move(bases), &chosen);
    served->made = served->made || result == hipSuccess;
  }
  if (result != hipSuccess) {
    StagePlanTable::note_not_staged(recording, "there were no slots");
    log_warn("a staged graph is served without staging: no slots (%s)", next().hipGetErrorName(result));
    return result;
  }
  StagePlanTable::note_not_staged(recording, nullptr);
  served->variant = chosen;
  return hipSuccess;
}

}  // namespace graphpool
