#include "shim/costs/hit_rate.h"

#include <algorithm>

namespace graphpool {

Follow HitRates::follow(const void* place) noexcept {
  const LockGuard guard(lock_);
  Entry& entry = places_.entry(place);
  if (entry.pause_left == 0) return Follow::kAll;
  --entry.pause_left;
  return entry.known_only ? Follow::kKnown : Follow::kNone;
}

void HitRates::ended(const void* place, Follow followed, bool matched, std::uint32_t operations) noexcept {
  const LockGuard guard(lock_);
  Entry& entry = places_.entry(place);
  if (followed == Follow::kAll && entry.captures == 0) entry.balance = 0;
  entry.balance += matched ? std::int64_t{operations} + kExecSaves : -std::int64_t{operations} - kMissCosts;
  if (followed == Follow::kKnown) {
    entry.known_only = entry.known_only && entry.balance > 0;
    return;
  }
  entry.hits += matched ? 1 : 0;
  const std::uint32_t window = std::clamp(2 * std::max(entry.longest, entry.longest_before), kWindow, kLongestWindow);
  if (++entry.captures < window) return;
  const bool worth_it = entry.hits >= window / kWindow * kFewestHits;
  if (worth_it) {
    entry.next_pause = kFirstPause;
  } else {
    entry.pause_left = entry.next_pause;
    entry.next_pause = std::min(entry.next_pause * 2, kLongestPause);
    entry.known_only = entry.balance > 0;
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
