// way_counts.h: launches by the way that served their binding, counted for the report. Threads: any.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shim/costs/cost_model.h"

namespace graphpool {

class WayCounts {
 public:
  void add(Way way) noexcept { counts_[static_cast<std::size_t>(way)].fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t of(Way way) const noexcept {
    return counts_[static_cast<std::size_t>(way)].load(std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<std::uint64_t>, kWays> counts_{};
};

/// The process's.
inline constinit WayCounts g_launches_by_way;

}  // namespace graphpool
