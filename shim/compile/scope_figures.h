// scope_figures.h: counts what all processes of a scope did, for the report of any of them.
//
// Counters only go up. Other figures fall into steps. The last figure of each step is kept, and when it was seen: so a
// program can tell the most, or the least, since it began. What a process that was killed had counted stays.
//
// Threads: any, without a lock, but for seen_in_flight() and seen_held(), which are called by one thread at a time.
// Units: bytes, ns.
#pragma once

#include <cstdint>

#include "shim/compile/permit.h"

namespace graphpool {

/// These are numbers of compilations, but for waited_ns. Each only goes up.
struct ScopeCounts {
  std::uint64_t granted = 0;    ///< permits given, those over the limit too
  std::uint64_t ridden = 0;     ///< compilations that rode on another's permit
  std::uint64_t waited = 0;     ///< waits that have ended: a waiter that was killed is not counted
  std::uint64_t waited_ns = 0;  ///< the sum of those waits
  std::uint64_t went_on = 0;    ///< over the limit, after the longest wait
  std::uint64_t without = 0;    ///< without a permit
};

inline constexpr std::uint64_t ScopeCounts::*kScopeCounters[] = {
    &ScopeCounts::granted,   &ScopeCounts::ridden,  &ScopeCounts::waited,
    &ScopeCounts::waited_ns, &ScopeCounts::went_on, &ScopeCounts::without,
};
static_assert(sizeof kScopeCounters / sizeof *kScopeCounters * sizeof(std::uint64_t) == sizeof(ScopeCounts),
              "every counter of ScopeCounts is listed");

/// Figures by size, in steps of an eighth: the last one of each step, and when that was. 0 ns: never.
struct SteppedFigures {
  static constexpr std::uint32_t kSteps = 496;
  std::uint64_t seen_ns[kSteps], figures[kSteps];
};

/// Plain data: it is in shared memory.
class ScopeFigures {
 public:
  void add(std::uint64_t ScopeCounts::*counter, std::uint64_t more = 1) noexcept;
  [[nodiscard]] ScopeCounts counts() const noexcept;

  void seen_in_flight(std::uint32_t number, std::uint64_t now_ns) noexcept;
  /// The most in flight at once since a time; 0: since the table was made.
  [[nodiscard]] std::uint32_t peak_in_flight(std::uint64_t since_ns = 0) const noexcept;

  void seen_held(std::uint64_t bytes, std::uint64_t now_ns) noexcept;
  /// The most that compilations held together, as far as it was seen: each is looked at while others wait or ask, and
  /// by its own peak when it ends. An eighth too little at most.
  [[nodiscard]] std::uint64_t most_held_bytes(std::uint64_t since_ns) const noexcept;

  void seen_headroom(std::uint64_t bytes, std::uint64_t now_ns) noexcept;
  /// The least that was left for more when somebody asked; an eighth too much at most. The largest number: nobody did.
  [[nodiscard]] std::uint64_t least_headroom_bytes(std::uint64_t since_ns) const noexcept;

 private:
  ScopeCounts counts_;
  std::uint64_t in_flight_ns_[kMostPermits + 1];  ///< when so many were last in flight; 0: never
  SteppedFigures held_;                           ///< by all compilations together
  SteppedFigures headroom_;                       ///< left for more, where memory was read
};

}  // namespace graphpool
