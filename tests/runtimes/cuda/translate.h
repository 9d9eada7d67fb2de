// translate.h: HIP's handles, enumerations and structures as CUDA's, and back; the only place that knows both.
//
// Handles are CUDA's own: a hipStream_t is a CUstream, a hipGraphNode_t a CUgraphNode, a hipFunction_t a CUfunction.
// The null stream, hipStreamPerThread (2) and hipStreamLegacy (1) have the same values. Kernels are named by function
// or by host stub (registration.cpp). Errors: translate() in api.h.
#pragma once

#include <hip/hip_runtime_api.h>

#include "api.h"
#include "common/graph_abi.h"

namespace cudahip {

inline cu::Stream* stream_of(hipStream_t stream) { return reinterpret_cast<cu::Stream*>(stream); }
/// In functions with _spt: null is the thread's own stream.
inline cu::Stream* stream_of_thread(hipStream_t stream) {
  return stream_of(stream == nullptr ? hipStreamPerThread : stream);
}
inline cu::Event* event_of(hipEvent_t event) { return reinterpret_cast<cu::Event*>(event); }
inline cu::Graph* graph_of(hipGraph_t graph) { return reinterpret_cast<cu::Graph*>(graph); }
inline cu::Node* node_of(hipGraphNode_t node) { return reinterpret_cast<cu::Node*>(node); }
inline cu::Node* const* nodes_of(const hipGraphNode_t* nodes) { return reinterpret_cast<cu::Node* const*>(nodes); }
inline cu::Exec* exec_of(hipGraphExec_t exec) { return reinterpret_cast<cu::Exec*>(exec); }
inline cu::Pool* pool_of(hipMemPool_t pool) { return reinterpret_cast<cu::Pool*>(pool); }
inline cu::Module* module_of(hipModule_t module) { return reinterpret_cast<cu::Module*>(module); }
inline cu::Address address(const void* pointer) { return reinterpret_cast<cu::Address>(pointer); }

/// An out-parameter of one handle type as the driver's.
template <typename Driver, typename Hip>
Driver* out(Hip* place) {
  static_assert(sizeof(Hip) == sizeof(Driver));
  return reinterpret_cast<Driver*>(place);
}

/// hipEventCreateWithFlags's flags without those of AMD's caches.
unsigned event_flags(unsigned flags);
/// hipHostMalloc's flags; HIP's host memory is mapped and visible to all devices.
unsigned host_flags(unsigned flags);

/// hipGraphNodeType's value for CUgraphNodeType's: HIP 5 counts from Kernel = 1.
int node_type(int driver_type);
/// hipMemoryType's value for CUmemorytype's: its numbers changed with HIP 6.
int memory_type(int driver_type, bool managed);
/// CUdevice_attribute for hipDeviceAttribute_t; -1 without a twin.
int device_attribute(int wanted);

/// A copy of rows or boxes; hipErrorNotSupported for arrays, hipErrorInvalidValue for a kind that is none.
hipError_t translate(const hipMemcpy3DParms& from, cu::Copy3D* to);
void translate(const cu::Copy3D& from, hipMemcpy3DParms* to);
hipError_t linear_copy(void* dst, const void* src, std::size_t bytes, hipMemcpyKind kind, cu::Copy3D* to);
hipError_t rows(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch, std::size_t width,
                std::size_t height, hipMemcpyKind kind, cu::Copy2D* to);

/// A driver-style copy of boxes (its layout and memory types follow the version) or of rows.
hipError_t translate(const HIP_MEMCPY3D& from, cu::Copy3D* to);
void translate(const cu::Copy3D& from, HIP_MEMCPY3D* to);
hipError_t translate(const hip_Memcpy2D& from, cu::Copy2D* to);

/// What hipDrvGraph… takes for a fill: HIP_MEMSET_NODE_PARAMS, from 7.0 on hipMemsetParams.
cu::MemsetNode driver_fill(const void* params);

/// A node without a context works in the current device's.
cu::BatchNode translate(const hipfront::BatchMemOpNodeParams& from);
hipfront::BatchMemOpNodeParams translate(const cu::BatchNode& from);
/// Semaphores and external memory have had CUDA's layout since HIP 6.0; hipErrorNotSupported before.
hipError_t same_external_layout();

cu::MemsetNode translate(const hipMemsetParams& from);
hipMemsetParams translate(const cu::MemsetNode& from);

/// Resolves the function; hipErrorInvalidDeviceFunction for none.
hipError_t translate(const hipKernelNodeParams& from, cu::KernelNode* to);
/// The function is named by its host stub where it has one.
hipKernelNodeParams translate(const cu::KernelNode& from);

/// hipMemAllocationProp has another order of members before HIP 5.6.
cu::AllocationProperties translate(const hipMemAllocationProp& from);
void translate(const cu::AllocationProperties& from, hipMemAllocationProp* to);

/// HIP ends a launch's `extra` with 3, CUDA with 0; HIP takes a buffer with padding behind the last argument, CUDA
/// none. Holds the translated list.
class Extra {
 public:
  Extra(void** extra, cu::Function* function);
  void** get() { return used_ ? values_ : nullptr; }

 private:
  bool used_ = false;
  std::size_t bytes_ = 0;
  void* values_[5] = {};
};

// registration.cpp
/// The function behind a host stub on the current device, or the function itself.
hipError_t function_of(const void* stub_or_function, cu::Function** function);
/// The host stub whose function it is; null for functions of modules.
const void* stub_of(cu::Function* function);
/// The current device's copy of a registered variable.
hipError_t symbol_address(const void* symbol, cu::Address* place, std::size_t* bytes);

}  // namespace cudahip
