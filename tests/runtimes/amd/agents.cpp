#include "agents.h"

#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstring>

#include "memory.h"
#include "settings.h"

namespace hsa_cpu {
namespace {

constexpr std::uint32_t kFine = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED;
constexpr std::uint32_t kCoarse = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED;
constexpr std::uint32_t kKernarg = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT;
constexpr std::size_t kGroupBytes = 64 << 10;

Agent* new_host() {
  const std::size_t bytes =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto* const host = new Agent{false, 0, 0, bytes, {}, {}};
  host->pools = {Pool{host, HSA_AMD_SEGMENT_GLOBAL, kFine, bytes},
                 Pool{host, HSA_AMD_SEGMENT_GLOBAL, kFine | kKernarg, bytes},
                 Pool{host, HSA_AMD_SEGMENT_GLOBAL, kCoarse, bytes}};
  return host;
}

Agent* new_gpu(int index) {
  const std::size_t bytes = settings().memory_bytes;
  auto* const gpu =
      new Agent{true, index, static_cast<std::uint32_t>(index + 1), bytes, "amdgcn-amd-amdhsa--" + settings().isa, {}};
  gpu->pools = {Pool{gpu, HSA_AMD_SEGMENT_GLOBAL, kCoarse, bytes}, Pool{gpu, HSA_AMD_SEGMENT_GLOBAL, kFine, bytes},
                Pool{gpu, HSA_AMD_SEGMENT_GROUP, 0, kGroupBytes}};
  return gpu;
}

/// Writes the answer of a query.
template <typename Value>
hsa_status_t answer(void* out, Value value) {
  std::memcpy(out, &value, sizeof value);
  return HSA_STATUS_SUCCESS;
}
template <typename Value, std::size_t kCount>
hsa_status_t answer(void* out, const Value (&values)[kCount]) {
  std::memcpy(out, values, sizeof values);
  return HSA_STATUS_SUCCESS;
}
hsa_status_t answer_text(void* out, const std::string& text, std::size_t room) {
  std::memset(out, 0, room);
  std::memcpy(out, text.data(), std::min(text.size(), room - 1));
  return HSA_STATUS_SUCCESS;
}
hsa_status_t answer_zero(void* out, std::size_t bytes) {
  std::memset(out, 0, bytes);
  return HSA_STATUS_SUCCESS;
}

/// gfx906 of amdgcn-amd-amdhsa--gfx906:sramecc-:xnack-.
std::string chip_of(const Agent& agent) {
  if (!agent.gpu) return "CPU";
  const std::string name = agent.isa.substr(agent.isa.rfind("--") + 2);
  return name.substr(0, name.find(':'));
}

hsa_status_t uuid(const Agent& agent, void* out) {
  constexpr std::size_t kRoom = 21;
  char text[kRoom + 11];
  std::snprintf(text, sizeof text, "GPU-%016x", 0xabc + agent.index);
  return answer_text(out, text, kRoom);
}

/// What HSA itself asks of an agent.
bool standard_info(const Agent& agent, int what, void* out, hsa_status_t& status) {
  const auto tell = [&](auto value) {
    status = answer(out, value);
    return true;
  };
  switch (what) {
    case HSA_AGENT_INFO_NAME:
      status = answer_text(out, chip_of(agent), 64);
      return true;
    case HSA_AGENT_INFO_VENDOR_NAME:
      status = answer_text(out, agent.gpu ? "AMD" : "CPU", 64);
      return true;
    case HSA_AGENT_INFO_FEATURE:
      return tell(agent.gpu ? std::uint32_t{HSA_AGENT_FEATURE_KERNEL_DISPATCH} : 0u);
    case HSA_AGENT_INFO_MACHINE_MODEL:
      return tell(std::uint32_t{HSA_MACHINE_MODEL_LARGE});
    case HSA_AGENT_INFO_PROFILE:
      return tell(std::uint32_t{HSA_PROFILE_BASE});
    case HSA_AGENT_INFO_DEFAULT_FLOAT_ROUNDING_MODE:
      return tell(std::uint32_t{HSA_DEFAULT_FLOAT_ROUNDING_MODE_NEAR});
    case HSA_AGENT_INFO_FAST_F16_OPERATION:
      return tell(true);
    case HSA_AGENT_INFO_WAVEFRONT_SIZE:
      return tell(std::uint32_t{64});
    case HSA_AGENT_INFO_WORKGROUP_MAX_DIM:
      return tell(std::array<std::uint16_t, 3>{1024, 1024, 1024});
    case HSA_AGENT_INFO_WORKGROUP_MAX_SIZE:
      return tell(std::uint32_t{1024});
    case HSA_AGENT_INFO_GRID_MAX_DIM:
      return tell(hsa_dim3_t{UINT_MAX, UINT_MAX, UINT_MAX});
    case HSA_AGENT_INFO_GRID_MAX_SIZE:
      return tell(std::uint32_t{UINT_MAX});
    case HSA_AGENT_INFO_FBARRIER_MAX_SIZE:
      return tell(std::uint32_t{32});
    case HSA_AGENT_INFO_QUEUES_MAX:
      return tell(std::uint32_t{agent.gpu ? 128u : 0u});
    case HSA_AGENT_INFO_QUEUE_MIN_SIZE:
      return tell(std::uint32_t{64});
    case HSA_AGENT_INFO_QUEUE_MAX_SIZE:
      return tell(std::uint32_t{131072});
    case HSA_AGENT_INFO_QUEUE_TYPE:
      return tell(std::uint32_t{HSA_QUEUE_TYPE_MULTI});
    case HSA_AGENT_INFO_NODE:
      return tell(agent.node);
    case HSA_AGENT_INFO_DEVICE:
      return tell(static_cast<std::uint32_t>(agent.gpu ? HSA_DEVICE_TYPE_GPU : HSA_DEVICE_TYPE_CPU));
    case HSA_AGENT_INFO_CACHE_SIZE:
      return tell(std::array<std::uint32_t, 4>{16 << 10, 8 << 20, 0, 0});
    case HSA_AGENT_INFO_ISA:
      return tell(handle_of(&agent).handle);
    case HSA_AGENT_INFO_VERSION_MAJOR:
    case HSA_AGENT_INFO_VERSION_MINOR:
      return tell(std::uint16_t{1});
    case HSA_AGENT_INFO_EXTENSIONS:
      status = answer_zero(out, 128);
      // Without images clr refuses arrays, and pitched memory with them.
      if (agent.gpu) *static_cast<std::uint8_t*>(out) = 1 << HSA_EXTENSION_IMAGES;
      return true;
    default:
      return false;
  }
}

/// Limits of images.
bool image_info(int what, void* out, hsa_status_t& status) {
  const auto tell = [&](auto value) {
    status = answer(out, value);
    return true;
  };
  switch (what) {
    case HSA_EXT_AGENT_INFO_IMAGE_1D_MAX_ELEMENTS:
    case HSA_EXT_AGENT_INFO_IMAGE_1DA_MAX_ELEMENTS:
      return tell(std::uint32_t{16384});
    case HSA_EXT_AGENT_INFO_IMAGE_1DB_MAX_ELEMENTS:
      return tell(std::uint32_t{UINT_MAX});
    case HSA_EXT_AGENT_INFO_IMAGE_2D_MAX_ELEMENTS:
    case HSA_EXT_AGENT_INFO_IMAGE_2DA_MAX_ELEMENTS:
    case HSA_EXT_AGENT_INFO_IMAGE_2DDEPTH_MAX_ELEMENTS:
    case HSA_EXT_AGENT_INFO_IMAGE_2DADEPTH_MAX_ELEMENTS:
      return tell(std::array<std::uint32_t, 2>{16384, 16384});
    case HSA_EXT_AGENT_INFO_IMAGE_3D_MAX_ELEMENTS:
      return tell(std::array<std::uint32_t, 3>{16384, 16384, 8192});
    case HSA_EXT_AGENT_INFO_IMAGE_ARRAY_MAX_LAYERS:
      return tell(std::uint32_t{8192});
    case HSA_EXT_AGENT_INFO_MAX_IMAGE_RD_HANDLES:
      return tell(std::uint32_t{128});
    case HSA_EXT_AGENT_INFO_MAX_IMAGE_RORW_HANDLES:
      return tell(std::uint32_t{64});
    case HSA_EXT_AGENT_INFO_MAX_SAMPLER_HANDLERS:
      return tell(std::uint32_t{16});
    case HSA_EXT_AGENT_INFO_IMAGE_LINEAR_ROW_PITCH_ALIGNMENT:
      return tell(std::uint32_t{256});
    default:
      return false;
  }
}

/// What AMD's extension asks. clr drops a device without a word where one of these fails.
bool amd_info(const Agent& agent, int what, void* out, hsa_status_t& status) {
  static std::uint32_t flush[1024];  // registers that the host may write to
  const auto tell = [&](auto value) {
    status = answer(out, value);
    return true;
  };
  switch (what) {
    case HSA_AMD_AGENT_INFO_CHIP_ID:
      return tell(std::uint32_t{0x66a0});
    case HSA_AMD_AGENT_INFO_CACHELINE_SIZE:
      return tell(std::uint32_t{128});
    case HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT:
    case HSA_AMD_AGENT_INFO_COOPERATIVE_COMPUTE_UNIT_COUNT:
      return tell(std::uint32_t{60});
    case HSA_AMD_AGENT_INFO_MAX_CLOCK_FREQUENCY:
      return tell(std::uint32_t{1700});
    case HSA_AMD_AGENT_INFO_DRIVER_NODE_ID:
      return tell(agent.node);
    case kDriverUid:
      return tell(std::uint32_t{1000 + agent.node});
    case HSA_AMD_AGENT_INFO_BDFID:
      return tell(std::uint32_t{pci_address(agent.index)});
    case HSA_AMD_AGENT_INFO_DOMAIN:
    case kNumSdmaXgmiEngines:
    case kIommuSupport:
      return tell(std::uint32_t{0});
    case HSA_AMD_AGENT_INFO_MEMORY_WIDTH:
      return tell(std::uint32_t{4096});
    case HSA_AMD_AGENT_INFO_MEMORY_MAX_FREQUENCY:
      return tell(std::uint32_t{1000});
    case HSA_AMD_AGENT_INFO_PRODUCT_NAME:
      status = answer_text(out, "HSA on the CPU", 64);
      return true;
    case HSA_AMD_AGENT_INFO_MAX_WAVES_PER_CU:
      return tell(std::uint32_t{40});
    case HSA_AMD_AGENT_INFO_NUM_SIMDS_PER_CU:
      return tell(std::uint32_t{4});
    case HSA_AMD_AGENT_INFO_NUM_SHADER_ENGINES:
      return tell(std::uint32_t{4});
    case HSA_AMD_AGENT_INFO_NUM_SHADER_ARRAYS_PER_SE:
    case HSA_AMD_AGENT_INFO_ASIC_REVISION:
    case kNumXcc:
      return tell(std::uint32_t{1});
    case HSA_AMD_AGENT_INFO_HDP_FLUSH:
      return tell(hsa_amd_hdp_flush_t{flush, flush + 16});
    case HSA_AMD_AGENT_INFO_COOPERATIVE_QUEUES:
      return tell(true);
    case HSA_AMD_AGENT_INFO_UUID:
      status = uuid(agent, out);
      return true;
    case HSA_AMD_AGENT_INFO_SVM_DIRECT_HOST_ACCESS:
      return tell(false);
    case kMemoryAvail:
      return tell(static_cast<std::uint64_t>(agent.memory_bytes - memory_used(agent)));
    case kTimestampFrequency:
      return tell(std::uint64_t{1000000000});
    case kAsicFamilyId:
      return tell(std::uint32_t{141});
    case kUcodeVersion:
      return tell(std::uint32_t{80});
    case kSdmaUcodeVersion:
      return tell(std::uint32_t{8});
    case kNumSdmaEngines:
      return tell(std::uint32_t{2});
    case kNearestCpu:
      return tell(handle_of(agents().front()));
    case kMemoryProperties:
    case kAqlExtensions:
    case kScratchLimitMax:
    case kScratchLimitCurrent:
      return tell(std::uint64_t{0});
    default:
      return false;
  }
}

}  // namespace

const std::vector<Agent*>& agents() {
  static const auto* const all = [] {
    auto* const made = new std::vector<Agent*>{new_host()};
    for (int i = 0; i < settings().devices; ++i) made->push_back(new_gpu(i));
    return made;
  }();
  return *all;
}

}  // namespace hsa_cpu

using namespace hsa_cpu;

HSA_CPU_API hsa_status_t hsa_iterate_agents(hsa_status_t (*callback)(hsa_agent_t, void*), void* data) {
  for (const Agent* agent : agents()) {
    const hsa_status_t status = callback(handle_of(agent), data);
    if (status != HSA_STATUS_SUCCESS) return status;
  }
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_status_t hsa_agent_get_info(hsa_agent_t handle, hsa_agent_info_t what, void* out) {
  const Agent& agent = *agent_of(handle);
  hsa_status_t status = HSA_STATUS_ERROR_INVALID_ARGUMENT;
  if (!standard_info(agent, what, out, status) && !image_info(what, out, status) &&
      !amd_info(agent, what, out, status)) {
    complain("hsa_agent_get_info: %#x is not known", static_cast<unsigned>(what));
  }
  return status;
}

// An agent has one instruction set, whose handle is the agent's.
HSA_CPU_API hsa_status_t hsa_agent_iterate_isas(hsa_agent_t agent, hsa_status_t (*callback)(hsa_isa_t, void*),
                                                void* data) {
  return callback({agent.handle}, data);
}

HSA_CPU_API hsa_status_t hsa_isa_get_info_alt(hsa_isa_t isa, hsa_isa_info_t what, void* out) {
  const std::string& name = reinterpret_cast<const Agent*>(isa.handle)->isa;
  if (what == HSA_ISA_INFO_NAME_LENGTH) return answer(out, static_cast<std::uint32_t>(name.size() + 1));
  if (what == HSA_ISA_INFO_NAME) return answer_text(out, name, name.size() + 1);
  complain("hsa_isa_get_info_alt: %d is not known", static_cast<int>(what));
  return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

HSA_CPU_API hsa_status_t hsa_amd_agent_iterate_memory_pools(hsa_agent_t handle,
                                                            hsa_status_t (*callback)(hsa_amd_memory_pool_t, void*),
                                                            void* data) {
  for (const Pool& pool : agent_of(handle)->pools) {
    const hsa_status_t status = callback({reinterpret_cast<std::uint64_t>(&pool)}, data);
    if (status != HSA_STATUS_SUCCESS) return status;
  }
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_status_t hsa_amd_memory_pool_get_info(hsa_amd_memory_pool_t handle, hsa_amd_memory_pool_info_t what,
                                                      void* out) {
  const Pool& pool = *pool_of(handle);
  switch (static_cast<int>(what)) {
    case HSA_AMD_MEMORY_POOL_INFO_SEGMENT:
      return answer(out, static_cast<std::uint32_t>(pool.segment));
    case HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS:
      return answer(out, pool.flags);
    case HSA_AMD_MEMORY_POOL_INFO_SIZE:
    case HSA_AMD_MEMORY_POOL_INFO_ALLOC_MAX_SIZE:
      return answer(out, pool.bytes);
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED:
      return answer(out, pool.segment == HSA_AMD_SEGMENT_GLOBAL);
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE:
    case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALIGNMENT:
      return answer(out, kPage);
    case kAllocRecommendedGranule:
      return answer(out, std::size_t{2} << 20);
    case HSA_AMD_MEMORY_POOL_INFO_ACCESSIBLE_BY_ALL:
      return answer(out, !pool.agent->gpu);
    case kPoolLocation:
      return answer(out, std::uint32_t{pool.agent->gpu});
    default:
      complain("hsa_amd_memory_pool_get_info: %d is not known", static_cast<int>(what));
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}

HSA_CPU_API hsa_status_t hsa_amd_agent_memory_pool_get_info(hsa_agent_t agent_handle, hsa_amd_memory_pool_t pool_handle,
                                                            hsa_amd_agent_memory_pool_info_t what, void* out) {
  const Agent& agent = *agent_of(agent_handle);
  const Pool& pool = *pool_of(pool_handle);
  const bool own = pool.agent == &agent;
  switch (static_cast<int>(what)) {
    case HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS: {
      // Without a large BAR the host sees no device memory, and clr copies by engines and kernels.
      const bool never =
          pool.segment == HSA_AMD_SEGMENT_GROUP || (!agent.gpu && pool.agent->gpu && !settings().large_bar);
      return answer(out, static_cast<std::uint32_t>(never ? HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED
                                                    : own ? HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT
                                                          : HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT));
    }
    case HSA_AMD_AGENT_MEMORY_POOL_INFO_NUM_LINK_HOPS:
      return answer(out, std::uint32_t{own ? 0u : 1u});
    case HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO: {
      if (own) return HSA_STATUS_SUCCESS;
      hsa_amd_memory_pool_link_info_t link{};
      link.min_latency = link.max_latency = 1000;
      link.min_bandwidth = link.max_bandwidth = 32000;
      link.atomic_support_32bit = link.atomic_support_64bit = link.coherent_support = true;
      link.link_type = HSA_AMD_LINK_INFO_TYPE_PCIE;
      link.numa_distance = 20;
      return answer(out, link);
    }
    default:
      complain("hsa_amd_agent_memory_pool_get_info: %d is not known", static_cast<int>(what));
      return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
}
