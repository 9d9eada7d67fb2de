// rocm_smi.cpp: librocm_smi64 for programs on HSA on the CPU: what RCCL asks of it, about the same devices.
//
// RCCL 5.4 and 7.2 ask which devices there are, by PCI address, and how each reaches the others. Declarations and
// values are those of rocm_smi.h, which Debian 12 does not have.
#include <cstdint>

#include "settings.h"

#define ROCM_SMI_API extern "C" __attribute__((visibility("default")))

namespace {

enum Status : int { kSuccess = 0, kInvalidArguments = 1 };
enum LinkType : int { kLinkXgmi = 2 };
struct Version {
  std::uint32_t major, minor, patch;
  const char* build;
};

constexpr std::uint64_t kHops = 1, kLinkWeight = 15, kMegabytesPerSecond = 50'000;

bool is_device(std::uint32_t index) { return index < static_cast<std::uint32_t>(hsa_cpu::settings().devices); }

}  // namespace

ROCM_SMI_API Status rsmi_init(std::uint64_t) { return kSuccess; }
ROCM_SMI_API Status rsmi_shut_down() { return kSuccess; }

ROCM_SMI_API Status rsmi_version_get(Version* out) {
  *out = {7, 0, 0, "on the CPU"};
  return kSuccess;
}

ROCM_SMI_API Status rsmi_status_string(Status status, const char** out) {
  *out = status == kSuccess ? "success" : "an invalid argument";
  return kSuccess;
}

ROCM_SMI_API Status rsmi_num_monitor_devices(std::uint32_t* out) {
  *out = static_cast<std::uint32_t>(hsa_cpu::settings().devices);
  return kSuccess;
}

ROCM_SMI_API Status rsmi_dev_pci_id_get(std::uint32_t device, std::uint64_t* out) {
  if (!is_device(device)) return kInvalidArguments;
  *out = hsa_cpu::pci_address(static_cast<int>(device));
  return kSuccess;
}

ROCM_SMI_API Status rsmi_dev_firmware_version_get(std::uint32_t device, int, std::uint64_t* out) {
  *out = 0;
  return is_device(device) ? kSuccess : kInvalidArguments;
}

ROCM_SMI_API Status rsmi_topo_get_link_type(std::uint32_t from, std::uint32_t to, std::uint64_t* hops, LinkType* type) {
  if (!is_device(from) || !is_device(to)) return kInvalidArguments;
  *hops = kHops;
  *type = kLinkXgmi;
  return kSuccess;
}

ROCM_SMI_API Status rsmi_topo_get_link_weight(std::uint32_t from, std::uint32_t to, std::uint64_t* out) {
  *out = kLinkWeight;
  return is_device(from) && is_device(to) ? kSuccess : kInvalidArguments;
}

ROCM_SMI_API Status rsmi_minmax_bandwidth_get(std::uint32_t from, std::uint32_t to, std::uint64_t* least,
                                              std::uint64_t* most) {
  *least = *most = kMegabytesPerSecond;
  return is_device(from) && is_device(to) ? kSuccess : kInvalidArguments;
}
