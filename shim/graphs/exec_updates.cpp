#include "shim/graphs/exec_updates.h"

#include <algorithm>
#include <utility>

#include "shim/base/hot.h"
#include "shim/base/seeded_defect.h"
#include "shim/base/trace.h"
#include "shim/costs/step_costs.h"
#include "shim/execs/exec_size.h"
#include "shim/graphs/passed_calls.h"
#include "shim/hip/entry.h"
#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/memory/device_memory.h"
#include "shim/memory/freed_memory.h"
#include "shim/recording/operation_functions.h"
#include "shim/recording/patch_table.h"
#include "shim/recording/reason_counts.h"
#include "shim/recording/reissue.h"

namespace graphpool {
namespace {

constexpr const char* kTouchedExecUpdated = "an update of an exec that the program has reached otherwise";
constexpr const char* kUpdateTellsNothing = "an update that tells nothing of its result";
constexpr const char* kUpdateByUnknown = "an update by a graph that is not known";
constexpr const char* kUpdateRefused = "an update that the runtime refused";
constexpr const char* kOtherChildGraphs = "updates by graphs with other child graphs";
constexpr const char* kUpdatedBy = "an exec is updated by it";

/// Whether child graphs of the two bindings differ: the runtime is not known to patch them (recording/patch_table.h).
bool child_differs(const Recording& recording, const Binding& a, const Binding& b) noexcept {
  return !recording.children.empty() && a.size() == b.size() &&
         std::any_of(recording.operations.begin(), recording.operations.end(), [&](const Operation& operation) {
           return operation.signature.kind == OperationKind::kChild && !same_payload(operation, a, b);
         });
}

}  // namespace

hipError_t ExecUpdates::update(hipGraphExec_t handle, hipGraph_t graph, hipGraphNode_t* error_node,
                               hipGraphExecUpdateResult* result) {
  const TraceSpan traced(TraceKind::kUpdate);
  const TimedCall timed;
  const Asked asked{handle, graph, error_node, result, parts_.table.find(handle), parts_.graphs.find(graph)};
  const ExecUse use(parts_.limit, asked.exec);
  parts_.repair.before_call(asked.exec);
  const bool unfollowed = asked.tracked == nullptr && asked.exec != nullptr &&
                          asked.exec->state() != ExecState::kServed && !parts_.graphs.gave_out(graph);
  return unfollowed ? update_unfollowed(asked) : update_found(asked);
}

hipError_t ExecUpdates::update_found(const Asked& asked) {
  ProgramExec* const exec = asked.exec;
  NativeUpdate natively;
  natively.plain = asked.tracked == nullptr;
  if (exec == nullptr) return forward(asked, std::move(natively), kUnknownExecUpdated);
  if (exec->state() == ExecState::kLeft) return forward(asked, std::move(natively), kTouchedExecUpdated);
  if (!asked.tells())
    return forward(asked, std::move(natively), exec->followed() ? kUpdateTellsNothing : kTouchedExecUpdated);
  count_.add();
  const UsedGraph used = natively.plain ? UsedGraph{}
                                        : use_graph(*asked.tracked, GraphUsedFor::kUpdate, parts_.recordings,
                                                    parts_.settings.track_operands);
  natively.recording = HeldRecording(used.recording);
  natively.binding = used.recording != nullptr && !used.outlived ? &used.binding : nullptr;
  const char* const reason = serve_update(asked, used);
  return reason == nullptr ? hipSuccess : forward(asked, std::move(natively), reason);
}

const char* ExecUpdates::serve_update(const Asked& asked, const UsedGraph& used) {
  ProgramExec& exec = *asked.exec;
  if (used.recording == nullptr) return kUpdateByUnknown;
  // clr's GraphMemsetNode::SetParams checks such a fill against a size that only pitched allocations have. If it
  // refuses, the nodes that the update has set before stay set.
  if (used.recording->fills_rows) return "an update that sets a fill of several rows";
  // AMD's runtimes look up a kernel on the current device, and 7.2.4 compares the devices of graph and exec (rule 14).
  if (used.recording->home != exec.device || current_device() != exec.device)
    return "an update on another device than the graph's or the exec's";
  UpdateBy by{asked.graph, used.real};
  if (used.recording == exec.recording_in_call()) {
    if (!seeded_defect(Seeded::kUpdateIgnored) && rebind(exec, used.binding, &by) != hipSuccess)
      return "an update that must stay with its exec, or could not be served";
  } else if (move_to(exec, *used.recording, used.binding) != hipSuccess) {
    return "an update by a graph of another recording, for the first time";
  }
  if (used.real && !used.outlived && !by.native) parts_.verifier.keep_real_path(exec, asked.graph);
  *asked.error_node = nullptr;
  *asked.result = hipGraphExecUpdateSuccess;
  tell_trace(way_name(exec.way_in_call()), exec.recording_in_call()->number);
  // HIP before 7: an update that succeeds clears the last error, and so does this call.
  static_cast<void>(calling_device());
  {
    const LockGuard guard(g_recordings_lock);
    avoided_ += by.native ? 0 : 1;
    exec.recording_in_call()->statistics.updates_avoided += by.native ? 0 : 1;
  }
  parts_.store.evict_if_due();
  return nullptr;
}

/// Makes the program's own call, for this reason.
hipError_t ExecUpdates::forward(const Asked& asked, NativeUpdate by, const char* reason) {
  if (parts_.settings.reuse && active()) g_left_to_runtime.count(reason);
  tell_trace(reason, 0);
  hipGraphExec_t handle = asked.handle;
  by.graph = asked.graph;
  hipError_t failed = parts_.graphs.read(&by.graph, kUpdatedBy);
  if (failed == hipSuccess && asked.exec != nullptr) {
    failed = update_natively(*asked.exec, std::move(by), asked);
  } else if (failed == hipSuccess) {
    failed = parts_.own.expose(&handle, nullptr, reason);
    if (failed == hipSuccess)
      failed =
          retry_with_room([&] { return next().hipGraphExecUpdate(handle, by.graph, asked.error_node, asked.result); });
  }
  if (failed != hipSuccess && asked.error_node != nullptr && *asked.error_node != nullptr)
    *asked.error_node = parts_.nodes.as_program_knows(*asked.error_node);
  return failed;
}

/// Updates a program's own exec by a graph that nobody has followed: there is nothing to compare.
hipError_t ExecUpdates::update_unfollowed(const Asked& asked) {
  tell_trace(kUpdateByUnknown, 0);
  const hipError_t failed = retry_with_room(
      [&] { return next().hipGraphExecUpdate(asked.exec->own->exec, asked.graph, asked.error_node, asked.result); });
  updated_unfollowed(*asked.exec, asked.error_node, asked.result, failed);
  return failed;
}

HOT void ExecUpdates::updated_unfollowed(ProgramExec& exec, hipGraphNode_t* error_node,
                                         const hipGraphExecUpdateResult* result, hipError_t failed) {
  const bool tells = error_node != nullptr && result != nullptr;
  if (tells && exec.followed()) count_.add();
  if (parts_.settings.reuse && active())
    g_left_to_runtime.count(!exec.followed() ? kTouchedExecUpdated : tells ? kUpdateByUnknown : kUpdateTellsNothing);
  if (exec.last_update) exec.last_update = HeldRecording();
  if (failed == hipSuccess && exec.made_for_children < ProgramExec::kMostForChildren) return;
  exec.leave(failed != hipSuccess ? kUpdateRefused : kOtherChildGraphs);
  if (failed != hipSuccess && error_node != nullptr && *error_node != nullptr)
    *error_node = parts_.nodes.as_program_knows(*error_node);
}

/// Lets the program's own exec serve, if it does not yet, and makes the program's own call on it.
hipError_t ExecUpdates::update_natively(ProgramExec& exec, NativeUpdate by, const Asked& asked) {
  const std::uint64_t freed = memory_freed();
  HeldRecording former;
  if (exec.recording_in_call() != nullptr) {
    former = hold(*exec.recording_in_call());
    const hipError_t failed = parts_.own.taint(exec);
    if (failed != hipSuccess) {
      exec.leave("no exec of its own could be made");
      return failed;
    }
  } else {
    former = std::move(exec.last_update);
  }
  exec.last_update = HeldRecording();
  const hipError_t failed = retry_with_room(
      [&] { return next().hipGraphExecUpdate(exec.own->exec, by.graph, asked.error_node, asked.result); });
  if (failed != hipSuccess)
    exec.leave(kUpdateRefused);
  else
    note_native_update(exec, std::move(former), std::move(by), freed);
  return failed;
}

/// Notes that the runtime has updated the exec. `former`: what it was before; none: not known.
void ExecUpdates::note_native_update(ProgramExec& exec, HeldRecording former, NativeUpdate by,
                                     std::uint64_t freed_before) {
  if ((!by.recording && !by.plain) || exec.made_for_children >= ProgramExec::kMostForChildren) {
    exec.leave(by.recording || by.plain ? kOtherChildGraphs : "an update by a graph that the program has changed");
  } else if (may_serve_again(exec, by)) {
    serve_again(exec, std::move(by), freed_before);
  } else if (exec.followed() && !former) {
    exec.last_update = std::move(by.recording);  // what it was before is not known, but what it does now may be
  } else if (exec.followed() && by.recording) {
    exec.updates.note(std::move(former), hold(*by.recording));
    exec.last_update = std::move(by.recording);
  }
}

/// Whether the exec, which the runtime has just updated by this graph, is of the graph's recording again: meanwhile it
/// was updated, but no step from one known recording to another was noted. False where execs can be patched: move_to()
/// gives it one of those.
bool ExecUpdates::may_serve_again(const ProgramExec& exec, const NativeUpdate& by) noexcept {
  if (!exec.followed() || by.binding == nullptr || !exec.updates.none() || exec.own == nullptr) return false;
  const Recording& recording = *by.recording;
  if (exec.own->made_for != recording.number || exec.own->is_broken() || !recording.children.empty() ||
      recording.fills_rows)
    return false;
  const LockGuard guard(g_recordings_lock);
  return recording.rebuildable.load(std::memory_order_acquire) && !recording.outdated && !updates_are_exact(recording);
}

/// Lets the recording serve the exec, so that its next updates are compared again. The variant serves nobody else, like
/// any that was updated so.
void ExecUpdates::serve_again(ProgramExec& exec, NativeUpdate by, std::uint64_t freed_before) {
  {
    const LockGuard guard(exec.lock);
    const LockGuard recordings(g_recordings_lock);
    Recording& recording = *by.recording;
    parts_.builder.note_reached(recording, *exec.own);
    exec.become_served(recording, *parts_.store.take_in(recording, std::move(exec.own), &exec));
    static_cast<void>(by.recording.release());  // the exec's from now on; take_in() may throw
    exec.bind(*by.binding, Way::kUpdate);
    parts_.builder.note_updated(recording, *exec.variant, exec.binding, freed_before);
  }
  parts_.bindings.note_bound(exec);
}

/// Makes the exec one of another recording, as an update by the program has done before.
hipError_t ExecUpdates::move_to(ProgramExec& exec, Recording& recording, const Binding& binding) {
  const Recording* const former = exec.recording_in_call() != nullptr ? exec.recording_in_call()
                                  : exec.last_update                  ? &*exec.last_update
                                                                      : nullptr;
  if (!exec.followed() || exec.own == nullptr || former == nullptr || recording.node_count == 0 ||
      ExecBindings::must_stay(exec))
    return hipErrorNotSupported;
  if (former != &recording && !exec.updates.known(*former, recording)) return hipErrorNotSupported;
  const bool has_children = !recording.children.empty();
  if (has_children && exec.made_for_children >= ProgramExec::kMostForChildren) return hipErrorNotSupported;
  Recording* before = nullptr;
  {
    const LockGuard guard(exec.lock);
    before = std::exchange(exec.recording, &recording);
  }
  const auto stay = [&] {
    const LockGuard guard(exec.lock);
    exec.recording = before;
  };
  Served served;
  hipError_t result;
  try {
    result = parts_.supply.obtain(exec, binding, {nullptr, true}, &served);
  } catch (const std::bad_alloc&) {
    stay();  // the new recording does not count it as a user yet
    throw;
  }
  if (result == hipSuccess && served.way == Way::kUpdate) result = hipErrorNotSupported;
  if (result != hipSuccess) {
    stay();
    return result;
  }
  exec.made_for_children += has_children && served.made ? 1 : 0;
  {
    const LockGuard guard(g_recordings_lock);
    ++recording.users;
    if (before != nullptr) --before->users;
    recording.statistics.instead_of_update += served.made ? 1 : 0;
  }
  exec.last_update = HeldRecording();
  parts_.bindings.switch_to(exec, served, binding);
  return hipSuccess;
}

/// `by`: the program's update; null: it set a node.
hipError_t ExecUpdates::rebind(ProgramExec& exec, const Binding& binding, UpdateBy* by) {
  const bool given_back = exec.given_back();
  if (exec.variant_in_call() == nullptr && !given_back) return hipSuccess;
  if (const hipError_t result = parts_.noted.give(exec); result != hipSuccess) return result;
  // A ring's copies may have outlived memory, whatever the graph holds: it looks for itself.
  if (equal(exec.binding_in_call(), binding) && !exec.staged() &&
      (given_back || !outlived_memory(*exec.recording_in_call(), *exec.variant_in_call()))) {
    if (parts_.settings.check) ExecBindings::note_allocations(exec);
    return hipSuccess;
  }
  const bool may_update = by != nullptr && !given_back && !exec.staged() && !exec.variant_in_call()->is_broken();
  if (ExecBindings::must_stay(exec)) {
    exec.sets.reset();
    return may_update ? update_own(exec, binding, by) : hipErrorNotSupported;
  }
  const bool other_child = !may_update && child_differs(*exec.recording_in_call(), exec.binding_in_call(), binding);
  if (other_child && exec.made_for_children >= ProgramExec::kMostForChildren) return hipErrorNotSupported;
  Served served;
  const hipError_t result = parts_.supply.obtain(exec, binding, {nullptr, may_update}, &served);
  if (result != hipSuccess) return result;
  exec.sets.reset();
  if (served.way == Way::kUpdate) return update_own(exec, binding, by);
  exec.made_for_children += other_child && served.made ? 1 : 0;
  if (served.made) {
    const LockGuard guard(g_recordings_lock);
    ++exec.recording_in_call()->statistics.instead_of_update;
  }
  parts_.bindings.switch_to(exec, served, binding);
  return hipSuccess;
}

/// Makes the program's own call, on the variant that the exec has. Nobody else uses the variant while it serves the
/// exec (rule 20), and launches before and after keep their order because it is the same exec, in flight or not (rule
/// 3). For a deferred graph: one is built if the variant's was of our own, else the graph itself is made real. What the
/// variant then does is known if the runtime updates all of it correctly; else the variant goes with its holder. If the
/// call fails, the caller makes it once more with the program's graph: that leaves the exec and the error as they would
/// be natively.
hipError_t ExecUpdates::update_own(ProgramExec& exec, const Binding& binding, UpdateBy* by) {
  Recording& recording = *exec.recording_in_call();
  Variant& own = *exec.variant_in_call();
  const std::uint64_t freed = memory_freed();
  const hipError_t pending = pending_error();
  const auto call = [&](hipGraph_t graph) {
    hipGraphNode_t error_node = nullptr;
    hipGraphExecUpdateResult outcome{};
    return retry_with_room([&] { return next().hipGraphExecUpdate(own.exec, graph, &error_node, &outcome); });
  };
  {
    const LockGuard guard(g_recordings_lock);
    parts_.builder.note_reached(recording, own);
  }
  make_argument_room(calling_device(), own.patched_bytes, recording.argument_bytes, recording.argument_bytes);
  hipError_t result;
  const bool build = !by->real && own.graph != nullptr;
  if (build) {
    result = with_graph(recording.operations, binding, [&](hipGraph_t graph, const auto&) { return call(graph); });
  } else {
    hipGraph_t graph = by->graph;
    result = parts_.graphs.read(&graph, kUpdatedBy);
    if (result == hipSuccess) result = call(graph);
  }
  if (result != hipSuccess) {
    clear_error(pending);
    return result;
  }
  by->native = true;
  std::unique_ptr<Variant> real_path;  // destroyed when the lock is not held any more
  {
    const LockGuard guard(exec.lock);
    real_path = std::move(exec.real_path);
    exec.bind(binding, Way::kUpdate);
    const LockGuard recordings(g_recordings_lock);
    parts_.builder.note_updated(recording, own, binding, freed);
    recording.statistics.built_for_update += build ? 1 : 0;
  }
  parts_.bindings.note_bound(exec);
  return hipSuccess;
}

}  // namespace graphpool
