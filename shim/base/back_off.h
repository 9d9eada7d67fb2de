// back_off.h: waits between looks at something that sends no signal. The caller looks often at first, then a few
// thousand times a second, and never for longer than a limit. For rare waits only. Threads: each object has one waiter.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include "shim/base/guest_scope.h"

namespace graphpool {

class BackOff {
 public:
  explicit BackOff(std::chrono::nanoseconds limit) noexcept : limit_(limit) {}

  /// Lets others run for a moment. The time starts with the first call. Returns false, without a wait, once the limit
  /// is over.
  bool again() noexcept {
    const auto now = std::chrono::steady_clock::now();
    if (rounds_++ == 0) start_ = now;
    if (now - start_ >= limit_) return false;
    if (rounds_ <= kYields)
      std::this_thread::yield();
    else
      pause();
    return true;
  }

  bool waited() const noexcept { return rounds_ != 0; }

 private:
  static void pause() noexcept {
    const GuestScope guest;
    std::this_thread::sleep_for(kPause);
  }

  static constexpr unsigned kYields = 64;
  static constexpr std::chrono::microseconds kPause{100};

  const std::chrono::nanoseconds limit_;
  std::chrono::steady_clock::time_point start_{};
  std::uint64_t rounds_ = 0;
};

}  // namespace graphpool
