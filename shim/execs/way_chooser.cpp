#include "shim/execs/way_chooser.h"

#include <algorithm>

namespace graphpool {

BindingHistory::Noted WayChooser::note_binding(Recording& recording, const Binding& binding) const {
  BindingHistory::Noted noted = recording.history.note(binding);
  if (noted.seen) recording.statistics.longest_return = std::max(recording.statistics.longest_return, noted.ago);
  // If more bindings than `most_variants` take turns, the exec of each goes before its binding comes back.
  noted.seen = noted.seen && noted.ago <= settings_.most_variants;
  ++recording.statistics.bindings;
  return noted;
}

CostModel::Question WayChooser::question_for(const WayAsked& asked, const BindingHistory::Noted& noted, double exec_ns,
                                             PatchCandidate* candidate) const {
  const ProgramExec& exec = asked.exec;
  Recording& recording = *exec.recording_in_call();
  CostModel::Question question;
  question.strategy = settings_.strategy;
  question.is_volatile = noted.is_volatile;
  question.seen = noted.seen;
  question.exec_ns = exec_ns;
  question.budget = patch_budget(recording, settings_);
  question.spent_ns = recording.spent_ns;
  question.last = recording.last_way;
  question.passed_over = recording.passed_over;
  for (const auto& variant : recording.variants) {
    question.kept += variant->ring == nullptr && variant->kept() ? 1 : 0;
    if (question.kept >= CostModel::kExecsBeforePatching) break;  // more make no difference
  }
  const bool may_patch =
      recording.may_patch && (settings_.strategy == Strategy::kAuto || settings_.strategy == Strategy::kPatch);
  if (may_patch) *candidate = find_patchable(exec, asked.binding, settings_);
  question.patchable = candidate->variant != nullptr;
  question.differing = candidate->differing.size();
  question.base = !may_patch || has_patch_base(recording, exec.device);
  question.update = asked.may_update;
  question.exact = question.patchable;
  if (!asked.may_update || question.exact) return question;
  const UpdatedNodes updated = updated_nodes(exec, asked.binding);
  question.exact = updated.exact;
  question.differing = updated.differing;
  if (question.exact || !noted.seen) return question;
  if (const auto kernels = only_kernels_updated(exec, asked.binding)) {
    question.kernels = true;
    question.differing = *kernels;
    question.spoils = exec.variant_in_call()->kept() && exec.variant_in_call()->health() != Health::kUnsure;
  }
  return question;
}

void WayChooser::note_way(Recording& recording, const CostModel::Question& question, Way way) noexcept {
  const bool no_exec = way == Way::kPatch || way == Way::kUpdate;
  if (no_exec && question.seen)
    recording.spent_ns += costs().patch_ns(question.exec_ns, question.differing, question.budget);
  else if (!no_exec)
    recording.spent_ns = 0;
  recording.passed_over = question.patchable && way != Way::kPatch ? recording.passed_over + 1 : 0;
  recording.last_way = way;
}

Way WayChooser::choose(const WayAsked& asked, PatchCandidate* candidate) const {
  Recording& recording = *asked.exec.recording_in_call();
  *candidate = {};
  const double exec_ns = costs().exec_ns(recording.node_count, &recording.exec_costs);
  const bool open = staging_.is_open(asked.exec, asked.open);
  const bool staged = open && recording.stage_choice.staged();
  const Binding& last = recording.history.last();
  // The cost of this change of binding if the graph were not staged. If it is not staged, nobody asks. The first
  // binding that could have an exec would need one: those before it had memory that is always staged.
  double step_ns = 0;
  if (staged)
    step_ns = last.size() != asked.binding.size()
                  ? exec_ns
                  : rebind_ns(recording, last, asked.binding, exec_ns, patch_budget(recording, settings_));
  const bool other_ring = open && !staged && !asked.open->same_elsewhere(last, asked.binding);
  std::optional<BindingHistory::Noted> none_kept;
  std::optional<BindingHistory::Noted>& kept = asked.noted != nullptr ? *asked.noted : none_kept;
  if (!kept) kept = note_binding(recording, asked.binding);
  const BindingHistory::Noted noted = *kept;
  if (staged && staging_.stays_staged(asked.exec, asked.binding, *asked.open, noted.seen, step_ns)) return Way::kStage;
  const CostModel::Question question = question_for(asked, noted, exec_ns, candidate);
  const Way way = costs().choose(question);
  if (open && !staged && staging_.becomes_staged(asked.exec, asked.binding, *asked.open, question, way, other_ring))
    return Way::kStage;
  note_way(recording, question, way);
  return way;
}

}  // namespace graphpool
