// staging_chooser.h: whether a binding is staged where its rules leave that open (`stage = "auto"`).
//
// What staging has cost more or less than the other ways is added up (costs/stage_choice.h); here is what each of them
// costs for the binding at hand. Units: nanoseconds. Threads: any.
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
  /// Whether the next binding of a graph that is staged by the open plan is staged, too. `seen`: it has come back;
  /// `otherwise_ns`: what it would cost to come here from the binding before without staging.
  bool stays_staged(const ProgramExec& exec, const Binding& binding, const StagePlan& plan, bool seen,
                    double otherwise_ns) const REQUIRES(g_recordings_lock);
  /// Whether a graph is staged from this binding on, which else is served in this way. `other_ring`: a staged one would
  /// need another ring than the binding before.
  bool becomes_staged(const ProgramExec& exec, const Binding& binding, const StagePlan& plan,
                      const CostModel::Question& question, Way way, bool other_ring) const REQUIRES(g_recordings_lock);
  /// Of a graph some of whose buffers are always staged: whether the open plan serves it. Another binding of the rest
  /// is another ring.
  bool chooses_open_plan(const ProgramExec& exec, const Binding& binding, const StagePlans& plans) const
      EXCLUDES(g_recordings_lock);

  /// A binding comes: notes how many launches there were.
  static void note_launches(Recording& recording) noexcept REQUIRES(g_recordings_lock) {
    recording.stage_choice.note_launches(recording.launches.sum());
  }
  /// What a binding costs through a plan's slots, once there is a ring.
  static double staged_ns(const Recording& recording, const StagePlan& plan) noexcept REQUIRES(g_recordings_lock);

 private:
  const GraphSettings& settings_;
};

}  // namespace graphpool
