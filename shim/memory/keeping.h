// keeping.h: whether freed memory is kept and handed out again.
//
//   configure -> kOn or kOff
//   kOn -> kStopped (stop): what is kept goes back in the program's next hipFree, which waits anyway
//   kOn, kStopped -> kOff (switch_off): the caller gives back what is kept
//
// Beside that a device may be in error: then every later call fails until the device is reset, and nothing is kept
// either. Threads: any; one atomic, so that a call asks by one load.
#pragma once

#include <atomic>
#include <cstdint>

namespace graphpool {

class Keeping {
 public:
  void configure(bool enabled) noexcept { state_.store(enabled ? kOn : kOff, std::memory_order_relaxed); }

  /// Whether memory is kept now.
  bool on() const noexcept { return state_.load(std::memory_order_relaxed) == kOn; }
  /// Whether memory is kept when no device is in error.
  bool switched_on() const noexcept { return phase() == kOn; }

  void switch_off() noexcept { set_phase(kOff); }
  /// Where memory is not kept, what is kept has gone or is going already.
  void stop() noexcept { set_phase(kStopped); }
  /// Whether memory that stop() left is still to be given back. From now on it is not: the caller does it.
  bool end_stop() noexcept {
    std::uint8_t now = state_.load(std::memory_order_relaxed);
    while ((now & ~kDeviceInError) == kStopped)
      if (state_.compare_exchange_weak(now, kOff | (now & kDeviceInError), std::memory_order_relaxed)) return true;
    return false;
  }

  bool device_in_error() const noexcept { return (state_.load(std::memory_order_relaxed) & kDeviceInError) != 0; }
  /// Whether the error is the first one.
  bool note_device_error() noexcept {
    return (state_.fetch_or(kDeviceInError, std::memory_order_relaxed) & kDeviceInError) == 0;
  }
  void end_device_error() noexcept {
    state_.fetch_and(static_cast<std::uint8_t>(~kDeviceInError), std::memory_order_relaxed);
  }

 private:
  enum State : std::uint8_t { kOff = 0, kOn = 1, kStopped = 2, kDeviceInError = 4 };

  std::uint8_t phase() const noexcept { return state_.load(std::memory_order_relaxed) & ~kDeviceInError; }
  void set_phase(State phase) noexcept {
    std::uint8_t now = state_.load(std::memory_order_relaxed);
    while (!state_.compare_exchange_weak(now, phase | (now & kDeviceInError), std::memory_order_relaxed)) {
    }
  }

  std::atomic<std::uint8_t> state_{kOff};
};

}  // namespace graphpool
