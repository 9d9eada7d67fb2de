#include "shim/compile/permit_slots.h"

namespace graphpool {
namespace {

constexpr bool may_follow(HolderState state, HolderState next) noexcept {
  switch (state) {
    case HolderState::kRuns:
      return true;
    case HolderState::kLent:
      return next != HolderState::kLent;
    case HolderState::kSleeps:
      return next == HolderState::kRuns;
  }
  return next == HolderState::kRuns;  // somebody has overwritten the memory
}

}  // namespace

bool SharedPermit::change_state(HolderState next) noexcept {
  if (!may_follow(state, next) || (next == HolderState::kSleeps && kind != HolderKind::kPoolThread)) return false;
  state = next;
  return true;
}

void PermitSlots::make(bool shared) noexcept {
  for (SharedPermit& slot : slots_) slot.owner.make(shared);
}

// lasts() reads held_ without the lock.
void PermitSlots::set_held(std::uint32_t index, bool value) noexcept {
  const std::uint64_t bit = std::uint64_t{1} << index % 64, word = held_[index / 64];
  __atomic_store_n(&held_[index / 64], value ? word | bit : word & ~bit, __ATOMIC_RELAXED);
}

SharedPermit* PermitSlots::find(const Permit& permit) noexcept {
  if (!permit.held() || !held(permit.index) || slots_[permit.index].generation != permit.generation) return nullptr;
  return &slots_[permit.index];
}

bool PermitSlots::lasts(const Permit& permit) const noexcept {
  if (!permit.held()) return false;
  const std::uint64_t bits = __atomic_load_n(&held_[permit.index / 64], __ATOMIC_RELAXED);
  return (bits >> permit.index % 64 & 1) != 0 &&
         __atomic_load_n(&slots_[permit.index].generation, __ATOMIC_RELAXED) == permit.generation;
}

std::uint32_t PermitSlots::lock_free_one() noexcept {
  for (std::uint32_t index = 0; index < kMostPermits; ++index) {
    if (held(index) || !slots_[index].owner.try_lock()) continue;
    __atomic_store_n(&slots_[index].generation, slots_[index].generation + 1, __ATOMIC_RELAXED);
    return index;
  }
  return kMostPermits;
}

void PermitSlots::give_back(std::uint32_t index) noexcept {
  set_held(index, false);
  slots_[index].owner.unlock();
}

bool PermitSlots::is_dead(std::uint32_t index) noexcept {
  if (!slots_[index].owner.try_lock()) return false;
  slots_[index].owner.unlock();
  return true;
}

std::uint32_t PermitSlots::running() const noexcept {
  std::uint32_t number = 0;
  for_each_held([&](std::uint32_t, const SharedPermit& slot) { number += slot.state == HolderState::kRuns; });
  return number;
}

std::uint32_t PermitSlots::running_here(const Machine& machine) const noexcept {
  const std::uint32_t space = machine.process_space();
  std::uint32_t number = 0;
  for_each_held([&](std::uint32_t, const SharedPermit& slot) {
    const bool elsewhere = slot.holder.space == space && !machine.shares_processors(slot.holder.process);
    number += slot.state == HolderState::kRuns && !elsewhere;
  });
  return number;
}

bool PermitSlots::any_lent() const noexcept {
  bool any = false;
  for_each_held([&](std::uint32_t, const SharedPermit& slot) { any = any || slot.state == HolderState::kLent; });
  return any;
}

std::uint32_t PermitSlots::pool_threads() const noexcept {
  std::uint32_t number = 0;
  for_each_held([&](std::uint32_t, const SharedPermit& slot) { number += slot.kind == HolderKind::kPoolThread; });
  return number;
}

std::uint64_t PermitSlots::awake_of(const ProcessName& holder) const noexcept {
  std::uint64_t number = 0;
  for_each_held([&](std::uint32_t, const SharedPermit& slot) {
    number += slot.holder == holder && slot.state != HolderState::kSleeps;
  });
  return number;
}

Outstanding PermitSlots::outstanding(const ProcessName& self, std::uint64_t now_ns) const noexcept {
  Outstanding all;
  for_each_held([&](std::uint32_t, const SharedPermit& slot) {
    if (slot.kind == HolderKind::kPoolThread && slot.state == HolderState::kLent) return;
    if (slot.state == HolderState::kSleeps && slot.asleep_ns + kShortSleep < now_ns) return;
    all.bytes += slot.missing_bytes();
    if (slot.holder == self) all.own_virtual_bytes += slot.missing_virtual_bytes();
  });
  return all;
}

std::uint64_t PermitSlots::held_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for_each_held([&](std::uint32_t, const SharedPermit& slot) { bytes += slot.grown_bytes; });
  return bytes;
}

}  // namespace graphpool
