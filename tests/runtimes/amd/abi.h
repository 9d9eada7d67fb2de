// abi.h: HSA's C interface: the headers that Debian 12 has, and declarations of what is newer (up to ROCm 7.2).
//
// Values and layouts are those of HSA's headers hsa.h and hsa_ext_amd.h.
#pragma once

#include <hsa/amd_hsa_queue.h>
#include <hsa/amd_hsa_signal.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <hsa/hsa_ext_image.h>
#include <hsa/hsa_ven_amd_loader.h>

#include <cstddef>
#include <cstdint>

/// Marks a function that libamdhip64 or a library above it imports.
#define HSA_CPU_API extern "C" __attribute__((visibility("default")))

namespace hsa_cpu {

/// hsa_agent_info_t that the header does not name.
enum NewerAgentInfo : int {
  kMemoryAvail = 0xA015,
  kTimestampFrequency = 0xA016,
  kAsicFamilyId = 0xA107,
  kUcodeVersion = 0xA108,
  kSdmaUcodeVersion = 0xA109,
  kNumSdmaEngines = 0xA10A,
  kNumSdmaXgmiEngines = 0xA10B,
  kIommuSupport = 0xA110,
  kNumXcc = 0xA111,
  kDriverUid = 0xA112,
  kNearestCpu = 0xA113,
  kMemoryProperties = 0xA114,
  kAqlExtensions = 0xA115,
  kScratchLimitMax = 0xA116,
  kScratchLimitCurrent = 0xA117,
};

/// hsa_system_info_t that the header does not name.
enum NewerSystemInfo : int {
  kMwaitxEnabled = 0x203,
  kDmabufSupported = 0x204,
  kVirtualMemoryApiSupported = 0x205,
  kXnackEnabled = 0x206,
  kExtVersionMajor = 0x207,
  kExtVersionMinor = 0x208,
};

/// hsa_amd_memory_pool_info_t that the header does not name.
enum NewerPoolInfo : int { kPoolLocation = 17, kAllocRecommendedGranule = 18 };

/// hsa_amd_pointer_type_t that the header does not name.
constexpr int kPointerTypeVirtualMemory = 6;

/// hsa_access_permission_t that the header does not name.
constexpr auto kNoAccess = static_cast<hsa_access_permission_t>(0);

/// hsa_amd_vmem_alloc_handle_t.
struct VmemHandle {
  std::uint64_t handle;
};
/// hsa_amd_memory_access_desc_t.
struct AccessDescription {
  hsa_access_permission_t permissions;
  hsa_agent_t agent;
};

/// hsa_ext_sampler_descriptor_v2_t.
struct SamplerDescription {
  hsa_ext_sampler_coordinate_mode32_t coordinates;
  hsa_ext_sampler_filter_mode32_t filter;
  hsa_ext_sampler_addressing_mode32_t beyond[3];
};

}  // namespace hsa_cpu
