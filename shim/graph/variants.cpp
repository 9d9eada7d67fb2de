#include "shim/graph/variants.h"

#include <cstring>
#include <utility>

#include "shim/graph/reissue.h"
#include "shim/log.h"
#include "shim/memory/pool.h"
#include "shim/next.h"
#include "shim/restore.h"

namespace graphpool {
namespace {

/// Bindings that come in turn get an exec each; once a template has this many, what never comes back is patched.
constexpr std::size_t kVariantsBeforePatching = 4;

bool same_payload(const Operation& operation, const Binding& a, const Binding& b) noexcept {
  return std::memcmp(a.data() + operation.payload_offset, b.data() + operation.payload_offset,
                     operation.signature.payload_bytes) == 0;
}

}  // namespace

Variant::~Variant() {
  const LastErrorScope last_error;
  if (exec != nullptr) static_cast<void>(next().hipGraphExecDestroy(exec));
  if (graph != nullptr) static_cast<void>(next().hipGraphDestroy(graph));
  if (done != nullptr) static_cast<void>(next().hipEventDestroy(done));
}

Variant* Variants::take_free(Template& of, const Binding& binding, int device, const VirtualExec* owner) {
  for (const auto& variant : of.variants) {
    if (variant->owner != nullptr || variant->device != device || variant->slots != nullptr ||
        !equal(variant->baked, binding))
      continue;
    if (!variant->launches.complete()) continue;
    variant->owner = owner;
    variant->last_used = ++clock_;
    return variant.get();
  }
  return nullptr;
}

std::unique_ptr<Variant> Variants::remove(Template& of, const Variant* variant) noexcept {
  for (auto& held : of.variants) {
    if (held.get() != variant) continue;
    std::unique_ptr<Variant> removed = std::move(held);
    held = std::move(of.variants.back());
    of.variants.pop_back();
    removed->owner = nullptr;
    return removed;
  }
  return nullptr;
}

/// A free variant with nodes of its own that the runtime is known to update correctly for this binding. Under lock_.
Variant* Variants::choose_patchable(Template& of, const Binding& binding, int device) {
  if (settings_.strategy == Strategy::kVariant || settings_.strategy == Strategy::kRecord) return nullptr;
  if (settings_.strategy == Strategy::kAuto && of.variants.size() < kVariantsBeforePatching) return nullptr;
  Variant* chosen = nullptr;
  for (const auto& variant : of.variants) {
    if (variant->owner != nullptr || variant->device != device || variant->graph == nullptr ||
        variant->slots != nullptr || variant->patches >= settings_.patch_budget || !variant->launches.complete())
      continue;
    if (chosen == nullptr || variant->last_used < chosen->last_used) chosen = variant.get();
  }
  if (chosen == nullptr) return nullptr;
  for (const Operation& operation : of.operations)
    if (makes_node(operation.signature.kind) && operation.signature.kind != OperationKind::kKernel &&
        !same_payload(operation, chosen->baked, binding))
      return nullptr;  // rule 9: kernels only
  return chosen;
}

Variant* Variants::patch_free(Template& of, const Binding& binding, int device, const VirtualExec* owner) {
  Variant* chosen;
  {
    const std::scoped_lock guard(lock_);
    chosen = choose_patchable(of, binding, device);
    if (chosen == nullptr) return nullptr;
    chosen->owner = owner;
    chosen->last_used = ++clock_;
  }
  const SavedDevice scope;
  scope.set(device);
  std::uint32_t patched = 0;
  bool failed = false;
  for (std::size_t i = 0; i < of.operations.size() && !failed; ++i) {
    const Operation& operation = of.operations[i];
    if (!makes_node(operation.signature.kind) || same_payload(operation, chosen->baked, binding)) continue;
    failed = patch_exec(operation, binding, chosen->exec, chosen->nodes[i]) != hipSuccess;
    ++patched;
  }
  std::unique_ptr<Variant> broken;
  const std::scoped_lock guard(lock_);
  chosen->patches += patched;
  of.statistics.patched_nodes += patched;
  if (failed) {
    broken = remove(of, chosen);  // half patched: of no use any more
    return nullptr;
  }
  chosen->baked = binding;
  return chosen;
}

/// Takes a new variant into the template, and what that pushes out.
Variant* Variants::adopt(Template& of, std::unique_ptr<Variant> variant, const VirtualExec* owner) {
  Retired retired;
  const std::scoped_lock guard(lock_);
  variant->owner = owner;
  variant->last_used = ++clock_;
  Variant* const adopted = variant.get();
  of.variants.push_back(std::move(variant));
  ++of.statistics.instantiates;
  trim(of, &retired);
  return adopted;
}

void Variants::trim(Template& of, Retired* retired) {
  while (of.variants.size() > settings_.most_variants) {
    const Variant* oldest = nullptr;
    for (const auto& variant : of.variants)
      if (variant->owner == nullptr && (oldest == nullptr || variant->last_used < oldest->last_used))
        oldest = variant.get();
    if (oldest == nullptr) return;
    retired->push_back(remove(of, oldest));
  }
}

hipError_t Variants::build(Template& of, const Binding& binding, int device, std::unique_ptr<Variant>* made) {
  std::unique_ptr<Variant> variant, unused;
  {
    const std::scoped_lock guard(lock_);
    if (of.first != nullptr) (equal(of.first->baked, binding) ? variant : unused) = std::move(of.first);
  }
  const PrivateCalls private_calls;
  hipError_t result = hipSuccess;
  if (variant == nullptr) {
    variant = std::make_unique<Variant>();
    result = build_graph(of.operations, binding, &variant->graph, &variant->nodes);
    if (result != hipSuccess) return result;
  }
  const SavedDevice scope;
  scope.set(device);
  result = pool().retry_after_trim(
      device, [&] { return next().hipGraphInstantiate(&variant->exec, variant->graph, nullptr, nullptr, 0); });
  if (result != hipSuccess) {
    variant->exec = nullptr;
    return result;
  }
  variant->device = device;
  variant->baked = binding;
  *made = std::move(variant);
  return hipSuccess;
}

hipError_t Variants::obtain(VirtualExec& exec, const Binding& binding, const NativeVariant* native, Variant** variant) {
  Template& of = *exec.of;
  if (of.plan != nullptr && obtain_staged(exec, binding, variant) == hipSuccess) return hipSuccess;
  {
    const std::scoped_lock guard(lock_);
    *variant = take_free(of, binding, exec.device, &exec);
    if (*variant != nullptr) {
      ++avoided_;
      ++of.statistics.instantiates_avoided;
      return hipSuccess;
    }
  }
  *variant = patch_free(of, binding, exec.device, &exec);
  if (*variant != nullptr) return hipSuccess;
  std::unique_ptr<Variant> made;
  // From a graph of our own, whose nodes can be patched; where that fails, from the program's.
  hipError_t result = hipErrorNotSupported;
  if (of.rebuildable.load(std::memory_order_acquire)) {
    const LastErrorScope last_error;
    result = build(of, binding, exec.device, &made);
  }
  if (result != hipSuccess && native != nullptr) result = (*native)(&made);
  if (result != hipSuccess) return result;
  *variant = adopt(of, std::move(made), &exec);
  return hipSuccess;
}

/// A variant that works on slots. Fails where the binding is not the plan's shape or memory runs out: then the graph is
/// served without staging, which is always exact.
hipError_t Variants::obtain_staged(VirtualExec& exec, const Binding& binding, Variant** variant) {
  Template& of = *exec.of;
  std::vector<char*> bases;
  if (exec.device != of.plan->device() || !of.plan->locate(of.operations, binding, &bases)) return hipErrorInvalidValue;
  const auto serve = [&](Variant* chosen) {
    *variant = chosen;
    const std::scoped_lock guard(exec.lock);
    exec.bases = bases;
  };
  Variant* chosen = nullptr;
  {
    const std::scoped_lock guard(lock_);
    for (const auto& held : of.variants) {
      const bool usable = held->owner == &exec || (held->owner == nullptr && held->launches.complete());
      if (held->slots == nullptr || !usable || !equal(held->baked, of.plan->translated(binding, *held->slots)))
        continue;
      chosen = held.get();
      chosen->owner = &exec;
      chosen->last_used = ++clock_;
      ++avoided_;
      ++of.statistics.instantiates_avoided;
      break;
    }
  }
  if (chosen == nullptr) {
    std::unique_ptr<SlotSet> slots;
    std::unique_ptr<Variant> made;
    const PrivateCalls private_calls;
    const LastErrorScope last_error;
    hipError_t result = of.plan->make_slots(&slots);
    if (result == hipSuccess) result = build(of, of.plan->translated(binding, *slots), exec.device, &made);
    if (result == hipSuccess) result = next().hipEventCreateWithFlags(&made->done, hipEventDisableTiming);
    if (result != hipSuccess) {
      log_warn("a staged graph is served without staging: no slots (%s)", next().hipGetErrorName(result));
      return result;
    }
    made->slots = std::move(slots);
    chosen = adopt(of, std::move(made), &exec);
  }
  serve(chosen);
  return hipSuccess;
}

}  // namespace graphpool
