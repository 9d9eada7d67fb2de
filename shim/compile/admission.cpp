#include "shim/compile/admission.h"

#include <algorithm>
#include <limits>

namespace graphpool {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
/// So long after memory was too little only the elder, and those that need less, read it, unless `turn` changes.
constexpr std::uint64_t kRefusedFor = kSecond / 200;
/// A waiter older by kElderLead goes first if it has asked within kElderSeen.
constexpr std::uint64_t kElderLead = 10 * kSecond, kElderSeen = kSecond;
/// After a process came, kNewcomers count as starting for kStarts times as long as this one took to start.
constexpr std::uint64_t kNewcomers = 16, kStarts = 4, kLeastStart = kSecond / 40, kMostStart = kSecond / 2;

}  // namespace

AdmissionDecision::AdmissionDecision(const AdmissionQuestion& question, const PermitSlots& slots, SizeClasses& sizes,
                                     Waiters& waiters) noexcept
    : question_(question),
      request_(question.request),
      limits_(question.limits),
      slots_(slots),
      sizes_(sizes),
      waiters_(waiters),
      running_(slots.running()),
      size_class_(sizes.find(question.request.size_class)),
      known_(sizes.known(size_class_)) {}

Admission AdmissionDecision::decide() noexcept {
  if (request_.kind == HolderKind::kProcess) waiters_.arrived_ns = std::max(waiters_.arrived_ns, request_.since_ns);
  if (is_unknown_process()) sizes_.note_waiting(size_class_, request_, question_.now_ns);
  // A holder that lends may run again by now: the caller looks at the holders when it reads memory.
  if (question_.memory == nullptr && slots_.any_lent() && !limits_.reached(slots_, question_.machine))
    return Admission::kAskMemory;
  return running_ != 0 ? beside_others() : alone();
}

/// The longest waiter goes first once it has waited much longer: a large one would else never fit.
AdmissionDecision::Age AdmissionDecision::age() noexcept {
  const std::uint64_t now = question_.now_ns, since = request_.since_ns;
  const bool elder_waits = waiters_.elder_seen_ns + kElderSeen >= now;
  if (since + kElderLead < now && (!elder_waits || since <= waiters_.elder_since_ns)) {
    waiters_.elder_since_ns = since;
    waiters_.elder_seen_ns = now;
    return Age::kElder;
  }
  return elder_waits && waiters_.elder_since_ns + kElderLead < since ? Age::kBehindElder : Age::kLikeOthers;
}

Admission AdmissionDecision::beside_others() noexcept {
  const Age place = age();
  if (place == Age::kBehindElder) return Admission::kOthersTurn;
  const bool too_many_unknown = limits_.is_auto && !known_ && running_ >= kUnknownSizeLimit;
  if (too_many_unknown || limits_.reached(slots_, question_.machine)) return Admission::kFull;
  if (question_.memory == nullptr) return without_memory_read(place == Age::kElder);
  const Admission admission = with_memory();
  if (admission == Admission::kGranted && place == Age::kElder) waiters_.elder_seen_ns = 0;
  return admission;
}

Admission AdmissionDecision::without_memory_read(bool elder) const noexcept {
  const bool refused = !elder && waiters_.refused_turn == question_.turn &&
                       sizes_.needed_bytes(size_class_, request_) >= waiters_.refused_bytes &&
                       waiters_.refused_ns + kRefusedFor > question_.now_ns;
  return refused ? Admission::kNoMemory : Admission::kAskMemory;
}

Admission AdmissionDecision::with_memory() noexcept {
  const MemoryFacts& memory = *question_.memory;
  if (memory.allowed_bytes == 0) return Admission::kGranted;
  const std::uint64_t own = sizes_.needed_bytes(size_class_, request_);
  const Outstanding outstanding = slots_.outstanding(question_.self, question_.now_ns);
  const std::uint64_t all = outstanding.bytes + own + limits_.reserve_bytes;
  if (memory.pressure_percent >= kMostPressurePercent || all > memory.available_bytes) {
    waiters_.refused_ns = question_.now_ns;
    waiters_.refused_bytes = own;
    waiters_.refused_turn = question_.turn;
    return Admission::kNoMemory;
  }
  const bool fits = request_.kind == HolderKind::kProcess ? !newcomers_need_room(memory.available_bytes - all)
                                                          : fits_address_space(outstanding.own_virtual_bytes);
  return fits ? Admission::kGranted : Admission::kNoMemory;
}

/// Whether processes that are just starting may need what would be left.
bool AdmissionDecision::newcomers_need_room(std::uint64_t left_bytes) const noexcept {
  const std::uint64_t start_ns = std::clamp(request_.starting_ns, kLeastStart, kMostStart);
  return question_.now_ns - waiters_.arrived_ns < kStarts * start_ns &&
         left_bytes < kNewcomers * request_.before.own_bytes;
}

/// Whether this process's limit of address space has room for the compilation and for what its other holders will still
/// grow by.
bool AdmissionDecision::fits_address_space(std::uint64_t own_outstanding_bytes) const noexcept {
  const std::uint64_t most = question_.machine.address_space_bytes();
  if (most == std::numeric_limits<std::uint64_t>::max()) return true;
  const std::uint64_t used = process_memory(question_.machine, question_.self.process).virtual_bytes;
  return own_outstanding_bytes + sizes_.expected_virtual_bytes(size_class_, request_.input_bytes) <=
         most - std::min(most, used);
}

/// Decides where none runs. Only a process of unknown size may wait: if two do not fit, and a smaller one waits or may
/// still come.
Admission AdmissionDecision::alone() const noexcept {
  if (!is_unknown_process()) return Admission::kGranted;
  if (question_.memory == nullptr) return Admission::kAskMemory;
  const MemoryFacts& memory = *question_.memory;
  const bool two_fit = memory.allowed_bytes == 0 ||
                       memory.available_bytes >= 2 * sizes_.needed_bytes(size_class_, request_) + limits_.reserve_bytes;
  return two_fit || !sizes_.smaller_goes_first(size_class_, request_, question_.now_ns) ? Admission::kGranted
                                                                                        : Admission::kOthersTurn;
}

}  // namespace graphpool
