// devices.h: says for how many devices of the process something is kept.
#pragma once

namespace graphpool {

/// Devices beyond this number are left to the runtime.
inline constexpr int kMaxDevices = 64;

constexpr bool valid_device(int device) noexcept { return device >= 0 && device < kMaxDevices; }

}  // namespace graphpool
