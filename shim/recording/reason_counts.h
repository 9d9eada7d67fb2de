// reason_counts.h: counts how often each reason was given. A reason is a literal.
//
// Why: a program whose steps are left to the runtime counts that in every step, so counting takes no lock.
// Invariants: a place has its reason for good; a reason has one place. Bounded: reasons beyond kMost are counted
// together.
// Threads: any; a reader may see another thread's counts late.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "shim/base/owned_count.h"

namespace graphpool {

using Reasons = std::vector<std::pair<const char*, std::uint64_t>>;

class ReasonCounts {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr const char* kOthers = "other reasons";

  constexpr ReasonCounts() = default;

  /// `reason`: told apart by its address.
  void count(const char* reason) noexcept {
    for (Place& place : places_) {
      const char* there = place.reason.load(std::memory_order_acquire);
      if (there == nullptr && place.reason.compare_exchange_strong(there, reason)) there = reason;
      if (there != reason) continue;
      place.times.add();
      return;
    }
    others_.add();
  }

  std::uint64_t sum() const noexcept {
    std::uint64_t all = others_.load();
    for (const Place& place : places_) all += place.times.load();
    return all;
  }

  /// Returns the reasons in the order in which they came up first.
  Reasons all() const {
    Reasons found;
    for (const Place& place : places_)
      if (const std::uint64_t times = place.times.load(); times != 0)
        found.emplace_back(place.reason.load(std::memory_order_acquire), times);
    if (others_.load() != 0) found.emplace_back(kOthers, others_.load());
    return found;
  }

 private:
  struct Place {
    std::atomic<const char*> reason{nullptr};
    OwnedCount times;
  };
  std::array<Place, kMost> places_{};
  OwnedCount others_;
};

/// Captures and graphs that give no recording.
inline constinit ReasonCounts g_refusals;
/// Execs, and updates of execs, that are the runtime's.
inline constinit ReasonCounts g_left_to_runtime;

}  // namespace graphpool
