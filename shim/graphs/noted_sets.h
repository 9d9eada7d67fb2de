// noted_sets.h: gives an exec's variant what the program has set in nodes and the library has only noted so far
// (execs/exec_sets.h). Threads: any; several launches of one exec may give the same at once.
#pragma once

#include <hip/hip_runtime_api.h>

#include "shim/execs/exec_builder.h"
#include "shim/execs/program_exec.h"
#include "shim/graphs/exec_bindings.h"

namespace graphpool {

class NotedSets {
 public:
  NotedSets(ExecStore& store, ExecBuilder& builder, ExecBindings& bindings) noexcept
      : store_(store), builder_(builder), bindings_(bindings) {}

  /// Call it before the exec is launched, or needed by another call. Does nothing where the program has set nothing.
  hipError_t give(ProgramExec& exec) EXCLUDES(exec.lock, g_recordings_lock) {
    return exec.sets == nullptr ? hipSuccess : give_noted(exec);
  }
  /// Makes a new variant, which serves the present binding. Fails as the runtime does.
  hipError_t serve_by_new(ProgramExec& exec) EXCLUDES(exec.lock, g_recordings_lock);

 private:
  /// What a variant has still to be given.
  struct Pending {
    bool any = false;
    std::size_t bytes = 0;                              ///< of argument memory
    std::size_t patched_bytes = 0, argument_bytes = 0;  ///< of the variant, and of its recording
  };
  static Pending pending(const ProgramExec& exec) EXCLUDES(exec.lock);
  hipError_t give_noted(ProgramExec& exec) EXCLUDES(exec.lock, g_recordings_lock);
  hipError_t set_nodes(ProgramExec& exec) EXCLUDES(exec.lock, g_recordings_lock);

  ExecStore& store_;
  ExecBuilder& builder_;
  ExecBindings& bindings_;
};

}  // namespace graphpool
