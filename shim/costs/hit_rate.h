// hit_rate.h: whether it still pays to compare the captures a place in the program begins.
//
// Why: a capture that turns out to be new costs more than one that was left alone: what matched has to be issued after
// all, and the recording is kept for a repetition that never comes. A place where that is the rule stops being followed
// (rule 30): its captures are the runtime's own for a while; then it gets another chance, later each time.
//
// A place is the return address of the call that began the capture. Bounded: see place_table.h; places that share an
// entry share the verdict, which costs time and nothing else.
// Threads: any. Lock: kReport, for a few instructions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/base/lock_rank.h"
#include "shim/base/short_lock.h"
#include "shim/costs/place_table.h"

namespace graphpool {

class HitRates {
 public:
  static constexpr std::uint32_t kWindow = 64;                             ///< captures judged together
  static constexpr std::uint32_t kFewestHits = 4;                          ///< of them, for a place to be followed on
  static constexpr std::uint32_t kFirstPause = 256, kLongestPause = 4096;  ///< captures left alone

  constexpr HitRates() = default;

  /// A capture begins: whether it is to be followed. If so its end is to be told.
  bool follow(const void* place) noexcept;
  void ended(const void* place, bool matched) noexcept;

 private:
  struct Entry {
    std::uint32_t captures = 0, hits = 0;
    std::uint32_t pause_left = 0, next_pause = kFirstPause;
  };

  ShortLock<LockRank::kReport> lock_;
  PlaceTable<Entry> places_ GUARDED_BY(lock_);
};

/// The process's.
HitRates& hit_rates() noexcept;

}  // namespace graphpool
