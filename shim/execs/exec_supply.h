// exec_supply.h: finds or makes the variant that serves a program exec's binding.
//
// A free variant that has the binding serves it. Else the cost model chooses. A variant is patched, a free one or the
// exec's own, if it does not run and the runtime is known to update the differing nodes correctly
// (recording/patch_table.h). Or another one is made, to keep or for this use only. Or the binding is staged, if rules
// leave that open. What serves a binding exists when obtain() returns success, so a launch only selects (rule 15). If
// the program asks for an update, obtain() may say that its own call is to be made instead, on the variant that the
// exec has (Way::kUpdate, probe update_reaches_launch).
//
// Errors: HIP's. Threads: any. Not here: handles, graphs and launches (graphs/), slots (memory/slot_set.h), what a
// launch copies (staging/staging.h).
#pragma once

#include <hip/hip_runtime_api.h>

#include <memory>
#include <optional>

#include "shim/base/function_ref.h"
#include "shim/execs/exec_builder.h"
#include "shim/execs/exec_store.h"
#include "shim/execs/stage_plan_table.h"
#include "shim/execs/staging_chooser.h"
#include "shim/execs/way_chooser.h"

namespace graphpool {

/// Makes a variant from the program's own graph.
using NativeVariant = FunctionRef<hipError_t(std::unique_ptr<Variant>* made)>;

/// What can give an exec the binding, besides the library's own calls.
struct OtherSources {
  const NativeVariant* native = nullptr;  ///< an exec of the program's own graph; null: none
  bool update = false;                    ///< the program asks for an update and can make it itself
};

/// The variant that serves a binding.
struct Served {
  Variant* variant = nullptr;
  Way way = Way::kSame;
  bool made = false;  ///< it was made for this binding, an exec or a ring
};

class ExecSupply {
 public:
  ExecSupply(ExecStore& store, ExecBuilder& builder, const GraphSettings& settings) noexcept
      : store_(store), builder_(builder), settings_(settings) {}

  /// Finds or makes the variant that serves this binding; `exec` owns it. Way::kUpdate: there is none, and the program
  /// is to update the exec itself.
  hipError_t obtain(ProgramExec& exec, const Binding& binding, const OtherSources& others, Served* served)
      EXCLUDES(exec.lock, g_recordings_lock);
  /// Does the same over the program's own memory, whatever rules say. Launches may call it, too. The caller holds the
  /// recording. Returns hipErrorInvalidHandle if the recording does not serve the exec any more.
  hipError_t obtain_unstaged(ProgramExec& exec, Recording& recording, const Binding& binding,
                             const OtherSources& others, Served* served) EXCLUDES(g_recordings_lock);

 private:
  using Plan = std::shared_ptr<const StagePlan>;

  hipError_t obtain_by_rules(ProgramExec& exec, const Binding& binding, const OtherSources& others, Served* served)
      EXCLUDES(g_recordings_lock);
  hipError_t obtain_by_cost(ProgramExec& exec, Recording& recording, const Binding& binding, const OtherSources& others,
                            const Plan& open, Served* served, std::optional<BindingHistory::Noted> noted = {})
      EXCLUDES(g_recordings_lock);
  hipError_t obtain_open(ProgramExec& exec, const Binding& binding, const Plan& open, Served* served)
      EXCLUDES(g_recordings_lock);
  hipError_t obtain_staged(ProgramExec& exec, const Binding& binding, const Plan& staged, Served* served)
      EXCLUDES(exec.lock, g_recordings_lock);
  hipError_t obtain_new(ProgramExec& exec, Recording& recording, const Binding& binding, const OtherSources& others,
                        Served* served) EXCLUDES(g_recordings_lock);
  hipError_t make_ring(ProgramExec& exec, const Plan& staged, Binding canonical, std::vector<char*> bases,
                       Variant** made) EXCLUDES(g_recordings_lock);
  Variant* take_ring(ProgramExec& exec, const Plan& staged, const Binding& canonical, const std::vector<char*>& bases)
      EXCLUDES(g_recordings_lock);
  void say_way(const Recording& recording, Way way, std::size_t differing) const;

  ExecStore& store_;
  ExecBuilder& builder_;
  const GraphSettings& settings_;
  StagePlanTable plans_;
  StagingChooser staging_{settings_};
  WayChooser ways_{settings_, staging_};
};

}  // namespace graphpool
