#include "shim/compile/size_learning.h"

#include <algorithm>
#include <cstring>

namespace graphpool {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
/// Before the first of its class runs alone, a process waits this long for smaller ones of the same burst.
constexpr std::uint64_t kLeastBurst = kSecond / 40, kMostBurst = kSecond / 10;
/// An input below so many eighths of another one is much smaller: to let it go first is worth a wait.
constexpr std::uint64_t kMuchSmaller = 7;
/// A waiter is remembered for so long: it asks again sooner.
constexpr std::uint64_t kSmallestSeen = kSecond / 2;

/// How many bytes another input needs if one input needs `bytes`.
std::uint64_t in_proportion(std::uint64_t bytes, std::uint64_t input_bytes, std::uint64_t other_bytes) noexcept {
  const auto input = static_cast<double>(std::max(input_bytes, kLeastInputBytes));
  const double result =
      static_cast<double>(bytes) * (static_cast<double>(std::max(other_bytes, kLeastInputBytes)) / input);
  constexpr double kMost = 1e18;
  return static_cast<std::uint64_t>(std::min(result, kMost));
}

constexpr std::uint64_t less(std::uint64_t bytes, std::uint64_t base_bytes) noexcept {
  return bytes - std::min(bytes, base_bytes);
}

}  // namespace

std::uint32_t SizeClasses::find(std::string_view name) noexcept {
  name = name.substr(0, kClassNameBytes - 1);
  for (std::uint32_t i = 0; i < kMostClasses; ++i) {
    SizeClass& size = classes_[i];
    if (size.name[0] == '\0') {
      size.name[name.copy(size.name, name.size())] = '\0';
      return i;
    }
    if (std::strncmp(size.name, name.data(), name.size()) == 0 && size.name[name.size()] == '\0') return i;
  }
  return kMostClasses;
}

std::uint64_t SizeClasses::expected_bytes(std::uint32_t index, std::uint64_t input_bytes) const noexcept {
  if (!known(index)) return kUnknownSizeBytes;
  const SizeClass& size = classes_[index];
  return std::max(size.peak_bytes, in_proportion(size.peak_bytes, size.input_bytes, input_bytes));
}

std::uint64_t SizeClasses::expected_virtual_bytes(std::uint32_t index, std::uint64_t input_bytes) const noexcept {
  const std::uint64_t seen = index < kMostClasses ? classes_[index].peak_virtual_bytes : 0;
  return std::max(seen, expected_bytes(index, input_bytes));
}

std::uint64_t SizeClasses::needed_bytes(std::uint32_t index, const PermitRequest& request) const noexcept {
  const std::uint64_t all = expected_bytes(index, request.input_bytes);
  return request.kind == HolderKind::kProcess ? less(all, request.before.own_bytes) : all;
}

void SizeClasses::learn(const SharedPermit& slot, std::uint64_t grown_bytes, const ProcessMemory& now) noexcept {
  if (slot.class_index >= kMostClasses || grown_bytes == 0) return;
  SizeClass& size = classes_[slot.class_index];
  // Beside others of its process its growth is not its own.
  if (slot.shared_process && slot.kind != HolderKind::kPoolThread) return;
  ++size.finished;
  if (slot.kind == HolderKind::kCall) {
    const std::uint64_t top =
        now.peak_virtual_bytes > slot.base_peak_virtual_bytes ? now.peak_virtual_bytes : now.virtual_bytes;
    size.peak_virtual_bytes = std::max(size.peak_virtual_bytes, less(top, slot.base_virtual_bytes));
  }
  if (grown_bytes >= size.peak_bytes) {
    size.peak_bytes = grown_bytes;
    size.input_bytes = slot.input_bytes;
    return;
  }
  // Up at once, down slowly: a class holds small and large ones. That less input takes less says nothing.
  const std::uint64_t alike = std::max(grown_bytes, in_proportion(grown_bytes, slot.input_bytes, size.input_bytes));
  if (alike < size.peak_bytes) size.peak_bytes -= (size.peak_bytes - alike) / 16;
}

void SizeClasses::learn_from_dead(const SharedPermit& slot) noexcept {
  if (slot.class_index >= kMostClasses || slot.shared_process) return;
  SizeClass& size = classes_[slot.class_index];
  if (slot.most_grown_bytes <= (size.peak_bytes != 0 ? size.peak_bytes : kUnknownSizeBytes)) return;
  size.peak_bytes = slot.most_grown_bytes;
  size.input_bytes = slot.input_bytes;
}

void SizeClasses::note_waiting(std::uint32_t index, const PermitRequest& request, std::uint64_t now_ns) noexcept {
  SizeClass& size = classes_[index];
  const bool others_wait = size.smallest_seen_ns + kSmallestSeen > now_ns;
  if (!others_wait) size.waiting_since_ns = now_ns;
  if (others_wait && size.smallest_bytes < request.input_bytes) return;
  size.smallest_bytes = request.input_bytes;
  size.smallest_seen_ns = now_ns;
}

bool SizeClasses::smaller_goes_first(std::uint32_t index, const PermitRequest& request,
                                     std::uint64_t now_ns) const noexcept {
  const SizeClass& size = classes_[index];
  const std::uint64_t burst_ns = now_ns - std::min(request.since_ns, size.waiting_since_ns);
  return size.smallest_bytes < request.input_bytes / 8 * kMuchSmaller ||
         burst_ns < std::clamp(request.starting_ns, kLeastBurst, kMostBurst);
}

void SizeClasses::forget_waiting(std::uint32_t index) noexcept {
  if (index < kMostClasses) classes_[index].smallest_seen_ns = 0;
}

std::uint32_t SizeClasses::copy(SizeClass* to, std::uint32_t most) const noexcept {
  std::uint32_t number = 0;
  for (const SizeClass& size : classes_) {
    if (size.name[0] == '\0' || number == most) continue;
    to[number] = size;
    to[number++].name[kClassNameBytes - 1] = '\0';  // whatever others have written
  }
  return number;
}

void SizeClasses::copy_name(std::uint32_t index, char (&name)[kClassNameBytes]) const noexcept {
  name[0] = '\0';
  if (index >= kMostClasses) return;
  std::memcpy(name, classes_[index].name, kClassNameBytes);
  name[kClassNameBytes - 1] = '\0';  // whatever others have written
}

std::uint64_t grown_at_peak(const PermitSlots& slots, const SharedPermit& slot, const ProcessMemory& now) noexcept {
  const std::uint64_t grown = slot.most_grown_bytes;
  const bool new_peak = now.peak_own_bytes > slot.base_peak_bytes;
  switch (slot.kind) {
    case HolderKind::kProcess:
      return std::max(grown, now.peak_own_bytes);
    case HolderKind::kCall:
      if (slot.shared_process) return grown;
      return std::max(grown, less(new_peak ? now.peak_own_bytes : now.own_bytes, slot.base_bytes));
    case HolderKind::kPoolThread: {
      // Its part of what the process grew by, if that was a new peak.
      if (slot.state == HolderState::kSleeps || !new_peak) return grown;
      const std::uint64_t sharers = std::max<std::uint64_t>(1, slots.awake_of(slot.holder));
      return std::max(grown, less(now.peak_own_bytes, slot.base_bytes) / sharers);
    }
  }
  return grown;  // somebody has overwritten the memory
}

}  // namespace graphpool
