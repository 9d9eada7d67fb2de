// unstaged_launch.h: keeps what is known of a launch on the program's own memory, from its choice until the runtime
// has it.
#pragma once

#include <memory>
#include <utility>

#include "shim/capture/capture.h"
#include "shim/execs/program_exec.h"
#include "shim/streams/outstanding_uses.h"

namespace graphpool {

/// Returns those buffers that other launches copy out whole and that an exec without staging may write to. A null among
/// them: any buffer.
std::shared_ptr<const OutstandingUses::Bases> written_memory(ProgramExec& exec) REQUIRES(exec.lock);

struct UnstagedLaunch {
  Variant* variant = nullptr;
  HeldRecording first;                                    ///< held: the launch is the variant's first, which costs more
  std::shared_ptr<const OutstandingUses::Bases> written;  ///< null: nobody asks
};

/// The exec and its variant stay until ExecBindings::end_use().
inline void begin_use(ProgramExec& exec, Variant& variant) REQUIRES(exec.lock) {
  exec.launches.begin();
  variant.under_way.store(variant.under_way.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

/// Begins the launch. It uses the variant until it is noted (Launcher::note_launched).
inline void begin_unstaged(ProgramExec& exec, StreamArgument stream, UnstagedLaunch* launch) REQUIRES(exec.lock) {
  Variant& variant = *exec.variant;
  if (uses_tracked() && outstanding_uses().several(stream)) launch->written = written_memory(exec);
  exec.count_launch();
  launch->variant = &variant;
  begin_use(exec, variant);
  if (!std::exchange(variant.launched, true) && exec.recording != nullptr) launch->first = hold(*exec.recording);
}

}  // namespace graphpool
