// hit_rate.h: whether it still pays to compare the captures a place in the program begins.
//
// Why: a capture that turns out to be new costs more than one that was left alone: what matched has to be issued after
// all, and the recording is kept for a repetition that never comes. A place where that is the rule stops being followed
// (rule 30): its captures are the runtime's own for a while; then it gets another chance, later each time.
//
// So many captures are judged together that what comes back there has had time to: at least kWindow, and twice as many
// as there were, lately, until one came back. A capture that is learned while there is room for its recording tells
// nothing yet and is not counted: a framework captures all its graphs once before one of them can come back.
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
  static constexpr std::uint32_t kWindow = 64, kLongestWindow = 4096;  ///< captures judged together
  static constexpr std::uint32_t kFewestHits = 4;                      ///< of kWindow, for a place to be followed on
  static constexpr std::uint32_t kFirstPause = 256, kLongestPause = 4096;  ///< captures left alone

  constexpr HitRates() = default;

  /// A capture begins: whether it is to be followed. If so its end is to be told, unless it was learned.
  bool follow(const void* place) noexcept;
  void ended(const void* place, bool matched) noexcept;
  /// One came back that had been captured so many captures ago, whether or not its recording was still there.
  void came_back(const void* place, std::uint64_t captures) noexcept;

 private:
  struct Entry {
    std::uint32_t captures = 0, hits = 0;
    std::uint32_t longest = 0, longest_before = 0;  ///< until one came back: now, and when it was judged last
    std::uint32_t pause_left = 0, next_pause = kFirstPause;
  };

  ShortLock<LockRank::kReport> lock_;
  PlaceTable<Entry> places_ GUARDED_BY(lock_);
};

/// The process's.
HitRates& hit_rates() noexcept;

}  // namespace graphpool
