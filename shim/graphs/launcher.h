// launcher.h: serves hipGraphLaunch and hipGraphUpload. A launch only selects: what serves the binding exists already
// (rule 15). ring_exit.h names the exceptions.
//
// The steps: what may have changed since the last launch is looked at (memory that other processes can reach, stale
// addresses, verification, nodes that the program has set); an exec on the program's own memory is launched; any other
// one goes through staged_launch.h. Without staging the runtime's launch may call back or wait: the exec is not locked
// meanwhile. What the launch does may be the sign for another thread to destroy or update the exec: it and its variant
// stay until the launch is noted. Errors are HIP's. Threads: any.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>

#include "shim/base/owned_count.h"
#include "shim/graphs/exec_bindings.h"
#include "shim/graphs/exec_limit.h"
#include "shim/graphs/exec_table.h"
#include "shim/graphs/launch_verifier.h"
#include "shim/graphs/noted_sets.h"
#include "shim/graphs/ring_exit.h"
#include "shim/graphs/unstaged_launch.h"

namespace graphpool {

class Launcher {
 public:
  /// The parts of the engine that this one needs.
  struct Parts {
    ExecTable& table;
    ExecLimit& limit;
    ExecBindings& bindings;
    NotedSets& noted;
    RingExit& ring_exit;
    LaunchVerifier& verifier;
    const GraphSettings& settings;
  };
  explicit Launcher(const Parts& parts) noexcept : parts_(parts) {}

  hipError_t launch(hipGraphExec_t exec, StreamArgument stream, NativeExecCall native);
  /// hipGraphUpload.
  hipError_t upload(hipGraphExec_t exec, hipStream_t stream, NativeExecCall native);

  std::uint64_t count() const noexcept { return count_.load(); }

 private:
  hipError_t launch_now(hipGraphExec_t exec, StreamArgument stream, NativeExecCall native);
  hipError_t launch_traced(hipGraphExec_t exec, StreamArgument stream, NativeExecCall native);
  hipError_t launch_exec(const AskedLaunch& asked);
  hipError_t launch_looked_at(const AskedLaunch& asked);
  hipError_t launch_selected(const AskedLaunch& asked);
  hipError_t launch_unstaged(const AskedLaunch& asked, const UnstagedLaunch& launch);
  void note_launched(ProgramExec& exec, Variant& launched, StreamKey key, hipStream_t stream, hipError_t result);

  Parts parts_;
  OwnedCount count_;
};

}  // namespace graphpool
