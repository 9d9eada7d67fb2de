// memory.cpp: device, host and stream-ordered memory, pools, pointer queries, IPC.
//
// Signal memory (hipExtMallocWithFlags) is read by the host, so it is mapped host memory; hipFree knows it again.
#include <cstring>
#include <mutex>
#include <set>

#include "translate.h"

using namespace cudahip;

namespace {

struct Signals {
  std::mutex lock;
  std::set<void*> places;
};
Signals& signals() {
  static auto& all = *new Signals;
  return all;
}

constexpr int kMemoryType = 2, kDevicePointer = 3, kHostPointer = 4, kIsManaged = 8, kDeviceOrdinal = 9;

hipError_t allocate(void** place, std::size_t bytes) {
  if (place == nullptr) return hipErrorInvalidValue;
  *place = nullptr;
  return bytes == 0 ? hipSuccess : translate(driver().cuMemAlloc_v2(out<cu::Address>(place), bytes));
}

hipError_t allocate_signal(void** place) {
  const cu::Result result = driver().cuMemHostAlloc(place, sizeof(std::uint64_t), host_flags(0));
  if (result != cu::kSuccess) return translate(result);
  std::memset(*place, 0, sizeof(std::uint64_t));
  Signals& all = signals();
  const std::lock_guard lock(all.lock);
  all.places.insert(*place);
  return hipSuccess;
}

bool take_signal(void* place) {
  Signals& all = signals();
  const std::lock_guard lock(all.lock);
  return all.places.erase(place) != 0;
}

/// HIP refuses hipFree where a capture forbids it before it looks at the pointer; CUDA looks first. An allocation asks.
hipError_t release_nothing() {
  cu::Address probe = 0;
  const cu::Result result = driver().cuMemAlloc_v2(&probe, 1);
  if (translate(result) == hipErrorOutOfMemory) return hipSuccess;
  return translate(result == cu::kSuccess ? driver().cuMemFree_v2(probe) : result);
}

hipError_t release(void* pointer) {
  if (pointer == nullptr) return release_nothing();
  const cu::Result result = driver().cuMemFree_v2(address(pointer));
  if (result == cu::kInvalidValue && take_signal(pointer)) return translate(driver().cuMemFreeHost(pointer));
  return translate(result);
}

/// HIP frees memory of hipMalloc in stream order too; CUDA has no such call for it: the stream is waited for.
hipError_t release_async(void* pointer, cu::Stream* stream) {
  if (pointer == nullptr) return hipErrorInvalidValue;
  const cu::Result result = driver().cuMemFreeAsync(address(pointer), stream);
  if (result != cu::kInvalidValue) return translate(result);
  const cu::Result waited = driver().cuStreamSynchronize(stream);
  return waited == cu::kSuccess ? release(pointer) : translate(waited);
}

hipError_t allocate_host(void** place, std::size_t bytes, unsigned flags) {
  if (place == nullptr) return hipErrorInvalidValue;
  *place = nullptr;
  return bytes == 0 ? hipSuccess : translate(driver().cuMemHostAlloc(place, bytes, host_flags(flags)));
}

hipError_t pitched(void** place, std::size_t* pitch, std::size_t width, std::size_t height) {
  if (place == nullptr || pitch == nullptr) return hipErrorInvalidValue;
  *place = nullptr;
  if (width == 0 || height == 0) return hipSuccess;
  constexpr unsigned kElementBytes = 4;
  return translate(driver().cuMemAllocPitch_v2(out<cu::Address>(place), pitch, width, height, kElementBytes));
}

hipError_t attributes(hipPointerAttribute_t* place, const void* pointer) {
  if (place == nullptr || pointer == nullptr) return hipErrorInvalidValue;
  int type = 0, ordinal = 0, managed = 0;
  if (driver().cuPointerGetAttribute(&type, kMemoryType, address(pointer)) != cu::kSuccess) return hipErrorInvalidValue;
  driver().cuPointerGetAttribute(&ordinal, kDeviceOrdinal, address(pointer));
  driver().cuPointerGetAttribute(&managed, kIsManaged, address(pointer));
  hipPointerAttribute_t found{};
  // The member's name changed with HIP 6, its place did not.
  const int hip_type = memory_type(type, managed != 0);
  std::memcpy(&found, &hip_type, sizeof hip_type);
  found.device = ordinal;
  found.isManaged = managed;
  driver().cuPointerGetAttribute(&found.devicePointer, kDevicePointer, address(pointer));
  if (type == cu::kHostMemory || managed != 0)
    driver().cuPointerGetAttribute(&found.hostPointer, kHostPointer, address(pointer));
  *place = found;
  return hipSuccess;
}

hipError_t attribute(void* place, int wanted, const void* pointer) {
  if (place == nullptr || pointer == nullptr) return hipErrorInvalidValue;
  if (wanted == kIsManaged) {  // a bool for HIP, an int for CUDA
    int managed = 0;
    const cu::Result result = driver().cuPointerGetAttribute(&managed, wanted, address(pointer));
    if (result == cu::kSuccess) *static_cast<bool*>(place) = managed != 0;
    return translate(result);
  }
  const cu::Result result = driver().cuPointerGetAttribute(place, wanted, address(pointer));
  if (result == cu::kSuccess && wanted == kMemoryType) {
    int type = 0;
    std::memcpy(&type, place, sizeof type);
    type = memory_type(type, false);
    std::memcpy(place, &type, sizeof type);
  }
  return translate(result);
}

hipError_t pool_pointer(hipMemPool_t* place) { return place == nullptr ? hipErrorInvalidValue : hipSuccess; }

}  // namespace

HIP_EXPORT hipError_t hipMalloc(void** place, std::size_t bytes) {
  return api([&] { return allocate(place, bytes); });
}
HIP_EXPORT hipError_t hipFree(void* pointer) {
  return api([&] { return release(pointer); });
}
HIP_EXPORT hipError_t hipExtMallocWithFlags(void** place, std::size_t bytes, unsigned flags) {
  return api([&] {
    if (place == nullptr || flags > 4) return hipErrorInvalidValue;
    if (flags != hipMallocSignalMemory) return allocate(place, bytes);
    return bytes == sizeof(std::uint64_t) ? allocate_signal(place) : hipErrorInvalidValue;
  });
}
HIP_EXPORT hipError_t hipMallocManaged(void** place, std::size_t bytes, unsigned flags) {
  return api([&] {
    if (place == nullptr || bytes == 0) return hipErrorInvalidValue;
    return translate(driver().cuMemAllocManaged(out<cu::Address>(place), bytes, flags));
  });
}
HIP_EXPORT hipError_t hipMemAdvise(const void* pointer, std::size_t bytes, hipMemoryAdvise advice, int ordinal) {
  return api([&] { return driver().cuMemAdvise(address(pointer), bytes, static_cast<int>(advice), ordinal); });
}
HIP_EXPORT hipError_t hipMemPrefetchAsync(const void* pointer, std::size_t bytes, int ordinal, hipStream_t stream) {
  return api([&] { return driver().cuMemPrefetchAsync(address(pointer), bytes, ordinal, stream_of(stream)); });
}
HIP_EXPORT hipError_t hipMemRangeGetAttribute(void* place, std::size_t size, hipMemRangeAttribute wanted,
                                              const void* pointer, std::size_t bytes) {
  return api(
      [&] { return driver().cuMemRangeGetAttribute(place, size, static_cast<int>(wanted), address(pointer), bytes); });
}
HIP_EXPORT hipError_t hipMemRangeGetAttributes(void** places, std::size_t* sizes, hipMemRangeAttribute* wanted,
                                               std::size_t count, const void* pointer, std::size_t bytes) {
  return api([&] {
    return driver().cuMemRangeGetAttributes(places, sizes, out<int>(wanted), count, address(pointer), bytes);
  });
}
HIP_EXPORT hipError_t hipMallocPitch(void** place, std::size_t* pitch, std::size_t width, std::size_t height) {
  return api([&] { return pitched(place, pitch, width, height); });
}
HIP_EXPORT hipError_t hipMemAllocPitch(hipDeviceptr_t* place, std::size_t* pitch, std::size_t width, std::size_t height,
                                       unsigned element_bytes) {
  return api([&] { return driver().cuMemAllocPitch_v2(out<cu::Address>(place), pitch, width, height, element_bytes); });
}
HIP_EXPORT hipError_t hipMalloc3D(hipPitchedPtr* place, hipExtent extent) {
  return api([&] {
    if (place == nullptr) return hipErrorInvalidValue;
    void* pointer = nullptr;
    std::size_t pitch = 0;
    const hipError_t error = pitched(&pointer, &pitch, extent.width, extent.height * extent.depth);
    if (error == hipSuccess) *place = {pointer, pitch, extent.width, extent.height};
    return error;
  });
}
HIP_EXPORT hipError_t hipMemGetInfo(std::size_t* free, std::size_t* total) {
  return api([&] {
    std::size_t unused = 0;
    return driver().cuMemGetInfo_v2(free != nullptr ? free : &unused, total != nullptr ? total : &unused);
  });
}
HIP_EXPORT hipError_t hipMemPtrGetInfo(void* pointer, std::size_t* bytes) {
  return api([&] {
    if (bytes == nullptr) return cu::kInvalidValue;
    return driver().cuMemGetAddressRange_v2(nullptr, bytes, address(pointer));
  });
}
HIP_EXPORT hipError_t hipMemGetAddressRange(hipDeviceptr_t* base, std::size_t* bytes, hipDeviceptr_t pointer) {
  return api([&] { return driver().cuMemGetAddressRange_v2(out<cu::Address>(base), bytes, address(pointer)); });
}

// --- Host memory ---
HIP_EXPORT hipError_t hipHostMalloc(void** place, std::size_t bytes, unsigned flags) {
  return api([&] { return allocate_host(place, bytes, flags); });
}
HIP_EXPORT hipError_t hipHostAlloc(void** place, std::size_t bytes, unsigned flags) {
  return api([&] { return allocate_host(place, bytes, flags); });
}
HIP_EXPORT hipError_t hipExtHostAlloc(void** place, std::size_t bytes, unsigned flags) {
  return api([&] { return allocate_host(place, bytes, flags); });
}
HIP_EXPORT hipError_t hipMallocHost(void** place, std::size_t bytes) {
  return api([&] { return allocate_host(place, bytes, 0); });
}
HIP_EXPORT hipError_t hipMemAllocHost(void** place, std::size_t bytes) {
  return api([&] { return allocate_host(place, bytes, 0); });
}
HIP_EXPORT hipError_t hipHostFree(void* pointer) {
  return api([&] { return pointer == nullptr ? cu::kSuccess : driver().cuMemFreeHost(pointer); });
}
HIP_EXPORT hipError_t hipFreeHost(void* pointer) { return hipHostFree(pointer); }
HIP_EXPORT hipError_t hipHostGetDevicePointer(void** place, void* pointer, unsigned flags) {
  return api([&] { return driver().cuMemHostGetDevicePointer_v2(out<cu::Address>(place), pointer, flags); });
}
HIP_EXPORT hipError_t hipHostGetFlags(unsigned* flags, void* pointer) {
  return api([&] { return driver().cuMemHostGetFlags(flags, pointer); });
}
HIP_EXPORT hipError_t hipHostRegister(void* pointer, std::size_t bytes, unsigned flags) {
  return api([&] { return driver().cuMemHostRegister_v2(pointer, bytes, flags & 0xf); });
}
HIP_EXPORT hipError_t hipHostUnregister(void* pointer) {
  return api([&] { return driver().cuMemHostUnregister(pointer); });
}

// --- Queries of pointers ---
HIP_EXPORT hipError_t hipPointerGetAttributes(hipPointerAttribute_t* place, const void* pointer) {
  return api([&] { return attributes(place, pointer); });
}
HIP_EXPORT hipError_t hipPointerGetAttribute(void* place, hipPointer_attribute wanted, hipDeviceptr_t pointer) {
  return api([&] { return attribute(place, static_cast<int>(wanted), pointer); });
}
HIP_EXPORT hipError_t hipDrvPointerGetAttributes(unsigned count, hipPointer_attribute* wanted, void** places,
                                                 hipDeviceptr_t pointer) {
  return api([&] {
    for (unsigned i = 0; i < count; ++i) {
      const hipError_t error = attribute(places[i], static_cast<int>(wanted[i]), pointer);
      if (error != hipSuccess && error != hipErrorInvalidValue) return error;
    }
    return hipSuccess;
  });
}
HIP_EXPORT hipError_t hipPointerSetAttribute(const void* value, hipPointer_attribute wanted, hipDeviceptr_t pointer) {
  return api([&] { return driver().cuPointerSetAttribute(value, static_cast<int>(wanted), address(pointer)); });
}

// --- Stream-ordered memory and pools ---
HIP_EXPORT hipError_t hipMallocAsync(void** place, std::size_t bytes, hipStream_t stream) {
  return stream_api(stream, [&] {
    if (place == nullptr) return cu::kInvalidValue;
    *place = nullptr;
    return bytes == 0 ? cu::kSuccess : driver().cuMemAllocAsync(out<cu::Address>(place), bytes, stream_of(stream));
  });
}
HIP_EXPORT hipError_t hipMallocFromPoolAsync(void** place, std::size_t bytes, hipMemPool_t pool, hipStream_t stream) {
  return api([&] {
    if (place == nullptr) return cu::kInvalidValue;
    return driver().cuMemAllocFromPoolAsync(out<cu::Address>(place), bytes, pool_of(pool), stream_of(stream));
  });
}
HIP_EXPORT hipError_t hipFreeAsync(void* pointer, hipStream_t stream) {
  return api([&] { return release_async(pointer, stream_of(stream)); });
}
HIP_EXPORT hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t* pool, int ordinal) {
  return api([&] {
    const hipError_t error = pool_pointer(pool);
    return error != hipSuccess ? error : translate(driver().cuDeviceGetDefaultMemPool(out<cu::Pool*>(pool), ordinal));
  });
}
HIP_EXPORT hipError_t hipDeviceGetMemPool(hipMemPool_t* pool, int ordinal) {
  return api([&] {
    const hipError_t error = pool_pointer(pool);
    return error != hipSuccess ? error : translate(driver().cuDeviceGetMemPool(out<cu::Pool*>(pool), ordinal));
  });
}
HIP_EXPORT hipError_t hipDeviceSetMemPool(int ordinal, hipMemPool_t pool) {
  return api([&] { return driver().cuDeviceSetMemPool(ordinal, pool_of(pool)); });
}
HIP_EXPORT hipError_t hipMemPoolCreate(hipMemPool_t* pool, const hipMemPoolProps* properties) {
  return api([&] {
    const hipError_t error = pool_pointer(pool);
    return error != hipSuccess ? error : translate(driver().cuMemPoolCreate(out<cu::Pool*>(pool), properties));
  });
}
HIP_EXPORT hipError_t hipMemPoolDestroy(hipMemPool_t pool) {
  return api([&] { return driver().cuMemPoolDestroy(pool_of(pool)); });
}
HIP_EXPORT hipError_t hipMemPoolTrimTo(hipMemPool_t pool, std::size_t keep) {
  return api([&] { return driver().cuMemPoolTrimTo(pool_of(pool), keep); });
}
HIP_EXPORT hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, hipMemPoolAttr wanted, void* value) {
  return api([&] { return driver().cuMemPoolGetAttribute(pool_of(pool), static_cast<int>(wanted), value); });
}
HIP_EXPORT hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, hipMemPoolAttr wanted, void* value) {
  return api([&] { return driver().cuMemPoolSetAttribute(pool_of(pool), static_cast<int>(wanted), value); });
}
HIP_EXPORT hipError_t hipMemPoolGetAccess(hipMemAccessFlags* flags, hipMemPool_t pool, hipMemLocation* location) {
  return api([&] {
    return driver().cuMemPoolGetAccess(out<int>(flags), pool_of(pool), reinterpret_cast<cu::Location*>(location));
  });
}
HIP_EXPORT hipError_t hipMemPoolSetAccess(hipMemPool_t pool, const hipMemAccessDesc* access, std::size_t count) {
  return api([&] {
    return driver().cuMemPoolSetAccess(pool_of(pool), reinterpret_cast<const cu::AccessDescription*>(access), count);
  });
}
HIP_EXPORT hipError_t hipMemPoolExportToShareableHandle(void* handle, hipMemPool_t pool,
                                                        hipMemAllocationHandleType type, unsigned flags) {
  return api(
      [&] { return driver().cuMemPoolExportToShareableHandle(handle, pool_of(pool), static_cast<int>(type), flags); });
}
HIP_EXPORT hipError_t hipMemPoolImportFromShareableHandle(hipMemPool_t* pool, void* handle,
                                                          hipMemAllocationHandleType type, unsigned flags) {
  return api([&] {
    return driver().cuMemPoolImportFromShareableHandle(out<cu::Pool*>(pool), handle, static_cast<int>(type), flags);
  });
}
HIP_EXPORT hipError_t hipMemPoolExportPointer(hipMemPoolPtrExportData* data, void* pointer) {
  return api([&] { return driver().cuMemPoolExportPointer(data, address(pointer)); });
}
HIP_EXPORT hipError_t hipMemPoolImportPointer(void** place, hipMemPool_t pool, hipMemPoolPtrExportData* data) {
  return api([&] { return driver().cuMemPoolImportPointer(out<cu::Address>(place), pool_of(pool), data); });
}
HIP_EXPORT hipError_t hipDeviceGraphMemTrim(int ordinal) {
  return api([&] { return driver().cuDeviceGraphMemTrim(ordinal); });
}
HIP_EXPORT hipError_t hipDeviceGetGraphMemAttribute(int ordinal, int wanted, void* value) {
  return api([&] { return driver().cuDeviceGetGraphMemAttribute(ordinal, wanted, value); });
}
HIP_EXPORT hipError_t hipDeviceSetGraphMemAttribute(int ordinal, int wanted, void* value) {
  return api([&] { return driver().cuDeviceSetGraphMemAttribute(ordinal, wanted, value); });
}

// --- Between processes ---
HIP_EXPORT hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t* handle, void* pointer) {
  return api([&] { return driver().cuIpcGetMemHandle(reinterpret_cast<cu::IpcHandle*>(handle), address(pointer)); });
}
HIP_EXPORT hipError_t hipIpcOpenMemHandle(void** place, hipIpcMemHandle_t handle, unsigned flags) {
  return api([&] {
    return driver().cuIpcOpenMemHandle_v2(out<cu::Address>(place), reinterpret_cast<const cu::IpcHandle&>(handle),
                                          flags);
  });
}
HIP_EXPORT hipError_t hipIpcCloseMemHandle(void* pointer) {
  return api([&] { return driver().cuIpcCloseMemHandle(address(pointer)); });
}

// --- Virtual memory management ---
namespace {

unsigned long long handle_of(hipMemGenericAllocationHandle_t handle) {
  return reinterpret_cast<unsigned long long>(handle);
}

}  // namespace

HIP_EXPORT hipError_t hipMemAddressReserve(void** place, std::size_t bytes, std::size_t align, void* wanted,
                                           unsigned long long flags) {
  return api(
      [&] { return driver().cuMemAddressReserve(out<cu::Address>(place), bytes, align, address(wanted), flags); });
}
HIP_EXPORT hipError_t hipMemAddressFree(void* pointer, std::size_t bytes) {
  return api([&] { return driver().cuMemAddressFree(address(pointer), bytes); });
}
HIP_EXPORT hipError_t hipMemCreate(hipMemGenericAllocationHandle_t* handle, std::size_t bytes,
                                   const hipMemAllocationProp* properties, unsigned long long flags) {
  return api([&] {
    if (handle == nullptr || properties == nullptr) return cu::kInvalidValue;
    const cu::AllocationProperties translated = translate(*properties);
    return driver().cuMemCreate(out<unsigned long long>(handle), bytes, &translated, flags);
  });
}
HIP_EXPORT hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle) {
  return api([&] { return driver().cuMemRelease(handle_of(handle)); });
}
HIP_EXPORT hipError_t hipMemMap(void* pointer, std::size_t bytes, std::size_t offset,
                                hipMemGenericAllocationHandle_t handle, unsigned long long flags) {
  return api([&] { return driver().cuMemMap(address(pointer), bytes, offset, handle_of(handle), flags); });
}
HIP_EXPORT hipError_t hipMemUnmap(void* pointer, std::size_t bytes) {
  return api([&] { return driver().cuMemUnmap(address(pointer), bytes); });
}
HIP_EXPORT hipError_t hipMemSetAccess(void* pointer, std::size_t bytes, const hipMemAccessDesc* access,
                                      std::size_t count) {
  return api([&] {
    return driver().cuMemSetAccess(address(pointer), bytes, reinterpret_cast<const cu::AccessDescription*>(access),
                                   count);
  });
}
HIP_EXPORT hipError_t hipMemGetAccess(unsigned long long* flags, const hipMemLocation* location, void* pointer) {
  return api([&] {
    return driver().cuMemGetAccess(flags, reinterpret_cast<const cu::Location*>(location), address(pointer));
  });
}
HIP_EXPORT hipError_t hipMemGetAllocationGranularity(std::size_t* bytes, const hipMemAllocationProp* properties,
                                                     hipMemAllocationGranularity_flags option) {
  return api([&] {
    if (bytes == nullptr || properties == nullptr) return cu::kInvalidValue;
    const cu::AllocationProperties translated = translate(*properties);
    return driver().cuMemGetAllocationGranularity(bytes, &translated, static_cast<int>(option));
  });
}
HIP_EXPORT hipError_t hipMemGetAllocationPropertiesFromHandle(hipMemAllocationProp* properties,
                                                              hipMemGenericAllocationHandle_t handle) {
  return api([&] {
    if (properties == nullptr) return cu::kInvalidValue;
    cu::AllocationProperties found{};
    const cu::Result result = driver().cuMemGetAllocationPropertiesFromHandle(&found, handle_of(handle));
    if (result == cu::kSuccess) translate(found, properties);
    return result;
  });
}
HIP_EXPORT hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t* handle, void* pointer) {
  return api([&] { return driver().cuMemRetainAllocationHandle(out<unsigned long long>(handle), pointer); });
}
HIP_EXPORT hipError_t hipMemExportToShareableHandle(void* place, hipMemGenericAllocationHandle_t handle,
                                                    hipMemAllocationHandleType type, unsigned long long flags) {
  return api(
      [&] { return driver().cuMemExportToShareableHandle(place, handle_of(handle), static_cast<int>(type), flags); });
}
HIP_EXPORT hipError_t hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t* handle, void* place,
                                                      hipMemAllocationHandleType type) {
  return api([&] {
    return driver().cuMemImportFromShareableHandle(out<unsigned long long>(handle), place, static_cast<int>(type));
  });
}
HIP_EXPORT hipError_t hipMemGetHandleForAddressRange(void* handle, hipDeviceptr_t pointer, std::size_t bytes, int type,
                                                     unsigned long long flags) {
  return api([&] { return driver().cuMemGetHandleForAddressRange(handle, address(pointer), bytes, type, flags); });
}
