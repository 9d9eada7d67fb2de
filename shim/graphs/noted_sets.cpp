#include "shim/graphs/noted_sets.h"

#include <utility>

#include "shim/execs/exec_size.h"
#include "shim/hip/restore.h"
#include "shim/recording/operation_functions.h"
#include "shim/recording/patch_table.h"
#include "shim/recording/reissue.h"

namespace graphpool {

hipError_t NotedSets::serve_by_new(ProgramExec& exec) {
  Recording& recording = *exec.recording_in_call();
  std::unique_ptr<Variant> made;
  const Binding binding = exec.binding_in_call();
  const hipError_t result = builder_.build(recording, binding, exec.device, &made);
  if (result != hipSuccess) return result;
  bindings_.switch_to(exec, {store_.adopt(recording, std::move(made), &exec), Way::kNewExec, true}, binding);
  exec.sets->all_given();
  return hipSuccess;
}

hipError_t NotedSets::give_noted(ProgramExec& exec) {
  if (!exec.sets->noted().empty()) {
    const Recording& recording = *exec.recording_in_call();
    std::size_t memory = 0;
    for (const std::uint32_t index : exec.sets->noted()) memory += argument_memory(recording.operations[index]);
    if (memory != 0)
      make_argument_room(exec.device, exec.variant_in_call()->patched_bytes, memory, recording.argument_bytes);
    if (const hipError_t failed = set_nodes(exec); failed != hipSuccess) {
      // Half of it may have been taken: nobody else may have the variant. Another one that has all of it serves.
      {
        const LockGuard guard(g_recordings_lock);
        exec.variant_in_call()->use_up(Health::kBroken);
      }
      if (serve_by_new(exec) != hipSuccess) return failed;
    }
  }
  const LockGuard guard(exec.lock);
  exec.sets->launched();
  return hipSuccess;
}

/// By the calls that the program has made before.
hipError_t NotedSets::set_nodes(ProgramExec& exec) {
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
    const LockGuard recordings(g_recordings_lock);
    builder_.note_node_set(recording, variant, operation, exec.binding.begin() + operation.payload_offset,
                           patch_is_exact(operation.signature));
  }
  exec.way = Way::kUpdate;
  return hipSuccess;
}

}  // namespace graphpool
