#include "shim/compile/holder_watch.h"

#include <algorithm>

namespace graphpool {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kLookEvery = kSecond / 20, kCheckEvery = kSecond / 4;
/// A holder that uses less of a processor than this stands still: a progress bar is no compilation.
constexpr std::uint64_t kMovingPercent = 10;
constexpr std::uint64_t kTick = kSecond / 100;  // USER_HZ
/// So many holders are looked at between two holds of the lock: what is known of them is on the stack.
constexpr std::uint32_t kAtOnce = 16;

/// What the table says of one holder, and what is seen of it.
struct Look {
  Permit permit;
  HolderKind kind;
  ProcessName holder;
  pid_t thread;
  std::uint64_t base_bytes, base_virtual_bytes, sharers;
  SharedRider riders[kMostRiders];

  bool found, runs;
  std::uint64_t used_ticks, own_bytes, virtual_bytes;
};

constexpr std::uint64_t less(std::uint64_t bytes, std::uint64_t base_bytes) noexcept {
  return bytes - std::min(bytes, base_bytes);
}

Look begin_look(const PermitSlots& slots, std::uint32_t index, const SharedPermit& slot) noexcept {
  Look look{};
  look.permit.index = index;
  look.permit.generation = slot.generation;
  look.kind = slot.kind;
  look.holder = slot.holder;
  look.thread = slot.thread;
  look.base_bytes = slot.base_bytes;
  look.base_virtual_bytes = slot.base_virtual_bytes;
  look.sharers = std::max<std::uint64_t>(1, slots.awake_of(slot.holder));
  std::copy(std::begin(slot.riders), std::end(slot.riders), look.riders);
  return look;
}

/// Adds what one process of a permit uses.
void add_process(const Machine& machine, const ProcessName& self, const ProcessName& process, Look& look) noexcept {
  if (process.process == 0 || process.space != self.space) return;
  ProcessTimes times = process_times(machine, process.process);
  if (times.start_ticks != process.start_ticks) return;
  const bool is_holder = process == look.holder;
  look.found = look.found || is_holder;
  // Of the holder's process its thread alone counts, of a rider's the whole process.
  if (is_holder && look.kind == HolderKind::kPoolThread) times = thread_times(machine, process.process, look.thread);
  look.used_ticks += times.used_ticks;
  look.runs = look.runs || times.runs;
  const ProcessMemory memory = process_memory(machine, process.process);
  if (is_holder) look.virtual_bytes = less(memory.virtual_bytes, look.base_virtual_bytes) / look.sharers;
  look.own_bytes += is_holder && look.kind != HolderKind::kProcess
                        ? less(memory.own_bytes, look.base_bytes) / look.sharers
                        : memory.own_bytes;
}

/// Notes the processor time that a holder used, and changes its state by it. Returns whether it begins to lend.
bool note_times(const Look& look, std::uint64_t idle_ns, std::uint64_t now, SharedPermit& slot) noexcept {
  if (slot.state == HolderState::kLent && look.runs) {
    slot.change_state(HolderState::kRuns);
    slot.moved_ns = slot.checked_ns = now;
    slot.used_ticks = look.used_ticks;
    return false;
  }
  if (slot.checked_ns != 0 && slot.checked_ns + kCheckEvery > now) return false;
  const std::uint64_t more = less(look.used_ticks, slot.used_ticks);
  // On a crowded machine a holder that waits for a processor gets next to none.
  if (slot.checked_ns == 0 || look.runs || more * kTick * 100 >= (now - slot.checked_ns) * kMovingPercent)
    slot.moved_ns = now;
  slot.used_ticks = look.used_ticks;
  slot.checked_ns = now;
  const bool pool_thread = slot.kind == HolderKind::kPoolThread;
  const bool idle = less(now, slot.moved_ns) >= (pool_thread ? idle_ns / kPoolThreadHaste : idle_ns);
  return slot.state != HolderState::kSleeps && slot.change_state(idle ? HolderState::kLent : HolderState::kRuns) &&
         idle;
}

}  // namespace

void look_at_holders(SharedPermits& memory, const Machine& machine, const ProcessName& self,
                     std::uint64_t idle_ns) noexcept {
  const std::uint64_t now = machine.now_ns();
  for (std::uint32_t next = 0; next < kMostPermits;) {
    Look looks[kAtOnce];
    std::uint32_t number = 0;
    {
      if (!memory.lock_table()) return;
      const TableGuard guard(memory.lock);
      for (; next < kMostPermits && number < kAtOnce; ++next) {
        const SharedPermit& slot = memory.slots[next];
        if (!memory.slots.held(next) || slot.state == HolderState::kSleeps || slot.looked_ns + kLookEvery > now)
          continue;
        if (slot.holder.space == self.space) looks[number++] = begin_look(memory.slots, next, slot);
      }
    }
    for (std::uint32_t i = 0; i < number; ++i) {
      add_process(machine, self, looks[i].holder, looks[i]);
      for (const SharedRider& rider : looks[i].riders) add_process(machine, self, rider.process, looks[i]);
    }
    if (!memory.lock_table()) return;
    const TableGuard guard(memory.lock);
    for (std::uint32_t i = 0; i < number; ++i) {
      SharedPermit* const slot = memory.slots.find(looks[i].permit);
      if (slot == nullptr) continue;
      slot->looked_ns = now;
      if (!looks[i].found) continue;  // it is hidden from this user
      slot->grown_bytes = looks[i].own_bytes;
      slot->grown_virtual_bytes = looks[i].virtual_bytes;
      slot->most_grown_bytes = std::max(slot->most_grown_bytes, slot->grown_bytes);
      if (note_times(looks[i], idle_ns, now, *slot)) memory.changed(now);
    }
    if (number != 0) memory.figures.seen_held(memory.slots.held_bytes(), now);
  }
}

}  // namespace graphpool
