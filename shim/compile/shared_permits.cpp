#include "shim/compile/shared_permits.h"

namespace graphpool {

bool SharedPermits::lock_table() noexcept {
  return __atomic_load_n(&ready, __ATOMIC_ACQUIRE) == kReady && lock.lock_or_give_up();
}

void SharedPermits::free_the_dead(const Machine& machine) noexcept {
  bool freed = false;
  slots.for_each_held([&](std::uint32_t index, SharedPermit& slot) {
    assume_held(lock);
    if (!slots.is_dead(index)) return;
    sizes.learn_from_dead(slot);
    owed.keep_from(slot.token, figures.counts().granted);
    slots.forget_dead(index);
    freed = true;
  });
  if (!freed) return;
  changed(machine.now_ns());
  next_turn();
}

void make_permits(SharedPermits& memory, bool shared) noexcept {
  memory.lock.make(shared);
  memory.slots.make(shared);
  __atomic_store_n(&memory.ready, kReady, __ATOMIC_RELEASE);
}

}  // namespace graphpool
