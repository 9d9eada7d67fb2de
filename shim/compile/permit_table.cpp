#include "shim/compile/permit_table.h"

#include <algorithm>

#include "shim/compile/holder_watch.h"

namespace graphpool {
namespace {

void free_dead_riders(const Machine& machine, const ProcessName& self, SharedPermit& slot) noexcept {
  for (SharedRider& rider : slot.riders)
    if (rider.process.process != 0 && rider.process.space == self.space &&
        process_times(machine, rider.process.process).start_ticks != rider.process.start_ticks)
      rider = {};
}

bool is_of(const SharedPermit& slot, const ProcessName& process) noexcept {
  return slot.holder == process || std::any_of(std::begin(slot.riders), std::end(slot.riders),
                                               [&](const SharedRider& rider) { return rider.process == process; });
}

/// The place for a rider of this parent; kMostRiders: another child of the parent rides, or there is no room.
std::uint32_t place_for_rider(const SharedPermit& slot, pid_t parent) noexcept {
  std::uint32_t place = kMostRiders;
  for (std::uint32_t i = kMostRiders; i-- != 0;) {
    if (slot.riders[i].process.process == 0)
      place = i;
    else if (slot.riders[i].parent == parent)
      return kMostRiders;
  }
  return place;
}

/// Ends a ride. Raises the permit's peak to the memory of the rider, the holder and the other riders together.
void end_ride(const Machine& machine, const ProcessName& self, std::uint32_t rider, const ProcessMemory& now,
              SharedPermit& slot) noexcept {
  if (slot.riders[rider].process == self) slot.riders[rider] = {};
  const auto bytes_of = [&](const ProcessName& process) {
    return process.process != 0 && process.space == self.space ? process_memory(machine, process.process).own_bytes : 0;
  };
  std::uint64_t all = now.peak_own_bytes;
  if (slot.kind == HolderKind::kProcess) all += bytes_of(slot.holder);
  for (const SharedRider& other : slot.riders) all += bytes_of(other.process);
  slot.most_grown_bytes = std::max(slot.most_grown_bytes, all);
}

/// Fills a slot for a request. What the table itself says (class, expected sizes, holder, token) is filled in by
/// grant().
void fill(SharedPermit& slot, const PermitRequest& request, std::uint64_t now) noexcept {
  slot.kind = request.kind;
  slot.state = HolderState::kRuns;
  slot.shared_process = 0;
  slot.asleep_ns = 0;
  slot.input_bytes = request.input_bytes;
  slot.grown_bytes = slot.most_grown_bytes = request.kind == HolderKind::kProcess ? request.before.own_bytes : 0;
  slot.base_virtual_bytes = request.before.virtual_bytes;
  slot.base_peak_virtual_bytes = request.before.peak_virtual_bytes;
  slot.grown_virtual_bytes = 0;
  slot.base_bytes = request.before.own_bytes;
  slot.base_peak_bytes = request.before.peak_own_bytes;
  slot.used_ticks = 0;
  slot.looked_ns = slot.checked_ns = 0;
  slot.moved_ns = now;
  for (SharedRider& rider : slot.riders) rider = {};
}

}  // namespace

const ProcessName& PermitTable::self() noexcept {
  const pid_t process = machine_->process();
  if (self_.process != process) self_ = process_name(*machine_, process);
  return self_;
}

Permit PermitTable::grant(const PermitRequest& request, TokenKind token) noexcept {
  PermitSlots& slots = memory_->slots;
  const std::uint32_t index = slots.lock_free_one();
  if (index == kMostPermits) return {};
  const std::uint64_t now = machine_->now_ns();
  SharedPermit& slot = slots[index];
  fill(slot, request, now);
  slot.class_index = memory_->sizes.find(request.size_class);
  memory_->sizes.forget_waiting(slot.class_index);
  slot.expected_bytes = memory_->sizes.expected_bytes(slot.class_index, request.input_bytes);
  slot.expected_virtual_bytes = memory_->sizes.expected_virtual_bytes(slot.class_index, request.input_bytes);
  slot.holder = self();
  slot.thread = machine_->thread();
  slot.token = {};
  if (token != TokenKind::kNone) slot.token = {request.server, request.job, token, request.byte.value_or(0)};
  slots.for_each_held([&](std::uint32_t, SharedPermit& other) {
    if (other.holder == slot.holder) slot.shared_process = other.shared_process = 1;
  });
  slots.hold(index);
  memory_->changed(now);
  memory_->figures.add(&ScopeCounts::granted);
  memory_->figures.seen_in_flight(slots.running(), now);
  Permit permit{index, slot.generation, kMostRiders, slot.holder.process, std::nullopt};
  if (token == TokenKind::kByte) permit.byte = request.byte;
  return permit;
}

Admission PermitTable::try_take(const PermitRequest& request, const PermitLimits& limits, const MemoryFacts* memory,
                                Permit& permit) noexcept {
  if (!lock()) return Admission::kUnusable;
  const TableGuard guard(memory_->lock);
  memory_->free_the_dead(*machine_);
  if (request.kind == HolderKind::kPoolThread && memory_->slots.pool_threads() >= kMostPoolThreads)
    return Admission::kUnusable;
  const AdmissionQuestion question{request, limits, memory, *machine_, self(), machine_->now_ns(), memory_->turn};
  const Admission admission = AdmissionDecision(question, memory_->slots, memory_->sizes, memory_->waiters).decide();
  if (admission != Admission::kGranted) return admission;
  TokenKind token = TokenKind::kNone;
  if (request.server.exists()) {
    token = token_for(memory_->slots, request);
    if (token == TokenKind::kNone) return Admission::kNoToken;
  }
  permit = grant(request, token);
  return permit.held() ? Admission::kGranted : Admission::kFull;
}

Permit PermitTable::take_anyway(const PermitRequest& request) noexcept {
  if (!lock()) return {};
  const TableGuard guard(memory_->lock);
  return grant(request, TokenKind::kNone);
}

Permit PermitTable::ride(const ProcessName& parent, std::uint32_t generation) noexcept {
  if (!lock()) return {};
  const TableGuard guard(memory_->lock);
  memory_->free_the_dead(*machine_);
  const ProcessName& own = self();
  for (std::uint32_t i = 0; i < kMostPermits; ++i) {
    SharedPermit& slot = memory_->slots[i];
    if (!memory_->slots.held(i) || (generation != 0 && slot.generation != generation)) continue;
    if (!is_of(slot, parent) || own == slot.holder || slot.state == HolderState::kSleeps) continue;
    if (slot.kind != HolderKind::kProcess && !thread_sleeps(*machine_, slot.holder.process, slot.thread)) continue;
    free_dead_riders(*machine_, own, slot);
    const std::uint32_t place = place_for_rider(slot, parent.process);
    if (place == kMostRiders) continue;
    slot.riders[place] = {own, parent.process};
    return {i, slot.generation, place, own.process, std::nullopt};
  }
  return {};
}

void PermitTable::give_back(const Permit& permit, const ProcessMemory& now) noexcept {
  if (!permit.held() || machine_->process() != permit.process) return;
  {
    if (!lock()) return;
    const TableGuard guard(memory_->lock);
    SharedPermit* const slot = memory_->slots.find(permit);
    if (slot == nullptr) return;
    if (permit.riding()) return end_ride(*machine_, self(), permit.rider, now, *slot);
    if (slot->thread != machine_->thread()) return;  // the kernel gives it back with the thread
    memory_->owed.keep_from(slot->token, memory_->figures.counts().granted);
    const std::uint64_t now_ns = machine_->now_ns();
    memory_->figures.seen_in_flight(memory_->slots.running(), now_ns);
    if (now.own_bytes != 0) {
      slot->grown_bytes = grown_at_peak(memory_->slots, *slot, now);
      memory_->figures.seen_held(memory_->slots.held_bytes(), now_ns);
      memory_->sizes.learn(*slot, slot->grown_bytes, now);
    }
    memory_->slots.give_back(permit.index);
    memory_->changed(now_ns);
    memory_->next_turn();
  }
  machine_->wake(&memory_->turn);
}

void PermitTable::sleep(const Permit& permit) noexcept {
  {
    if (!lock()) return;
    const TableGuard guard(memory_->lock);
    SharedPermit* const slot = memory_->slots.find(permit);
    if (slot == nullptr) return;
    const std::uint64_t now = machine_->now_ns();
    memory_->figures.seen_in_flight(memory_->slots.running(), now);
    if (!slot->change_state(HolderState::kSleeps)) return;
    slot->asleep_ns = now;
    memory_->changed(now);
    memory_->next_turn();
  }
  machine_->wake(&memory_->turn);
}

bool PermitTable::wake_up(const Permit& permit, const PermitLimits& limits, bool anyway) noexcept {
  if (!lock()) return false;
  const TableGuard guard(memory_->lock);
  SharedPermit* const slot = memory_->slots.find(permit);
  if (slot == nullptr) return false;
  const std::uint64_t now = machine_->now_ns();
  if (!anyway && (slot->asleep_ns + kShortSleep < now || limits.reached(memory_->slots, *machine_))) return false;
  slot->change_state(HolderState::kRuns);
  slot->asleep_ns = 0;
  slot->moved_ns = now;
  memory_->figures.seen_in_flight(memory_->slots.running(), now);
  return true;
}

Permit PermitTable::permit_to_serve() noexcept {
  if (!lock()) return {};
  const TableGuard guard(memory_->lock);
  const ProcessName& own = self();
  for (std::uint32_t i = 0; i < kMostPermits; ++i) {
    const SharedPermit& slot = memory_->slots[i];
    if (!memory_->slots.held(i) || slot.kind != HolderKind::kCall || !(slot.holder == own)) continue;
    if (thread_sleeps(*machine_, slot.holder.process, slot.thread))
      return {i, slot.generation, kMostRiders, own.process, std::nullopt};
  }
  return {};
}

void PermitTable::byte_written(Permit& permit) noexcept {
  permit.byte.reset();
  if (!lock()) return;
  const TableGuard guard(memory_->lock);
  if (SharedPermit* const slot = memory_->slots.find(permit)) slot->token = {};
}

std::optional<std::uint8_t> PermitTable::take_owed_byte(const TokenServer& server) noexcept {
  if (!lock()) return std::nullopt;
  const TableGuard guard(memory_->lock);
  memory_->free_the_dead(*machine_);
  return memory_->owed.take(server);
}

void PermitTable::owe_byte(const TokenServer& server, std::uint8_t byte) noexcept {
  if (!lock()) return;
  const TableGuard guard(memory_->lock);
  memory_->owed.keep(server, byte, memory_->figures.counts().granted);
}

void PermitTable::look_at_holders(std::uint64_t idle_ns) noexcept {
  ProcessName own;
  {
    if (!lock()) return;
    const TableGuard guard(memory_->lock);
    own = self();
  }
  graphpool::look_at_holders(*memory_, *machine_, own, idle_ns);
}

std::uint32_t PermitTable::in_flight() noexcept {
  if (!lock()) return 0;
  const TableGuard guard(memory_->lock);
  memory_->free_the_dead(*machine_);
  return memory_->slots.running();
}

std::uint64_t PermitTable::outstanding_bytes() noexcept {
  if (!lock()) return 0;
  const TableGuard guard(memory_->lock);
  return memory_->slots.outstanding(self(), machine_->now_ns()).bytes;
}

std::uint32_t PermitTable::classes(SizeClass* to, std::uint32_t most) noexcept {
  if (!lock()) return 0;
  const TableGuard guard(memory_->lock);
  return memory_->sizes.copy(to, most);
}

std::uint32_t PermitTable::holders(PermitHolder* to, std::uint32_t most) noexcept {
  if (!lock()) return 0;
  const TableGuard guard(memory_->lock);
  memory_->free_the_dead(*machine_);
  std::uint32_t number = 0;
  memory_->slots.for_each_held([&](std::uint32_t, const SharedPermit& slot) {
    assume_held(memory_->lock);
    if (number == most) return;
    to[number] = {slot.holder.process, {}, slot.state};
    memory_->sizes.copy_name(slot.class_index, to[number++].size_class);
  });
  return number;
}

void PermitTable::wake_waiters() const noexcept {
  memory_->next_turn();
  machine_->wake(&memory_->turn);
}

}  // namespace graphpool
