// staging_chooser.h: decides whether a binding is staged if its rules leave that open (`stage = "auto"`).
//
// costs/stage_choice.h adds up what staging has lost or saved; here is what each way costs for the binding at hand.
// Units: nanoseconds. Threads: any.
#pragma once

#include "shim/costs/cost_model.h"
#include "shim/execs/graph_settings.h"
#include "shim/execs/program_exec.h"
#include "shim/execs/recording.h"

namespace graphpool {

class StagingChooser {
 public:
  explicit StagingChooser(const GraphSettings& settings) noexcept : settings_(settings) {}

  /// Whether the exec may be staged by this plan, which may be null.
  bool is_open(const ProgramExec& exec, const StagePlan* plan) const noexcept REQUIRES(g_recordings_lock);
  /// Decides whether the next binding of a graph that is staged by the open plan is staged, too. `seen`: it has come
  /// back; `otherwise_ns`: what the change from the binding before would cost without staging.
  bool stays_staged(const ProgramExec& exec, const Binding& binding, const StagePlan& plan, bool seen,
                    double otherwise_ns) const REQUIRES(g_recordings_lock);
  /// Decides whether a graph that else is served in this way is staged from this binding on. `other_ring`: staged, this
  /// binding would need another ring than the one before.
  bool becomes_staged(const ProgramExec& exec, const Binding& binding, const StagePlan& plan,
                      const CostModel::Question& question, Way way, bool other_ring) const REQUIRES(g_recordings_lock);
  /// Decides whether the open plan serves a graph some of whose buffers are always staged. By either plan, a binding
  /// that differs in operands which the plan does not stage needs another ring.
  bool chooses_open_plan(const ProgramExec& exec, const Binding& binding, const StagePlans& plans) const
      EXCLUDES(g_recordings_lock);

  /// Notes, when a binding comes, how many launches there were.
  static void note_launches(Recording& recording) noexcept REQUIRES(g_recordings_lock) {
    recording.stage_choice.note_launches(recording.launches.sum());
  }
  /// What a binding costs through the slots of a plan that has a ring.
  static double staged_ns(const Recording& recording, const StagePlan& plan) noexcept REQUIRES(g_recordings_lock);

 private:
  const GraphSettings& settings_;
};

}  // namespace graphpool
