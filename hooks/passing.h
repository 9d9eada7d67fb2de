// passing.h: decides which calls pass: they go straight to the runtime although they have a body, because the engine
// has nothing to do for them now.
//
// An entry asks Passing<its call>::now() before anything else. Where that is true, the entry counts the call and makes
// it by Passing<its call>::call(), or, where there is no such function, forwards it. A failure that call() answers is
// noted like that of a body. The thread is not marked as being inside the library: calls that the runtime makes to
// itself meanwhile pass, too, or are known by in_runtime(). now() looks at the calling thread's own state first. All
// but event records and waits pass only while the library is active.
#pragma once

#include <new>
#include <utility>

#include "hooks/bodies.h"
#include "shim/base/trace.h"
#include "shim/capture/capture.h"
#include "shim/capture/put_off_joins.h"
#include "shim/graphs/graphs.h"
#include "shim/graphs/passed_calls.h"
#include "shim/hip/entry.h"
#include "shim/hip/next.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"
#include "shim/recording/node_creation.h"
#include "shim/streams/stream_work.h"

namespace graphpool::hooks {

/// The first argument of now() and of call() is `caller`, the return address of the program's call. By default no call
/// passes.
template <EntryId>
struct Passing {
  template <typename... Arguments>
  static constexpr bool now(const void*, const Arguments&...) noexcept {
    return false;
  }
};

/// Whether Passing<kCall> makes the call itself.
template <EntryId kCall>
concept MakesCall = requires {
  &Passing<kCall>::call;
};

/// Whether the entry keeps its body in a function of its own, so that a call that is only forwarded needs no stack
/// frame.
template <EntryId kCall>
inline constexpr bool kOnlyForwarded = false;
template <>
inline constexpr bool kOnlyForwarded<EntryId::hipEventRecord> = true;
template <>
inline constexpr bool kOnlyForwarded<EntryId::hipStreamWaitEvent> = true;

// Operations that go into a capture that is left alone (capture/left_alone.h), and event calls that fork and join it.

/// Returns false only if the handle is certainly not the library's own. If it returns true, the call does not pass, and
/// run_checked() looks closer: a function call here would need a stack frame in each entry.
inline bool may_be_private(const void* handle) noexcept { return g_private_handles.may_have(handle); }

template <>
struct Passing<EntryId::hipEventRecord> {
  static bool now(const void*, hipEvent_t event, hipStream_t stream) noexcept {
    if (!forks_pass() || may_be_private(event) || may_be_private(stream)) return false;
    t_error_possible = true;
    return true;
  }
};

template <>
struct Passing<EntryId::hipStreamWaitEvent> {
  static bool now(const void*, hipStream_t stream, hipEvent_t event, unsigned int flags) noexcept {
    if (flags != 0 || !forks_pass() || may_be_private(event) || may_be_private(stream)) return false;
    // If the stream does not join the capture by it, the wait is work of the stream.
    work_counts().note_work_anywhere();
    t_error_possible = true;
    return true;
  }
};

template <>
struct Passing<EntryId::hipLaunchKernel> {
  static bool now(const void*, const void*, dim3, dim3, void**, size_t, hipStream_t stream) noexcept {
    return launches_pass(stream);
  }
  static hipError_t call(const void*, const void* function, dim3 grid, dim3 block, void** args, size_t shared_bytes,
                         hipStream_t stream) {
    const TimedCall timed;
    ++t_step.operations;
    const NodeCreation making;
    return next().hipLaunchKernel(function, grid, block, args, shared_bytes, stream);
  }
};

template <>
struct Passing<EntryId::hipModuleLaunchKernel> {
  static bool now(const void*, hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  hipStream_t stream, void**, void**) noexcept {
    return launches_pass(stream);
  }
  static hipError_t call(const void*, hipFunction_t f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                         unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                         hipStream_t stream, void** params, void** extra) {
    const TimedCall timed;
    ++t_step.operations;
    const NodeCreation making;
    return next().hipModuleLaunchKernel(f, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream,
                                        params, extra);
  }
};

// The other calls of a step (costs/step_costs.h) whose capture is left alone: its beginning and end, instantiate,
// update, launch and destroy.

/// Runs the body of a call whose call() could not make it.
template <typename Body>
[[gnu::cold, gnu::noinline]] hipError_t body_after_all(const void* caller, Body&& body) {
  Entry entry(caller);
  try {
    return body(entry);
  } catch (const std::bad_alloc&) {
    return no_host_memory<hipError_t>();
  }
}

/// Runs it after the runtime refused the call for lack of memory: it tries again, then gives memory back and retries.
/// The first refusal is out of the program's sight, because a later try may succeed.
template <typename Body>
[[gnu::cold, gnu::noinline]] hipError_t body_makes_room(const void* caller, Body&& body) {
  clear_error(hipSuccess);
  return body_after_all(caller, std::forward<Body>(body));
}

template <>
struct Passing<EntryId::hipStreamBeginCapture> {
  static bool now(const void* caller, hipStream_t stream, hipStreamCaptureMode) noexcept {
    return t_ahead.covers(caller) && begin_passes(stream) && names_private(stream) == PrivateKind::kNone;
  }
  static hipError_t call(const void* caller, hipStream_t stream, hipStreamCaptureMode mode) {
    hipError_t result = hipSuccess;
    if (begin_passing(caller, stream, mode, &result)) [[likely]]
      return result;
    return body_after_all(caller, [&](Entry& entry) {
      make_joins();  // another capture is open: as run_checked() does
      return on_hipStreamBeginCapture(entry, stream, mode);
    });
  }
};

template <>
struct Passing<EntryId::hipStreamEndCapture> {
  static bool now(const void*, hipStream_t stream, hipGraph_t* graph) noexcept {
    return graph != nullptr && launches_pass(stream);
  }
  static hipError_t call(const void*, hipStream_t stream, hipGraph_t* graph) {
    const TimedCall timed;
    const hipError_t result = next().hipStreamEndCapture(stream, graph);
    if (result == hipSuccess) give_handle(graph);
    passing_ended(stream, result, graph);
    return result;
  }
};

template <>
struct Passing<EntryId::hipGraphInstantiate> {
  static bool now(const void*, hipGraphExec_t* exec, hipGraph_t graph, hipGraphNode_t*, char*, size_t) noexcept {
    return graph_passes(graph) && exec != nullptr && !trace_on();
  }
  static hipError_t call(const void* caller, hipGraphExec_t* exec, hipGraph_t graph, hipGraphNode_t* error_node,
                         char* log, size_t log_bytes) {
    const TimedCall timed;
    const hipError_t result = next().hipGraphInstantiate(exec, graph, error_node, log, log_bytes);
    if (result != hipErrorOutOfMemory) [[likely]]
      return exec_passed(exec, result);
    return body_makes_room(caller, [&](Entry& entry) {
      return exec_given(exec, on_hipGraphInstantiate(entry, exec, graph, error_node, log, log_bytes));
    });
  }
  /// Makes the exec the program's, if there is one.
  static hipError_t exec_given(hipGraphExec_t* exec, hipError_t result) noexcept {
    if (result == hipSuccess) give_handle(exec);
    return result;
  }
  static hipError_t exec_passed(hipGraphExec_t* exec, hipError_t result) noexcept {
    g_passed_instantiates.add();
    if (result == hipSuccess) t_step.exec = *exec;
    return exec_given(exec, result);
  }
};

template <>
struct Passing<EntryId::hipGraphInstantiateWithFlags> {
  static bool now(const void*, hipGraphExec_t* exec, hipGraph_t graph, unsigned long long flags) noexcept {
    return graph_passes(graph) && exec != nullptr && flags == 0 && !trace_on();
  }
  static hipError_t call(const void* caller, hipGraphExec_t* exec, hipGraph_t graph, unsigned long long flags) {
    const TimedCall timed;
    const hipError_t result = next().hipGraphInstantiateWithFlags(exec, graph, flags);
    if (result != hipErrorOutOfMemory) [[likely]]
      return Passing<EntryId::hipGraphInstantiate>::exec_passed(exec, result);
    return body_makes_room(caller, [&](Entry& entry) {
      return Passing<EntryId::hipGraphInstantiate>::exec_given(
          exec, on_hipGraphInstantiateWithFlags(entry, exec, graph, flags));
    });
  }
};

template <>
struct Passing<EntryId::hipGraphExecUpdate> {
  static bool now(const void*, hipGraphExec_t exec, hipGraph_t graph, hipGraphNode_t*,
                  hipGraphExecUpdateResult*) noexcept {
    if (!graph_passes(graph) || exec == nullptr || names_private(exec) != PrivateKind::kNone || trace_on())
      return false;
    return !graphs().execs.gave_out(exec) || graphs().execs.find_unserved(exec) != nullptr;
  }
  static hipError_t call(const void* caller, hipGraphExec_t exec, hipGraph_t graph, hipGraphNode_t* error_node,
                         hipGraphExecUpdateResult* result) {
    const TimedCall timed;
    ProgramExec* const unserved = graphs().execs.find_unserved(exec);
    const hipGraphExec_t real = unserved == nullptr ? exec : unserved->own->exec;
    const hipError_t error = next().hipGraphExecUpdate(real, graph, error_node, result);
    if (error == hipErrorOutOfMemory) [[unlikely]]
      return body_makes_room(
          caller, [&](Entry& entry) { return on_hipGraphExecUpdate(entry, exec, graph, error_node, result); });
    if (unserved != nullptr) {
      graphs().updates.updated_unfollowed(*unserved, error_node, result, error);
      return error;
    }
    g_passed_updates.add();
    if (error == hipSuccess) t_step.exec = exec;
    return error;
  }
};

template <>
struct Passing<EntryId::hipGraphLaunch> {
  static bool now(const void*, hipGraphExec_t exec, hipStream_t stream) noexcept {
    return exec_passes(exec) && !captures_open() && !uses_tracked() &&
           names_private(exec, stream) == PrivateKind::kNone && !trace_on();
  }
  static hipError_t call(const void* caller, hipGraphExec_t exec, hipStream_t stream) {
    const TimedCall timed(!std::exchange(t_step.launched, true));
    const hipError_t result = next().hipGraphLaunch(exec, stream);
    if (result != hipSuccess) [[unlikely]] {
      if (result == hipErrorOutOfMemory)
        return body_makes_room(caller, [&](Entry& entry) { return on_hipGraphLaunch(entry, exec, stream); });
      if (result == hipErrorContextIsDestroyed) return result;  // see Launcher::launch_now()
    }
    work_counts().note_work(stream);
    return result;
  }
};

template <>
struct Passing<EntryId::hipGraphDestroy> {
  static bool now(const void*, hipGraph_t graph) noexcept {
    if (!graph_passes(graph) || names_private(graph) != PrivateKind::kNone) return false;
    t_step.graph = nullptr;
    return true;
  }
  static hipError_t call(const void*, hipGraph_t graph) {
    const TimedCall timed;
    return next().hipGraphDestroy(graph);
  }
};

template <>
struct Passing<EntryId::hipGraphExecDestroy> {
  static bool now(const void*, hipGraphExec_t exec) noexcept {
    if (!exec_passes(exec) || has_defect(Defect::kExecsEndLate) || names_private(exec) != PrivateKind::kNone)
      return false;
    t_step.exec = nullptr;
    return true;
  }
  static hipError_t call(const void*, hipGraphExec_t exec) {
    const TimedCall timed;
    return next().hipGraphExecDestroy(exec);
  }
};

}  // namespace graphpool::hooks
