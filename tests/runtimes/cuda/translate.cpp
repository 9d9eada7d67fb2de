#include "translate.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace cudahip {
namespace {

constexpr int kNewLayoutSince = 50600000;

/// hipMemAllocationProp from HIP 5.6 on: the driver's own, which is followed by four reserved bytes more.
static_assert(sizeof(cu::AllocationProperties) == 32);
constexpr std::size_t kNewLayoutBytes = 32;

/// HIP took over the driver's numbers; what it does not have is unknown.
constexpr cu::Result kSharedErrors[] = {0,   1,   2,   3,   4,   100, 101, 200, 201, 205, 206, 207, 208, 209,
                                        210, 211, 212, 213, 214, 215, 216, 217, 218, 219, 300, 301, 302, 303,
                                        304, 400, 401, 500, 600, 700, 701, 702, 704, 705, 708, 709, 710, 712,
                                        713, 719, 720, 801, 900, 901, 902, 903, 904, 905, 906, 907, 908, 910};

/// hipDeviceAttribute_t and its CUdevice_attribute.
constexpr std::pair<int, int> kDeviceAttributes[] = {
    {hipDeviceAttributeEccEnabled, 32},
    {hipDeviceAttributeAsyncEngineCount, 40},
    {hipDeviceAttributeCanMapHostMemory, 19},
    {hipDeviceAttributeCanUseHostPointerForRegisteredMem, 91},
    {hipDeviceAttributeClockRate, 13},
    {hipDeviceAttributeComputeMode, 20},
    {hipDeviceAttributeComputePreemptionSupported, 90},
    {hipDeviceAttributeConcurrentKernels, 31},
    {hipDeviceAttributeConcurrentManagedAccess, 89},
    {hipDeviceAttributeCooperativeLaunch, 95},
    {hipDeviceAttributeDirectManagedMemAccessFromHost, 101},
    {hipDeviceAttributeGlobalL1CacheSupported, 79},
    {hipDeviceAttributeHostNativeAtomicSupported, 86},
    {hipDeviceAttributeIntegrated, 18},
    {hipDeviceAttributeIsMultiGpuBoard, 84},
    {hipDeviceAttributeKernelExecTimeout, 17},
    {hipDeviceAttributeL2CacheSize, 38},
    {hipDeviceAttributeLocalL1CacheSupported, 80},
    {hipDeviceAttributeComputeCapabilityMajor, 75},
    {hipDeviceAttributeManagedMemory, 83},
    {hipDeviceAttributeMaxBlocksPerMultiProcessor, 106},
    {hipDeviceAttributeMaxBlockDimX, 2},
    {hipDeviceAttributeMaxBlockDimY, 3},
    {hipDeviceAttributeMaxBlockDimZ, 4},
    {hipDeviceAttributeMaxGridDimX, 5},
    {hipDeviceAttributeMaxGridDimY, 6},
    {hipDeviceAttributeMaxGridDimZ, 7},
    {hipDeviceAttributeMaxThreadsPerBlock, 1},
    {hipDeviceAttributeMaxThreadsPerMultiProcessor, 39},
    {hipDeviceAttributeMaxPitch, 11},
    {hipDeviceAttributeMemoryBusWidth, 37},
    {hipDeviceAttributeMemoryClockRate, 36},
    {hipDeviceAttributeComputeCapabilityMinor, 76},
    {hipDeviceAttributeMultiprocessorCount, 16},
    {hipDeviceAttributePhysicalMultiProcessorCount, 16},
    {hipDeviceAttributePageableMemoryAccess, 88},
    {hipDeviceAttributePageableMemoryAccessUsesHostPageTables, 100},
    {hipDeviceAttributePciBusId, 33},
    {hipDeviceAttributePciDeviceId, 34},
    {hipDeviceAttributePciDomainID, 50},
    {hipDeviceAttributeMaxRegistersPerBlock, 12},
    {hipDeviceAttributeMaxRegistersPerMultiprocessor, 82},
    {hipDeviceAttributeMaxSharedMemoryPerBlock, 8},
    {hipDeviceAttributeSharedMemPerBlockOptin, 97},
    {hipDeviceAttributeSharedMemPerMultiprocessor, 81},
    {hipDeviceAttributeMaxSharedMemoryPerMultiprocessor, 81},
    {hipDeviceAttributeStreamPrioritiesSupported, 78},
    {hipDeviceAttributeSurfaceAlignment, 30},
    {hipDeviceAttributeTextureAlignment, 14},
    {hipDeviceAttributeTexturePitchAlignment, 51},
    {hipDeviceAttributeTotalConstantMemory, 9},
    {hipDeviceAttributeUnifiedAddressing, 41},
    {hipDeviceAttributeWarpSize, 10},
    {hipDeviceAttributeMemoryPoolsSupported, 115},
};

/// CUmemorytype of one side of a copy.
int side(hipMemcpyKind kind, bool source) {
  switch (kind) {
    case hipMemcpyHostToHost:
      return cu::kHostMemory;
    case hipMemcpyHostToDevice:
      return source ? cu::kHostMemory : cu::kDeviceMemory;
    case hipMemcpyDeviceToHost:
      return source ? cu::kDeviceMemory : cu::kHostMemory;
    case hipMemcpyDeviceToDevice:
      return cu::kDeviceMemory;
    default:
      return cu::kUnifiedMemory;
  }
}

/// Programs call managed and pinned memory what they like: only unregistered memory is told to the driver as the
/// host's.
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
  if (type == cu::kHostMemory)
    *host = pointer;
  else
    *device = address(pointer);
}

/// CUmemorytype for hipMemoryType; arrays are refused before.
int driver_memory(unsigned type) {
  if (hipfront::is_host_type(type, version())) return cu::kHostMemory;
  return type == (version() < 60000000 ? 1U : 2U) ? cu::kDeviceMemory : cu::kUnifiedMemory;
}
hipMemoryType hip_memory(int type) {
  constexpr int kUnifiedBefore6 = 3, kUnified = 11;
  if (type == cu::kUnifiedMemory) return static_cast<hipMemoryType>(version() < 60000000 ? kUnifiedBefore6 : kUnified);
  return static_cast<hipMemoryType>(memory_type(type, false));
}

/// Both sides of a driver-style copy: unified memory is named as a device's.
template <typename From, typename To>
hipError_t driver_sides(const From& from, To* to) {
  if (hipfront::is_array_type(from.srcMemoryType, version()) || hipfront::is_array_type(from.dstMemoryType, version()))
    return hipErrorNotSupported;
  to->src_type = driver_memory(from.srcMemoryType), to->dst_type = driver_memory(from.dstMemoryType);
  to->src_host = from.srcHost, to->src_device = address(from.srcDevice);
  to->dst_host = from.dstHost, to->dst_device = address(from.dstDevice);
  to->src_x = from.srcXInBytes, to->src_y = from.srcY, to->src_pitch = from.srcPitch;
  to->dst_x = from.dstXInBytes, to->dst_y = from.dstY, to->dst_pitch = from.dstPitch;
  to->width = from.WidthInBytes, to->height = from.Height;
  return hipSuccess;
}

}  // namespace

hipError_t translate(cu::Result result) {
  const bool shared = std::find(std::begin(kSharedErrors), std::end(kSharedErrors), result) != std::end(kSharedErrors);
  return shared ? static_cast<hipError_t>(result) : hipErrorUnknown;
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
  for (const auto& [attribute, twin] : kDeviceAttributes)
    if (attribute == wanted) return twin;
  constexpr int kVirtualMemoryManagementSupported = hipDeviceAttributeMemoryPoolsSupported + 1;  // from HIP 5.3 on
  return wanted == kVirtualMemoryManagementSupported && version() >= 50300000 ? 102 : -1;
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

hipError_t translate(const HIP_MEMCPY3D& params, cu::Copy3D* to) {
  const hipfront::WideMemcpy3D from = hipfront::read_driver_copy(&params, version());
  *to = {};
  to->src_z = from.srcZ, to->src_level = from.srcLOD, to->src_height = from.srcHeight;
  to->dst_z = from.dstZ, to->dst_level = from.dstLOD, to->dst_height = from.dstHeight;
  to->depth = from.Depth;
  return driver_sides(from, to);
}

void translate(const cu::Copy3D& from, HIP_MEMCPY3D* params) {
  hipfront::WideMemcpy3D to{};
  to.srcXInBytes = from.src_x, to.srcY = from.src_y, to.srcZ = from.src_z, to.srcLOD = from.src_level;
  to.dstXInBytes = from.dst_x, to.dstY = from.dst_y, to.dstZ = from.dst_z, to.dstLOD = from.dst_level;
  to.srcMemoryType = hip_memory(from.src_type), to.dstMemoryType = hip_memory(from.dst_type);
  to.srcHost = from.src_host, to.srcDevice = reinterpret_cast<void*>(from.src_device);
  to.dstHost = from.dst_host, to.dstDevice = reinterpret_cast<void*>(from.dst_device);
  to.srcPitch = from.src_pitch, to.srcHeight = from.src_height;
  to.dstPitch = from.dst_pitch, to.dstHeight = from.dst_height;
  to.WidthInBytes = from.width, to.Height = from.height, to.Depth = from.depth;
  hipfront::write_driver_copy(to, version(), params);
}

hipError_t translate(const hip_Memcpy2D& from, cu::Copy2D* to) {
  *to = {};
  return driver_sides(from, to);
}

cu::MemsetNode driver_fill(const void* params) {
  if (version() >= 70000000) return translate(*static_cast<const hipMemsetParams*>(params));
  const auto& from = *static_cast<const hipfront::MemsetNodeParams*>(params);
  return {address(from.dst), from.pitch, from.value, from.element_size, from.width, from.height};
}

cu::BatchNode translate(const hipfront::BatchMemOpNodeParams& from) {
  auto* context = reinterpret_cast<cu::Context*>(from.context);
  return {context != nullptr ? context : context_of(current_ordinal()), from.count, from.operations, from.flags};
}

hipfront::BatchMemOpNodeParams translate(const cu::BatchNode& from) {
  return {reinterpret_cast<hipCtx_t>(from.context), from.count, from.operations, from.flags};
}

hipError_t same_external_layout() { return version() >= 60000000 ? hipSuccess : hipErrorNotSupported; }

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
