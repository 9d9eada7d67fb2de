// graph_abi.h: types of HIP's graph interface that are newer than the oldest supported header (5.2), with the layouts
// of HIP 6. Enumerators of node types are not here: they follow the version (node_type_value in graph.h).
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstring>
#include <type_traits>

struct hipUserObject;
typedef struct hipUserObject* hipUserObject_t;

namespace hipfront {

constexpr unsigned kUserObjectNoDestructorSync = 1, kGraphUserObjectMove = 1;

constexpr unsigned long long kInstantiateAutoFree = 1, kInstantiateUpload = 2, kInstantiateDeviceLaunch = 4,
                             kInstantiateNodePriority = 8;

constexpr int kDotVerbose = 1 << 0, kDotKernelParams = 1 << 2, kDotMemcpyParams = 1 << 3, kDotMemsetParams = 1 << 4,
              kDotHostParams = 1 << 5, kDotHandles = 1 << 10;

constexpr int kAttributeAccessPolicyWindow = 1, kAttributeCooperative = 2, kAttributePriority = 8;
union KernelAttributeValue {
  hipAccessPolicyWindow window;
  int cooperative;
  int priority;
};

constexpr int kMemUsedCurrent = 0, kMemUsedHigh = 1, kMemReservedCurrent = 2, kMemReservedHigh = 3;

struct MemAllocNodeParams {
  hipMemPoolProps pool;
  const hipMemAccessDesc* access;
  std::size_t access_count;
  std::size_t bytes;
  void* pointer;
};

struct MemcpyNodeParams {
  int flags;
  int reserved[3];
  hipMemcpy3DParms copy;
};

struct SemaphoreNodeParams {  ///< hipExternalSemaphoreSignalNodeParams and …WaitNodeParams
  hipExternalSemaphore_t* semaphores;
  const void* params;  ///< hipExternalSemaphoreSignalParams or …WaitParams, which HIP 6.0 changed
  unsigned int count;
};

struct BatchMemOpNodeParams {  ///< hipBatchMemOpNodeParams, from 6.4 on
  hipCtx_t context;
  unsigned int count;
  void* operations;  ///< hipStreamBatchMemOpParams
  unsigned int flags;
};

struct NodeParams {
  int type;
  int reserved0[3];
  union {
    long long reserved1[29];
    hipKernelNodeParams kernel;
    MemcpyNodeParams memcpy;
    hipMemsetParams memset;
    hipHostNodeParams host;
    hipGraph_t graph;
    hipEvent_t event;  ///< record and wait nodes
    MemAllocNodeParams alloc;
    SemaphoreNodeParams semaphores;  ///< signal and wait nodes
    void* freed;
  };
  long long reserved2;
};
static_assert(sizeof(NodeParams) == 256, "hipGraphNodeParams is 256 bytes");

struct InstantiateParams {
  hipGraphNode_t error_node;
  unsigned long long flags;
  int result;  ///< 0 success, 1 error
  hipStream_t upload_stream;
};

struct MemsetNodeParams {  ///< HIP_MEMSET_NODE_PARAMS, up to 6.3; from 7.0 hipMemsetParams stands in its place
  hipDeviceptr_t dst;
  std::size_t pitch;
  unsigned int value, element_size;
  std::size_t width, height;
};

struct WideMemcpy3D {  ///< HIP_MEMCPY3D from 6.0 on; before, its sizes were 32 bits wide
  std::size_t srcXInBytes, srcY, srcZ, srcLOD;
  hipMemoryType srcMemoryType;
  const void* srcHost;
  hipDeviceptr_t srcDevice;
  hipArray_t srcArray;
  std::size_t srcPitch, srcHeight, dstXInBytes, dstY, dstZ, dstLOD;
  hipMemoryType dstMemoryType;
  void* dstHost;
  hipDeviceptr_t dstDevice;
  hipArray_t dstArray;
  std::size_t dstPitch, dstHeight, WidthInBytes, Height, Depth;
};

template <typename To, typename From>
To convert_driver_copy(const From& from) {
  To to{};
  const auto set = [](auto& member, auto value) { member = static_cast<std::decay_t<decltype(member)>>(value); };
  set(to.srcXInBytes, from.srcXInBytes), set(to.srcY, from.srcY), set(to.srcZ, from.srcZ);
  set(to.srcLOD, from.srcLOD), set(to.srcPitch, from.srcPitch), set(to.srcHeight, from.srcHeight);
  set(to.dstXInBytes, from.dstXInBytes), set(to.dstY, from.dstY), set(to.dstZ, from.dstZ);
  set(to.dstLOD, from.dstLOD), set(to.dstPitch, from.dstPitch), set(to.dstHeight, from.dstHeight);
  set(to.WidthInBytes, from.WidthInBytes), set(to.Height, from.Height), set(to.Depth, from.Depth);
  to.srcMemoryType = from.srcMemoryType, to.dstMemoryType = from.dstMemoryType;
  to.srcHost = from.srcHost, to.srcDevice = from.srcDevice, to.srcArray = from.srcArray;
  to.dstHost = from.dstHost, to.dstDevice = from.dstDevice, to.dstArray = from.dstArray;
  return to;
}

/// What a program of this version of HIP wrote into its HIP_MEMCPY3D, and back.
inline WideMemcpy3D read_driver_copy(const HIP_MEMCPY3D* params, int version) {
  if (version < 60000000) return convert_driver_copy<WideMemcpy3D>(*params);
  WideMemcpy3D copy;
  std::memcpy(&copy, static_cast<const void*>(params), sizeof copy);
  return copy;
}
inline void write_driver_copy(const WideMemcpy3D& copy, int version, HIP_MEMCPY3D* params) {
  if (version < 60000000)
    *params = convert_driver_copy<HIP_MEMCPY3D>(copy);
  else
    std::memcpy(static_cast<void*>(params), &copy, sizeof copy);
}

/// hipMemoryType's numbers changed with HIP 6. True for memory that is named by the host pointer, and for arrays.
inline bool is_host_type(unsigned type, int version) { return type == (version >= 60000000 ? 1U : 0U); }
inline bool is_array_type(unsigned type, int version) { return type == (version >= 60000000 ? 10U : 2U); }

}  // namespace hipfront
