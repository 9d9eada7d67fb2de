// returns.h: measures after how many captures recordings come back, whether they are still kept or not.
//
// Why: where a program captures more graphs in turn than recordings are kept, the one that was used least recently is
// the one that comes back next. A table that lets that recording go never has the one that is needed. So where
// recordings often stay away for longer than the oldest has, the oldest stays, and a newer one makes room
// (Recordings::place_to_drop()). A recording that went is remembered by a number made of its operations, so that its
// return is seen, too. Else a table that always let the wrong recording go would never learn how long they stay away.
//
// Units: captures of the whole process, those that are left alone included. Bounded: kRemembered numbers; a later
// number takes the place of an earlier one. Two recordings with one number cost time and nothing else.
// Threads: the caller locks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "shim/recording/operation.h"

namespace graphpool {

class Returns {
 public:
  static constexpr std::size_t kRemembered = 4096;
  static constexpr std::size_t kJudged = 64;  ///< returns that tell how long recordings stay away
  static constexpr std::size_t kOften = 16;   ///< of these returns: so many are often

  /// Notes the end of a capture that came to a recording. Returns the capture's number, from 1. `left_alone`: how many
  /// captures were left alone so far.
  std::uint64_t captured(std::uint64_t left_alone) noexcept;
  std::uint64_t now() const noexcept { return now_; }

  /// Notes that a recording came back that was used so many captures ago; 0: it is new, and nothing is noted.
  void came_back(std::uint64_t captures) noexcept;
  /// Whether at least kOften of the last kJudged returns took so many captures or more. False for 0.
  bool often_after(std::uint64_t captures) const noexcept;

  /// Remembers a recording that is not kept any more. Does nothing if there is no memory for it.
  void let_go(const std::vector<Operation>& operations, std::uint64_t used_at) noexcept;
  /// For a recording that the next capture makes: how many captures earlier the same recording was used last, before it
  /// went. 0: none went, or it is forgotten.
  std::uint64_t away_for(const std::vector<Operation>& operations) const noexcept;

 private:
  struct Departure {
    std::uint64_t number = 0;
    std::uint64_t used_at = 0;
  };
  static std::uint64_t number_of(const std::vector<Operation>& operations) noexcept;

  std::uint64_t looked_into_ = 0, now_ = 0;
  std::array<std::uint64_t, kJudged> took_{};  ///< of the last returns: after how many captures
  std::size_t next_ = 0;                       ///< the place in took_ of the next return
  std::unique_ptr<Departure[]> departures_;    ///< kRemembered of them; null: none is remembered
};

}  // namespace graphpool
