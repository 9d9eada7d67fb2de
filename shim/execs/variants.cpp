#include "shim/execs/variants.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "shim/base/log.h"
#include "shim/base/seeded_defect.h"
#include "shim/costs/step_costs.h"
#include "shim/execs/exec_size.h"
#include "shim/hip/next.h"
#include "shim/hip/private_handles.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"
#include "shim/kernel/communication.h"
#include "shim/memory/freed_memory.h"
#include "shim/memory/pool.h"
#include "shim/recording/operation_functions.h"
#include "shim/recording/patch_table.h"
#include "shim/recording/reissue.h"
#include "shim/streams/stream_work.h"

namespace graphpool {
namespace {

bool differs(const Operation& operation, const Binding& a, const Binding& b) noexcept {
  return makes_node(operation.signature.kind) && !same_payload(operation, a, b);
}

/// How many nodes an exec of the recording may be patched before it is replaced.
std::size_t budget_of(const Recording& recording, const GraphSettings& settings) noexcept {
  const std::size_t each =
      std::max<std::size_t>(recording.argument_bytes / std::max<std::size_t>(recording.node_count, 1), 1);
  return std::min<std::size_t>(settings.patch_budget, room_for_patches(runtime_version()) / each);
}

/// Nodes to be set for a binding, of an exec that has the other; an exec's cost where the runtime is not known to
/// update one of them correctly.
double followed_ns(const Recording& recording, const Binding& from, const Binding& to, double exec_ns,
                   std::size_t budget) {
  std::size_t differing = 0;
  for (const Operation& operation : recording.operations) {
    if (!differs(operation, from, to)) continue;
    if (!recording.may_patch || !patch_is_exact(operation.signature)) return exec_ns;
    ++differing;
  }
  return costs().patch_ns(exec_ns, differing, budget);
}

void note_launches(Recording& recording) noexcept { recording.stage_choice.note_launches(recording.launches.sum()); }

/// Of what an exec costs, what must have been lost by staging before it ends.
constexpr double kLeastLost = 0.25;

void swap_places(Recording& recording, std::size_t a, std::size_t b) noexcept {
  std::swap(recording.variants[a], recording.variants[b]);
  recording.variants[a]->place = a;
  recording.variants[b]->place = b;
}

}  // namespace

Variant::~Variant() {
  const LastErrorScope last_error;
  if (exec != nullptr) static_cast<void>(stream_work().destroy_exec(exec, device));
  if (graph != nullptr) static_cast<void>(next().hipGraphDestroy(no_longer_private(graph)));
}

bool Recording::communicates() const {
  std::int8_t known = communicates_.load(std::memory_order_relaxed);
  if (known < 0) {
    const auto communicates = [](const Operation& operation) {
      const void* const kernel = kernel_of(operation.signature);
      return kernel != nullptr && is_communication_kernel(kernel);
    };
    known = std::any_of(operations.begin(), operations.end(), communicates) ? 1 : 0;
    communicates_.store(known, std::memory_order_relaxed);
  }
  return known != 0;
}

// --- what is kept ---

void Variants::hold(Variant& variant, std::size_t bytes) {
  Held& held = held_[variant.device];
  held.bytes = held.bytes - variant.device_bytes + bytes;
  held.peak_bytes = std::max(held.peak_bytes, held.bytes);
  variant.device_bytes = bytes;
  if (over_limit(variant)) due_.store(true, std::memory_order_relaxed);
}

/// Whether there is more of its kind than is to be kept.
bool Variants::over_limit(const Variant& variant) const noexcept {
  const auto held = held_.find(variant.device);
  return !variant.keep ||
         (variant.recording != nullptr && variant.recording->variants.size() > settings_.most_variants) ||
         (held != held_.end() && held->second.bytes > settings_.most_variant_bytes);
}

/// What it holds changes with the execs that it has.
void Variants::hold_ring(const Recording& recording, Variant& variant) {
  hold(variant, variant.ring->execs() * recording.exec_bytes + variant.ring->slot_bytes());
}

std::vector<int> Variants::devices() const {
  std::vector<int> devices;
  for (const auto& [device, held] : held_) devices.push_back(device);
  std::sort(devices.begin(), devices.end());
  return devices;
}

std::size_t Variants::held_bytes(int device) const noexcept {
  const auto found = held_.find(device);
  return found == held_.end() ? 0 : found->second.bytes;
}

std::size_t Variants::peak_bytes(int device) const noexcept {
  const auto found = held_.find(device);
  return found == held_.end() ? 0 : found->second.peak_bytes;
}

void Variants::give(Variant& variant, const ProgramExec* owner) noexcept {
  const ProgramExec* const before = std::exchange(variant.owner, owner);
  if (variant.recording == nullptr || (before == nullptr) == (owner == nullptr)) return;
  Recording& recording = *variant.recording;
  if (owner != nullptr) {
    swap_places(recording, variant.place, --recording.free_variants);
    --held_[variant.device].free;
  } else {
    swap_places(recording, variant.place, recording.free_variants++);
    ++held_[variant.device].free;
    if (over_limit(variant)) due_.store(true, std::memory_order_relaxed);
  }
}

std::unique_ptr<Variant> Variants::remove(Recording& recording, Variant* variant) noexcept {
  if (variant == nullptr || variant->recording != &recording) return nullptr;
  if (variant->owner == nullptr) {
    swap_places(recording, variant->place, --recording.free_variants);
    --held_[variant->device].free;
  }
  swap_places(recording, variant->place, recording.variants.size() - 1);
  std::unique_ptr<Variant> removed = std::move(recording.variants.back());
  recording.variants.pop_back();
  kept_.back()->kept_place = removed->kept_place;
  std::swap(kept_[removed->kept_place], kept_.back());
  kept_.pop_back();
  removed->owner = nullptr;
  removed->recording = nullptr;
  held_[removed->device].bytes -= std::exchange(removed->device_bytes, 0);
  return removed;
}

Variant* Variants::adopt(Recording& recording, std::unique_ptr<Variant> variant, const ProgramExec* owner) {
  const LockGuard guard(lock_);
  ++recording.statistics.instantiates;
  return take_in(recording, std::move(variant), owner);
}

Variant* Variants::take_in(Recording& recording, std::unique_ptr<Variant> variant, const ProgramExec* owner) {
  variant->owner = owner;
  variant->recording = &recording;
  variant->made_for = recording.number;
  variant->last_used = ++clock_;
  Variant* const adopted = variant.get();
  adopted->place = recording.variants.size();
  adopted->kept_place = kept_.size();
  kept_.push_back(adopted);
  if (adopted->ring == nullptr)
    hold(*adopted, recording.exec_bytes);
  else
    hold_ring(recording, *adopted);
  recording.variants.push_back(std::move(variant));
  if (over_limit(*adopted)) due_.store(true, std::memory_order_relaxed);
  if (owner == nullptr) {
    swap_places(recording, adopted->place, recording.free_variants++);
    ++held_[adopted->device].free;
  }
  return adopted;
}

void Variants::older(Variant& variant, Variant** oldest) {
  if ((*oldest == nullptr || variant.last_used < (*oldest)->last_used) && variant.idle()) *oldest = &variant;
}

/// The least recently used that is free; of a recording.
Variant* Variants::oldest_free(const Recording& recording) {
  Variant* oldest = nullptr;
  for (std::size_t i = 0; i < recording.free_variants; ++i) older(*recording.variants[i], &oldest);
  return oldest;
}

/// The same of a device, or of all (-1).
Variant* Variants::oldest_free(int device) {
  Variant* oldest = nullptr;
  for (Variant* const variant : kept_)
    if (variant->owner == nullptr && (device < 0 || variant->device == device)) older(*variant, &oldest);
  return oldest;
}

/// Those that nobody owns, and the exec's own. Not to be given or taken meanwhile.
template <typename Visit>
void Variants::for_each_reachable(const ProgramExec& exec, Visit&& visit) {
  const Recording& recording = *exec.recording;
  for (std::size_t i = 0; i < recording.free_variants; ++i) visit(*recording.variants[i]);
  if (exec.variant != nullptr && exec.variant->recording == &recording && exec.variant->owner == &exec)
    visit(*exec.variant);
}

void Variants::evict(Recording& recording, Retired* retired) {
  const auto go = [&](Variant* variant) {
    ++variant->recording->statistics.evicted;
    retired->push_back(remove(*variant->recording, variant));
  };
  for (std::size_t i = 0; i < recording.free_variants;) {
    Variant* const variant = recording.variants[i].get();
    if (!variant->keep && variant->idle())
      retired->push_back(remove(recording, variant));
    else
      ++i;
  }
  while (recording.variants.size() > settings_.most_variants) {
    Variant* const oldest = oldest_free(recording);
    if (oldest == nullptr) break;
    go(oldest);
  }
  for (const auto& [device, held] : held_) {
    while (held.bytes > settings_.most_variant_bytes && held.free != 0) {
      Variant* const oldest = oldest_free(device);
      if (oldest == nullptr) break;
      go(oldest);
    }
  }
}

void Variants::evict_due(Retired* retired) {
  due_.store(false, std::memory_order_relaxed);
  std::vector<Recording*> having;
  for (const Variant* const variant : kept_)
    if (having.empty() || having.back() != variant->recording) having.push_back(variant->recording);
  std::sort(having.begin(), having.end());
  having.erase(std::unique(having.begin(), having.end()), having.end());
  for (Recording* const recording : having) evict(*recording, retired);
  // What still runs is tried again.
  const bool left = std::any_of(kept_.begin(), kept_.end(), [&](const Variant* variant) {
    return variant->owner == nullptr && over_limit(*variant);
  });
  if (left) due_.store(true, std::memory_order_relaxed);
}

bool Variants::reclaim(int device) noexcept {
  Retired retired;
  const LockGuard guard(lock_);
  while (Variant* const oldest = oldest_free(device)) {
    ++oldest->recording->statistics.evicted;
    retired.push_back(remove(*oldest->recording, oldest));
  }
  return !retired.empty();
}

void Variants::device_reset(int device) noexcept {
  for (std::size_t i = 0; i < kept_.size();) {
    Variant* const variant = kept_[i];
    if (variant->device != device) {
      ++i;
      continue;
    }
    if (variant->owner != nullptr) {
      // It goes with its holder.
      variant->unsure = true;
      variant->keep = false;
      if (variant->ring != nullptr) {
        variant->broken = true;
        variant->ring->forget();
        hold_ring(*variant->recording, *variant);
      }
      ++i;
      continue;
    }
    variant->exec = nullptr;
    variant->graph = nullptr;
    if (variant->ring != nullptr) variant->ring->forget();
    static_cast<void>(remove(*variant->recording, variant));
  }
}

// --- which one serves a binding ---

bool Variants::outlived_memory(const Operation& operation, std::uint64_t memory_freed_before) noexcept {
  return may_hold_memory(operation.signature.kind) && memory_freed_before != memory_freed();
}

bool Variants::outlived_memory(const Recording& recording, std::uint64_t memory_freed_before) noexcept {
  return memory_freed_before != memory_freed() &&
         std::any_of(recording.operations.begin(), recording.operations.end(),
                     [&](const Operation& operation) { return outlived_memory(operation, memory_freed_before); });
}

Variant* Variants::take_free(Recording& recording, const Binding& binding, int device, const ProgramExec* owner) {
  return take_free(recording, device, owner, [&](const Binding& baked) { return equal(baked, binding); });
}

Variant* Variants::take_free(Recording& recording, const Binding& binding, const Operation& changed,
                             const Binding& payload, int device, const ProgramExec* owner) {
  const std::size_t begin = changed.payload_offset, end = begin + payload.size();
  return take_free(recording, device, owner, [&](const Binding& baked) {
    const auto same = [&](std::size_t from, std::size_t to) {
      return from == to || std::memcmp(baked.data() + from, binding.data() + from, to - from) == 0;
    };
    if (baked.size() != binding.size()) return false;
    // Nodes are set one after the other: what has been set and what has not meet here, and tell most apart at once.
    const std::size_t first = begin - std::min(begin, kNear), last = std::min(end + kNear, binding.size());
    return same(first, begin) && same(end, last) &&
           (payload.empty() || std::memcmp(baked.data() + begin, payload.data(), payload.size()) == 0) &&
           same(last, binding.size()) && same(0, first);
  });
}

template <typename HasBinding>
Variant* Variants::take_free(Recording& recording, int device, const ProgramExec* owner, HasBinding&& has_binding) {
  for (std::size_t i = 0; i < recording.free_variants; ++i) {
    Variant& variant = *recording.variants[i];
    if (outlived_memory(recording, variant)) {
      variant.keep = false;
      continue;
    }
    // Of another graph of the program's, its nodes could not be told.
    if (variant.graph == nullptr && variant.source != owner->source) continue;
    if (variant.device != device || variant.ring != nullptr || variant.unsure || variant.broken ||
        (!has_binding(variant.baked) && !seeded_defect(Seeded::kBindingIgnored)))
      continue;
    if (!variant.idle()) continue;
    give(variant, owner);
    variant.last_used = ++clock_;
    return &variant;
  }
  return nullptr;
}

/// A variant with nodes of its own that the runtime is known to update correctly for this binding, free or the exec's
/// own: one that was patched before, so that the others keep what they have; of several the one with the fewest nodes
/// to be set. Under the lock.
Variants::Candidate Variants::find_patchable(const ProgramExec& exec, const Binding& binding) {
  Candidate best = find_patchable(exec, binding, true);
  return best.variant != nullptr ? best : find_patchable(exec, binding, false);
}

/// The same among those that were patched before, or were not.
Variants::Candidate Variants::find_patchable(const ProgramExec& exec, const Binding& binding, bool patched) {
  Recording& recording = *exec.recording;
  Candidate best;
  std::vector<std::uint32_t> differing;
  const std::size_t room = room_for_patches(runtime_version());
  for_each_reachable(exec, [&](Variant& variant) {
    if ((variant.patches != 0) != patched) return;
    if (variant.device != exec.device || variant.graph == nullptr || variant.ring != nullptr || !variant.keep ||
        variant.unsure || variant.broken)
      return;
    if (outlived_memory(recording, variant) || (!variant.idle() && !seeded_defect(Seeded::kBusyVariantPatched))) return;
    // No more than would be better than what is there.
    const std::size_t most = best.variant == nullptr ? recording.operations.size() : best.differing.size();
    differing.clear();
    bool exact = true;
    std::size_t bytes = 0;
    for (std::uint32_t i = 0; i < recording.operations.size() && exact && differing.size() <= most; ++i) {
      if (!differs(recording.operations[i], variant.baked, binding)) continue;
      exact = patch_is_exact(recording.operations[i].signature);
      bytes += argument_memory(recording.operations[i]);
      differing.push_back(i);
    }
    if (!exact || differing.size() > most) return;
    if (variant.patches + differing.size() > settings_.patch_budget ||
        bytes > room - std::min(room, variant.patched_bytes)) {
      if (variant.patches == 0) return;  // the budget is less than one binding needs
      variant.keep = false;
      ++recording.statistics.replaced;
      return;
    }
    best.variant = &variant;
    best.differing.swap(differing);
  });
  return best;
}

/// Whether there is an exec that later bindings may be patched into, or will be when it is free. Under the lock.
bool Variants::has_base(Recording& recording, int device) noexcept {
  return std::any_of(recording.variants.begin(), recording.variants.end(), [&](const auto& variant) {
    if (variant->device != device || !variant->keep || variant->graph == nullptr || variant->ring != nullptr ||
        variant->unsure || variant->broken)
      return false;
    variant->keep = !outlived_memory(recording, *variant);
    return variant->keep;
  });
}

/// Whether the runtime is known to update correctly all that differs from what the exec's own variant has; all there is
/// where that is of another recording.
bool Variants::differs_exactly(const ProgramExec& exec, const Binding& binding, std::size_t* differing) noexcept {
  const Recording& recording = *exec.recording;
  const Variant* const own = exec.variant;
  const bool other = own == nullptr || own->recording != &recording;
  bool exact = recording.may_patch && (other || (!own->unsure && !outlived_memory(recording, *own)));
  for (std::size_t i = 0; i < recording.operations.size() && exact; ++i) {
    const Operation& operation = recording.operations[i];
    if (other ? !makes_node(operation.signature.kind) : !differs(operation, own->baked, binding)) continue;
    exact = patch_is_exact(operation.signature);
    ++*differing;
  }
  return exact;
}

/// Whether an update of the exec to this binding would change kernels only. Then *differing is their number.
bool Variants::only_kernels_differ(const ProgramExec& exec, const Binding& binding, std::size_t* differing) noexcept {
  const Recording& recording = *exec.recording;
  if (exec.variant == nullptr || exec.variant->recording != &recording) return false;
  std::size_t count = 0;
  for (const Operation& operation : recording.operations) {
    if (!makes_node(operation.signature.kind) || !differs(operation, exec.binding, binding)) continue;
    if (!launches_kernel(operation)) return false;
    ++count;
  }
  *differing = count;
  return true;
}

/// Under the lock. *candidate: what is to be patched. kStage: by this plan; null: not. `update`: kUpdate may be said.
Way Variants::decide(const ProgramExec& exec, const Binding& binding, const StagePlan* plan, bool update,
                     Candidate* candidate) {
  Recording& recording = *exec.recording;
  *candidate = {};
  const double exec_ns = costs().exec_ns(recording.node_count, &recording.exec_costs);
  const bool open = staging_is_open(exec, plan);
  const bool staged = open && recording.stage_choice.staged();
  const Binding& last = recording.history.last();
  // What it costs to come here from the binding before: without staging, had that one been served so; and by staging,
  // beside the copies.
  const double step_ns = staged ? followed_ns(recording, last, binding, exec_ns, budget_of(recording, settings_)) : 0;
  const bool other_ring = open && !staged && !plan->same_elsewhere(last, binding);
  BindingHistory::Noted noted = recording.history.note(binding);
  if (noted.seen) recording.statistics.longest_return = std::max(recording.statistics.longest_return, noted.ago);
  // Of more that come in turn each exec would be gone when its binding comes back.
  noted.seen = noted.seen && noted.ago <= settings_.most_variants;
  ++recording.statistics.bindings;
  if (staged && stays_staged(exec, binding, *plan, noted.seen, step_ns)) return Way::kStage;
  CostModel::Question question;
  question.strategy = settings_.strategy;
  question.is_volatile = noted.is_volatile;
  question.seen = noted.seen;
  question.exec_ns = exec_ns;
  question.budget = budget_of(recording, settings_);
  question.spent_ns = recording.spent_ns;
  question.last = recording.last_way;
  question.passed_over = recording.passed_over;
  for (const auto& variant : recording.variants) {
    question.kept += variant->ring == nullptr && variant->keep ? 1 : 0;
    if (question.kept >= CostModel::kExecsBeforePatching) break;  // more make no difference
  }
  const bool may_patch =
      recording.may_patch && (settings_.strategy == Strategy::kAuto || settings_.strategy == Strategy::kPatch);
  if (may_patch) *candidate = find_patchable(exec, binding);
  question.patchable = candidate->variant != nullptr;
  question.differing = candidate->differing.size();
  question.base = !may_patch || has_base(recording, exec.device);
  question.update = update;
  question.exact = question.patchable || (update && differs_exactly(exec, binding, &question.differing));
  question.kernels = update && !question.exact && noted.seen && only_kernels_differ(exec, binding, &question.differing);
  question.spoils = question.kernels && exec.variant->keep && !exec.variant->unsure;
  const Way way = costs().choose(question);
  if (open && !staged && becomes_staged(exec, binding, *plan, question, way, other_ring)) return Way::kStage;
  const bool no_exec = way == Way::kPatch || way == Way::kUpdate;
  if (no_exec && noted.seen)
    recording.spent_ns += costs().patch_ns(question.exec_ns, question.differing, question.budget);
  else if (!no_exec)
    recording.spent_ns = 0;
  recording.passed_over = question.patchable && way != Way::kPatch ? recording.passed_over + 1 : 0;
  recording.last_way = way;
  return way;
}

// --- by which rules it is staged ---

/// Null: it is.
void Variants::note_not_staged(Recording& recording, const char* why) noexcept {
  const LockGuard guard(lock_);
  recording.not_staged = why;
}

/// Under the lock. False: all plans are in use.
bool Variants::make_room_for_plans(Recording& recording) {
  if (recording.stage_plans.size() < Recording::kMostStagePlans) return true;
  const auto has = [](const Variant& variant, const StagePlans& plans) {
    return variant.plan != nullptr &&
           (variant.plan.get() == plans.always.get() || variant.plan.get() == plans.open.get());
  };
  auto oldest = recording.stage_plans.end();
  for (auto at = recording.stage_plans.begin(); at != recording.stage_plans.end(); ++at) {
    // Other references than the recording's and those of free variants: a binding is being made with it.
    long references = 1;
    bool owned = false;
    for (const auto& variant : recording.variants) {
      if (!has(*variant, **at)) continue;
      ++references;
      owned = owned || variant->owner != nullptr;
    }
    const bool used = owned || at->use_count() > references;
    if (!used && (oldest == recording.stage_plans.end() || (*at)->last_used < (*oldest)->last_used)) oldest = at;
  }
  if (oldest == recording.stage_plans.end()) return false;
  for (const auto& variant : recording.variants)
    if (has(*variant, **oldest)) variant->keep = false;
  recording.stage_plans.erase(oldest);
  return true;
}

/// The plans for the rules that this binding's buffers fall under. Null: nothing is staged, or there are too many.
Variants::Plans Variants::plans_for(Recording& recording, const Binding& binding) {
  std::vector<std::uint32_t> rules;
  if (!staging_rules(recording.operations, binding, &rules)) return nullptr;
  const char* why = why_not_staged(recording.operations, binding);
  if (why == nullptr && recording.communicates()) why = kCommunicates;
  if (why != nullptr) {
    note_not_staged(recording, why);
    return nullptr;
  }
  const auto made = std::make_shared<StagePlans>();
  made->rules = std::move(rules);
  const auto known = [&]() -> Plans {
    for (const auto& plans : recording.stage_plans) {
      if (plans->rules != made->rules) continue;
      plans->last_used = ++clock_;
      return plans;
    }
    return nullptr;
  };
  {
    const LockGuard guard(lock_);
    if (Plans found = known()) return found;
  }
  made->always = StagePlan::make(recording.operations, binding, false);
  made->open = StagePlan::make(recording.operations, binding, true);
  if (made->open != nullptr && !made->open->open()) made->open.reset();
  const LockGuard guard(lock_);
  if (Plans found = known()) return found;
  if (!make_room_for_plans(recording)) {
    recording.not_staged = "other rules have all its slots";
    return nullptr;
  }
  made->last_used = ++clock_;
  recording.stage_plans.push_back(made);
  return made;
}

// --- staging that rules leave open ---

static bool may_be_staged(const Recording& recording) noexcept {
  return recording.may_stage && recording.rebuildable.load(std::memory_order_acquire);
}

bool Variants::staging_is_open(const ProgramExec& exec, const StagePlan* open) const noexcept {
  const Recording& recording = *exec.recording;
  return open != nullptr && may_be_staged(recording) && recording.stage_choice.possible() &&
         settings_.strategy == Strategy::kAuto && exec.device == open->device();
}

/// Under the lock: whether a ring of the plan does what the binding says beside staged operands. With `exec`: and may
/// be given to that now.
bool Variants::has_ring(const Recording& recording, const StagePlan& plan, const Binding& binding,
                        const ProgramExec* exec) {
  return std::any_of(recording.variants.begin(), recording.variants.end(), [&](const auto& variant) {
    const bool free = exec == nullptr || variant->owner == exec || (variant->owner == nullptr && variant->idle());
    return variant->plan.get() == &plan && free && plan.same_elsewhere(variant->baked, binding);
  });
}

/// What a binding costs through a plan's slots, once there is a ring.
double Variants::staged_ns(const Recording& recording, const StagePlan& plan) const noexcept {
  const bool patched = patch_is_exact(NodeClass::kDeviceCopy, runtime_version());
  return costs().staged_ns(recording.stage_choice.launches(), plan.copies(), plan.copied_bytes(),
                           patched ? plan.copies() * plan.sets() : 0);
}

/// What a ring of the open plan costs.
double Variants::ring_ns(const Recording& recording, const StagePlan& open) noexcept {
  return recording.ring_ns != 0
             ? recording.ring_ns
             : static_cast<double>(open.sets()) * costs().exec_ns(recording.node_count + open.copies());
}

/// Under the lock: whether a binding of a graph that is staged is staged too.
bool Variants::stays_staged(const ProgramExec& exec, const Binding& binding, const StagePlan& open, bool seen,
                            double otherwise_ns) {
  Recording& recording = *exec.recording;
  const double exec_ns = costs().exec_ns(recording.node_count, &recording.exec_costs);
  const bool free_ring = has_ring(recording, open, binding, &exec);
  const double staged = staged_ns(recording, open) + (free_ring ? 0 : ring_ns(recording, open));
  if (seen) {
    recording.spent_ns += staged;
    if (recording.spent_ns >= CostModel::kSpentBeforeExec * exec_ns) return false;  // it gets an exec
  }
  const double lost = recording.stage_choice.note(staged, otherwise_ns);
  if (lost < kLeastLost * exec_ns) return true;
  const Candidate candidate = recording.may_patch ? find_patchable(exec, binding) : Candidate{};
  const double catch_up = candidate.variant == nullptr
                              ? exec_ns
                              : costs().patch_ns(exec_ns, candidate.differing.size(), budget_of(recording, settings_));
  if (lost < catch_up) return true;
  recording.stage_choice.change(false);
  return false;
}

/// Under the lock: whether a graph is staged from this binding on, which is to be served in this way otherwise.
bool Variants::becomes_staged(const ProgramExec& exec, const Binding& binding, const StagePlan& open,
                              const CostModel::Question& question, Way way, bool other_ring) {
  Recording& recording = *exec.recording;
  const bool patch = way == Way::kPatch, update = way == Way::kUpdate;
  // The first few bindings get an exec each: they often come in turn.
  if (!patch && !update && question.kept < std::min(CostModel::kExecsBeforePatching, settings_.most_variants))
    return false;
  // An update by the program's call sets every node.
  const std::size_t set = update ? recording.node_count : question.differing;
  const double set_ns = costs().patch_ns(question.exec_ns, set, question.budget);
  const double present = patch || update ? std::min(set_ns, question.exec_ns) : question.exec_ns;
  const double ring = ring_ns(recording, open);
  const double lost = recording.stage_choice.note(present, staged_ns(recording, open) + (other_ring ? ring : 0));
  // One binding alone, which never costs more than an exec, changes nothing.
  const double begin_ns = has_ring(recording, open, binding, nullptr) ? 0 : ring;
  if (lost < std::max(begin_ns, question.exec_ns)) return false;
  recording.stage_choice.change(true);
  return true;
}

/// The same for a graph of which some buffers are always staged. Another binding of the rest is another ring.
bool Variants::chooses_open_plan(const ProgramExec& exec, const Binding& binding, const StagePlans& plans) {
  Recording& recording = *exec.recording;
  if (!staging_is_open(exec, plans.open.get())) return false;
  const LockGuard guard(lock_);
  note_launches(recording);
  const double ring = ring_ns(recording, *plans.open);
  const bool before = recording.stage_choice.staged();
  const bool has_narrow = has_ring(recording, *plans.always, binding, nullptr),
             has_open = has_ring(recording, *plans.open, binding, nullptr);
  // Until there is a first ring of the open plan, nobody knows that the next binding needs no other one.
  const double narrow = has_narrow ? 0 : ring;
  const double open =
      staged_ns(recording, *plans.open) - staged_ns(recording, *plans.always) + (before && !has_open ? ring : 0);
  const double lost = before ? recording.stage_choice.note(open, narrow) : recording.stage_choice.note(narrow, open);
  if (lost >= ring) recording.stage_choice.change(!before);
  return recording.stage_choice.staged();
}

/// A variant of the open plan. Fails where that cannot be done; then the graph is not staged any more, unless it is
/// chosen again for another binding.
hipError_t Variants::obtain_open(ProgramExec& exec, const Binding& binding, const Plan& open, Served* served) {
  Recording& recording = *exec.recording;
  const hipError_t result = obtain_staged(exec, binding, open, served);
  if (result == hipSuccess) return result;
  const LockGuard guard(lock_);
  if (result == hipErrorInvalidValue)
    recording.stage_choice.change(false);
  else
    recording.stage_choice.refuse();
  return result;
}

/// Sets the nodes that differ. The variant is owned. False: half patched, of no use any more; one that nobody launches
/// is gone.
bool Variants::patch(Recording& recording, const Binding& binding, const Candidate& candidate) {
  Variant& variant = *candidate.variant;
  const SavedDevice scope;
  std::uint32_t patched = 0;
  std::size_t memory = 0;
  bool ok = true;
  const LastErrorScope last_error;
  const CostTimer timer;
  for (const std::uint32_t i : candidate.differing) {
    const Operation& operation = recording.operations[i];
    if (seeded_defect(Seeded::kPatchShort) && i == candidate.differing.back()) break;
    scope.set(node_device_of(operation.signature));  // HIP 7 moves a node to the device that is current
    ok = patch_exec(operation, binding, variant.exec, variant.nodes[i]) == hipSuccess;
    ++patched;
    memory += argument_memory(operation);
    if (!ok) break;
  }
  if (ok) timer.stop(Cost::kPatchNode, patched);
  // What nothing else can be made for goes on with what it had, so far as the runtime gives it back.
  for (std::uint32_t done = 0; !ok && candidate.served && done < patched; ++done) {
    const std::uint32_t i = candidate.differing[done];
    scope.set(node_device_of(recording.operations[i].signature));
    static_cast<void>(patch_exec(recording.operations[i], variant.baked, variant.exec, variant.nodes[i]));
  }
  std::unique_ptr<Variant> broken;
  const LockGuard guard(lock_);
  variant.patches += patched;
  variant.patched_bytes += memory;
  recording.statistics.patched_nodes += patched;
  hold(variant, variant.device_bytes + memory);
  if (ok) {
    note_reached(recording, variant);
    variant.baked = binding;
  } else {
    variant.broken = true;
    variant.keep = false;
    if (!candidate.served) broken = remove(recording, &variant);
  }
  return ok;
}

void Variants::note_reached(const Recording& recording, Variant& variant) const {
  if (settings_.verify.mode == Verify::Mode::kOff) return;
  add_addresses(recording.operations, variant.baked, &variant.reached);
  if (variant.reached.size() > kMostReached) variant.reached.resize(kMostReached);
}

hipError_t Variants::build(Recording& recording, const Binding& binding, int device, std::unique_ptr<Variant>* made) {
  std::unique_ptr<Variant> variant, unused;
  {
    const LockGuard guard(lock_);
    if (recording.first != nullptr) {
      const bool usable = equal(recording.first->baked, binding) && !outlived_memory(recording, *recording.first);
      (usable ? variant : unused) = std::move(recording.first);
    }
  }
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
  result = pool().retry_after_trim(device, [&] {
    return made_private(next().hipGraphInstantiate(&variant->exec, variant->graph, nullptr, nullptr, 0),
                        &variant->exec);
  });
  if (result != hipSuccess) {
    variant->exec = nullptr;
    return result;
  }
  timer.stop(Cost::kInstantiateNode, recording.node_count, &recording.exec_costs);
  variant->device = device;
  variant->baked = binding;
  variant->made_for = recording.number;
  *made = std::move(variant);
  return hipSuccess;
}

bool Variants::updates_are_exact(const Recording& recording) noexcept {
  return recording.may_patch &&
         std::all_of(recording.operations.begin(), recording.operations.end(), [](const Operation& operation) {
           return !makes_node(operation.signature.kind) || patch_is_exact(operation.signature);
         });
}

void Variants::updated(Recording& recording, Variant& variant, const Binding& binding,
                       std::uint64_t memory_freed_before) {
  std::size_t memory = 0;
  for (const Operation& operation : recording.operations) {
    if (!makes_node(operation.signature.kind)) continue;
    memory += argument_memory(operation);
    ++variant.patches;
  }
  note_reached(recording, variant);
  variant.baked = binding;
  variant.memory_freed = memory_freed_before;
  variant.patched_bytes += memory;
  ++recording.statistics.native_updates;
  hold(variant, variant.device_bytes + memory);
  if (updates_are_exact(recording)) return;
  variant.unsure = true;
  variant.keep = false;
}

hipError_t Variants::obtain(ProgramExec& exec, const Binding& binding, const Others& others, Served* served) {
  Recording& recording = *exec.recording;
  const Plans plans = plans_for(recording, binding);
  if (plans == nullptr) return obtain_unstaged(exec, binding, others, served);
  const Plan always(plans, plans->always.get()), open(plans, plans->open.get());
  const char* why = nullptr;
  if (always == nullptr && open == nullptr) why = "buffers of it are of another device";
  if (!may_be_staged(recording)) why = "verification has found a difference, or it cannot be built";
  note_not_staged(recording, why);
  if (always == nullptr) return obtain_by_cost(exec, binding, others, open, served);
  served->way = Way::kStage;
  if (may_be_staged(recording) &&
      ((chooses_open_plan(exec, binding, *plans) && obtain_open(exec, binding, open, served) == hipSuccess) ||
       obtain_staged(exec, binding, always, served) == hipSuccess))
    return hipSuccess;
  return obtain_unstaged(exec, binding, others, served);
}

hipError_t Variants::obtain_unstaged(ProgramExec& exec, const Binding& binding, const Others& others, Served* served) {
  return obtain_by_cost(exec, binding, others, nullptr, served);
}

hipError_t Variants::obtain_by_cost(ProgramExec& exec, const Binding& binding, const Others& others, const Plan& open,
                                    Served* served) {
  Recording& recording = *exec.recording;
  Candidate candidate;
  bool staged = false;
  double launches = 0, through_slots_ns = 0;
  {
    const LockGuard guard(lock_);
    if (recording.staging_open()) note_launches(recording);
    served->variant = take_free(recording, binding, exec.device, &exec);
    if (served->variant != nullptr) {
      served->way = Way::kSame;
      return hipSuccess;
    }
    t_step.note_work(recording.node_count);
    served->way = decide(exec, binding, open.get(), others.update, &candidate);
    if (open != nullptr) {
      staged = recording.stage_choice.staged();
      launches = recording.stage_choice.launches();
      through_slots_ns = staged_ns(recording, *open);
    }
    if (served->way == Way::kPatch) {
      candidate.served = candidate.variant->owner == &exec;
      give(*candidate.variant, &exec);
      candidate.variant->last_used = ++clock_;
    }
  }
  const bool says_why = log_enabled(LogLevel::kDebug);
  const double exec_ns = says_why ? costs().exec_ns(recording.node_count, &recording.exec_costs) : 0;
  if (says_why)
    log_debug(
        "graph %llu, %zu operations: a new binding is served by %s (an exec costs %.0f ns, %zu nodes patched %.0f)",
        static_cast<unsigned long long>(recording.number), recording.node_count, way_name(served->way), exec_ns,
        candidate.differing.size(),
        costs().patch_ns(exec_ns, candidate.differing.size(), budget_of(recording, settings_)));
  if (says_why && open != nullptr)
    log_debug("graph %llu is %s: %.1f launches of a binding through slots, %llu bytes each, cost %.0f ns",
              static_cast<unsigned long long>(recording.number), staged ? "staged" : "not staged", launches,
              static_cast<unsigned long long>(open->copied_bytes()), through_slots_ns);
  if (served->way == Way::kStage) {
    if (obtain_open(exec, binding, open, served) == hipSuccess) return hipSuccess;
    return obtain_unstaged(exec, binding, others, served);
  }
  if (served->way == Way::kPatch) {
    if (patch(recording, binding, candidate)) {
      served->variant = candidate.variant;
      return hipSuccess;
    }
    // Of the program's own variant half an update is left.
    served->way = others.update && !candidate.served ? Way::kUpdate : Way::kNewExec;
  }
  if (served->way == Way::kUpdate) return hipSuccess;
  std::unique_ptr<Variant> made;
  // From a graph of our own, whose nodes can be patched; where that fails, from the program's.
  hipError_t result = hipErrorNotSupported;
  if (recording.rebuildable.load(std::memory_order_acquire)) {
    const LastErrorScope last_error;
    result = build(recording, binding, exec.device, &made);
  }
  if (result != hipSuccess && others.native != nullptr) {
    const std::uint64_t freed = memory_freed();
    result = (*others.native)(&made);
    if (result == hipSuccess) made->memory_freed = freed;
  }
  if (result != hipSuccess) return result;
  made->keep = served->way != Way::kOneShot;
  served->variant = adopt(recording, std::move(made), &exec);
  served->made = true;
  return hipSuccess;
}

/// A variant that works on slots. Fails where the binding is not the plan's shape or memory runs out: then the graph is
/// served without staging, which is always exact.
hipError_t Variants::obtain_staged(ProgramExec& exec, const Binding& binding, const Plan& staged, Served* served) {
  Recording& recording = *exec.recording;
  const StagePlan& plan = *staged;
  std::vector<char*> bases;
  if (exec.device != plan.device() || !plan.locate(recording.operations, binding, &bases)) {
    note_not_staged(recording, "its buffers have other sizes or overlaps, or a structure argument may name one");
    return hipErrorInvalidValue;
  }
  Binding canonical = plan.canonical(binding);
  Variant* chosen = nullptr;
  {
    const LockGuard guard(lock_);
    // The exec's own; else one that has worked on these buffers, so that nothing has to follow.
    int best = 0;
    for_each_reachable(exec, [&](Variant& held) {
      const bool own = held.owner == &exec;
      if (held.plan != staged || held.broken || !(own || held.idle())) return;
      const int fits = own ? 3 : held.ring->bases() == bases ? 2 : 1;
      if (fits <= best || outlived_memory(recording, held) || !equal(held.baked, canonical)) return;
      chosen = &held;
      best = fits;
    });
    if (chosen != nullptr) {
      give(*chosen, &exec);
      chosen->last_used = ++clock_;
    }
  }
  const PrivateCalls private_calls;
  const LastErrorScope last_error;
  hipError_t result = hipSuccess;
  if (chosen != nullptr) {
    RingCounts counts;
    result = chosen->ring->bind(std::move(bases), &counts);
    const LockGuard guard(lock_);
    recording.statistics.staged += counts;
    hold_ring(recording, *chosen);
    if (result != hipSuccess && exec.variant != chosen) give(*chosen, nullptr);
  } else {
    auto made = std::make_unique<Variant>();
    made->memory_freed = memory_freed();
    made->plan = staged;
    const auto began = CostModel::Clock::now();
    result = SlotRing::make(recording.operations, plan, canonical, std::move(bases), settings_.patch_budget,
                            recording.may_be_at_home, &made->ring);
    if (result == hipSuccess) {
      if (plan.open()) {
        const LockGuard guard(lock_);
        recording.ring_ns = static_cast<double>((CostModel::Clock::now() - began).count());
      }
      made->device = exec.device;
      made->baked = std::move(canonical);
      chosen = adopt(recording, std::move(made), &exec);
      served->made = true;
      if (plan.overlap_refused())
        log_warn("overlap has no effect on a staged graph that may also write memory no rule stages");
    }
  }
  if (result != hipSuccess) {
    note_not_staged(recording, "there were no slots");
    log_warn("a staged graph is served without staging: no slots (%s)", next().hipGetErrorName(result));
    return result;
  }
  note_not_staged(recording, nullptr);
  served->variant = chosen;
  return hipSuccess;
}

}  // namespace graphpool
