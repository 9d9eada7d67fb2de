// managed.cpp: hints about managed memory. Every device and the CPU reach it at all times, so hints change nothing;
// what is checked is what HIP checks.
#include <algorithm>
#include <cstring>

#include "api.h"
#include "device.h"
#include "memory.h"
#include "stream.h"

namespace cpuhip {
namespace {

bool valid_location(int ordinal) { return ordinal == hipCpuDeviceId || (ordinal >= 0 && ordinal < device_count()); }

hipError_t check_range(const void* address, std::size_t bytes) {
  AllocationInfo info;
  if (address == nullptr || bytes == 0 || !find_allocation(address, &info)) return hipErrorInvalidValue;
  if (info.kind == MemoryKind::Mapped) return hipErrorInvalidValue;
  const auto before = static_cast<std::size_t>(static_cast<const char*>(address) - static_cast<char*>(info.base));
  return bytes <= info.bytes - before ? hipSuccess : hipErrorInvalidValue;
}

hipError_t advise(const void* address, std::size_t bytes, int ordinal) {
  if (!valid_location(ordinal)) return hipErrorInvalidDevice;
  return check_range(address, bytes);
}

hipError_t prefetch(Call& call, const void* address, std::size_t bytes, int ordinal, hipStream_t handle) {
  Stream* stream = nullptr;
  if (!valid_location(ordinal)) return hipErrorInvalidDevice;
  if (const hipError_t result = check_range(address, bytes); result != hipSuccess) return result;
  if (const hipError_t result = resolve(call, handle, false, &stream); result != hipSuccess) return result;
  stream->enqueue(std::function<hipError_t()>{});
  return hipSuccess;
}

hipError_t range_attribute(void* data, std::size_t data_bytes, hipMemRangeAttribute wanted, const void* address,
                           std::size_t bytes) {
  if (data == nullptr || data_bytes < sizeof(int) || data_bytes % sizeof(int) != 0) return hipErrorInvalidValue;
  if (const hipError_t result = check_range(address, bytes); result != hipSuccess) return result;
  int value = 0;
  switch (wanted) {
    case hipMemRangeAttributeReadMostly:
    case hipMemRangeAttributeCoherencyMode:
      break;
    case hipMemRangeAttributePreferredLocation:
    case hipMemRangeAttributeAccessedBy:
    case hipMemRangeAttributeLastPrefetchLocation:
      value = hipInvalidDeviceId;
      break;
    default:
      return hipErrorInvalidValue;
  }
  for (std::size_t place = 0; place < data_bytes; place += sizeof value) {
    std::memcpy(static_cast<char*>(data) + place, &value, sizeof value);
  }
  return hipSuccess;
}

}  // namespace
}  // namespace cpuhip

using namespace cpuhip;

CPUHIP_EXPORT hipError_t hipMemAdvise(const void* address, std::size_t bytes, hipMemoryAdvise, int ordinal) {
  return api("hipMemAdvise", [&](Call&) { return advise(address, bytes, ordinal); });
}

CPUHIP_EXPORT hipError_t hipMemAdvise_v2(const void* address, std::size_t bytes, hipMemoryAdvise,
                                         hipMemLocation location) {
  return api("hipMemAdvise_v2", [&](Call&) {
    return advise(address, bytes, location.type == hipMemLocationTypeDevice ? location.id : hipCpuDeviceId);
  });
}

CPUHIP_EXPORT hipError_t hipMemPrefetchAsync(const void* address, std::size_t bytes, int ordinal, hipStream_t stream) {
  return api("hipMemPrefetchAsync", [&](Call& call) { return prefetch(call, address, bytes, ordinal, stream); });
}

CPUHIP_EXPORT hipError_t hipMemPrefetchAsync_v2(const void* address, std::size_t bytes, hipMemLocation location,
                                                unsigned, hipStream_t stream) {
  return api("hipMemPrefetchAsync_v2", [&](Call& call) {
    const int ordinal = location.type == hipMemLocationTypeDevice ? location.id : hipCpuDeviceId;
    return prefetch(call, address, bytes, ordinal, stream);
  });
}

CPUHIP_EXPORT hipError_t hipMemRangeGetAttribute(void* data, std::size_t data_bytes, hipMemRangeAttribute wanted,
                                                 const void* address, std::size_t bytes) {
  return api("hipMemRangeGetAttribute",
             [&](Call&) { return range_attribute(data, data_bytes, wanted, address, bytes); });
}

CPUHIP_EXPORT hipError_t hipMemRangeGetAttributes(void** data, std::size_t* data_bytes, hipMemRangeAttribute* wanted,
                                                  std::size_t count, const void* address, std::size_t bytes) {
  return api("hipMemRangeGetAttributes", [&](Call&) {
    if (data == nullptr || data_bytes == nullptr || wanted == nullptr || count == 0) return hipErrorInvalidValue;
    for (std::size_t index = 0; index < count; ++index) {
      const hipError_t result = range_attribute(data[index], data_bytes[index], wanted[index], address, bytes);
      if (result != hipSuccess) return result;
    }
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipStreamAttachMemAsync(hipStream_t handle, void* address, std::size_t bytes, unsigned flags) {
  return api("hipStreamAttachMemAsync", [&](Call& call) {
    Stream* stream = nullptr;
    AllocationInfo info;
    if (const hipError_t result = resolve(call, handle, false, &stream); result != hipSuccess) return result;
    if (flags != hipMemAttachGlobal && flags != hipMemAttachHost && flags != hipMemAttachSingle)
      return hipErrorInvalidValue;
    if (!find_allocation(address, &info) || info.kind != MemoryKind::Managed) return hipErrorInvalidValue;
    return bytes == 0 || bytes == info.bytes ? hipSuccess : hipErrorInvalidValue;
  });
}
