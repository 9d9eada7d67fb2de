// hit_rate.h: decides whether it still pays to compare the captures that begin at a place of the program.
//
// Why: a capture that turns out to be new costs more than one that is left alone: the operations that matched have to
// be issued after all, and the recording is kept for a repetition that never comes. If nearly all captures of a place
// are like that (kFewestHits), the place is not followed for a while (rule 30): its captures are the runtime's own.
// Then it is tried again. Each while is longer than the one before, up to a limit.
//
// A framework captures all its graphs in one function, so one place may stand for a few graphs that come back and for
// many that never do. Their operations tell them apart. So if the captures that matched saved more than the others
// cost, only known captures are followed for that while: a capture is compared with the recordings there are, is left
// alone from the operation on at which it differs from all of them, and is not recorded. Savings and losses are
// counted in operations; an exec and a beginning count as a number of them. Once more was lost than saved, all captures
// are left alone for the rest of the while.
//
// So many captures are judged together that graphs have had time to come back: twice as many as it lately took until
// one came back, but at least kWindow and at most kLongestWindow. A capture that is learned while there is room for its
// recording tells nothing yet and is not counted: a framework captures all its graphs once before one of them can come
// back.
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

/// Which captures of a place are followed.
enum class Follow : std::uint8_t {
  kAll,    ///< each is compared, and recorded where it is new
  kKnown,  ///< each is compared, and left alone from the operation on at which it is new
  kNone,   ///< each is left alone
};

class HitRates {
 public:
  static constexpr std::uint32_t kWindow = 64, kLongestWindow = 4096;  ///< captures judged together
  static constexpr std::uint32_t kFewestHits = 4;                      ///< of kWindow, for a place to be followed on
  static constexpr std::uint32_t kFirstPause = 256, kLongestPause = 4096;  ///< captures a pause lasts
  /// In operations. A capture that matched saves its operations and kExecSaves, for the exec that is not made. Another
  /// one costs the operations that were withheld and kMissCosts, for a begin and an end followed in vain.
  static constexpr std::uint32_t kExecSaves = 16, kMissCosts = 1;

  constexpr HitRates() = default;

  /// Decides what is followed of a capture that begins. The caller calls ended() if the capture was followed,
  /// and was neither learned nor invalidated.
  Follow follow(const void* place) noexcept;
  /// Notes the end of a capture of which `followed` was followed. `operations`: the number in the recording that it
  /// matched; if it was new, the number that had been withheld.
  void ended(const void* place, Follow followed, bool matched, std::uint32_t operations) noexcept;
  /// Notes that a graph came back that had been captured so many captures ago, even if its recording was gone.
  void came_back(const void* place, std::uint64_t captures) noexcept;

 private:
  struct Entry {
    std::uint32_t captures = 0, hits = 0;
    std::uint32_t longest = 0,
                  longest_before = 0;  ///< most captures until a graph came back; in the window before
    std::uint32_t pause_left = 0, next_pause = kFirstPause;
    std::int64_t balance = 0;  ///< operations saved less those lost, since the window began, and in the pause behind it
    bool known_only = false;   ///< in the pause known captures are followed
  };

  ShortLock<LockRank::kReport> lock_;
  PlaceTable<Entry> places_ GUARDED_BY(lock_);
};

/// The process's.
HitRates& hit_rates() noexcept;

}  // namespace graphpool
