// idle_clock.h: tells how long memory has been kept without being handed out again.
//
// Why not the time itself: a look at the machine's clock costs as much as an allocation that is served from kept
// memory. So the clock is looked at once in a moment (2^28 ticks), which the processor's counter tells in two
// instructions. A free is stamped with the time of the last look. If a moment has passed since that look, the free
// looks first.
// Threads: any, without a lock. Units: milliseconds; they wrap after 49 days, so only differences are looked at.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace graphpool {

class IdleClock {
 public:
  using Source = std::uint32_t (*)() noexcept;

  /// `idle`: how long memory is kept until it is old; 0: it never is. `source`: PoolSettings::clock_ms.
  void configure(std::chrono::nanoseconds idle, Source source) noexcept;

  /// Whether the clock is worth a look.
  bool moment_passed() const noexcept { return moment() != moment_.load(std::memory_order_relaxed); }
  /// Looks at the clock. Returns false if nothing ever gets old.
  bool look() noexcept;

  /// The time of the last look.
  std::uint32_t now_ms() const noexcept { return now_ms_.load(std::memory_order_relaxed); }
  /// Whether anything gets old.
  bool limits() const noexcept { return idle_ms_.load(std::memory_order_relaxed) != 0; }
  /// Whether memory that was freed at that time is old. Pre-condition: limits().
  bool is_old(std::uint32_t freed_ms) const noexcept {
    return now_ms() - freed_ms >= idle_ms_.load(std::memory_order_relaxed);
  }

 private:
  /// The processor's counter, in steps of 2^28 ticks: some tenths of a second at most.
  static std::uint32_t moment() noexcept {
    std::uint32_t moment;
    asm volatile("rdtsc\n\tshldl $4, %%eax, %%edx" : "=d"(moment) : : "eax", "cc");
    return moment;
  }

  std::atomic<std::uint32_t> moment_{0};  ///< moment() at the last look
  std::atomic<std::uint32_t> now_ms_{0};  ///< the time of the last look
  std::atomic<std::uint32_t> idle_ms_{0};
  bool looks_always_ = false;
  Source source_ = nullptr;
};

}  // namespace graphpool
