// keeping.h: says whether freed memory is kept and handed out again.
//
//   configure -> kOn or kOff
//   kOn -> kStopped (stop): what is kept goes back in the program's next hipFree, which waits anyway
//   kOn, kStopped -> kOff (switch_off, end_stop): the caller gives back what is kept
//
// Besides, a device may be in error: then every later call fails until the device is reset, and nothing is kept either.
// Threads: any. All this is one atomic, so that a call asks by one load.
#pragma once

#include <atomic>
#include <cstdint>

namespace graphpool {

class Keeping {
 public:
  void configure(bool enabled) noexcept { state_.store(enabled ? kOn : kOff, std::memory_order_relaxed); }

  /// Whether memory is kept now.
  bool on() const noexcept { return state_.load(std::memory_order_relaxed) == kOn; }
  /// Whether memory is kept while no device is in error.
  bool switched_on() const noexcept { return phase() == kOn; }

  void switch_off() noexcept { set_phase(kOff); }
  /// Stops keeping. What is kept stays until the caller of end_stop() gives it back.
  void stop() noexcept { set_phase(kStopped); }
  /// Whether memory that stop() left is still to be given back. If so the caller does it, and later calls return false.
  bool end_stop() noexcept {
    std::uint8_t now = state_.load(std::memory_order_relaxed);
    while ((now & ~kDeviceInError) == kStopped)
      if (state_.compare_exchange_weak(now, kOff | (now & kDeviceInError), std::memory_order_relaxed)) return true;
    return false;
  }

  bool device_in_error() const noexcept { return (state_.load(std::memory_order_relaxed) & kDeviceInError) != 0; }
  /// Notes that a device is in error. Returns whether none was before.
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
