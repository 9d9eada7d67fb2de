#include "shim/graphs/launcher.h"

#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "shim/base/hot.h"
#include "shim/base/trace.h"
#include "shim/costs/step_costs.h"
#include "shim/graphs/staged_launch.h"
#include "shim/graphs/stream_judge.h"
#include "shim/hip/restore.h"
#include "shim/memory/device_memory.h"
#include "shim/memory/shared_memory.h"
#include "shim/streams/stream_work.h"
#include "shim/verify/stale_addresses.h"

namespace graphpool {
namespace {

/// Makes a launch. The runtime may load code at a launch and lack the memory for it: then kept memory goes back and the
/// launch is made again, but not inside a capture.
HOT hipError_t launch_with_room(hipGraphExec_t exec, bool captured, NativeExecCall native) {
  const auto launch = [&] { return native(exec); };
  return captured ? launch() : retry_with_room(launch);
}

/// Reports the stale addresses that the launch would use. Reports nothing where there is no host memory to list them.
void look_for_stale(ProgramExec& exec) noexcept {
  try {
    std::vector<StaleAddress> all;
    {
      const LockGuard guard(exec.lock);
      if (exec.recording != nullptr) all = stale_addresses().look(*exec.recording, exec.binding, exec.allocations);
    }
    for (const StaleAddress& stale : all)
      if (stale_addresses().note(stale)) say_stale(stale);
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace

/// Notes a launch that was made. It gets its number only now, when it is enqueued: a wait that another thread made
/// earlier does not show that it is complete.
HOT void Launcher::note_launched(ProgramExec& exec, Variant& launched, StreamKey key, hipStream_t stream,
                                 hipError_t result) {
  bool last = false;
  {
    const LockGuard guard(exec.lock);
    if (result == hipSuccess)
      launched.launches.add(key, stream, next_launch());
    else
      launched.launches.add_failed(key,
                                   next_launch());  // add() may call HIP, which before HIP 7 would replace the error
    last = parts_.bindings.end_use(exec, launched);
  }
  if (last) [[unlikely]]
    parts_.bindings.release_destroyed(exec);
}

inline hipError_t Launcher::launch_unstaged(const AskedLaunch& asked, const UnstagedLaunch& launch) {
  const hipGraphExec_t real = launch.variant->exec;
  const StreamArgument stream = asked.stream;
  const StreamKey key = stream_key(stream);  // may ask the runtime: before HIP 7 that would replace the launch's error
  const bool captured = in_open_capture(stream);
  hipError_t result;
  if (!launch.first) {
    result = launch_with_room(real, captured, asked.native);
  } else {
    const CostTimer timer;
    result = launch_with_room(real, captured, asked.native);
    if (result == hipSuccess)
      timer.stop(Cost::kFirstLaunchNode, (*launch.first).node_count, &(*launch.first).exec_costs);
  }
  if (launch.written != nullptr && result == hipSuccess) outstanding_uses().used(stream, *launch.written, nullptr);
  note_launched(asked.exec, *launch.variant, key, plain_handle(stream), result);
  return result;
}

HOT hipError_t Launcher::launch_selected(const AskedLaunch& asked) {
  ProgramExec& exec = asked.exec;
  UnstagedLaunch launch;
  {
    const LockGuard guard(exec.lock);
    if (exec.variant != nullptr && exec.variant->ring == nullptr && exec.before == nullptr &&
        exec.works_on == WorksOn::kProgramMemory) [[likely]]
      begin_unstaged(exec, asked.stream, &launch);
  }
  if (launch.variant == nullptr) [[unlikely]]
    if (const auto answer = StagedLaunch(parts_.ring_exit, asked, parts_.settings).make(&launch)) return *answer;
  return launch_unstaged(asked, launch);
}

/// Makes a launch under `check`, `verify` or a limit for execs.
hipError_t Launcher::launch_looked_at(const AskedLaunch& asked) {
  const ExecUse use(parts_.limit, &asked.exec);
  if (parts_.limit.was_given_back(asked.exec)) {
    const hipStream_t stream = plain_handle(asked.stream);
    if (stream_is_gone(stream)) return judge_stream(stream);
    if (const hipError_t result = parts_.limit.make_again(asked.exec); result != hipSuccess) return result;
  }
  if (parts_.settings.check) look_for_stale(asked.exec);
  if (parts_.settings.verifies()) return parts_.verifier.launch(asked, [&] { return launch_selected(asked); });
  const hipError_t result = parts_.noted.give(asked.exec);
  return result == hipSuccess ? launch_selected(asked) : result;
}

inline hipError_t Launcher::launch_exec(const AskedLaunch& asked) {
  ProgramExec& exec = asked.exec;
  count_.add();
  if (exec.shared_seen.load(std::memory_order_relaxed) != SharedMemory::version()) [[unlikely]]
    if (const hipError_t result = parts_.ring_exit.leave_shared_memory(exec, asked.stream); result != hipSuccess)
      return result;
  if (parts_.settings.looks_at_launches) [[unlikely]]
    return launch_looked_at(asked);
  if (exec.sets != nullptr) [[unlikely]]
    if (const hipError_t result = parts_.noted.give(exec); result != hipSuccess) return result;
  return launch_selected(asked);
}

[[gnu::always_inline]] inline hipError_t Launcher::launch_now(hipGraphExec_t handle, StreamArgument stream,
                                                              NativeExecCall native) {
  const TimedCall timed(!std::exchange(t_step.launched, true));
  ProgramExec* const exec = parts_.table.find(handle);
  if (exec == nullptr && parts_.table.gave_out(handle)) return refuse();
  const hipError_t result = exec == nullptr ? launch_with_room(handle, in_open_capture(stream), native)
                                            : launch_exec({*exec, stream, native});
  // A stream that was destroyed holds no work, and a question about it would replace the error.
  if (result != hipErrorContextIsDestroyed) work_counts().note_work(plain_handle(stream));
  if (exec == nullptr && result == hipSuccess && uses_tracked() && outstanding_uses().several(stream))
    outstanding_uses().used_unseen(stream);
  return result;
}

HOT hipError_t Launcher::launch(hipGraphExec_t handle, StreamArgument stream, NativeExecCall native) {
  if (trace_on()) [[unlikely]]
    return launch_traced(handle, stream, native);
  return launch_now(handle, stream, native);
}

/// Traces a launch. What serves the exec is read before the launch, because afterwards the exec may be destroyed.
[[gnu::cold, gnu::noinline]] hipError_t Launcher::launch_traced(hipGraphExec_t handle, StreamArgument stream,
                                                                NativeExecCall native) {
  const TraceSpan traced(TraceKind::kLaunch);
  ProgramExec* const exec = parts_.table.find(handle);
  tell_trace("the runtime's own exec", 0);
  if (exec != nullptr) {
    const LockGuard guard(exec->lock);
    if (exec->recording != nullptr) tell_trace(way_name(exec->way), exec->recording->number);
  }
  return launch_now(handle, stream, native);
}

/// The runtime judges a destroyed exec: it looks the exec up, or (up to HIP 6.1) does nothing with any exec.
hipError_t Launcher::upload(hipGraphExec_t handle, hipStream_t stream, NativeExecCall native) {
  ProgramExec* const exec = parts_.table.find(handle);
  const ExecUse use(parts_.limit, exec);
  if (exec == nullptr)
    return parts_.table.gave_out(handle) ? native(handle) : retry_with_room([&] { return native(handle); });
  Variant* variant = nullptr;
  {
    const LockGuard guard(exec->lock);
    if (exec->variant != nullptr && exec->variant->exec != nullptr) begin_use(*exec, *(variant = exec->variant));
  }
  if (variant == nullptr) return judge_stream(stream);  // there is nothing to upload
  const hipError_t result = retry_with_room([&] { return native(variant->exec); });
  bool last = false;
  {
    const LockGuard guard(exec->lock);
    last = parts_.bindings.end_use(*exec, *variant);
  }
  if (last) parts_.bindings.release_destroyed(*exec);
  return result;
}

}  // namespace graphpool
