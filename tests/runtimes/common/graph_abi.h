// graph_abi.h: types of HIP's graph interface that are newer than the oldest supported header (5.2), with the layouts of
// HIP 6. Enumerators of node types are not here: they follow the version (node_type_value in graph.h).
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>

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

}  // namespace hipfront
