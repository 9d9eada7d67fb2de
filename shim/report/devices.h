// devices.h: the GPUs of the machine as the kernel's drivers tell them, without a call of the runtime, which may hang.
#pragma once

#include <string>
#include <vector>

namespace graphpool {

struct DeviceSeen {
  std::string name;
  std::string architecture;  ///< "gfx942"; empty: not told
};

/// `root`: where /sys and /proc are; tests have their own. Those of AMD's driver, else of NVIDIA's. At most 64. What
/// the process is not allowed to see (HIP_VISIBLE_DEVICES) is among them.
std::vector<DeviceSeen> devices_seen(const std::string& root = "");

}  // namespace graphpool
