#include "shim/costs/hit_rate.h"

#include <algorithm>

namespace graphpool {

bool HitRates::follow(const void* place) noexcept {
  const LockGuard guard(lock_);
  Entry& entry = places_.of(place);
  if (entry.pause_left == 0) return true;
  --entry.pause_left;
  return false;
}

void HitRates::ended(const void* place, bool matched) noexcept {
  const LockGuard guard(lock_);
  Entry& entry = places_.of(place);
  entry.hits += matched ? 1 : 0;
  if (++entry.captures < kWindow) return;
  if (entry.hits < kFewestHits) {
    entry.pause_left = entry.next_pause;
    entry.next_pause = std::min(entry.next_pause * 2, kLongestPause);
  } else {
    entry.next_pause = kFirstPause;
  }
  entry.captures = entry.hits = 0;
}

HitRates& hit_rates() noexcept {
  static constinit HitRates instance;
  return instance;
}

}  // namespace graphpool
