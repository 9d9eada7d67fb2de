// kernel_query.cpp: questions about kernels and settings of them: attributes, occupancy, names, and HIP 7's libraries
// of kernels. The figures are those of one plausible device: 8 blocks of any size fit on a multiprocessor as far as
// shared memory allows.
#include <algorithm>
#include <cstring>

#include "api.h"
#include "device.h"
#include "module.h"
#include "stream.h"

namespace cpuhip {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int kWarp = 64;
constexpr int kBlocksPerMultiprocessor = 8;
constexpr int kMultiprocessors = 4;
constexpr std::size_t kSharedBytes = std::size_t{64} << 10;

int blocks_that_fit(const Kernel& kernel, std::size_t shared_bytes) {
  const std::size_t used = kernel.static_shared_bytes + shared_bytes;
  return used == 0 ? kBlocksPerMultiprocessor
                   : static_cast<int>(std::min<std::size_t>(kBlocksPerMultiprocessor, kSharedBytes / used));
}

hipError_t max_active_blocks(int* blocks, const std::shared_ptr<const Kernel>& kernel, int block_size,
                             std::size_t shared_bytes) {
  if (blocks == nullptr || kernel == nullptr || block_size <= 0) return hipErrorInvalidValue;
  *blocks = block_size > kMaxThreads ? 0 : blocks_that_fit(*kernel, shared_bytes);
  return hipSuccess;
}

hipError_t potential_block_size(int* grid, int* block, const std::shared_ptr<const Kernel>& kernel,
                                std::size_t shared_bytes, int limit) {
  if (grid == nullptr || block == nullptr || kernel == nullptr) return hipErrorInvalidValue;
  const int size = limit <= 0 || limit > kMaxThreads ? kMaxThreads : (limit + kWarp - 1) / kWarp * kWarp;
  *block = std::min(size, static_cast<int>(kernel->max_threads));
  *grid = kMultiprocessors * blocks_that_fit(*kernel, shared_bytes);
  return hipSuccess;
}

hipError_t function_attribute(int* value, hipFunction_attribute attribute, const Kernel& kernel) {
  switch (attribute) {
    case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = static_cast<int>(kernel.max_threads);
      break;
    case HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(kernel.static_shared_bytes);
      break;
    case HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    case HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    case HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = 0;
      break;
    case HIP_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 32;
      break;
    case HIP_FUNC_ATTRIBUTE_PTX_VERSION:
    case HIP_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = 90;
      break;
    case HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = static_cast<int>(kSharedBytes - std::min<std::size_t>(kSharedBytes, kernel.static_shared_bytes));
      break;
    default:
      return hipErrorInvalidValue;
  }
  return hipSuccess;
}

hipError_t function_attributes(hipFuncAttributes* attributes, const void* stub) {
  if (attributes == nullptr) return hipErrorInvalidValue;
  const std::shared_ptr<const Kernel> kernel = find_kernel(stub);
  if (kernel == nullptr) return hipErrorInvalidDeviceFunction;
  *attributes = {};
  attributes->binaryVersion = attributes->ptxVersion = 90;
  attributes->numRegs = 32;
  attributes->maxThreadsPerBlock = static_cast<int>(kernel->max_threads);
  attributes->sharedSizeBytes = kernel->static_shared_bytes;
  attributes->maxDynamicSharedSizeBytes =
      static_cast<int>(kSharedBytes - std::min<std::size_t>(kSharedBytes, kernel->static_shared_bytes));
  return hipSuccess;
}

hipError_t set_attribute(const void* stub, hipFuncAttribute attribute, int value) {
  if (stub == nullptr) return hipErrorInvalidDeviceFunction;
  if (attribute < 0 || attribute > hipFuncAttributeMax) return hipErrorInvalidValue;
  const std::shared_ptr<const Kernel> kernel = find_kernel(stub);
  if (kernel == nullptr) return hipErrorInvalidDeviceFunction;
  const auto free = static_cast<int>(kSharedBytes - std::min<std::size_t>(kSharedBytes, kernel->static_shared_bytes));
  if (attribute == hipFuncAttributeMaxDynamicSharedMemorySize && (value < 0 || value > free))
    return hipErrorInvalidValue;
  if (attribute == hipFuncAttributePreferredSharedMemoryCarveout && (value < -1 || value > 100))
    return hipErrorInvalidValue;
  if (attribute == hipFuncAttributeMaxDynamicSharedMemorySize) *kernel->shared_limit = value;
  return hipSuccess;
}

}  // namespace
}  // namespace cpuhip

using cpuhip::api;
using cpuhip::Call;
using cpuhip::find_kernel;
using cpuhip::kernel_of;

CPUHIP_EXPORT hipError_t hipFuncGetAttribute(int* value, hipFunction_attribute attribute, hipFunction_t function) {
  return api("hipFuncGetAttribute", [&](Call&) {
    if (value == nullptr) return hipErrorInvalidValue;
    const auto kernel = kernel_of(function);
    return kernel == nullptr ? hipErrorInvalidHandle : cpuhip::function_attribute(value, attribute, *kernel);
  });
}

CPUHIP_EXPORT hipError_t hipFuncGetAttributes(hipFuncAttributes* attributes, const void* function) {
  return api("hipFuncGetAttributes", [&](Call&) { return cpuhip::function_attributes(attributes, function); });
}

CPUHIP_EXPORT hipError_t hipFuncSetAttribute(const void* function, hipFuncAttribute attribute, int value) {
  return api("hipFuncSetAttribute", [&](Call&) { return cpuhip::set_attribute(function, attribute, value); });
}

CPUHIP_EXPORT hipError_t hipFuncSetCacheConfig(const void* function, hipFuncCache_t setting) {
  return api("hipFuncSetCacheConfig", [&](Call&) {
    if (function == nullptr) return hipErrorInvalidDeviceFunction;
    const bool known = setting >= hipFuncCachePreferNone && setting <= hipFuncCachePreferEqual;
    return known ? hipSuccess : hipErrorInvalidValue;
  });
}

CPUHIP_EXPORT hipError_t hipKernelSetAttribute(int attribute, int value, void* kernel, hipDevice_t) {
  return api("hipKernelSetAttribute",
             [&](Call&) { return cpuhip::set_attribute(kernel, static_cast<hipFuncAttribute>(attribute), value); });
}

/// No header declares these two yet: the parameters are those of CUDA's.
CPUHIP_EXPORT hipError_t hipKernelSetAttributeForDevice(void* kernel, int attribute, int value, int) {
  return api("hipKernelSetAttributeForDevice",
             [&](Call&) { return cpuhip::set_attribute(kernel, static_cast<hipFuncAttribute>(attribute), value); });
}

CPUHIP_EXPORT hipError_t hipKernelSetCacheConfig(void* kernel, hipFuncCache_t setting, int) {
  return api("hipKernelSetCacheConfig", [&](Call&) {
    const bool known = setting >= hipFuncCachePreferNone && setting <= hipFuncCachePreferEqual;
    return known && kernel_of(kernel) != nullptr ? hipSuccess : hipErrorInvalidValue;
  });
}

CPUHIP_EXPORT hipError_t hipFuncSetSharedMemConfig(const void* function, hipSharedMemConfig setting) {
  return api("hipFuncSetSharedMemConfig", [&](Call&) {
    if (function == nullptr) return hipErrorInvalidDeviceFunction;
    const bool known = setting >= hipSharedMemBankSizeDefault && setting <= hipSharedMemBankSizeEightByte;
    return known ? hipSuccess : hipErrorInvalidValue;
  });
}

CPUHIP_EXPORT hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, hipFunction_t function,
                                                                            int block_size, size_t shared_bytes) {
  return api("hipModuleOccupancyMaxActiveBlocksPerMultiprocessor",
             [&](Call&) { return cpuhip::max_active_blocks(blocks, kernel_of(function), block_size, shared_bytes); });
}

CPUHIP_EXPORT hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, hipFunction_t function, int block_size, size_t shared_bytes, unsigned int) {
  return api("hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
             [&](Call&) { return cpuhip::max_active_blocks(blocks, kernel_of(function), block_size, shared_bytes); });
}

CPUHIP_EXPORT hipError_t hipModuleOccupancyMaxPotentialBlockSize(int* grid, int* block, hipFunction_t function,
                                                                 size_t shared_bytes, int limit) {
  return api("hipModuleOccupancyMaxPotentialBlockSize", [&](Call&) {
    return cpuhip::potential_block_size(grid, block, kernel_of(function), shared_bytes, limit);
  });
}

CPUHIP_EXPORT hipError_t hipModuleOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, hipFunction_t function,
                                                                          size_t shared_bytes, int limit,
                                                                          unsigned int) {
  return api("hipModuleOccupancyMaxPotentialBlockSizeWithFlags", [&](Call&) {
    return cpuhip::potential_block_size(grid, block, kernel_of(function), shared_bytes, limit);
  });
}

CPUHIP_EXPORT hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int block_size,
                                                                      size_t shared_bytes) {
  return api("hipOccupancyMaxActiveBlocksPerMultiprocessor",
             [&](Call&) { return cpuhip::max_active_blocks(blocks, find_kernel(function), block_size, shared_bytes); });
}

CPUHIP_EXPORT hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* function,
                                                                               int block_size, size_t shared_bytes,
                                                                               unsigned int flags) {
  return api("hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", [&](Call&) {
    if (flags > 1) return hipErrorInvalidValue;  // default, disable caching override
    return cpuhip::max_active_blocks(blocks, find_kernel(function), block_size, shared_bytes);
  });
}

CPUHIP_EXPORT hipError_t hipOccupancyMaxPotentialBlockSize(int* grid, int* block, const void* function,
                                                           size_t shared_bytes, int limit) {
  return api("hipOccupancyMaxPotentialBlockSize", [&](Call&) {
    return cpuhip::potential_block_size(grid, block, find_kernel(function), shared_bytes, limit);
  });
}

CPUHIP_EXPORT hipError_t hipOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* function, int blocks,
                                                                  int block_size) {
  return api("hipOccupancyAvailableDynamicSMemPerBlock", [&](Call&) {
    const auto kernel = find_kernel(function);
    if (bytes == nullptr || kernel == nullptr || blocks <= 0 || block_size <= 0) return hipErrorInvalidValue;
    const std::size_t share = cpuhip::kSharedBytes / static_cast<std::size_t>(blocks);
    *bytes = share - std::min<std::size_t>(share, kernel->static_shared_bytes);
    return hipSuccess;
  });
}

CPUHIP_EXPORT const char* hipKernelNameRef(hipFunction_t function) {
  const Call call("hipKernelNameRef");
  return cpuhip::function_name(function);
}

CPUHIP_EXPORT const char* hipKernelNameRefByPtr(const void* stub, hipStream_t handle) {
  Call call("hipKernelNameRefByPtr");
  cpuhip::Stream* stream = nullptr;
  hipFunction_t function = nullptr;
  if (stub == nullptr || resolve(call, handle, false, &stream) != hipSuccess ||
      cpuhip::function_of_stub(stub, stream->device(), &function) != hipSuccess)
    return nullptr;
  return cpuhip::function_name(function);
}
