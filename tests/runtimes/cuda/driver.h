// driver.h: the part of the CUDA driver API that this runtime calls, declared here, so that building needs no CUDA and
// nothing is linked: libcuda.so.1 is opened at the first call.
//
// The driver's ABI is stable: a function whose meaning changed got a new name (_v2). The names below are the exported
// ones, each in the oldest form that does what is needed; layout_test.cpp compares the declarations with cuda.h where a
// machine has it. A function that the driver lacks answers kNotSupported.
// Threads: any; the table is filled once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cudahip::cu {

using Result = int;
inline constexpr Result kSuccess = 0, kInvalidValue = 1, kNotInitialized = 3, kNoDevice = 100, kInvalidContext = 201,
                        kNotFound = 500, kNotSupported = 801;

using Address = unsigned long long;  // CUdeviceptr
struct Context;
struct Module;
struct Function;
struct Stream;
struct Event;
struct Graph;
struct Node;
struct Exec;
struct Pool;
struct UserObject;

using HostFunction = void (*)(void*);
using StreamCallback = void (*)(Stream*, Result, void*);

inline constexpr int kHostMemory = 1, kDeviceMemory = 2, kUnifiedMemory = 4;  // CUmemorytype

struct Copy2D {  // CUDA_MEMCPY2D
  std::size_t src_x, src_y;
  int src_type;
  const void* src_host;
  Address src_device;
  void* src_array;
  std::size_t src_pitch, dst_x, dst_y;
  int dst_type;
  void* dst_host;
  Address dst_device;
  void* dst_array;
  std::size_t dst_pitch, width, height;
};

struct Copy3D {  // CUDA_MEMCPY3D
  std::size_t src_x, src_y, src_z, src_level;
  int src_type;
  const void* src_host;
  Address src_device;
  void* src_array;
  void* reserved0;
  std::size_t src_pitch, src_height;
  std::size_t dst_x, dst_y, dst_z, dst_level;
  int dst_type;
  void* dst_host;
  Address dst_device;
  void* dst_array;
  void* reserved1;
  std::size_t dst_pitch, dst_height;
  std::size_t width, height, depth;
};

struct KernelNode {  // CUDA_KERNEL_NODE_PARAMS_v2
  Function* function;
  unsigned grid[3], block[3], shared_bytes;
  void** params;
  void** extra;
  void* kernel;
  Context* context;
};

struct MemsetNode {  // CUDA_MEMSET_NODE_PARAMS
  Address dst;
  std::size_t pitch;
  unsigned value, element_bytes;
  std::size_t width, height;
};

struct HostNode {  // CUDA_HOST_NODE_PARAMS
  HostFunction function;
  void* data;
};

struct BatchNode {  // CUDA_BATCH_MEM_OP_NODE_PARAMS
  Context* context;
  unsigned count;
  void* operations;
  unsigned flags;
};

struct SemaphoreNode {  // CUDA_EXT_SEM_SIGNAL_NODE_PARAMS, CUDA_EXT_SEM_WAIT_NODE_PARAMS
  void** semaphores;
  const void* params;
  unsigned count;
};

struct UpdateResult {  // CUgraphExecUpdateResultInfo
  int result;
  Node *error_node, *error_from_node;
};

struct InstantiateParams {  // CUDA_GRAPH_INSTANTIATE_PARAMS
  std::uint64_t flags;
  Stream* upload_stream;
  Node* error_node;
  int result;
};

struct EdgeData {  // CUgraphEdgeData
  unsigned char from_port, to_port, type, reserved[5];
};

struct Location {  // CUmemLocation
  int type, id;
};
struct AllocationProperties {  // CUmemAllocationProp
  int type, handle_types;
  Location location;
  void* win32;
  unsigned char compression, gpu_direct_rdma;
  unsigned short usage;
  unsigned char reserved[4];
};
struct AccessDescription {  // CUmemAccessDesc
  Location location;
  int flags;
};

union LaunchAttributeValue {  // CUlaunchAttributeValue
  unsigned char bytes[64];
  std::uint64_t align;
};

struct IpcHandle {
  char bytes[64];
};
struct Uuid {
  char bytes[16];
};

// CU(name, parameters): a function of libcuda that returns CUresult.
#define CUDAHIP_DRIVER(CU)                                                                                       \
  CU(cuInit, (unsigned))                                                                                         \
  CU(cuDriverGetVersion, (int*))                                                                                 \
  CU(cuDeviceGetCount, (int*))                                                                                   \
  CU(cuDeviceGet, (int*, int))                                                                                   \
  CU(cuDeviceGetName, (char*, int, int))                                                                         \
  CU(cuDeviceGetUuid_v2, (Uuid*, int))                                                                           \
  CU(cuDeviceTotalMem_v2, (std::size_t*, int))                                                                   \
  CU(cuDeviceGetAttribute, (int*, int, int))                                                                     \
  CU(cuDeviceGetPCIBusId, (char*, int, int))                                                                     \
  CU(cuDeviceGetByPCIBusId, (int*, const char*))                                                                 \
  CU(cuDeviceCanAccessPeer, (int*, int, int))                                                                    \
  CU(cuDeviceGetP2PAttribute, (int*, int, int, int))                                                             \
  CU(cuDeviceGetDefaultMemPool, (Pool**, int))                                                                   \
  CU(cuDeviceGetMemPool, (Pool**, int))                                                                          \
  CU(cuDeviceSetMemPool, (int, Pool*))                                                                           \
  CU(cuDeviceGraphMemTrim, (int))                                                                                \
  CU(cuDeviceGetGraphMemAttribute, (int, int, void*))                                                            \
  CU(cuDeviceSetGraphMemAttribute, (int, int, void*))                                                            \
  CU(cuDevicePrimaryCtxRetain, (Context**, int))                                                                 \
  CU(cuDevicePrimaryCtxReset_v2, (int))                                                                          \
  CU(cuDevicePrimaryCtxGetState, (int, unsigned*, int*))                                                         \
  CU(cuDevicePrimaryCtxSetFlags_v2, (int, unsigned))                                                             \
  CU(cuCtxSetCurrent, (Context*))                                                                                \
  CU(cuCtxGetDevice, (int*))                                                                                     \
  CU(cuCtxPushCurrent_v2, (Context*))                                                                            \
  CU(cuCtxPopCurrent_v2, (Context**))                                                                            \
  CU(cuCtxGetFlags, (unsigned*))                                                                                 \
  CU(cuCtxSynchronize, ())                                                                                       \
  CU(cuCtxGetLimit, (std::size_t*, int))                                                                         \
  CU(cuCtxSetLimit, (int, std::size_t))                                                                          \
  CU(cuCtxGetCacheConfig, (int*))                                                                                \
  CU(cuCtxSetCacheConfig, (int))                                                                                 \
  CU(cuCtxGetSharedMemConfig, (int*))                                                                            \
  CU(cuCtxSetSharedMemConfig, (int))                                                                             \
  CU(cuCtxGetStreamPriorityRange, (int*, int*))                                                                  \
  CU(cuCtxEnablePeerAccess, (Context*, unsigned))                                                                \
  CU(cuCtxDisablePeerAccess, (Context*))                                                                         \
  CU(cuStreamCreateWithPriority, (Stream**, unsigned, int))                                                      \
  CU(cuStreamDestroy_v2, (Stream*))                                                                              \
  CU(cuStreamQuery, (Stream*))                                                                                   \
  CU(cuStreamSynchronize, (Stream*))                                                                             \
  CU(cuStreamWaitEvent, (Stream*, Event*, unsigned))                                                             \
  CU(cuStreamGetFlags, (Stream*, unsigned*))                                                                     \
  CU(cuStreamGetPriority, (Stream*, int*))                                                                       \
  CU(cuStreamGetCtx, (Stream*, Context**))                                                                       \
  CU(cuStreamGetId, (Stream*, unsigned long long*))                                                              \
  CU(cuStreamCopyAttributes, (Stream*, Stream*))                                                                 \
  CU(cuStreamAddCallback, (Stream*, StreamCallback, void*, unsigned))                                            \
  CU(cuStreamAttachMemAsync, (Stream*, Address, std::size_t, unsigned))                                          \
  CU(cuStreamWaitValue32_v2, (Stream*, Address, std::uint32_t, unsigned))                                        \
  CU(cuStreamWaitValue64_v2, (Stream*, Address, std::uint64_t, unsigned))                                        \
  CU(cuStreamWriteValue32_v2, (Stream*, Address, std::uint32_t, unsigned))                                       \
  CU(cuStreamWriteValue64_v2, (Stream*, Address, std::uint64_t, unsigned))                                       \
  CU(cuStreamBatchMemOp_v2, (Stream*, unsigned, void*, unsigned))                                                \
  CU(cuStreamBeginCapture_v2, (Stream*, int))                                                                    \
  CU(cuStreamBeginCaptureToGraph, (Stream*, Graph*, Node* const*, const EdgeData*, std::size_t, int))            \
  CU(cuStreamEndCapture, (Stream*, Graph**))                                                                     \
  CU(cuStreamIsCapturing, (Stream*, int*))                                                                       \
  CU(cuStreamGetCaptureInfo_v2, (Stream*, int*, unsigned long long*, Graph**, Node* const**, std::size_t*))      \
  CU(cuStreamUpdateCaptureDependencies, (Stream*, Node**, std::size_t, unsigned))                                \
  CU(cuThreadExchangeStreamCaptureMode, (int*))                                                                  \
  CU(cuEventCreate, (Event**, unsigned))                                                                         \
  CU(cuEventDestroy_v2, (Event*))                                                                                \
  CU(cuEventQuery, (Event*))                                                                                     \
  CU(cuEventSynchronize, (Event*))                                                                               \
  CU(cuEventRecord, (Event*, Stream*))                                                                           \
  CU(cuEventRecordWithFlags, (Event*, Stream*, unsigned))                                                        \
  CU(cuEventElapsedTime, (float*, Event*, Event*))                                                               \
  CU(cuIpcGetEventHandle, (IpcHandle*, Event*))                                                                  \
  CU(cuIpcOpenEventHandle, (Event**, IpcHandle))                                                                 \
  CU(cuIpcGetMemHandle, (IpcHandle*, Address))                                                                   \
  CU(cuIpcOpenMemHandle_v2, (Address*, IpcHandle, unsigned))                                                     \
  CU(cuIpcCloseMemHandle, (Address))                                                                             \
  CU(cuImportExternalMemory, (void**, const void*))                                                              \
  CU(cuExternalMemoryGetMappedBuffer, (Address*, void*, const void*))                                            \
  CU(cuDestroyExternalMemory, (void*))                                                                           \
  CU(cuImportExternalSemaphore, (void**, const void*))                                                           \
  CU(cuSignalExternalSemaphoresAsync, (void* const*, const void*, unsigned, Stream*))                            \
  CU(cuWaitExternalSemaphoresAsync, (void* const*, const void*, unsigned, Stream*))                              \
  CU(cuDestroyExternalSemaphore, (void*))                                                                        \
  CU(cuMemGetInfo_v2, (std::size_t*, std::size_t*))                                                              \
  CU(cuMemAlloc_v2, (Address*, std::size_t))                                                                     \
  CU(cuMemAllocPitch_v2, (Address*, std::size_t*, std::size_t, std::size_t, unsigned))                           \
  CU(cuMemAllocManaged, (Address*, std::size_t, unsigned))                                                       \
  CU(cuMemAdvise, (Address, std::size_t, int, int))                                                              \
  CU(cuMemPrefetchAsync, (Address, std::size_t, int, Stream*))                                                   \
  CU(cuMemRangeGetAttribute, (void*, std::size_t, int, Address, std::size_t))                                    \
  CU(cuMemRangeGetAttributes, (void**, std::size_t*, int*, std::size_t, Address, std::size_t))                   \
  CU(cuMemFree_v2, (Address))                                                                                    \
  CU(cuMemGetAddressRange_v2, (Address*, std::size_t*, Address))                                                 \
  CU(cuMemHostAlloc, (void**, std::size_t, unsigned))                                                            \
  CU(cuMemFreeHost, (void*))                                                                                     \
  CU(cuMemHostGetDevicePointer_v2, (Address*, void*, unsigned))                                                  \
  CU(cuMemHostGetFlags, (unsigned*, void*))                                                                      \
  CU(cuMemHostRegister_v2, (void*, std::size_t, unsigned))                                                       \
  CU(cuMemHostUnregister, (void*))                                                                               \
  CU(cuPointerGetAttribute, (void*, int, Address))                                                               \
  CU(cuPointerSetAttribute, (const void*, int, Address))                                                         \
  CU(cuMemAllocAsync, (Address*, std::size_t, Stream*))                                                          \
  CU(cuMemAllocFromPoolAsync, (Address*, std::size_t, Pool*, Stream*))                                           \
  CU(cuMemFreeAsync, (Address, Stream*))                                                                         \
  CU(cuMemPoolCreate, (Pool**, const void*))                                                                     \
  CU(cuMemPoolDestroy, (Pool*))                                                                                  \
  CU(cuMemPoolTrimTo, (Pool*, std::size_t))                                                                      \
  CU(cuMemPoolGetAttribute, (Pool*, int, void*))                                                                 \
  CU(cuMemPoolSetAttribute, (Pool*, int, void*))                                                                 \
  CU(cuMemPoolGetAccess, (int*, Pool*, Location*))                                                               \
  CU(cuMemPoolSetAccess, (Pool*, const AccessDescription*, std::size_t))                                         \
  CU(cuMemPoolExportToShareableHandle, (void*, Pool*, int, unsigned long long))                                  \
  CU(cuMemPoolImportFromShareableHandle, (Pool**, void*, int, unsigned long long))                               \
  CU(cuMemPoolExportPointer, (void*, Address))                                                                   \
  CU(cuMemPoolImportPointer, (Address*, Pool*, void*))                                                           \
  CU(cuMemAddressReserve, (Address*, std::size_t, std::size_t, Address, unsigned long long))                     \
  CU(cuMemAddressFree, (Address, std::size_t))                                                                   \
  CU(cuMemCreate, (unsigned long long*, std::size_t, const AllocationProperties*, unsigned long long))           \
  CU(cuMemRelease, (unsigned long long))                                                                         \
  CU(cuMemMap, (Address, std::size_t, std::size_t, unsigned long long, unsigned long long))                      \
  CU(cuMemUnmap, (Address, std::size_t))                                                                         \
  CU(cuMemSetAccess, (Address, std::size_t, const AccessDescription*, std::size_t))                              \
  CU(cuMemGetAccess, (unsigned long long*, const Location*, Address))                                            \
  CU(cuMemGetAllocationGranularity, (std::size_t*, const AllocationProperties*, int))                            \
  CU(cuMemGetAllocationPropertiesFromHandle, (AllocationProperties*, unsigned long long))                        \
  CU(cuMemRetainAllocationHandle, (unsigned long long*, void*))                                                  \
  CU(cuMemExportToShareableHandle, (void*, unsigned long long, int, unsigned long long))                         \
  CU(cuMemImportFromShareableHandle, (unsigned long long*, void*, int))                                          \
  CU(cuMemGetHandleForAddressRange, (void*, Address, std::size_t, int, unsigned long long))                      \
  CU(cuMemcpy, (Address, Address, std::size_t))                                                                  \
  CU(cuMemcpyAsync, (Address, Address, std::size_t, Stream*))                                                    \
  CU(cuMemcpyHtoD_v2, (Address, const void*, std::size_t))                                                       \
  CU(cuMemcpyDtoH_v2, (void*, Address, std::size_t))                                                             \
  CU(cuMemcpyHtoDAsync_v2, (Address, const void*, std::size_t, Stream*))                                         \
  CU(cuMemcpyDtoHAsync_v2, (void*, Address, std::size_t, Stream*))                                               \
  CU(cuMemcpyDtoDAsync_v2, (Address, Address, std::size_t, Stream*))                                             \
  CU(cuMemcpyPeer, (Address, Context*, Address, Context*, std::size_t))                                          \
  CU(cuMemcpyPeerAsync, (Address, Context*, Address, Context*, std::size_t, Stream*))                            \
  CU(cuMemcpy2DUnaligned_v2, (const Copy2D*))                                                                    \
  CU(cuMemcpy2DAsync_v2, (const Copy2D*, Stream*))                                                               \
  CU(cuMemcpy3D_v2, (const Copy3D*))                                                                             \
  CU(cuMemcpy3DAsync_v2, (const Copy3D*, Stream*))                                                               \
  CU(cuMemsetD8_v2, (Address, unsigned char, std::size_t))                                                       \
  CU(cuMemsetD16_v2, (Address, unsigned short, std::size_t))                                                     \
  CU(cuMemsetD32_v2, (Address, unsigned, std::size_t))                                                           \
  CU(cuMemsetD2D8_v2, (Address, std::size_t, unsigned char, std::size_t, std::size_t))                           \
  CU(cuMemsetD8Async, (Address, unsigned char, std::size_t, Stream*))                                            \
  CU(cuMemsetD16Async, (Address, unsigned short, std::size_t, Stream*))                                          \
  CU(cuMemsetD32Async, (Address, unsigned, std::size_t, Stream*))                                                \
  CU(cuMemsetD2D8Async, (Address, std::size_t, unsigned char, std::size_t, std::size_t, Stream*))                \
  CU(cuModuleLoadData, (Module**, const void*))                                                                  \
  CU(cuModuleUnload, (Module*))                                                                                  \
  CU(cuModuleGetFunction, (Function**, Module*, const char*))                                                    \
  CU(cuModuleGetFunctionCount, (unsigned*, Module*))                                                             \
  CU(cuModuleEnumerateFunctions, (Function**, unsigned, Module*))                                                \
  CU(cuModuleGetGlobal_v2, (Address*, std::size_t*, Module*, const char*))                                       \
  CU(cuFuncGetAttribute, (int*, int, Function*))                                                                 \
  CU(cuFuncSetAttribute, (Function*, int, int))                                                                  \
  CU(cuFuncSetCacheConfig, (Function*, int))                                                                     \
  CU(cuFuncSetSharedMemConfig, (Function*, int))                                                                 \
  CU(cuFuncGetParamInfo, (Function*, std::size_t, std::size_t*, std::size_t*))                                   \
  CU(cuFuncGetName, (const char**, Function*))                                                                   \
  CU(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, (int*, Function*, int, std::size_t, unsigned))        \
  CU(cuOccupancyMaxPotentialBlockSizeWithFlags,                                                                  \
     (int*, int*, Function*, std::size_t (*)(int), std::size_t, int, unsigned))                                  \
  CU(cuOccupancyAvailableDynamicSMemPerBlock, (std::size_t*, Function*, int, int))                               \
  CU(cuLaunchKernel,                                                                                             \
     (Function*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream*, void**, void**)) \
  CU(cuLaunchCooperativeKernel,                                                                                  \
     (Function*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream*, void**))         \
  CU(cuLaunchHostFunc, (Stream*, HostFunction, void*))                                                           \
  CU(cuGraphCreate, (Graph**, unsigned))                                                                         \
  CU(cuGraphDestroy, (Graph*))                                                                                   \
  CU(cuGraphClone, (Graph**, Graph*))                                                                            \
  CU(cuGraphDebugDotPrint, (Graph*, const char*, unsigned))                                                      \
  CU(cuGraphAddKernelNode_v2, (Node**, Graph*, Node* const*, std::size_t, const KernelNode*))                    \
  CU(cuGraphAddMemcpyNode, (Node**, Graph*, Node* const*, std::size_t, const Copy3D*, Context*))                 \
  CU(cuGraphAddMemsetNode, (Node**, Graph*, Node* const*, std::size_t, const MemsetNode*, Context*))             \
  CU(cuGraphAddHostNode, (Node**, Graph*, Node* const*, std::size_t, const HostNode*))                           \
  CU(cuGraphAddChildGraphNode, (Node**, Graph*, Node* const*, std::size_t, Graph*))                              \
  CU(cuGraphAddEmptyNode, (Node**, Graph*, Node* const*, std::size_t))                                           \
  CU(cuGraphAddEventRecordNode, (Node**, Graph*, Node* const*, std::size_t, Event*))                             \
  CU(cuGraphAddEventWaitNode, (Node**, Graph*, Node* const*, std::size_t, Event*))                               \
  CU(cuGraphAddMemAllocNode, (Node**, Graph*, Node* const*, std::size_t, void*))                                 \
  CU(cuGraphAddMemFreeNode, (Node**, Graph*, Node* const*, std::size_t, Address))                                \
  CU(cuGraphAddBatchMemOpNode, (Node**, Graph*, Node* const*, std::size_t, const BatchNode*))                    \
  CU(cuGraphAddExternalSemaphoresSignalNode, (Node**, Graph*, Node* const*, std::size_t, const SemaphoreNode*))  \
  CU(cuGraphAddExternalSemaphoresWaitNode, (Node**, Graph*, Node* const*, std::size_t, const SemaphoreNode*))    \
  CU(cuGraphMemAllocNodeGetParams, (Node*, void*))                                                               \
  CU(cuGraphMemFreeNodeGetParams, (Node*, Address*))                                                             \
  CU(cuGraphKernelNodeGetParams_v2, (Node*, KernelNode*))                                                        \
  CU(cuGraphKernelNodeSetParams_v2, (Node*, const KernelNode*))                                                  \
  CU(cuGraphKernelNodeCopyAttributes, (Node*, Node*))                                                            \
  CU(cuGraphKernelNodeGetAttribute, (Node*, int, LaunchAttributeValue*))                                         \
  CU(cuGraphKernelNodeSetAttribute, (Node*, int, const LaunchAttributeValue*))                                   \
  CU(cuGraphMemcpyNodeGetParams, (Node*, Copy3D*))                                                               \
  CU(cuGraphMemcpyNodeSetParams, (Node*, const Copy3D*))                                                         \
  CU(cuGraphMemsetNodeGetParams, (Node*, MemsetNode*))                                                           \
  CU(cuGraphMemsetNodeSetParams, (Node*, const MemsetNode*))                                                     \
  CU(cuGraphHostNodeGetParams, (Node*, HostNode*))                                                               \
  CU(cuGraphHostNodeSetParams, (Node*, const HostNode*))                                                         \
  CU(cuGraphChildGraphNodeGetGraph, (Node*, Graph**))                                                            \
  CU(cuGraphEventRecordNodeGetEvent, (Node*, Event**))                                                           \
  CU(cuGraphEventRecordNodeSetEvent, (Node*, Event*))                                                            \
  CU(cuGraphEventWaitNodeGetEvent, (Node*, Event**))                                                             \
  CU(cuGraphEventWaitNodeSetEvent, (Node*, Event*))                                                              \
  CU(cuGraphBatchMemOpNodeGetParams, (Node*, BatchNode*))                                                        \
  CU(cuGraphBatchMemOpNodeSetParams, (Node*, const BatchNode*))                                                  \
  CU(cuGraphExternalSemaphoresSignalNodeGetParams, (Node*, SemaphoreNode*))                                      \
  CU(cuGraphExternalSemaphoresSignalNodeSetParams, (Node*, const SemaphoreNode*))                                \
  CU(cuGraphExternalSemaphoresWaitNodeGetParams, (Node*, SemaphoreNode*))                                        \
  CU(cuGraphExternalSemaphoresWaitNodeSetParams, (Node*, const SemaphoreNode*))                                  \
  CU(cuGraphNodeFindInClone, (Node**, Node*, Graph*))                                                            \
  CU(cuGraphNodeGetType, (Node*, int*))                                                                          \
  CU(cuGraphGetNodes, (Graph*, Node**, std::size_t*))                                                            \
  CU(cuGraphGetRootNodes, (Graph*, Node**, std::size_t*))                                                        \
  CU(cuGraphGetEdges, (Graph*, Node**, Node**, std::size_t*))                                                    \
  CU(cuGraphNodeGetDependencies, (Node*, Node**, std::size_t*))                                                  \
  CU(cuGraphNodeGetDependentNodes, (Node*, Node**, std::size_t*))                                                \
  CU(cuGraphAddDependencies, (Graph*, Node* const*, Node* const*, std::size_t))                                  \
  CU(cuGraphRemoveDependencies, (Graph*, Node* const*, Node* const*, std::size_t))                               \
  CU(cuGraphDestroyNode, (Node*))                                                                                \
  CU(cuGraphInstantiateWithFlags, (Exec**, Graph*, unsigned long long))                                          \
  CU(cuGraphInstantiateWithParams, (Exec**, Graph*, InstantiateParams*))                                         \
  CU(cuGraphExecGetFlags, (Exec*, std::uint64_t*))                                                               \
  CU(cuGraphExecDestroy, (Exec*))                                                                                \
  CU(cuGraphExecUpdate_v2, (Exec*, Graph*, UpdateResult*))                                                       \
  CU(cuGraphExecKernelNodeSetParams_v2, (Exec*, Node*, const KernelNode*))                                       \
  CU(cuGraphExecMemcpyNodeSetParams, (Exec*, Node*, const Copy3D*, Context*))                                    \
  CU(cuGraphExecMemsetNodeSetParams, (Exec*, Node*, const MemsetNode*, Context*))                                \
  CU(cuGraphExecHostNodeSetParams, (Exec*, Node*, const HostNode*))                                              \
  CU(cuGraphExecChildGraphNodeSetParams, (Exec*, Node*, Graph*))                                                 \
  CU(cuGraphExecEventRecordNodeSetEvent, (Exec*, Node*, Event*))                                                 \
  CU(cuGraphExecEventWaitNodeSetEvent, (Exec*, Node*, Event*))                                                   \
  CU(cuGraphExecBatchMemOpNodeSetParams, (Exec*, Node*, const BatchNode*))                                       \
  CU(cuGraphExecExternalSemaphoresSignalNodeSetParams, (Exec*, Node*, const SemaphoreNode*))                     \
  CU(cuGraphExecExternalSemaphoresWaitNodeSetParams, (Exec*, Node*, const SemaphoreNode*))                       \
  CU(cuGraphNodeSetEnabled, (Exec*, Node*, unsigned))                                                            \
  CU(cuGraphNodeGetEnabled, (Exec*, Node*, unsigned*))                                                           \
  CU(cuGraphUpload, (Exec*, Stream*))                                                                            \
  CU(cuGraphLaunch, (Exec*, Stream*))                                                                            \
  CU(cuUserObjectCreate, (UserObject**, void*, HostFunction, unsigned, unsigned))                                \
  CU(cuUserObjectRetain, (UserObject*, unsigned))                                                                \
  CU(cuUserObjectRelease, (UserObject*, unsigned))                                                               \
  CU(cuGraphRetainUserObject, (Graph*, UserObject*, unsigned, unsigned))                                         \
  CU(cuGraphReleaseUserObject, (Graph*, UserObject*, unsigned))                                                  \
  CU(cuProfilerStart, ())                                                                                        \
  CU(cuProfilerStop, ())

/// Answers for a function the driver does not have.
template <typename... Arguments>
Result missing(Arguments...) {
  return kNotSupported;
}

struct Table {
#define CUDAHIP_MEMBER(name, parameters) Result(*name) parameters = &missing;
  CUDAHIP_DRIVER(CUDAHIP_MEMBER)
#undef CUDAHIP_MEMBER
};

/// The driver's functions; those of a machine without a driver, or with one that did not start, all answer
/// kNotSupported.
const Table& driver();

/// kSuccess once the driver is open and initialised; else why not (kNoDevice without a driver).
Result driver_state();

}  // namespace cudahip::cu
