#include "shim/execs/patch_candidate.h"

#include <algorithm>

#include "shim/base/seeded_defect.h"
#include "shim/execs/exec_size.h"
#include "shim/execs/exec_store.h"
#include "shim/hip/quirks.h"
#include "shim/recording/operation_functions.h"
#include "shim/recording/patch_table.h"

namespace graphpool {
namespace {

bool differs(const Operation& operation, const Binding& a, const Binding& b) noexcept {
  return makes_node(operation.signature.kind) && !same_payload(operation, a, b);
}

/// Whether later bindings may be patched into the variant, if it is free or the asking exec's own.
bool is_base(const Variant& variant, int device) noexcept REQUIRES(g_recordings_lock) {
  return variant.device == device && variant.kept() && variant.graph != nullptr && variant.ring == nullptr &&
         variant.health() == Health::kGood;
}

/// The nodes to be set for a binding, and what that takes.
struct Patch {
  std::vector<std::uint32_t> differing;
  std::size_t bytes = 0;  ///< of argument memory
};
/// Whether the runtime is known to update all that differ correctly, and they are no more than `most`.
bool can_patch(const Recording& recording, const Variant& variant, const Binding& binding, std::size_t most,
               Patch* patch) REQUIRES(g_recordings_lock) {
  patch->differing.clear();
  patch->bytes = 0;
  for (std::uint32_t i = 0; i < recording.operations.size(); ++i) {
    const Operation& operation = recording.operations[i];
    if (!differs(operation, variant.baked, binding)) continue;
    if (!patch_is_exact(operation.signature) || patch->differing.size() == most) return false;
    patch->bytes += argument_memory(operation);
    patch->differing.push_back(i);
  }
  return true;
}

/// The best variant among those that were patched before, or among those that were not.
PatchCandidate find_patchable_among(bool patched, const ProgramExec& exec, const Binding& binding,
                                    const GraphSettings& settings) REQUIRES(g_recordings_lock) {
  Recording& recording = *exec.recording_in_call();
  PatchCandidate best;
  Patch patch;
  const std::size_t room = room_for_patches(runtime_version());
  ExecStore::for_each_reachable(exec, [&](Variant& variant) {
    assume_held(g_recordings_lock);
    if ((variant.patches != 0) != patched || !is_base(variant, exec.device)) return;
    if (outlived_memory(recording, variant) || (!variant.idle() && !seeded_defect(Seeded::kBusyVariantPatched))) return;
    // More nodes would be no better than the best so far.
    const std::size_t most = best.variant == nullptr ? recording.operations.size() : best.differing.size();
    if (!can_patch(recording, variant, binding, most, &patch)) return;
    if (variant.patches + patch.differing.size() > settings.patch_budget ||
        patch.bytes > room - std::min(room, variant.patched_bytes)) {
      if (variant.patches == 0) return;  // the budget is less than one binding needs
      variant.keep_no_longer();
      ++recording.statistics.replaced;
      return;
    }
    best.variant = &variant;
    best.differing.swap(patch.differing);
  });
  return best;
}

}  // namespace

PatchCandidate find_patchable(const ProgramExec& exec, const Binding& binding, const GraphSettings& settings) {
  PatchCandidate best = find_patchable_among(true, exec, binding, settings);
  return best.variant != nullptr ? best : find_patchable_among(false, exec, binding, settings);
}

bool has_patch_base(Recording& recording, int device) noexcept {
  return std::any_of(recording.variants.begin(), recording.variants.end(), [&](const auto& variant) {
    assume_held(g_recordings_lock);
    if (!is_base(*variant, device)) return false;
    if (outlived_memory(recording, *variant)) variant->keep_no_longer();
    return variant->kept();
  });
}

std::size_t patch_budget(const Recording& recording, const GraphSettings& settings) noexcept {
  const std::size_t each =
      std::max<std::size_t>(recording.argument_bytes / std::max<std::size_t>(recording.node_count, 1), 1);
  return std::min<std::size_t>(settings.patch_budget, room_for_patches(runtime_version()) / each);
}

double rebind_ns(const Recording& recording, const Binding& from, const Binding& to, double exec_ns,
                 std::size_t budget) {
  std::size_t differing = 0;
  for (const Operation& operation : recording.operations) {
    if (!differs(operation, from, to)) continue;
    if (!recording.may_patch || !patch_is_exact(operation.signature)) return exec_ns;
    ++differing;
  }
  return costs().patch_ns(exec_ns, differing, budget);
}

bool updates_are_exact(const Recording& recording) noexcept {
  return recording.may_patch &&
         std::all_of(recording.operations.begin(), recording.operations.end(), [](const Operation& operation) {
           return !makes_node(operation.signature.kind) || patch_is_exact(operation.signature);
         });
}

UpdatedNodes updated_nodes(const ProgramExec& exec, const Binding& binding) noexcept {
  const Recording& recording = *exec.recording_in_call();
  const Variant* const own = exec.variant_in_call();
  const bool other = own == nullptr || own->recording() != &recording;
  UpdatedNodes updated;
  updated.exact =
      recording.may_patch && (other || (own->health() != Health::kUnsure && !outlived_memory(recording, *own)));
  for (std::size_t i = 0; i < recording.operations.size() && updated.exact; ++i) {
    const Operation& operation = recording.operations[i];
    if (other ? !makes_node(operation.signature.kind) : !differs(operation, own->baked, binding)) continue;
    updated.exact = patch_is_exact(operation.signature);
    ++updated.differing;
  }
  return updated;
}

std::optional<std::size_t> only_kernels_updated(const ProgramExec& exec, const Binding& binding) noexcept {
  const Recording& recording = *exec.recording_in_call();
  if (exec.variant_in_call() == nullptr || exec.variant_in_call()->recording() != &recording) return {};
  std::size_t updated = 0;
  for (const Operation& operation : recording.operations) {
    if (!makes_node(operation.signature.kind) || !differs(operation, exec.binding_in_call(), binding)) continue;
    if (!launches_kernel(operation)) return {};
    ++updated;
  }
  return updated;
}

}  // namespace graphpool
