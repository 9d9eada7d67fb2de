#include "shim/execs/staging_chooser.h"

#include <algorithm>

#include "shim/execs/patch_candidate.h"
#include "shim/hip/quirks.h"
#include "shim/recording/patch_table.h"

namespace graphpool {
namespace {

/// Staging goes on at least until it has lost this share of what an exec costs.
constexpr double kStagingLossLimit = 0.25;

/// Whether a ring of the plan has this binding, but for staged operands. With `exec`: and may be given to it now.
bool has_ring(const Recording& recording, const StagePlan& plan, const Binding& binding, const ProgramExec* exec)
    REQUIRES(g_recordings_lock) {
  return std::any_of(recording.variants.begin(), recording.variants.end(), [&](const auto& variant) {
    assume_held(g_recordings_lock);
    const bool free = exec == nullptr || variant->owner() == exec || (variant->owner() == nullptr && variant->idle());
    return variant->plan.get() == &plan && free && plan.same_elsewhere(variant->baked, binding);
  });
}

/// What it costs to make a ring of the open plan.
double ring_ns(const Recording& recording, const StagePlan& plan) noexcept REQUIRES(g_recordings_lock) {
  return recording.ring_ns != 0
             ? recording.ring_ns
             : static_cast<double>(plan.sets()) * costs().exec_ns(recording.node_count + plan.copies());
}

}  // namespace

bool StagingChooser::is_open(const ProgramExec& exec, const StagePlan* plan) const noexcept {
  const Recording& recording = *exec.recording_in_call();
  return plan != nullptr && recording.may_be_staged() && recording.stage_choice.possible() &&
         settings_.strategy == Strategy::kAuto && exec.device == plan->device();
}

double StagingChooser::staged_ns(const Recording& recording, const StagePlan& plan) noexcept {
  const bool patched = patch_is_exact(NodeClass::kDeviceCopy, runtime_version());
  return costs().staged_ns(recording.stage_choice.launches(), plan.copies(), plan.copied_bytes(),
                           patched ? plan.copies() * plan.sets() : 0);
}

bool StagingChooser::stays_staged(const ProgramExec& exec, const Binding& binding, const StagePlan& plan, bool seen,
                                  double otherwise_ns) const {
  Recording& recording = *exec.recording_in_call();
  const double exec_ns = costs().exec_ns(recording.node_count, &recording.exec_costs);
  const bool free_ring = has_ring(recording, plan, binding, &exec);
  const double staged = staged_ns(recording, plan) + (free_ring ? 0 : ring_ns(recording, plan));
  if (seen) {
    recording.spent_ns += staged;
    if (recording.spent_ns >= CostModel::kSpentBeforeExec * exec_ns) return false;  // it gets an exec
  }
  const double lost = recording.stage_choice.note(staged, otherwise_ns);
  if (lost < kStagingLossLimit * exec_ns) return true;
  const PatchCandidate candidate = recording.may_patch ? find_patchable(exec, binding, settings_) : PatchCandidate{};
  const double catch_up = candidate.variant == nullptr ? exec_ns
                                                       : costs().patch_ns(exec_ns, candidate.differing.size(),
                                                                          patch_budget(recording, settings_));
  if (lost < catch_up) return true;
  recording.stage_choice.change(false);
  return false;
}

bool StagingChooser::becomes_staged(const ProgramExec& exec, const Binding& binding, const StagePlan& plan,
                                    const CostModel::Question& question, Way way, bool other_ring) const {
  Recording& recording = *exec.recording_in_call();
  const bool patch = way == Way::kPatch, update = way == Way::kUpdate;
  // The first few bindings get an exec each: they often come in turn.
  if (!patch && !update && question.kept < std::min(CostModel::kExecsBeforePatching, settings_.most_variants))
    return false;
  // An update by the program's call sets every node.
  const std::size_t set = update ? recording.node_count : question.differing;
  const double set_ns = costs().patch_ns(question.exec_ns, set, question.budget);
  const double present = patch || update ? std::min(set_ns, question.exec_ns) : question.exec_ns;
  const double ring = ring_ns(recording, plan);
  const double lost = recording.stage_choice.note(present, staged_ns(recording, plan) + (other_ring ? ring : 0));
  // One binding alone changes nothing: it never costs more than an exec.
  const double begin_ns = has_ring(recording, plan, binding, nullptr) ? 0 : ring;
  if (lost < std::max(begin_ns, question.exec_ns)) return false;
  recording.stage_choice.change(true);
  return true;
}

bool StagingChooser::chooses_open_plan(const ProgramExec& exec, const Binding& binding, const StagePlans& plans) const {
  Recording& recording = *exec.recording_in_call();
  const LockGuard guard(g_recordings_lock);
  if (!is_open(exec, plans.open.get())) return false;
  note_launches(recording);
  const double ring = ring_ns(recording, *plans.open);
  const bool before = recording.stage_choice.staged();
  const bool has_narrow = has_ring(recording, *plans.always, binding, nullptr),
             has_open = has_ring(recording, *plans.open, binding, nullptr);
  // Until the open plan has a first ring, nobody knows that the next binding will need no other one.
  const double narrow = has_narrow ? 0 : ring;
  const double open =
      staged_ns(recording, *plans.open) - staged_ns(recording, *plans.always) + (before && !has_open ? ring : 0);
  const double lost = before ? recording.stage_choice.note(open, narrow) : recording.stage_choice.note(narrow, open);
  if (lost >= ring) recording.stage_choice.change(!before);
  return recording.stage_choice.staged();
}

}  // namespace graphpool
