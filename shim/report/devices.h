// devices.h: lists the GPUs of the machine from files of the kernel's drivers. It calls nothing of the runtime, because
// the runtime may hang.
#pragma once

#include <string>
#include <vector>

namespace graphpool {

struct DeviceSeen {
  std::string name;
  std::string architecture;  ///< "gfx942"; empty: not told
};

/// Returns the devices of AMD's driver, or those of NVIDIA's where AMD's has none; at most 64. Devices that
/// HIP_VISIBLE_DEVICES hides from the process are among them. `root`: the folder that holds /sys and /proc, for tests.
std::vector<DeviceSeen> devices_seen(const std::string& root = "");

}  // namespace graphpool
