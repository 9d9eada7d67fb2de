#include "translate.h"

#include <cstring>

namespace cudahip {
namespace {

constexpr int kNewLayoutSince = 50600000;

/// hipMemAllocationProp from HIP 5.6 on: the driver's own, which is followed by four reserved bytes more.
static_assert(sizeof(cu::AllocationProperties) == 32);
constexpr std::size_t kNewLayoutBytes = 32;

/// CUmemorytype of one side of a copy.
int side(hipMemcpyKind kind, bool source) {
  switch (kind) {
    case hipMemcpyHostToHost: return cu::kHostMemory;
    case hipMemcpyHostToDevice: return source ? cu::kHostMemory : cu::kDeviceMemory;
    case hipMemcpyDeviceToHost: return source ? cu::kDeviceMemory : cu::kHostMemory;
    case hipMemcpyDeviceToDevice: return cu::kDeviceMemory;
    default: return cu::kUnifiedMemory;
  }
}

/// Programs call managed and pinned memory what they like: only unregistered memory is told to the driver as the host's.
int memory_of(const void* pointer, hipMemcpyKind kind, bool source) {
  const int said = side(kind, source);
  if (said == cu::kUnifiedMemory) return said;
  int type = 0;
  const cu::Result known = driver().cuPointerGetAttribute(&type, 2 /* MEMORY_TYPE */, address(pointer));
  return known == cu::kSuccess ? cu::kUnifiedMemory : cu::kHostMemory;
}

bool valid(hipMemcpyKind kind) { return kind >= hipMemcpyHostToHost && kind <= hipMemcpyDefault; }

void set_side(const void* pointer, int type, int* to_type, const void** host, cu::Address* device) {
  *to_type = type;
  if (type == cu::kHostMemory) *host = pointer;
  else *device = address(pointer);
}

}  // namespace

hipError_t translate(cu::Result result) {
  // HIP took over the driver's numbers; what it does not have is unknown.
  switch (result) {
    case 0: case 1: case 2: case 3: case 4: case 100: case 101: case 200: case 201: case 205: case 206: case 207:
    case 208: case 209: case 210: case 211: case 212: case 213: case 214: case 215: case 216: case 217: case 218:
    case 219: case 300: case 301: case 302: case 303: case 304: case 400: case 401: case 500: case 600: case 700:
    case 701: case 702: case 704: case 705: case 708: case 709: case 710: case 712: case 713: case 719: case 720:
    case 801: case 900: case 901: case 902: case 903: case 904: case 905: case 906: case 907: case 908: case 910:
      return static_cast<hipError_t>(result);
    default: return hipErrorUnknown;
  }
}

unsigned event_flags(unsigned flags) { return flags & 7u; }

unsigned host_flags(unsigned flags) {
  constexpr unsigned kPortable = 1, kMapped = 2, kWriteCombined = 4;
  return (flags & kWriteCombined) | kPortable | kMapped;
}

int node_type(int driver_type) {
  constexpr int kBatchMemOp = 12, kHipBatchMemOp = 14;
  const int from_zero = driver_type == kBatchMemOp ? kHipBatchMemOp : driver_type;
  return version() < 60000000 ? from_zero + 1 : from_zero;
}

int memory_type(int driver_type, bool managed) {
  if (version() < 60000000) return managed ? 3 : driver_type == cu::kHostMemory ? 0 : 1;
  return managed ? 3 : driver_type == cu::kHostMemory ? 1 : 2;
}

int device_attribute(int wanted) {
  switch (wanted) {
    case hipDeviceAttributeEccEnabled: return 32;
    case hipDeviceAttributeAsyncEngineCount: return 40;
    case hipDeviceAttributeCanMapHostMemory: return 19;
    case hipDeviceAttributeCanUseHostPointerForRegisteredMem: return 91;
    case hipDeviceAttributeClockRate: return 13;
    case hipDeviceAttributeComputeMode: return 20;
    case hipDeviceAttributeComputePreemptionSupported: return 90;
    case hipDeviceAttributeConcurrentKernels: return 31;
    case hipDeviceAttributeConcurrentManagedAccess: return 89;
    case hipDeviceAttributeCooperativeLaunch: return 95;
    case hipDeviceAttributeDirectManagedMemAccessFromHost: return 101;
    case hipDeviceAttributeGlobalL1CacheSupported: return 79;
    case hipDeviceAttributeHostNativeAtomicSupported: return 86;
    case hipDeviceAttributeIntegrated: return 18;
    case hipDeviceAttributeIsMultiGpuBoard: return 84;
    case hipDeviceAttributeKernelExecTimeout: return 17;
    case hipDeviceAttributeL2CacheSize: return 38;
    case hipDeviceAttributeLocalL1CacheSupported: return 80;
    case hipDeviceAttributeComputeCapabilityMajor: return 75;
    case hipDeviceAttributeManagedMemory: return 83;
    case hipDeviceAttributeMaxBlocksPerMultiProcessor: return 106;
    case hipDeviceAttributeMaxBlockDimX: return 2;
    case hipDeviceAttributeMaxBlockDimY: return 3;
    case hipDeviceAttributeMaxBlockDimZ: return 4;
    case hipDeviceAttributeMaxGridDimX: return 5;
    case hipDeviceAttributeMaxGridDimY: return 6;
    case hipDeviceAttributeMaxGridDimZ: return 7;
    case hipDeviceAttributeMaxThreadsPerBlock: return 1;
    case hipDeviceAttributeMaxThreadsPerMultiProcessor: return 39;
    case hipDeviceAttributeMaxPitch: return 11;
    case hipDeviceAttributeMemoryBusWidth: return 37;
    case hipDeviceAttributeMemoryClockRate: return 36;
    case hipDeviceAttributeComputeCapabilityMinor: return 76;
    case hipDeviceAttributeMultiprocessorCount:
    case hipDeviceAttributePhysicalMultiProcessorCount: return 16;
    case hipDeviceAttributePageableMemoryAccess: return 88;
    case hipDeviceAttributePageableMemoryAccessUsesHostPageTables: return 100;
    case hipDeviceAttributePciBusId: return 33;
    case hipDeviceAttributePciDeviceId: return 34;
    case hipDeviceAttributePciDomainID: return 50;
    case hipDeviceAttributeMaxRegistersPerBlock: return 12;
    case hipDeviceAttributeMaxRegistersPerMultiprocessor: return 82;
    case hipDeviceAttributeMaxSharedMemoryPerBlock: return 8;
    case hipDeviceAttributeSharedMemPerBlockOptin: return 97;
    case hipDeviceAttributeSharedMemPerMultiprocessor:
    case hipDeviceAttributeMaxSharedMemoryPerMultiprocessor: return 81;
    case hipDeviceAttributeStreamPrioritiesSupported: return 78;
    case hipDeviceAttributeSurfaceAlignment: return 30;
    case hipDeviceAttributeTextureAlignment: return 14;
    case hipDeviceAttributeTexturePitchAlignment: return 51;
    case hipDeviceAttributeTotalConstantMemory: return 9;
    case hipDeviceAttributeUnifiedAddressing: return 41;
    case hipDeviceAttributeWarpSize: return 10;
    case hipDeviceAttributeMemoryPoolsSupported: return 115;
    case hipDeviceAttributeMemoryPoolsSupported + 1:  // VirtualMemoryManagementSupported, from HIP 5.3 on
      return version() >= 50300000 ? 102 : -1;
    default: return -1;
  }
}

hipError_t linear_copy(void* dst, const void* src, std::size_t bytes, hipMemcpyKind kind, cu::Copy3D* to) {
  if (!valid(kind)) return hipErrorInvalidMemcpyDirection;
  *to = {};
  set_side(src, memory_of(src, kind, true), &to->src_type, &to->src_host, &to->src_device);
  set_side(dst, memory_of(dst, kind, false), &to->dst_type, const_cast<const void**>(&to->dst_host), &to->dst_device);
  to->src_pitch = to->dst_pitch = to->width = bytes;
  to->src_height = to->dst_height = to->height = to->depth = 1;
  return hipSuccess;
}

hipError_t translate(const hipMemcpy3DParms& from, cu::Copy3D* to) {
  if (from.srcArray != nullptr || from.dstArray != nullptr) return hipErrorNotSupported;
  if (const hipError_t error = linear_copy(from.dstPtr.ptr, from.srcPtr.ptr, 0, from.kind, to); error != hipSuccess)
    return error;
  to->src_x = from.srcPos.x, to->src_y = from.srcPos.y, to->src_z = from.srcPos.z;
  to->dst_x = from.dstPos.x, to->dst_y = from.dstPos.y, to->dst_z = from.dstPos.z;
  to->src_pitch = from.srcPtr.pitch, to->src_height = from.srcPtr.ysize;
  to->dst_pitch = from.dstPtr.pitch, to->dst_height = from.dstPtr.ysize;
  to->width = from.extent.width, to->height = from.extent.height, to->depth = from.extent.depth;
  return hipSuccess;
}

void translate(const cu::Copy3D& from, hipMemcpy3DParms* to) {
  const auto place = [](int type, const void* host, cu::Address device) {
    return type == cu::kHostMemory ? const_cast<void*>(host) : reinterpret_cast<void*>(device);
  };
  const auto on_host = [](int type, const void* pointer) {
    int found = 0;
    if (type != cu::kUnifiedMemory) return type == cu::kHostMemory;
    return driver().cuPointerGetAttribute(&found, 2 /* MEMORY_TYPE */, address(pointer)) != cu::kSuccess ||
           found == cu::kHostMemory;
  };
  *to = {};
  to->srcPtr = {place(from.src_type, from.src_host, from.src_device), from.src_pitch, from.width, from.src_height};
  to->dstPtr = {place(from.dst_type, from.dst_host, from.dst_device), from.dst_pitch, from.width, from.dst_height};
  to->srcPos = {from.src_x, from.src_y, from.src_z};
  to->dstPos = {from.dst_x, from.dst_y, from.dst_z};
  to->extent = {from.width, from.height, from.depth};
  const bool host_source = on_host(from.src_type, to->srcPtr.ptr), host_target = on_host(from.dst_type, to->dstPtr.ptr);
  to->kind = host_source ? (host_target ? hipMemcpyHostToHost : hipMemcpyHostToDevice)
                         : (host_target ? hipMemcpyDeviceToHost : hipMemcpyDeviceToDevice);
}

hipError_t rows(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch, std::size_t width,
                std::size_t height, hipMemcpyKind kind, cu::Copy2D* to) {
  if (!valid(kind)) return hipErrorInvalidMemcpyDirection;
  if (width > dst_pitch || width > src_pitch) return hipErrorInvalidPitchValue;
  *to = {};
  set_side(src, memory_of(src, kind, true), &to->src_type, &to->src_host, &to->src_device);
  set_side(dst, memory_of(dst, kind, false), &to->dst_type, const_cast<const void**>(&to->dst_host), &to->dst_device);
  to->src_pitch = src_pitch, to->dst_pitch = dst_pitch, to->width = width, to->height = height;
  return hipSuccess;
}

cu::MemsetNode translate(const hipMemsetParams& from) {
  return {address(from.dst), from.pitch, from.value, from.elementSize, from.width, from.height};
}

hipMemsetParams translate(const cu::MemsetNode& from) {
  hipMemsetParams to{};
  to.dst = reinterpret_cast<void*>(from.dst);
  to.pitch = from.pitch, to.value = from.value, to.elementSize = from.element_bytes;
  to.width = from.width, to.height = from.height;
  return to;
}

hipError_t translate(const hipKernelNodeParams& from, cu::KernelNode* to) {
  *to = {};
  if (const hipError_t error = function_of(from.func, &to->function); error != hipSuccess) return error;
  to->grid[0] = from.gridDim.x, to->grid[1] = from.gridDim.y, to->grid[2] = from.gridDim.z;
  to->block[0] = from.blockDim.x, to->block[1] = from.blockDim.y, to->block[2] = from.blockDim.z;
  to->shared_bytes = from.sharedMemBytes;
  to->params = from.kernelParams;
  return hipSuccess;
}

hipKernelNodeParams translate(const cu::KernelNode& from) {
  hipKernelNodeParams to{};
  const void* stub = stub_of(from.function);
  to.func = stub != nullptr ? const_cast<void*>(stub) : from.function;
  to.gridDim = dim3(from.grid[0], from.grid[1], from.grid[2]);
  to.blockDim = dim3(from.block[0], from.block[1], from.block[2]);
  to.sharedMemBytes = from.shared_bytes;
  to.kernelParams = from.params;
  to.extra = from.extra;
  return to;
}

cu::AllocationProperties translate(const hipMemAllocationProp& from) {
  cu::AllocationProperties to{};
  if (version() >= kNewLayoutSince) {
    std::memcpy(&to, &from, kNewLayoutBytes);
    return to;
  }
  to.type = from.type, to.handle_types = from.requestedHandleType;
  to.location = {from.location.type, from.location.id};
  return to;
}

void translate(const cu::AllocationProperties& from, hipMemAllocationProp* to) {
  if (version() >= kNewLayoutSince) {
    std::memcpy(static_cast<void*>(to), &from, kNewLayoutBytes);
    return;
  }
  *to = {};
  to->type = static_cast<hipMemAllocationType>(from.type);
  to->requestedHandleType = static_cast<hipMemAllocationHandleType>(from.handle_types);
  to->location = {static_cast<hipMemLocationType>(from.location.type), from.location.id};
}

Extra::Extra(void** extra, cu::Function* function) {
  if (extra == nullptr) return;
  used_ = true;
  for (int i = 0; i < 4; i += 2) {
    if (extra[i] == HIP_LAUNCH_PARAM_END) break;
    values_[i] = extra[i];
    values_[i + 1] = extra[i + 1];
    if (extra[i] != HIP_LAUNCH_PARAM_BUFFER_SIZE) continue;
    std::size_t taken = 0, offset = 0, bytes = 0;
    for (std::size_t index = 0; driver().cuFuncGetParamInfo(function, index, &offset, &bytes) == cu::kSuccess; ++index)
      taken = offset + bytes;
    bytes_ = *static_cast<std::size_t*>(extra[i + 1]);
    if (taken != 0 && bytes_ > taken) bytes_ = taken;
    values_[i + 1] = &bytes_;
  }
}

}  // namespace cudahip
