// returns.h: how many captures it takes until a recording comes back, of those that are kept and of those that are not
// kept any more.
//
// Why: where a program captures more graphs in turn than recordings are kept, the one that was used least recently is
// the one that comes back next. A table that lets that one go never has the recording that is needed. So where
// recordings often come back after a longer time than one has stayed away, that one stays, and what was learned last
// makes room. What went is remembered by a number made of its operations, so that its return is seen, too: otherwise a
// table that always let the wrong one go would never learn how long they stay away.
//
// Units: captures of the whole process, those that are left alone among them. Bounded: kRemembered numbers; one that
// shares its place with a later one is forgotten. Two recordings with one number cost time and nothing else.
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
  static constexpr std::size_t kOften = 16;   ///< of them

  /// A capture has ended that came to a recording. Returns its number, from 1. `left_alone`: so many others have ended.
  std::uint64_t captured(std::uint64_t left_alone) noexcept;
  std::uint64_t now() const noexcept { return now_; }

  /// A recording came back that was used so many captures ago; 0: it is new, and tells nothing.
  void came_back(std::uint64_t captures) noexcept;
  /// Whether of the last returns many took so many captures or more.
  bool often_after(std::uint64_t captures) const noexcept;

  /// A recording is not kept any more. Where there is no memory for it, it is not remembered.
  void let_go(const std::vector<Operation>& operations, std::uint64_t used_at) noexcept;
  /// The next capture is of a new recording. Returns how many captures before that it was used, if it was kept once.
  /// 0: it was not.
  std::uint64_t away_for(const std::vector<Operation>& operations) const noexcept;

 private:
  struct Departure {
    std::uint64_t number = 0;
    std::uint64_t used_at = 0;
  };
  static std::uint64_t number_of(const std::vector<Operation>& operations) noexcept;

  std::uint64_t looked_into_ = 0, now_ = 0;
  std::array<std::uint64_t, kJudged> took_{};  ///< captures until the last ones came back
  std::size_t next_ = 0;                       ///< the place in took_ of the next one
  std::unique_ptr<Departure[]> departures_;    ///< kRemembered; null: there is none
};

}  // namespace graphpool
