// exec_repair.h: gives an exec another variant if `verify` has found that the present one does the wrong thing.
//
// A comparison ends when the launch that it is about has begun to run, and then the program may be changing the exec
// already. So the comparison notes what it has found (Health, ProgramExec::real_path), and the next call on the exec,
// launch or change, repairs it first.
// Errors: none; what cannot be made now is tried again before the next call. Threads: any.
#pragma once

#include "shim/execs/exec_builder.h"
#include "shim/execs/graph_settings.h"
#include "shim/execs/program_exec.h"
#include "shim/graphs/exec_bindings.h"

namespace graphpool {

class ExecRepair {
 public:
  ExecRepair(ExecBuilder& builder, ExecBindings& bindings, const GraphSettings& settings) noexcept
      : builder_(builder), bindings_(bindings), settings_(settings) {}

  /// Call it before a call on the exec. Does nothing where `verify` is off, or the exec is null.
  void before_call(ProgramExec* exec) {
    if (settings_.verifies() && exec != nullptr) [[unlikely]]
      repair(*exec);
  }

 private:
  void repair(ProgramExec& exec) EXCLUDES(exec.lock, g_recordings_lock);

  ExecBuilder& builder_;
  ExecBindings& bindings_;
  const GraphSettings& settings_;
};

}  // namespace graphpool
