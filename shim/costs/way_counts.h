// way_counts.h: counts launches by the way in which their binding was served. Threads: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "shim/base/owned_count.h"
#include "shim/costs/cost_model.h"

namespace graphpool {

class WayCounts {
 public:
  void add(Way way) noexcept { counts_[static_cast<std::size_t>(way)].add(); }
  std::uint64_t count(Way way) const noexcept { return counts_[static_cast<std::size_t>(way)].load(); }
  std::uint64_t sum() const noexcept {
    std::uint64_t all = 0;
    for (const OwnedCount& count : counts_) all += count.load();
    return all;
  }

 private:
  std::array<OwnedCount, kWays> counts_{};
};

/// The process's.
inline constinit WayCounts g_launches_by_way;

}  // namespace graphpool
