// work_count.h: counts how much was enqueued somewhere, and how much of it is known to be complete.
//
// Threads: any. What was enqueued rises by one, mostly by a plain store (base/owned_count.h); what is complete is
// raised to a number that was read before somebody waited. Units: enqueued operations.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shim/base/owned_count.h"
#include "shim/streams/devices.h"

namespace graphpool {

/// The number up to which a count is complete once somebody has waited for what was counted.
struct WorkMark {
  std::atomic<std::uint64_t>* completed;
  std::uint64_t submitted;

  friend bool operator==(const WorkMark&, const WorkMark&) = default;
};

struct WorkCount {
  OwnedCount submitted;
  std::atomic<std::uint64_t> completed{0};

  bool busy() const noexcept { return submitted.load() != completed.load(std::memory_order_acquire); }
  WorkMark mark() noexcept { return {&completed, submitted.load()}; }
};

/// Work without a stream's handle: counted for all devices together, known to be complete for each.
struct CommonCount {
  OwnedCount submitted;
  std::array<std::atomic<std::uint64_t>, kMaxDevices> completed{};

  bool busy(int device) const noexcept {
    return submitted.load() != completed[static_cast<std::size_t>(device)].load();
  }
  WorkMark mark(int device) noexcept { return {&completed[static_cast<std::size_t>(device)], submitted.load()}; }
};

/// Notes that what the marks stand for has been waited for.
inline void complete(const std::vector<WorkMark>& marks) noexcept {
  for (const WorkMark& mark : marks) {
    std::uint64_t known = mark.completed->load();
    while (known < mark.submitted && !mark.completed->compare_exchange_weak(known, mark.submitted)) {
    }
  }
}

}  // namespace graphpool
