#include "shim/execs/exec_builder.h"

#include <new>
#include <utility>

#include "shim/base/seeded_defect.h"
#include "shim/execs/exec_size.h"
#include "shim/hip/next.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/restore.h"
#include "shim/memory/device_memory.h"
#include "shim/memory/freed_memory.h"
#include "shim/recording/operation_functions.h"
#include "shim/recording/patch_table.h"
#include "shim/recording/reissue.h"

namespace graphpool {

hipError_t ExecBuilder::build(Recording& recording, const Binding& binding, int device,
                              std::unique_ptr<Variant>* made) {
  std::unique_ptr<Variant> variant, unused;
  {
    const LockGuard guard(g_recordings_lock);
    if (recording.first != nullptr) {
      const bool usable = equal(recording.first->baked, binding) && !outlived_memory(recording, *recording.first);
      (usable ? variant : unused) = std::move(recording.first);
    }
  }
  store_.make_room(device, recording.exec_bytes);
  const PrivateCalls private_calls;
  hipError_t result = hipSuccess;
  if (variant == nullptr) {
    variant = std::make_unique<Variant>();
    variant->memory_freed = memory_freed();
    const CostTimer timer;
    result = build_graph(recording.operations, binding, &variant->graph, &variant->nodes);
    if (result != hipSuccess) return result;
    timer.stop(Cost::kBuildNode, recording.node_count, &recording.exec_costs);
  }
  const SavedDevice scope;
  scope.set(device);
  const CostTimer timer;
  result = memory_room().retry_after_trim(device, [&] {
    return made_private(next().hipGraphInstantiate(&variant->exec, variant->graph, nullptr, nullptr, 0),
                        &variant->exec);
  });
  if (result != hipSuccess) {
    variant->exec = nullptr;
    return result;
  }
  timer.stop(Cost::kInstantiateNode, recording.node_count, &recording.exec_costs);
  variant->device = device;
  variant->bake(binding);
  variant->made_for = recording.number;
  *made = std::move(variant);
  return hipSuccess;
}

/// *patched: how many nodes were set, including one that failed. After a failure the nodes of the exec's own variant
/// are set back, as far as the runtime does so: perhaps nothing else can be made for the exec.
bool ExecBuilder::set_nodes(const Recording& recording, const Binding& binding, const PatchCandidate& candidate,
                            std::uint32_t* patched) const {
  const Variant& variant = *candidate.variant;
  const SavedDevice scope;
  const LastErrorScope last_error;
  const CostTimer timer;
  const auto set = [&](std::uint32_t index, const Binding& from) {
    const Operation& operation = recording.operations[index];
    scope.set(node_device_of(operation.signature));  // HIP 7 moves a node to the device that is current
    try {
      return patch_exec(operation, from, variant.exec, variant.nodes[index]) == hipSuccess;
    } catch (const std::bad_alloc&) {
      return false;
    }
  };
  for (const std::uint32_t index : candidate.differing) {
    if (seeded_defect(Seeded::kPatchShort) && index == candidate.differing.back()) break;
    ++*patched;
    if (set(index, binding)) continue;
    for (std::uint32_t done = 0; candidate.served && done < *patched; ++done)
      static_cast<void>(set(candidate.differing[done], variant.baked_by_holder()));
    return false;
  }
  timer.stop(Cost::kPatchNode, *patched);
  return true;
}

bool ExecBuilder::patch(Recording& recording, const Binding& binding, const PatchCandidate& candidate) {
  Variant& variant = *candidate.variant;
  std::uint32_t patched = 0;
  if (settings_.verifies()) {
    const LockGuard guard(g_recordings_lock);
    note_reached(recording, variant);  // it may throw, so no node is set yet
  }
  const bool done = set_nodes(recording, binding, candidate, &patched);
  std::size_t memory = 0;
  for (std::uint32_t i = 0; i < patched; ++i) memory += argument_memory(recording.operations[candidate.differing[i]]);
  std::unique_ptr<Variant> broken;
  const LockGuard guard(g_recordings_lock);
  variant.patches += patched;
  variant.patched_bytes += memory;
  recording.statistics.patched_nodes += patched;
  store_.limits.grow(variant, memory);
  if (done) {
    variant.baked = binding;
  } else {
    variant.use_up(Health::kBroken);
    if (!candidate.served) broken = store_.remove(recording, &variant);
  }
  return done;
}

void ExecBuilder::note_reached(const Recording& recording, Variant& variant) const {
  if (!settings_.verifies()) return;
  add_addresses(recording.operations, variant.baked, &variant.reached);
  if (variant.reached.size() > kMostReached) variant.reached.resize(kMostReached);
}

void ExecBuilder::note_updated(Recording& recording, Variant& variant, const Binding& binding,
                               std::uint64_t freed_before) {
  std::size_t memory = 0;
  for (const Operation& operation : recording.operations) {
    if (!makes_node(operation.signature.kind)) continue;
    memory += argument_memory(operation);
    ++variant.patches;
  }
  variant.baked = binding;
  variant.memory_freed = freed_before;
  variant.patched_bytes += memory;
  ++recording.statistics.native_updates;
  store_.limits.grow(variant, memory);
  if (!updates_are_exact(recording)) variant.use_up(Health::kUnsure);
}

void ExecBuilder::note_node_set(Recording& recording, Variant& variant, const Operation& operation,
                                const std::byte* payload, bool exact) {
  put_payload(operation, payload, variant.baked);
  if (!exact) variant.use_up(Health::kUnsure);
  ++variant.patches;
  const std::size_t memory = argument_memory(operation);
  variant.patched_bytes += memory;
  ++recording.statistics.native_updates;
  store_.limits.grow(variant, memory);
}

}  // namespace graphpool
