// way_chooser.h: chooses what serves a new binding: a patched variant, a new one, the program's own update, or slots.
//
// costs/cost_model.h chooses by the costs and by what the recording has seen; about slots staging_chooser.h decides.
// Threads: any. Not here: bindings that a free variant has already (exec_supply.h).
#pragma once

#include <optional>

#include "shim/execs/graph_settings.h"
#include "shim/execs/patch_candidate.h"
#include "shim/execs/program_exec.h"
#include "shim/execs/staging_chooser.h"

namespace graphpool {

/// A binding for which a way is wanted.
struct WayAsked {
  const ProgramExec& exec;
  const Binding& binding;
  const StagePlan* open;  ///< the plan by which it may be staged; null: none
  bool may_update;        ///< the program asks for an update, and its own call may make it
  /// What noting the binding has told. Null, or empty: it has to be noted.
  std::optional<BindingHistory::Noted>* noted = nullptr;
};

class WayChooser {
 public:
  WayChooser(const GraphSettings& settings, const StagingChooser& staging) noexcept
      : settings_(settings), staging_(staging) {}

  /// Notes that the binding has come, unless that was noted, and chooses. *candidate: what to patch if the way is
  /// kPatch. Returns kUpdate only if `may_update`, kStage only with a plan.
  Way choose(const WayAsked& asked, PatchCandidate* candidate) const REQUIRES(g_recordings_lock);

 private:
  BindingHistory::Noted note_binding(Recording& recording, const Binding& binding) const REQUIRES(g_recordings_lock);
  CostModel::Question question_for(const WayAsked& asked, const BindingHistory::Noted& noted, double exec_ns,
                                   PatchCandidate* candidate) const REQUIRES(g_recordings_lock);
  static void note_way(Recording& recording, const CostModel::Question& question, Way way) noexcept
      REQUIRES(g_recordings_lock);

  const GraphSettings& settings_;
  const StagingChooser& staging_;
};

}  // namespace graphpool
