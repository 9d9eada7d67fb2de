// exec_params.cpp: the program sets what a node of its exec does.
//
// The program's binding changes. Bytes that are the same need no call, unless the node may hold on to memory that was
// freed since (memory/freed_memory.h): its address may be that of another allocation now. For others the exec's own
// variant is given them by the program's own call, as natively: nobody else uses that variant while the exec lives
// (rule 20), and launches before and after keep their order because it is the same exec (rule 3). What it then has
// baked in is known where the runtime is known to update the class of node correctly (rule 9); else the variant goes
// with its holder. Where a variant is free that has the new binding, it serves instead and HIP is not called.
// Where bindings come back from launch to launch (execs/exec_sets.h), what is set is noted: the exec's variant, whose
// nodes are the library's own, is given it at the launch if no other variant has the binding by then, by the calls that
// the program has made. That takes host memory only (rule 15; for arguments on the device room is made before). A
// binding that comes back for the second time gets a variant of its own at the set that completes it. No variant is
// made otherwise, whatever the policy says: of many nodes set in turn each would have an exec that nobody launches.
#include <algorithm>
#include <cstring>

#include "shim/base/seeded_defect.h"
#include "shim/execs/exec_size.h"
#include "shim/graphs/graphs.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"
#include "shim/recording/operation_functions.h"
#include "shim/recording/patch_table.h"
#include "shim/recording/reissue.h"
#include "shim/verify/stale_addresses.h"

namespace graphpool {
namespace {

/// Whether the runtime may refuse what the signature does not tell.
bool may_be_refused(const Operation& operation, const Binding& payload, const Binding& now) noexcept {
  return with_kind(operation.signature.kind, [&](auto kind) { return kind.may_refuse_set(operation, payload, now); });
}

/// Whether the runtime has accepted such a node with the grid of this payload, of a kernel: it has it now, or had it.
bool grid_is_accepted(const Recording& recording, std::uint32_t index, const Binding& payload,
                      const Binding& now) noexcept {
  const Operation& operation = recording.operations[index];
  return !launches_kernel(operation) || same_grid(payload.begin(), now.begin() + operation.payload_offset) ||
         recording.tree_node(index)->accepts_payload(payload, 0);
}

}  // namespace

hipError_t Graphs::set_in_exec(hipGraphExec_t handle, hipGraphNode_t node, Describe describe,
                               NativeExecNodeCall forward) {
  ProgramExec* const exec = execs_.find(handle);
  if (exec != nullptr && exec->recording != nullptr && exec->own == nullptr) {
    const NodeRef named = known_.find_node(node);
    hipError_t result;
    StaleAddresses::Allocations before = exec->allocations;  // empty but where check is on
    if (named.graph != nullptr && named.graph->id == exec->source &&
        set_known(*exec, node, named.index, describe, forward, &result)) {
      if (settings_.check && result == hipSuccess && exec->recording != nullptr) {
        // The others keep what they had, even where another exec of the runtime's serves now.
        const LockGuard guard(exec->lock);
        exec->allocations =
            StaleAddresses::with_operation(exec->recording->operations, exec->binding, named.index, std::move(before));
      }
      make_room_for_execs();
      return result;
    }
  }
  const hipError_t failed = expose_exec(&handle, &node, "a node was set to what only the runtime can judge");
  return failed == hipSuccess ? forward(handle, node) : failed;
}

/// False: the runtime must judge the call, and what it makes of the exec is not known.
bool Graphs::set_known(ProgramExec& exec, hipGraphNode_t node, std::uint32_t index, Describe describe,
                       NativeExecNodeCall forward, hipError_t* result) {
  Recording& recording = *exec.recording;
  const Operation& operation = recording.operations[index];
  Binding payload;
  if (!same_but_payload(operation, describe, &payload) || may_be_refused(operation, payload, exec.binding))
    return false;
  // On another device the runtime moves the node there, whatever it is set to.
  const int device = node_device_of(operation.signature);
  if (calling_device() != device) return false;
  Variant* const variant = exec.variant;
  const std::byte* const now = exec.binding.begin() + operation.payload_offset;
  const std::size_t compared =
      payload.size() - (seeded_defect(Seeded::kSetShort) ? std::min<std::size_t>(payload.size(), 4) : 0);
  const bool same = compared == 0 || std::memcmp(now, payload.data(), compared) == 0;
  if (same && !Variants::outlived_memory(operation, *variant)) {
    *result = hipSuccess;
    const LockGuard guard(lock_);
    ++recording.statistics.updates_avoided;
    return true;
  }
  // Not copied where it is the node alone that is set: of many nodes set in turn that would be all of them each time.
  const auto put = [&](Binding& into) { put_payload(operation, payload.begin(), into); };
  const auto wanted = [&] {
    Binding all = exec.binding;
    put(all);
    return all;
  };
  if (variant->ring != nullptr) {
    *result = rebind(exec, wanted(), nullptr);
    return *result == hipSuccess;
  }
  const bool keeps = keeps_sets(exec);
  const NodeSet set{node, index, operation, payload,
                    keeps ? ExecSets::change(index, now, payload.begin(), payload.size()) : 0};
  if (serve_set(exec, set)) {
    *result = hipSuccess;
    return true;
  }
  // What is half patched does nothing right any more. What the runtime refuses of a child graph it alone knows.
  if (operation.signature.kind != OperationKind::kChild && variant->broken &&
      rebind(exec, wanted(), nullptr) == hipSuccess) {
    *result = hipSuccess;
    return true;
  }
  return set_natively(exec, set, forward, result);
}

/// Whether it is looked at which bindings the exec is launched with.
bool Graphs::keeps_sets(ProgramExec& exec) const {
  const bool kept = settings_.verify.mode == Verify::Mode::kOff &&
                    (settings_.strategy == Strategy::kAuto || settings_.strategy == Strategy::kNewExec);
  if (kept && exec.sets == nullptr)
    exec.sets = std::make_unique<ExecSets>(exec.recording->operations, exec.binding, exec.variant->launched);
  return kept;
}

/// By another variant, or by noting it: HIP is not called. False: it has to be.
bool Graphs::serve_set(ProgramExec& exec, const NodeSet& set) {
  Recording& recording = *exec.recording;
  const bool child = set.operation.signature.kind == OperationKind::kChild;
  if (child && (exec.sets == nullptr || !exec.sets->accepts_child(set.index))) return false;
  if (must_stay(exec)) return false;
  Binding wanted;
  const auto serve_by = [&](Variant* variant, Way way) {
    wanted = exec.binding;
    put_payload(set.operation, set.payload.begin(), wanted);
    static_cast<void>(switch_to(exec, {variant, way}, wanted));
    if (exec.sets == nullptr) return;
    exec.sets->set(set.change);
    exec.sets->all_given();
  };
  Variant* free = nullptr;
  {
    const LockGuard guard(lock_);
    free = variants_.take_free(recording, exec.binding, set.operation, set.payload, exec.device, &exec);
  }
  if (free != nullptr) {
    serve_by(free, Way::kSame);
    return true;
  }
  if (exec.sets == nullptr || !exec.sets->may_note() || exec.variant->nodes.empty() || exec.variant->broken ||
      !recording.rebuildable.load(std::memory_order_acquire))
    return false;
  return note_set(exec, set);
}

/// By noting it, or by a variant that is made for the binding it completes. False: HIP has to be called.
bool Graphs::note_set(ProgramExec& exec, const NodeSet& set) {
  Recording& recording = *exec.recording;
  // It is given by a call of the library's own, right before the launch: not where the runtime keeps the caller's
  // arguments of a kernel, or may not have them seen by then. A child graph may hold kernels.
  const bool kernels =
      set.operation.signature.kind == OperationKind::kKernel || set.operation.signature.kind == OperationKind::kChild;
  if (kernels && (keeps_callers_arguments(runtime_version()) || !arguments_are_seen(exec.device))) return false;
  if (!grid_is_accepted(recording, set.index, set.payload, exec.binding) ||
      Variants::outlived_memory(recording, *exec.variant))
    return false;
  const bool wants_own = exec.sets->wants_own(set.change);
  {
    const LockGuard guard(exec.lock);
    put_payload(set.operation, set.payload.begin(), exec.binding);
    exec.written = nullptr;
  }
  exec.sets->set(set.change);
  exec.sets->note(set.index);
  if (!wants_own) return true;
  exec.sets->own_made();
  std::unique_ptr<Variant> made;
  const LastErrorScope last_error;
  if (variants_.build(recording, exec.binding, exec.device, &made) != hipSuccess) return true;
  const Binding binding = exec.binding;
  static_cast<void>(
      switch_to(exec, {variants_.adopt(recording, std::move(made), &exec), Way::kNewExec, true}, binding));
  exec.sets->all_given();
  return true;
}

/// By the program's own call, on the variant that the exec has. False: its node is not known.
bool Graphs::set_natively(ProgramExec& exec, const NodeSet& set, NativeExecNodeCall forward, hipError_t* result) {
  Recording& recording = *exec.recording;
  Variant* const variant = exec.variant;
  const Operation& operation = set.operation;
  const bool sure =
      patch_is_exact(operation.signature) && grid_is_accepted(recording, set.index, set.payload, exec.binding);
  const bool program_made = variant->nodes.empty();
  if (program_made && variant->source != exec.source) return false;
  hipGraphNode_t its = program_made ? set.node : variant->nodes[set.index];
  *result = program_made ? known_.read_node(&its, "an exec's node is named by it") : hipSuccess;
  const std::size_t memory = argument_memory(operation);
  if (memory != 0)
    make_argument_room(node_device_of(operation.signature), variant->patched_bytes, memory, recording.argument_bytes);
  if (*result == hipSuccess) *result = forward(variant->exec, its);
  if (*result != hipSuccess) {
    exec.touch("the runtime refused to set a node");
    static_cast<void>(taint(exec));  // what a refused call leaves of a node is not known
    return true;
  }
  {
    const LockGuard guard(exec.lock);
    put_payload(operation, set.payload.begin(), exec.binding);
    exec.written = nullptr;
    exec.way = Way::kUpdate;
    exec.set_by_program = true;
  }
  if (exec.sets != nullptr) {
    exec.sets->set(set.change);
    exec.sets->given(set.index);
    if (operation.signature.kind == OperationKind::kChild) exec.sets->accept_child(set.index);
  }
  const LockGuard guard(lock_);
  variants_.note_reached(recording, *variant);
  put_payload(operation, set.payload.begin(), variant->baked);
  if (!sure) {
    variant->unsure = true;
    variant->keep = false;
  }
  ++variant->patches;
  variant->patched_bytes += memory;
  ++recording.statistics.native_updates;
  return true;
}

/// The exec is about to be launched, or needed by another call: its variant gets what was only noted.
hipError_t Graphs::give_noted(ProgramExec& exec) {
  if (!exec.sets->noted().empty()) {
    Recording& recording = *exec.recording;
    std::size_t memory = 0;
    for (const std::uint32_t index : exec.sets->noted()) memory += argument_memory(recording.operations[index]);
    if (memory != 0) make_argument_room(exec.device, exec.variant->patched_bytes, memory, recording.argument_bytes);
    if (const hipError_t failed = give_noted_to(exec); failed != hipSuccess) {
      // Half of it may have been taken: nobody else may have the variant. Another one that has all of it serves.
      {
        const LockGuard guard(lock_);
        exec.variant->broken = true;
        exec.variant->keep = false;
      }
      std::unique_ptr<Variant> made;
      const Binding binding = exec.binding;
      if (variants_.build(recording, binding, exec.device, &made) != hipSuccess) return failed;
      static_cast<void>(
          switch_to(exec, {variants_.adopt(recording, std::move(made), &exec), Way::kNewExec, true}, binding));
      exec.sets->all_given();
    }
  }
  const LockGuard guard(exec.lock);
  exec.sets->launched();
  return hipSuccess;
}

/// By the calls that the program has made before.
hipError_t Graphs::give_noted_to(ProgramExec& exec) {
  const PrivateCalls private_calls;
  const LastErrorScope last_error;
  const SavedDevice device;
  const LockGuard guard(exec.lock);
  Recording& recording = *exec.recording;
  Variant& variant = *exec.variant;
  while (!exec.sets->noted().empty()) {
    const std::uint32_t index = exec.sets->noted().back();
    const Operation& operation = recording.operations[index];
    device.set(node_device_of(operation.signature));
    const hipError_t result = patch_exec(operation, exec.binding, variant.exec, variant.nodes[index]);
    if (result != hipSuccess) return result;
    exec.sets->given(index);
    const LockGuard templates(lock_);
    variants_.note_reached(recording, variant);
    put_payload(operation, exec.binding.begin() + operation.payload_offset, variant.baked);
    if (!patch_is_exact(operation.signature)) variant.unsure = true;
    variant.keep = variant.keep && !variant.unsure;
    ++variant.patches;
    variant.patched_bytes += argument_memory(operation);
    ++recording.statistics.native_updates;
  }
  exec.way = Way::kUpdate;
  exec.set_by_program = true;
  return hipSuccess;
}

}  // namespace graphpool
