#include "shim/recording/operand.h"

#include "shim/base/short_lock.h"
#include "shim/memory/device_memory.h"
#include "shim/recording/operation_functions.h"
#include "shim/recording/settings.h"

namespace graphpool {
namespace {

/// Ranges of memory. Each counts as long as its epoch lasts. Bounded.
struct JudgedMemory {
  static constexpr std::size_t kMost = 512;
  struct Range {
    std::uint64_t first, last, epoch;
    std::uint64_t unmaps;  ///< how many times memory had been unmapped when it was judged last
  };

  ShortLock<LockRank::kReport> lock;
  Range ranges[kMost] GUARDED_BY(lock);
  std::uint64_t too_many_in GUARDED_BY(lock);  ///< the epoch in which there was no room for a range
  std::uint64_t unmaps GUARDED_BY(lock);       ///< how many times memory has been unmapped

  void add(std::uint64_t first, std::uint64_t last) noexcept {
    const LockGuard guard(lock);
    const std::uint64_t epoch = settings_epoch();
    Range* free = nullptr;
    for (Range& each : ranges) {
      if (each.epoch != epoch) {
        free = &each;
      } else if (each.first <= first && last <= each.last) {
        each.unmaps = unmaps;
        return;
      }
    }
    if (free != nullptr)
      *free = {first, last, epoch, unmaps};
    else
      too_many_in = epoch;
  }

  bool touches(std::uint64_t first, std::uint64_t last, std::uint64_t since) noexcept {
    const LockGuard guard(lock);
    const std::uint64_t epoch = settings_epoch();
    if (too_many_in == epoch) return true;
    for (const Range& each : ranges)
      if (each.epoch == epoch && each.unmaps >= since && each.first <= last && first <= each.last) return true;
    return false;
  }
};
constinit JudgedMemory g_judged{};

std::uint64_t last_of(std::uint64_t first, std::uint64_t bytes) noexcept {
  std::uint64_t last;
  return __builtin_add_overflow(first, bytes == 0 ? 0 : bytes - 1, &last) ? UINT64_MAX : last;
}

}  // namespace

void note_judged_operands(const Signature& signature, const Binding& binding, std::uint32_t payload_offset) noexcept {
  const auto note = [](std::uint64_t operand_class, std::uint64_t bytes) {
    if (!is_known_class(operand_class)) g_judged.add(operand_class, last_of(operand_class, bytes));
  };
  with_kind(signature.kind, [&](auto kind) { kind.note_judged(signature, binding, payload_offset, note); });
}

bool recordings_judged(const void* address, std::size_t bytes) noexcept {
  return recordings_judged_since(0, address, bytes);
}

bool recordings_judged_since(std::uint64_t when, const void* address, std::size_t bytes) noexcept {
  const auto first = reinterpret_cast<std::uint64_t>(address);
  return g_judged.touches(first, bytes == 0 ? UINT64_MAX : last_of(first, bytes), when);
}

std::uint64_t note_unmapped() noexcept {
  const LockGuard guard(g_judged.lock);
  return ++g_judged.unmaps;
}

std::uint64_t operand_class(const void* address, std::size_t bytes) noexcept {
  constexpr std::uint64_t kKnown = std::uint64_t{1} << 63;  // no address of a process has this bit
  const auto first = reinterpret_cast<std::uint64_t>(address);
  const Block* const block = block_table().find(address);
  if (block == nullptr || !block->live() || block->kind != MemoryKind::kDevice) return first;
  const std::uint64_t end = block->address() + block->bytes();
  if (bytes > end - first) return first;
  return kKnown | static_cast<std::uint64_t>(block->device);
}

}  // namespace graphpool
