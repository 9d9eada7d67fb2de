// exec_table.h: keeps the handles of the execs that a program holds, and answers what does not change an exec.
// Threads: any. Errors are HIP's.
#pragma once

#include <hip/hip_runtime_api.h>

#include "shim/execs/program_exec.h"
#include "shim/graphs/handle_table.h"
#include "shim/hip/restore.h"

namespace graphpool {

class ExecTable {
 public:
  /// Null when no handle is to be had.
  hipGraphExec_t add(ProgramExec& exec) { return static_cast<hipGraphExec_t>(handles_.add(&exec)); }
  void remove(hipGraphExec_t handle) { handles_.remove(handle); }

  /// Null: the handle is not one of the library's, or the program has destroyed the exec.
  ProgramExec* find(hipGraphExec_t handle) const noexcept { return handles_.find(handle); }
  /// Whether the library made this handle. The exec may have been destroyed since.
  bool gave_out(hipGraphExec_t handle) const noexcept { return handles_.owns(handle); }
  /// The program's exec behind a handle of the library's, if no recording serves it; else null. For calls that change
  /// it.
  ProgramExec* find_unserved(hipGraphExec_t handle) const noexcept {
    ProgramExec* const exec = find(handle);
    return exec != nullptr && exec->state() != ExecState::kServed ? exec : nullptr;
  }

  /// Tells with which flags it was instantiated. False: it is not one of the library's.
  bool flags_of(hipGraphExec_t handle, unsigned long long* flags) const noexcept {
    const ProgramExec* const exec = find(handle);
    if (exec != nullptr) *flags = exec->flags;
    return exec != nullptr;
  }
  /// Puts the real exec in place of the handle, for a call that only reads it: null where there is none, because the
  /// exec has nothing to do, is staged or was given back. HIP's error: the program has destroyed the exec.
  hipError_t read(hipGraphExec_t* handle) const noexcept {
    const ProgramExec* const exec = find(*handle);
    if (exec == nullptr) return gave_out(*handle) ? refuse() : hipSuccess;
    const LockGuard guard(exec->lock);
    *handle = exec->variant == nullptr ? nullptr : exec->variant->exec;
    return hipSuccess;
  }

 private:
  HandleTable<ProgramExec> handles_;
};

}  // namespace graphpool
