// hit_rate.h: whether it still pays to compare the captures a place in the program begins.
//
// Why: a capture that turns out to be new costs more than one that was left alone: what matched has to be issued after
// all, and the recording is kept for a repetition that never comes. A place where that is the rule stops being followed
// (rule 30): its captures are the runtime's own for a while; then it gets another chance, later each time.
//
// A framework captures all its graphs in one function, so one place may stand for a few graphs that come back and for
// many that never do. Their operations tell them apart. So where some captures of such a place have matched, and what
// they saved is more than what the others cost, only what is known is followed for that while: a capture is compared
// with the recordings there are, and left alone from the operation on at which it differs from all. It is not recorded.
// Saved and lost are counted in operations, an exec and a beginning as so many of them; where more is lost than was
// saved the rest of the while is left alone.
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

/// What is followed of a place's captures.
enum class Follow : std::uint8_t {
  kAll,    ///< each is compared, and recorded where it is new
  kKnown,  ///< each is compared, and left alone from the operation on at which it is new
  kNone,   ///< each is left alone
};

class HitRates {
 public:
  static constexpr std::uint32_t kWindow = 64, kLongestWindow = 4096;  ///< captures judged together
  static constexpr std::uint32_t kFewestHits = 4;                      ///< of kWindow, for a place to be followed on
  static constexpr std::uint32_t kFirstPause = 256, kLongestPause = 4096;  ///< captures left alone
  /// What a capture that matched saves besides its operations, and what one that did not costs besides those that were
  /// withheld, in operations: an exec is not made, and a beginning and an end are followed for nothing.
  static constexpr std::uint32_t kExecSaves = 16, kMissCosts = 1;

  constexpr HitRates() = default;

  /// A capture begins: what is to be followed. Unless that is kNone its end is to be told, or that it was learned,
  /// which is told to nobody.
  Follow follow(const void* place) noexcept;
  /// A capture that was followed so has ended. `operations`: of the recording that it matched, or those that had been
  /// withheld where it was found to be new.
  void ended(const void* place, Follow followed, bool matched, std::uint32_t operations) noexcept;
  /// One came back that had been captured so many captures ago, whether or not its recording was still there.
  void came_back(const void* place, std::uint64_t captures) noexcept;

 private:
  struct Entry {
    std::uint32_t captures = 0, hits = 0;
    std::uint32_t longest = 0, longest_before = 0;  ///< until one came back: now, and when it was judged last
    std::uint32_t pause_left = 0, next_pause = kFirstPause;
    std::int64_t balance =
        0;  ///< operations saved less those lost, since the window began, the pause behind it included
    bool known_only = false;  ///< in the pause: what is known is followed
  };

  ShortLock<LockRank::kReport> lock_;
  PlaceTable<Entry> places_ GUARDED_BY(lock_);
};

/// The process's.
HitRates& hit_rates() noexcept;

}  // namespace graphpool
