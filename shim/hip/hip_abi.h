// hip_abi.h: declarations of HIP functions and types newer than the oldest supported header (5.2), so that one binary
// serves every runtime from ROCm 5.2 to 7. Values and layouts: HIP 6.3's public headers, or those of the version named,
// where that is newer. Nothing here may rely on a structure whose layout differs between runtimes; such members are
// opaque.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace graphpool {

/// hipDriverProcAddressQueryResult (6.1) and hipDriverEntryPointQueryResult (7.1): 0 is success.
enum class ProcAddressResult : int { kSuccess = 0 };
enum class DriverEntryPointResult : int { kSuccess = 0 };

/// hipStreamLegacy (6.x): the null stream by name.
inline const hipStream_t kStreamLegacy = reinterpret_cast<hipStream_t>(1);

/// hipLaunchConfig_t and HIP_LAUNCH_CONFIG (7.0).
struct LaunchConfig {
  dim3 grid, block;
  std::size_t shared_bytes;
  hipStream_t stream;
  const void* attributes;
  unsigned int attribute_count;
};
struct DriverLaunchConfig {
  unsigned int grid[3], block[3], shared_bytes;
  hipStream_t stream;
  const void* attributes;
  unsigned int attribute_count;
};
/// The stream of the launch; null where the program gave no configuration.
template <typename Config>
hipStream_t stream_of(const Config* config) noexcept {
  return config == nullptr ? nullptr : config->stream;
}

/// hipGraphInstantiateParams (6.2).
struct InstantiateParams {
  hipGraphNode_t error_node;
  unsigned long long flags;
  int result;  ///< 0: success
  hipStream_t upload_stream;
};
/// hipGraphInstantiateFlagAutoFreeOnLaunch.
inline constexpr unsigned long long kInstantiateAutoFree = 1;

/// HIP_MEMCPY3D from 6.0 on; before, its sizes were 32 bits wide.
struct WideMemcpy3D {
  std::size_t src_x_bytes, src_y, src_z, src_level;
  hipMemoryType src_type;
  const void* src_host;
  hipDeviceptr_t src_device;
  hipArray_t src_array;
  std::size_t src_pitch, src_height;
  std::size_t dst_x_bytes, dst_y, dst_z, dst_level;
  hipMemoryType dst_type;
  void* dst_host;
  hipDeviceptr_t dst_device;
  hipArray_t dst_array;
  std::size_t dst_pitch, dst_height;
  std::size_t width_bytes, height, depth;
};

/// HIP_MEMSET_NODE_PARAMS: what driver-style fills take before 7.0; from then on it is hipMemsetParams.
struct DriverFill {
  hipDeviceptr_t dst;
  std::size_t pitch;
  unsigned int value, element_bytes;
  std::size_t width, height;
};

/// hipStreamBatchMemOpParams (6.4): writes and waits have their address at the same place; other kinds have none.
struct MemoryOperation {
  static constexpr int kWait32 = 1, kWrite32 = 2, kWait64 = 4, kWrite64 = 5;

  int kind;
  void* address;
  std::uint64_t value;
  unsigned int flags;
  void* alias;
  std::uint64_t reserved;
};
static_assert(sizeof(MemoryOperation) == 48);

/// hipBatchMemOpNodeParams (6.4).
struct MemoryOperationsNode {
  hipCtx_t context;
  unsigned int count;
  MemoryOperation* operations;
  unsigned int flags;
};

/// hipGraphNodeParams (6.0): the kinds of node whose operands are looked at.
struct AnyNodeParams {
  static constexpr int kKernel = 0, kCopy = 1, kFill = 2, kChild = 4;

  struct Copy {
    int flags, reserved[3];
    hipMemcpy3DParms params;
  };

  int type, reserved0[3];
  union {
    long long reserved1[29];
    hipKernelNodeParams kernel;
    Copy copy;
    hipMemsetParams fill;
    hipGraph_t child;
  };
  long long reserved2;
};
static_assert(sizeof(AnyNodeParams) == 256);

}  // namespace graphpool
