#include "shim/costs/hit_rate.h"

#include <algorithm>

namespace graphpool {

bool HitRates::follow(const void* place) noexcept {
  const LockGuard guard(lock_);
  Entry& entry = places_.entry(place);
  if (entry.pause_left == 0) return true;
  --entry.pause_left;
  return false;
}

void HitRates::ended(const void* place, bool matched) noexcept {
  const LockGuard guard(lock_);
  Entry& entry = places_.entry(place);
  entry.hits += matched ? 1 : 0;
  const std::uint32_t window = std::clamp(2 * std::max(entry.longest, entry.longest_before), kWindow, kLongestWindow);
  if (++entry.captures < window) return;
  const bool worth_it = entry.hits >= window / kWindow * kFewestHits;
  if (worth_it) {
    entry.next_pause = kFirstPause;
  } else {
    entry.pause_left = entry.next_pause;
    entry.next_pause = std::min(entry.next_pause * 2, kLongestPause);
  }
  entry.longest_before = worth_it ? entry.longest : 0;
  entry.captures = entry.hits = entry.longest = 0;
}

void HitRates::came_back(const void* place, std::uint64_t captures) noexcept {
  const LockGuard guard(lock_);
  Entry& entry = places_.entry(place);
  const auto bounded = static_cast<std::uint32_t>(std::min<std::uint64_t>(captures, kLongestWindow));
  entry.longest = std::max(entry.longest, bounded);
}

HitRates& hit_rates() noexcept {
  static constinit HitRates instance;
  return instance;
}

}  // namespace graphpool
