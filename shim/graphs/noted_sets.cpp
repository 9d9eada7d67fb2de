#include "shim/graphs/noted_sets.h"

#include <utility>

#include "shim/execs/exec_size.h"
#include "shim/hip/restore.h"
#include "shim/recording/operation_functions.h"
#include "shim/recording/patch_table.h"
#include "shim/recording/reissue.h"

namespace graphpool {

hipError_t NotedSets::serve_by_new(ProgramExec& exec) {
  HeldRecording recording;
  Binding binding;
  {
    const LockGuard guard(exec.lock);
    recording = hold(*exec.recording);
    binding = exec.binding;
  }
  std::unique_ptr<Variant> made;
  const hipError_t result = builder_.build(*recording, binding, exec.device, &made);
  if (result != hipSuccess) return result;
  bindings_.switch_to(exec, {store_.adopt(*recording, std::move(made), &exec), Way::kNewExec, true}, binding);
  const LockGuard guard(exec.lock);
  exec.sets->all_given();
  return hipSuccess;
}

/// Tells what is still to be given. Another launch may give the same at the same time.
NotedSets::Pending NotedSets::pending(const ProgramExec& exec) {
  Pending pending;
  const LockGuard guard(exec.lock);
  for (const std::uint32_t index : exec.sets->noted()) {
    pending.any = true;
    pending.bytes += argument_memory(exec.recording->operations[index]);
  }
  if (!pending.any) return pending;
  pending.patched_bytes = exec.variant->patched_bytes;
  pending.argument_bytes = exec.recording->argument_bytes;
  return pending;
}

hipError_t NotedSets::give_noted(ProgramExec& exec) {
  if (const Pending sets = pending(exec); sets.any) {
    if (sets.bytes != 0) make_argument_room(exec.device, sets.patched_bytes, sets.bytes, sets.argument_bytes);
    // A failed call may have set a node by half: then a new variant that has the whole binding serves.
    if (const hipError_t failed = set_nodes(exec); failed != hipSuccess && serve_by_new(exec) != hipSuccess)
      return failed;
  }
  const LockGuard guard(exec.lock);
  exec.sets->launched();
  return hipSuccess;
}

/// Gives the noted sets, by the calls that the program has made for them.
hipError_t NotedSets::set_nodes(ProgramExec& exec) {
  const PrivateCalls private_calls;
  const LastErrorScope last_error;
  const SavedDevice device;
  const LockGuard guard(exec.lock);
  Recording& recording = *exec.recording;
  Variant& variant = *exec.variant;
  if (exec.sets->noted().empty()) return hipSuccess;  // another launch was first
  while (!exec.sets->noted().empty()) {
    const std::uint32_t index = exec.sets->noted().back();
    const Operation& operation = recording.operations[index];
    device.set(node_device_of(operation.signature));
    const hipError_t result = patch_exec(operation, exec.binding, variant.exec, variant.nodes[index]);
    if (result != hipSuccess) {
      const LockGuard recordings(g_recordings_lock);
      variant.use_up(Health::kBroken);  // nobody else may have it
      return result;
    }
    exec.sets->given(index);
    const LockGuard recordings(g_recordings_lock);
    builder_.note_node_set(recording, variant, operation, exec.binding.begin() + operation.payload_offset,
                           patch_is_exact(operation.signature));
  }
  exec.way = Way::kUpdate;
  return hipSuccess;
}

}  // namespace graphpool
