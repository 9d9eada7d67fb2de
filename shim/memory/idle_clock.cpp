#include "shim/memory/idle_clock.h"

#include <time.h>

#include <limits>

namespace graphpool {
namespace {

std::uint32_t clock_of_machine_ms() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(now.tv_sec) * 1000 +
                                    static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000);
}

/// The time in milliseconds; 0 also if it is longer than the clock can tell: such a time never passes.
std::uint32_t idle_ms(std::chrono::nanoseconds idle) noexcept {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(idle).count();
  return ms > std::numeric_limits<std::int32_t>::max() ? 0 : static_cast<std::uint32_t>(ms);
}

}  // namespace

void IdleClock::configure(std::chrono::nanoseconds idle, Source source) noexcept {
  source_ = source != nullptr ? source : clock_of_machine_ms;
  idle_ms_.store(idle_ms(idle), std::memory_order_relaxed);
  looks_always_ = limits() && (source != nullptr || idle < std::chrono::seconds(1));
  moment_.store(moment() - 1, std::memory_order_relaxed);
}

bool IdleClock::look() noexcept {
  moment_.store(looks_always_ ? moment() - 1 : moment(), std::memory_order_relaxed);
  if (!limits()) return false;
  now_ms_.store(source_(), std::memory_order_relaxed);
  return true;
}

}  // namespace graphpool
