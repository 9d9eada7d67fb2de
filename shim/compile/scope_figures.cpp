#include "shim/compile/scope_figures.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace graphpool {
namespace {

void publish(std::uint64_t& word, std::uint64_t value) noexcept { __atomic_store_n(&word, value, __ATOMIC_RELAXED); }

/// The step of a figure: up to 15 each has its own, then eight between a power of two and the next.
constexpr std::uint32_t step_of(std::uint64_t figure) noexcept {
  const auto shift = static_cast<std::uint32_t>(std::max(0, 60 - std::countl_zero(figure)));
  return 8 * shift + static_cast<std::uint32_t>(figure >> shift);
}
static_assert(step_of(~std::uint64_t{0}) + 1 == SteppedFigures::kSteps);

void keep(SteppedFigures& all, std::uint64_t figure, std::uint64_t now_ns) noexcept {
  const std::uint32_t step = step_of(figure);
  publish(all.figures[step], figure);
  publish(all.seen_ns[step], now_ns);
}

bool seen_since(const std::uint64_t& seen_ns, std::uint64_t since_ns) noexcept {
  const std::uint64_t seen = __atomic_load_n(&seen_ns, __ATOMIC_RELAXED);
  return seen != 0 && seen >= since_ns;
}

}  // namespace

void ScopeFigures::add(std::uint64_t ScopeCounts::*counter, std::uint64_t more) noexcept {
  __atomic_add_fetch(&(counts_.*counter), more, __ATOMIC_RELAXED);
}

ScopeCounts ScopeFigures::counts() const noexcept {
  ScopeCounts counts;
  for (std::uint64_t ScopeCounts::*const counter : kScopeCounters)
    counts.*counter = __atomic_load_n(&(counts_.*counter), __ATOMIC_RELAXED);
  return counts;
}

void ScopeFigures::seen_in_flight(std::uint32_t number, std::uint64_t now_ns) noexcept {
  publish(in_flight_ns_[number], now_ns);
}

std::uint32_t ScopeFigures::peak_in_flight(std::uint64_t since_ns) const noexcept {
  for (std::uint32_t number = kMostPermits; number != 0; --number)
    if (seen_since(in_flight_ns_[number], since_ns)) return number;
  return 0;
}

void ScopeFigures::seen_held(std::uint64_t bytes, std::uint64_t now_ns) noexcept { keep(held_, bytes, now_ns); }

std::uint64_t ScopeFigures::most_held_bytes(std::uint64_t since_ns) const noexcept {
  for (std::uint32_t step = SteppedFigures::kSteps; step-- != 0;)
    if (seen_since(held_.seen_ns[step], since_ns)) return __atomic_load_n(&held_.figures[step], __ATOMIC_RELAXED);
  return 0;
}

void ScopeFigures::seen_headroom(std::uint64_t bytes, std::uint64_t now_ns) noexcept { keep(headroom_, bytes, now_ns); }

std::uint64_t ScopeFigures::least_headroom_bytes(std::uint64_t since_ns) const noexcept {
  for (std::uint32_t step = 0; step < SteppedFigures::kSteps; ++step)
    if (seen_since(headroom_.seen_ns[step], since_ns))
      return __atomic_load_n(&headroom_.figures[step], __ATOMIC_RELAXED);
  return std::numeric_limits<std::uint64_t>::max();
}

}  // namespace graphpool
