// device.cpp: what devices are and can do, their limits, peers.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "common/properties_r0600.h"
#include "translate.h"

namespace cudahip {
namespace {

bool valid(int ordinal) { return ordinal >= 0 && ordinal < device_count(); }

int attribute(int driver_attribute, int ordinal) {
  int value = 0;
  driver().cuDeviceGetAttribute(&value, driver_attribute, ordinal);
  return value;
}

int hip_attribute(hipDeviceAttribute_t wanted, int ordinal) { return attribute(device_attribute(wanted), ordinal); }

hipError_t properties(hipDeviceProp_t* place, int ordinal) {
  if (place == nullptr) return hipErrorInvalidValue;
  if (!valid(ordinal)) return hipErrorInvalidDevice;
  hipDeviceProp_t p{};
  driver().cuDeviceGetName(p.name, sizeof p.name, ordinal);
  driver().cuDeviceTotalMem_v2(&p.totalGlobalMem, ordinal);
  const auto of = [&](hipDeviceAttribute_t wanted) { return hip_attribute(wanted, ordinal); };
  p.sharedMemPerBlock = static_cast<std::size_t>(of(hipDeviceAttributeMaxSharedMemoryPerBlock));
  p.maxSharedMemoryPerMultiProcessor = static_cast<std::size_t>(of(hipDeviceAttributeMaxSharedMemoryPerMultiprocessor));
  p.regsPerBlock = of(hipDeviceAttributeMaxRegistersPerBlock);
  p.warpSize = of(hipDeviceAttributeWarpSize);
  p.maxThreadsPerBlock = of(hipDeviceAttributeMaxThreadsPerBlock);
  for (int i = 0; i < 3; ++i) {
    p.maxThreadsDim[i] = attribute(2 + i, ordinal);
    p.maxGridSize[i] = attribute(5 + i, ordinal);
  }
  p.clockRate = of(hipDeviceAttributeClockRate);
  p.memoryClockRate = of(hipDeviceAttributeMemoryClockRate);
  p.memoryBusWidth = of(hipDeviceAttributeMemoryBusWidth);
  p.totalConstMem = static_cast<std::size_t>(of(hipDeviceAttributeTotalConstantMemory));
  p.major = of(hipDeviceAttributeComputeCapabilityMajor);
  p.minor = of(hipDeviceAttributeComputeCapabilityMinor);
  p.multiProcessorCount = of(hipDeviceAttributeMultiprocessorCount);
  p.l2CacheSize = of(hipDeviceAttributeL2CacheSize);
  p.maxThreadsPerMultiProcessor = of(hipDeviceAttributeMaxThreadsPerMultiProcessor);
  p.concurrentKernels = of(hipDeviceAttributeConcurrentKernels);
  p.canMapHostMemory = of(hipDeviceAttributeCanMapHostMemory);
  p.cooperativeLaunch = of(hipDeviceAttributeCooperativeLaunch);
  p.managedMemory = of(hipDeviceAttributeManagedMemory);
  p.ECCEnabled = of(hipDeviceAttributeEccEnabled);
  p.integrated = of(hipDeviceAttributeIntegrated);
  p.pciDomainID = of(hipDeviceAttributePciDomainID);
  p.pciBusID = of(hipDeviceAttributePciBusId);
  p.pciDeviceID = of(hipDeviceAttributePciDeviceId);
  p.memPitch = static_cast<std::size_t>(of(hipDeviceAttributeMaxPitch));
  p.textureAlignment = static_cast<std::size_t>(of(hipDeviceAttributeTextureAlignment));
  p.texturePitchAlignment = static_cast<std::size_t>(of(hipDeviceAttributeTexturePitchAlignment));
  std::snprintf(p.gcnArchName, sizeof p.gcnArchName, "sm_%d%d", p.major, p.minor);
  p.arch.hasGlobalInt32Atomics = p.arch.hasGlobalFloatAtomicExch = p.arch.hasSharedInt32Atomics = 1;
  p.arch.hasGlobalInt64Atomics = p.arch.hasDoubles = p.arch.hasWarpVote = p.arch.hasWarpBallot = 1;
  p.arch.hasWarpShuffle = p.arch.has3dGrid = 1;
  *place = p;
  return hipSuccess;
}

hipError_t properties_r0600(void* place, int ordinal) {
  hipDeviceProp_t old;
  if (place == nullptr) return hipErrorInvalidValue;
  if (const hipError_t error = properties(&old, ordinal); error != hipSuccess) return error;
  hipfront::PropertiesR0600 p{};
  std::memcpy(p.name, old.name, sizeof p.name);
  cu::Uuid uuid{};
  driver().cuDeviceGetUuid_v2(&uuid, ordinal);
  std::memcpy(p.uuid, uuid.bytes, sizeof p.uuid);
  p.total_bytes = old.totalGlobalMem;
  p.shared_bytes_per_block = old.sharedMemPerBlock;
  p.shared_bytes_per_processor = p.max_shared_bytes_per_processor = old.maxSharedMemoryPerMultiProcessor;
  p.shared_bytes_opt_in = static_cast<std::size_t>(hip_attribute(hipDeviceAttributeSharedMemPerBlockOptin, ordinal));
  p.registers_per_block = old.regsPerBlock;
  p.registers_per_processor = hip_attribute(hipDeviceAttributeMaxRegistersPerMultiprocessor, ordinal);
  p.warp_size = old.warpSize;
  p.max_pitch = old.memPitch;
  p.max_threads_per_block = old.maxThreadsPerBlock;
  std::copy_n(old.maxThreadsDim, 3, p.max_threads_dim);
  std::copy_n(old.maxGridSize, 3, p.max_grid);
  p.clock_khz = old.clockRate;
  p.constant_bytes = old.totalConstMem;
  p.major = old.major, p.minor = old.minor;
  p.texture_alignment = old.textureAlignment, p.texture_pitch_alignment = old.texturePitchAlignment;
  p.processors = old.multiProcessorCount;
  p.concurrent_kernels = old.concurrentKernels, p.can_map_host = old.canMapHostMemory;
  p.cooperative_launch = old.cooperativeLaunch, p.managed_memory = old.managedMemory;
  p.unified_addressing = hip_attribute(hipDeviceAttributeUnifiedAddressing, ordinal);
  p.ecc = old.ECCEnabled, p.integrated = old.integrated;
  p.pci_domain = old.pciDomainID, p.pci_bus = old.pciBusID, p.pci_device = old.pciDeviceID;
  p.async_engines = hip_attribute(hipDeviceAttributeAsyncEngineCount, ordinal);
  p.memory_clock_khz = old.memoryClockRate, p.memory_bus_bits = old.memoryBusWidth;
  p.l2_bytes = old.l2CacheSize;
  p.max_threads_per_processor = old.maxThreadsPerMultiProcessor;
  p.stream_priorities = hip_attribute(hipDeviceAttributeStreamPrioritiesSupported, ordinal);
  p.memory_pools = hip_attribute(hipDeviceAttributeMemoryPoolsSupported, ordinal);
  p.host_register = 1;
  std::memcpy(p.arch_name, old.gcnArchName, sizeof p.arch_name);
  p.arch = old.arch;
  std::memcpy(place, &p, sizeof p);
  return hipSuccess;
}

hipError_t hip_device_attribute(int* value, int wanted, int ordinal) {
  if (value == nullptr) return hipErrorInvalidValue;
  if (!valid(ordinal)) return hipErrorInvalidDevice;
  if (const int twin = device_attribute(wanted); twin >= 0)
    return translate(driver().cuDeviceGetAttribute(value, twin, ordinal));
  switch (wanted) {
    case hipDeviceAttributeCanUseStreamWaitValue:
    case hipDeviceAttributeFineGrainSupport:
      *value = 1;
      return hipSuccess;
    case hipDeviceAttributeTotalGlobalMem: {
      std::size_t bytes = 0;
      const cu::Result result = driver().cuDeviceTotalMem_v2(&bytes, ordinal);
      *value = static_cast<int>(std::min<std::size_t>(0x7fffffff, bytes));
      return translate(result);
    }
    default:
      break;
  }
  const bool known = (wanted >= 0 && wanted <= hipDeviceAttributeMemoryPoolsSupported) ||
                     (wanted >= hipDeviceAttributeAmdSpecificBegin && wanted <= hipDeviceAttributeFineGrainSupport);
  if (!known) return hipErrorInvalidValue;
  *value = 0;
  return hipSuccess;
}

/// A peer by its ordinal, for the current device.
template <typename Call>
hipError_t with_peer(int peer, Call&& call) {
  if (!valid(peer) || peer == current_ordinal()) return hipErrorInvalidDevice;
  return translate(call(context_of(peer)));
}

}  // namespace
}  // namespace cudahip

using namespace cudahip;

HIP_EXPORT hipError_t hipDeviceGet(hipDevice_t* device, int ordinal) {
  return api([&] {
    if (device == nullptr) return hipErrorInvalidValue;
    if (!valid(ordinal)) return hipErrorInvalidDevice;
    *device = ordinal;
    return hipSuccess;
  });
}
HIP_EXPORT hipError_t hipGetDeviceProperties(hipDeviceProp_t* place, int ordinal) {
  return api([&] { return properties(place, ordinal); });
}
HIP_EXPORT hipError_t hipGetDevicePropertiesR0000(hipDeviceProp_t* place, int ordinal) {
  return api([&] { return properties(place, ordinal); });
}
HIP_EXPORT hipError_t hipGetDevicePropertiesR0600(void* place, int ordinal) {
  return api([&] { return properties_r0600(place, ordinal); });
}
HIP_EXPORT hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t wanted, int ordinal) {
  return api([&] { return hip_device_attribute(value, static_cast<int>(wanted), ordinal); });
}
HIP_EXPORT hipError_t hipDeviceComputeCapability(int* major, int* minor, hipDevice_t ordinal) {
  return api([&] {
    if (major == nullptr || minor == nullptr) return hipErrorInvalidValue;
    const cu::Result result = driver().cuDeviceGetAttribute(major, 75, ordinal);
    return translate(result != cu::kSuccess ? result : driver().cuDeviceGetAttribute(minor, 76, ordinal));
  });
}
HIP_EXPORT hipError_t hipDeviceGetName(char* name, int length, hipDevice_t ordinal) {
  return api([&] { return driver().cuDeviceGetName(name, length, ordinal); });
}
HIP_EXPORT hipError_t hipDeviceGetUuid(hipUUID* uuid, hipDevice_t ordinal) {
  return api([&] { return driver().cuDeviceGetUuid_v2(reinterpret_cast<cu::Uuid*>(uuid), ordinal); });
}
HIP_EXPORT hipError_t hipDeviceGetPCIBusId(char* id, int length, int ordinal) {
  return api([&] { return driver().cuDeviceGetPCIBusId(id, length, ordinal); });
}
HIP_EXPORT hipError_t hipDeviceGetByPCIBusId(int* ordinal, const char* id) {
  return api([&] { return driver().cuDeviceGetByPCIBusId(ordinal, id); });
}
HIP_EXPORT hipError_t hipDeviceTotalMem(std::size_t* bytes, hipDevice_t ordinal) {
  return api([&] { return driver().cuDeviceTotalMem_v2(bytes, ordinal); });
}
HIP_EXPORT hipError_t hipDeviceGetP2PAttribute(int* value, hipDeviceP2PAttr wanted, int from, int to) {
  return api([&] { return driver().cuDeviceGetP2PAttribute(value, static_cast<int>(wanted) + 1, from, to); });
}
HIP_EXPORT hipError_t hipDeviceCanAccessPeer(int* answer, int from, int to) {
  return api([&] {
    if (answer == nullptr) return hipErrorInvalidValue;
    *answer = 0;
    if (!valid(from) || !valid(to)) return hipErrorInvalidDevice;
    return from == to ? hipSuccess : translate(driver().cuDeviceCanAccessPeer(answer, from, to));
  });
}
HIP_EXPORT hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  return api([&] {
    return with_peer(peer, [&](cu::Context* context) { return driver().cuCtxEnablePeerAccess(context, flags); });
  });
}
HIP_EXPORT hipError_t hipDeviceDisablePeerAccess(int peer) {
  return api(
      [&] { return with_peer(peer, [&](cu::Context* context) { return driver().cuCtxDisablePeerAccess(context); }); });
}
HIP_EXPORT hipError_t hipCtxEnablePeerAccess(hipCtx_t peer, unsigned flags) {
  return api([&] { return driver().cuCtxEnablePeerAccess(reinterpret_cast<cu::Context*>(peer), flags); });
}
HIP_EXPORT hipError_t hipCtxDisablePeerAccess(hipCtx_t peer) {
  return api([&] { return driver().cuCtxDisablePeerAccess(reinterpret_cast<cu::Context*>(peer)); });
}
HIP_EXPORT hipError_t hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return api([&] { return driver().cuCtxGetStreamPriorityRange(least, greatest); });
}
HIP_EXPORT hipError_t hipSetDeviceFlags(unsigned flags) {
  return api([&] { return driver().cuDevicePrimaryCtxSetFlags_v2(current_ordinal(), flags); });
}
HIP_EXPORT hipError_t hipDevicePrimaryCtxSetFlags(hipDevice_t ordinal, unsigned flags) {
  return api([&] { return driver().cuDevicePrimaryCtxSetFlags_v2(ordinal, flags); });
}
HIP_EXPORT hipError_t hipGetDeviceFlags(unsigned* flags) {
  return api([&] { return driver().cuCtxGetFlags(flags); });
}
HIP_EXPORT hipError_t hipDeviceGetLimit(std::size_t* value, hipLimit_t wanted) {
  return api([&] { return driver().cuCtxGetLimit(value, static_cast<int>(wanted)); });
}
HIP_EXPORT hipError_t hipDeviceSetLimit(hipLimit_t wanted, std::size_t value) {
  return api([&] { return driver().cuCtxSetLimit(static_cast<int>(wanted), value); });
}
HIP_EXPORT hipError_t hipDeviceSetCacheConfig(hipFuncCache_t value) {
  return api([&] { return driver().cuCtxSetCacheConfig(static_cast<int>(value)); });
}
HIP_EXPORT hipError_t hipDeviceGetCacheConfig(hipFuncCache_t* value) {
  return api([&] { return driver().cuCtxGetCacheConfig(out<int>(value)); });
}
HIP_EXPORT hipError_t hipDeviceSetSharedMemConfig(hipSharedMemConfig value) {
  return api([&] { return driver().cuCtxSetSharedMemConfig(static_cast<int>(value)); });
}
HIP_EXPORT hipError_t hipDeviceGetSharedMemConfig(hipSharedMemConfig* value) {
  return api([&] { return driver().cuCtxGetSharedMemConfig(out<int>(value)); });
}
HIP_EXPORT hipError_t hipProfilerStart() {
  return api([] { return driver().cuProfilerStart(); });
}
HIP_EXPORT hipError_t hipProfilerStop() {
  return api([] { return driver().cuProfilerStop(); });
}
