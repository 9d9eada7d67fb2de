// exec_params.cpp: the program sets what a node of its exec does.
//
// The program's binding changes. Bytes that are the same need no call, unless the node may hold on to memory that was
// freed since (memory/freed_memory.h): its address may be that of another allocation now. For others the exec's own
// variant is given them by the program's own call, as natively: nobody else uses that variant while the exec lives
// (rule 20), and launches before and after keep their order because it is the same exec (rule 3). What it then has
// baked in is known where the runtime is known to update the class of node correctly (rule 9); else the variant goes
// with its holder. Where a variant is free that has the new binding, it serves instead and HIP is not called. None is
// made for it, whatever the policy says: of many nodes set in turn each would have an exec that nobody launches.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "shim/capture/signature_bits.h"
#include "shim/graph/exec_size.h"
#include "shim/graph/graphs.h"
#include "shim/graph/patch_table.h"
#include "shim/restore.h"
#include "shim/seeded_defect.h"

namespace graphpool {
namespace {

/// Whether the runtime may refuse what the signature does not tell: a fill of rows may not change its shape in an exec,
/// nor may one in a child graph be set (see Graphs::update).
bool may_be_refused(const Operation& operation, const Binding& payload, const Binding& now) noexcept {
  if (operation.signature.kind == OperationKind::kChild)
    return holds(operation, [](const Operation& each) { return fills_rows(each); });
  if (operation.signature.kind != OperationKind::kFill) return false;
  const auto& to = payload_at<FillPayload>(payload, 0);
  const auto& from = payload_at<FillPayload>(now, operation.payload_offset);
  return to.height != 1 && (to.width != from.width || to.height != from.height);
}

bool same_grid(const Binding& payload, const Binding& now, const Operation& operation) noexcept {
  return std::memcmp(payload_at<KernelPayload>(payload, 0).grid,
                     payload_at<KernelPayload>(now, operation.payload_offset).grid, sizeof(KernelPayload::grid)) == 0;
}

}  // namespace

hipError_t Graphs::set_in_exec(hipGraphExec_t handle, hipGraphNode_t node, Describe describe,
                               NativeExecNodeCall forward) {
  VirtualExec* const exec = execs_.find(handle);
  if (exec != nullptr && exec->of != nullptr && exec->own == nullptr) {
    const NodeRef named = known_.find_node(node);
    hipError_t result;
    if (named.graph != nullptr && named.graph->id == exec->source &&
        set_known(*exec, node, named.index, describe, forward, &result)) {
      make_room_for_execs();
      return result;
    }
  }
  const hipError_t failed = expose_exec(&handle, &node, "a node was set to what only the runtime can judge");
  return failed == hipSuccess ? forward(handle, node) : failed;
}

/// False: the runtime must judge the call, and what it makes of the exec is not known.
bool Graphs::set_known(VirtualExec& exec, hipGraphNode_t node, std::uint32_t index, Describe describe,
                       NativeExecNodeCall forward, hipError_t* result) {
  Template& of = *exec.of;
  const Operation& operation = of.operations[index];
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
    const std::scoped_lock guard(lock_);
    ++of.statistics.updates_avoided;
    return true;
  }
  // Not copied where it is the node alone that is set: of many nodes set in turn that would be all of them each time.
  const auto put = [&](Binding& into) {
    if (!payload.empty()) std::memcpy(into.data() + operation.payload_offset, payload.data(), payload.size());
  };
  const auto wanted = [&] {
    Binding all = exec.binding;
    put(all);
    return all;
  };
  if (variant->ring != nullptr) {
    *result = rebind(exec, wanted(), nullptr);
    return *result == hipSuccess;
  }
  // What the runtime refuses of a child graph it alone knows.
  const bool judged = operation.signature.kind != OperationKind::kChild;
  Variant* free = nullptr;
  if (judged && !must_stay(exec)) {
    const std::scoped_lock guard(lock_);
    free = variants_.take_free(of, exec.binding, operation, payload, exec.device, &exec);
  }
  if (free != nullptr) {
    *result = switch_to(exec, {free, Way::kSame}, wanted());
    return true;
  }
  // What is half patched does nothing right any more.
  if (judged && variant->broken && rebind(exec, wanted(), nullptr) == hipSuccess) {
    *result = hipSuccess;
    return true;
  }

  const bool sure =
      patch_is_exact(operation.signature) &&
      (operation.signature.kind != OperationKind::kKernel || same_grid(payload, exec.binding, operation) ||
       of.tree_node(index)->accepts(payload_at<KernelPayload>(payload, 0).grid));
  const bool program_made = variant->nodes.empty();
  if (program_made && variant->source != exec.source) return false;
  hipGraphNode_t its = program_made ? node : variant->nodes[index];
  *result = program_made ? known_.read_node(&its, "an exec's node is named by it") : hipSuccess;
  const std::size_t memory = argument_memory(operation);
  if (memory != 0) make_argument_room(device, variant->patched_bytes, memory, of.argument_bytes);
  if (*result == hipSuccess) *result = forward(variant->exec, its);
  if (*result != hipSuccess) {
    exec.touch("the runtime refused to set a node");
    static_cast<void>(taint(exec));  // what a refused call leaves of a node is not known
    return true;
  }
  {
    const std::scoped_lock guard(exec.lock);
    put(exec.binding);
    exec.written = nullptr;
    exec.way = Way::kUpdate;
    exec.set_by_program = true;
  }
  const std::scoped_lock guard(lock_);
  variants_.note_reached(of, *variant);
  put(variant->baked);
  if (!sure) {
    variant->unsure = true;
    variant->keep = false;
  }
  ++variant->patches;
  variant->patched_bytes += memory;
  ++of.statistics.native_updates;
  return true;
}

}  // namespace graphpool
