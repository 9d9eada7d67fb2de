// ring_exit.h: lets an exec serve its holder without staging from now on, on the program's own memory. A launch makes
// an exec only here, if an exec was given back (exec_limit.h), if a noted set fails (noted_sets.h), and for `verify`.
//
// Errors are HIP's. Threads: any; several launches of one exec may leave its ring at once.
#pragma once

#include <hip/hip_runtime_api.h>

#include "shim/execs/exec_supply.h"
#include "shim/execs/program_exec.h"
#include "shim/graphs/exec_limit.h"
#include "shim/graphs/own_execs.h"
#include "shim/hip/entry.h"
#include "shim/streams/stream_key.h"

namespace graphpool {

class RingExit {
 public:
  RingExit(ExecStore& store, ExecSupply& supply, OwnExecs& own, ExecLimit& limit,
           const GraphSettings& settings) noexcept
      : store_(store), supply_(supply), own_(own), limit_(limit), settings_(settings) {}

  struct Left {
    hipError_t result = hipSuccess;
    bool ordered = false;  ///< the stream comes behind what the ring has launched
  };
  Left leave(ProgramExec& exec, StreamKey key, hipStream_t stream) EXCLUDES(exec.lock, g_recordings_lock);
  /// Leaves the ring because no slot set came free in time, and says so. An error: the exec has not left it, and the
  /// device must wait.
  Left stop_waiting(ProgramExec& exec, StreamKey key, hipStream_t stream) EXCLUDES(exec.lock, g_recordings_lock);
  /// Call it before a launch if memory was exported or opened since the last one: an exec that is staged and names such
  /// memory works on the program's own from here on.
  hipError_t leave_shared_memory(ProgramExec& exec, StreamArgument stream) EXCLUDES(exec.lock, g_recordings_lock);

 private:
  hipError_t become_own(ProgramExec& exec) EXCLUDES(exec.lock, g_recordings_lock);
  Left put_in_place(ProgramExec& exec, const Served& own, StreamKey key, hipStream_t stream)
      EXCLUDES(exec.lock, g_recordings_lock);

  ExecStore& store_;
  ExecSupply& supply_;
  OwnExecs& own_;
  ExecLimit& limit_;
  const GraphSettings& settings_;
};

}  // namespace graphpool
