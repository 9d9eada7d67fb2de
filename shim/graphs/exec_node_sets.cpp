#include "shim/graphs/exec_node_sets.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shim/base/seeded_defect.h"
#include "shim/execs/exec_size.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"
#include "shim/recording/operation_functions.h"
#include "shim/recording/patch_table.h"
#include "shim/recording/reissue.h"
#include "shim/verify/stale_addresses.h"

namespace graphpool {
namespace {

/// Whether the runtime may refuse this payload although the signature is the same.
bool may_be_refused(const Operation& operation, const Binding& payload, const Binding& now) noexcept {
  return with_kind(operation.signature.kind, [&](auto kind) { return kind.may_refuse_set(operation, payload, now); });
}

/// Whether the operation is no kernel, or has this grid now, or one within what the runtime has accepted there (rule
/// 28).
bool grid_is_accepted(const Recording& recording, std::uint32_t index, const Binding& payload,
                      const Binding& now) noexcept {
  const Operation& operation = recording.operations[index];
  return !launches_kernel(operation) || same_grid(payload.begin(), now.begin() + operation.payload_offset) ||
         recording.tree_node(index)->accepts_payload(payload, 0);
}

bool is_child(const Operation& operation) noexcept { return operation.signature.kind == OperationKind::kChild; }

/// Whether what the program sets may be given later, by a call of the library's own right before the launch: not where
/// the runtime keeps the caller's arguments of a kernel, or where the device may not see them by then. A child graph
/// may hold kernels.
bool may_be_given_later(const Operation& operation, int device) noexcept {
  const bool kernels = operation.signature.kind == OperationKind::kKernel || is_child(operation);
  return !kernels || (!keeps_callers_arguments(runtime_version()) && arguments_are_seen(device));
}

/// Returns the exec's binding with this payload of one operation.
Binding changed_binding(const ProgramExec& exec, const Operation& operation, const Binding& payload) {
  Binding all = exec.binding_in_call();
  put_payload(operation, payload.begin(), all);
  return all;
}

/// Gets all memory that noting a set takes, so that one that the runtime has made is noted. The exec and its variant
/// get bindings with bytes of their own.
void get_ready_to_note(ProgramExec& exec, const ExecBuilder& builder) {
  if (exec.sets != nullptr) exec.sets->make_room_for_child();
  const LockGuard guard(exec.lock);
  static_cast<void>(exec.binding.data());
  const LockGuard recordings(g_recordings_lock);
  builder.note_reached(*exec.recording, *exec.variant);
  static_cast<void>(exec.variant->baked.data());
}

/// check: notes what was allocated at the addresses of this operation. The others keep what they had, even where
/// another exec of the runtime's serves now.
void note_set_allocations(ProgramExec& exec, std::uint32_t index, StaleAddresses::Allocations before) {
  const LockGuard guard(exec.lock);
  exec.allocations = StaleAddresses::with_operation(exec.recording->operations, exec.binding, index, std::move(before));
}

StaleAddresses::Allocations allocations_of(const ProgramExec& exec) {
  const LockGuard guard(exec.lock);
  return exec.allocations;
}

}  // namespace

hipError_t ExecNodeSets::set(hipGraphExec_t handle, hipGraphNode_t node, Describe describe,
                             NativeExecNodeCall forward) {
  ProgramExec* const exec = parts_.table.find(handle);
  const ExecUse use(parts_.limit, exec);
  parts_.repair.before_call(exec);
  if (exec != nullptr && exec->recording_in_call() != nullptr && exec->own == nullptr) {
    if (const hipError_t failed = parts_.limit.make_again(*exec); failed != hipSuccess) return failed;
    const NodeRef named = parts_.nodes.find(node);
    StaleAddresses::Allocations before;
    if (parts_.settings.check) before = allocations_of(*exec);
    if (named.graph != nullptr && named.graph->id == exec->source)
      if (const Answer answer = set_tracked(*exec, node, named.index, describe, forward)) {
        if (parts_.settings.check && *answer == hipSuccess && exec->recording_in_call() != nullptr)
          note_set_allocations(*exec, named.index, std::move(before));
        parts_.store.evict_if_due();
        return *answer;
      }
  }
  const hipError_t failed = parts_.own.expose(&handle, &node, "a node was set to what only the runtime can judge");
  return failed == hipSuccess ? forward(handle, node) : failed;
}

ExecNodeSets::Answer ExecNodeSets::set_tracked(ProgramExec& exec, hipGraphNode_t node, std::uint32_t index,
                                               Describe describe, NativeExecNodeCall forward) {
  Recording& recording = *exec.recording_in_call();
  const Operation& operation = recording.operations[index];
  Binding payload;
  if (!same_but_payload(operation, describe, &payload) || may_be_refused(operation, payload, exec.binding_in_call()))
    return {};
  // The runtime moves a node to the current device, whatever it is set to.
  if (calling_device() != node_device_of(operation.signature)) return {};
  const std::byte* const now = exec.binding_in_call().begin() + operation.payload_offset;
  const std::size_t compared =
      payload.size() - (seeded_defect(Seeded::kSetShort) ? std::min<std::size_t>(payload.size(), 4) : 0);
  const bool same = compared == 0 || std::memcmp(now, payload.data(), compared) == 0;
  if (same && !outlived_memory(operation, exec.variant_in_call()->memory_freed)) {
    const LockGuard guard(g_recordings_lock);
    ++recording.statistics.updates_avoided;
    return hipSuccess;
  }
  if (exec.staged()) {
    const hipError_t result = parts_.updates.rebind(exec, changed_binding(exec, operation, payload));
    return result == hipSuccess ? Answer(result) : Answer();
  }
  const bool keeps = keeps_sets(exec);
  return give_node(
      exec,
      {node, index, operation, payload, keeps ? ExecSets::change(index, now, payload.begin(), payload.size()) : 0},
      forward);
}

/// Gives the node these bytes. Pre-condition: the exec is not staged.
ExecNodeSets::Answer ExecNodeSets::give_node(ProgramExec& exec, const NodeSet& set, NativeExecNodeCall forward) {
  const Variant* const variant = exec.variant_in_call();
  if (serve_set(exec, set)) return hipSuccess;
  // A broken variant does nothing right. Only the runtime knows what it refuses of a child graph.
  if (!is_child(set.operation) && variant->is_broken() &&
      parts_.updates.rebind(exec, changed_binding(exec, set.operation, set.payload)) == hipSuccess)
    return hipSuccess;
  return set_natively(exec, set, forward);
}

/// Whether the library notes with which bindings the exec is launched. Begins to do so.
bool ExecNodeSets::keeps_sets(ProgramExec& exec) const {
  const bool kept = !parts_.settings.verifies() &&
                    (parts_.settings.strategy == Strategy::kAuto || parts_.settings.strategy == Strategy::kNewExec);
  if (kept && exec.sets == nullptr)
    exec.sets = std::make_unique<ExecSets>(exec.recording_in_call()->operations, exec.binding_in_call(),
                                           exec.variant_in_call()->launched);
  return kept;
}

/// Serves the set by another variant, or by noting it. Returns false if the program's call has to be made.
bool ExecNodeSets::serve_set(ProgramExec& exec, const NodeSet& set) {
  Recording& recording = *exec.recording_in_call();
  if (is_child(set.operation) && (exec.sets == nullptr || !exec.sets->accepts_child(set.index))) return false;
  if (ExecBindings::must_stay(exec)) return false;
  Variant* free = nullptr;
  {
    const LockGuard guard(g_recordings_lock);
    free = parts_.store.take_free(recording, exec.binding_in_call(), set.operation, set.payload, exec.device, exec);
  }
  if (free != nullptr) {
    parts_.bindings.switch_to(exec, {free, Way::kSame}, changed_binding(exec, set.operation, set.payload));
    if (exec.sets == nullptr) return true;
    exec.sets->set(set.change);
    exec.sets->all_given();
    return true;
  }
  if (exec.sets == nullptr || !exec.sets->may_note() || exec.variant_in_call()->nodes.empty() ||
      exec.variant_in_call()->is_broken() || !recording.rebuildable.load(std::memory_order_acquire))
    return false;
  return note_set(exec, set);
}

/// Serves the set by noting it, or by a new variant for the binding that it completes. Returns false if the program's
/// call has to be made.
bool ExecNodeSets::note_set(ProgramExec& exec, const NodeSet& set) {
  Recording& recording = *exec.recording_in_call();
  if (!may_be_given_later(set.operation, exec.device)) return false;
  if (!grid_is_accepted(recording, set.index, set.payload, exec.binding_in_call()) ||
      outlived_memory(recording, *exec.variant_in_call()))
    return false;
  const bool wants_own = exec.sets->wants_own(set.change);
  exec.sets->note(set.index);  // it may throw: then the binding has the old bytes
  {
    const LockGuard guard(exec.lock);
    put_payload(set.operation, set.payload.begin(), exec.binding);
    exec.written = nullptr;
  }
  exec.sets->set(set.change);
  if (!wants_own) return true;
  exec.sets->own_made();
  const LastErrorScope last_error;
  static_cast<void>(parts_.noted.serve_by_new(exec));
  return true;
}

/// Serves the set by the program's own call, on the variant that the exec has. Empty: its node is not known.
ExecNodeSets::Answer ExecNodeSets::set_natively(ProgramExec& exec, const NodeSet& set, NativeExecNodeCall forward) {
  Recording& recording = *exec.recording_in_call();
  Variant* const variant = exec.variant_in_call();
  const Operation& operation = set.operation;
  const bool exact = patch_is_exact(operation.signature) &&
                     grid_is_accepted(recording, set.index, set.payload, exec.binding_in_call());
  const bool program_made = variant->nodes.empty();
  if (program_made && variant->source != exec.source) return {};
  hipGraphNode_t exec_node = program_made ? set.node : variant->nodes[set.index];
  hipError_t result = program_made ? parts_.nodes.read(&exec_node, "an exec's node is named by it") : hipSuccess;
  const std::size_t memory = argument_memory(operation);
  if (memory != 0)
    make_argument_room(node_device_of(operation.signature), variant->patched_bytes, memory, recording.argument_bytes);
  if (result == hipSuccess) {
    get_ready_to_note(exec, parts_.builder);
    result = forward(variant->exec, exec_node);
  }
  if (result == hipSuccess) {
    note_set_natively(exec, set, exact);
  } else {
    exec.leave("the runtime refused to set a node");
    static_cast<void>(parts_.own.taint(exec));  // what a refused call leaves of a node is not known
  }
  return result;
}

void ExecNodeSets::note_set_natively(ProgramExec& exec, const NodeSet& set, bool exact) {
  {
    const LockGuard guard(exec.lock);
    put_payload(set.operation, set.payload.begin(), exec.binding);
    exec.written = nullptr;
    exec.way = Way::kUpdate;
  }
  if (exec.sets != nullptr) {
    exec.sets->set(set.change);
    exec.sets->given(set.index);
    if (is_child(set.operation)) exec.sets->accept_child(set.index);
  }
  const LockGuard guard(g_recordings_lock);
  parts_.builder.note_node_set(*exec.recording_in_call(), *exec.variant_in_call(), set.operation, set.payload.begin(),
                               exact);
}

}  // namespace graphpool
