// kept_limits.h: says how much freed memory may be kept on each device.
//
// The limit is a number of bytes or a part of the device's memory, as the policy says. The runtime is asked for the
// size of a device when its limit is first needed.
//
// Threads: any, without a lock; the limit of a device is one atomic, so that a free asks by one load. Units: bytes. Not
// here: which memory goes beyond the limit (memory_room.h).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "shim/streams/devices.h"

namespace graphpool {

class KeptLimits {
 public:
  constexpr KeptLimits() = default;
  KeptLimits(const KeptLimits&) = delete;
  KeptLimits& operator=(const KeptLimits&) = delete;

  /// Call it before the first allocation. If `bytes` is 0, the limit is `percent` of the device's memory.
  void configure(std::size_t bytes, unsigned percent) noexcept;

  /// How much may be kept on the device. 0 if the runtime does not tell its size: it is asked again next time.
  std::size_t limit(int device) noexcept {
    const std::size_t known = limits_[static_cast<std::size_t>(device)].load(std::memory_order_relaxed);
    return known != kUnknown ? known : find_limit(device);
  }

  /// Forgets the limit of a device that is about to be reset: its size is asked for again.
  void device_reset(int device) noexcept {
    limits_[static_cast<std::size_t>(device)].store(kUnknown, std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t kUnknown = ~std::size_t{0};

  std::size_t find_limit(int device) noexcept;

  std::array<std::atomic<std::size_t>, kMaxDevices> limits_{};
  std::size_t bytes_ = 0;  ///< PoolSettings::limit_bytes
  unsigned percent_ = 0;
};

}  // namespace graphpool
