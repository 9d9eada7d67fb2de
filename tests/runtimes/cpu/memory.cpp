// memory.cpp: allocations, host memory, and the questions about pointers.
#include "memory.h"

#include <cstring>
#include <vector>

#include "api.h"
#include "capture.h"
#include "device.h"
#include "graph.h"
#include "memory_table.h"
#include "stream.h"

namespace cpuhip {

MemoryTable& memory_table() {
  static auto& instance = *new MemoryTable;
  return instance;
}

const Allocation* MemoryTable::at(const void* address) const {
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  auto after = ranges_.upper_bound(place);
  if (after == ranges_.begin()) return nullptr;
  const auto& [base, allocation] = *--after;
  return place - base < allocation.info.bytes ? &allocation : nullptr;
}

bool MemoryTable::insert(const Allocation& allocation) {
  const auto base = reinterpret_cast<std::uintptr_t>(allocation.info.base);
  const std::unique_lock lock(mutex_);
  const auto next = ranges_.lower_bound(base);
  if (at(allocation.info.base) != nullptr) return false;
  if (next != ranges_.end() && next->first - base < allocation.info.bytes) return false;
  Allocation& entered = ranges_.emplace_hint(next, base, allocation)->second;
  if (entered.info.id == 0) entered.info.id = ++last_id_;
  return true;
}

std::optional<Allocation> MemoryTable::find(const void* address) const {
  std::optional<Allocation> found;
  look(address, [&](const Allocation& allocation) { found = allocation; });
  return found;
}

bool find_allocation(const void* address, AllocationInfo* info) {
  return memory_table().look(address, [&](const Allocation& allocation) { *info = allocation.info; });
}

bool owned_range(const void* address) { return arena_owns(address); }

namespace {

/// AMD's runtime takes signal memory from the host.
bool counts_as_device_memory(MemoryKind kind) { return kind != MemoryKind::Host && kind != MemoryKind::Signal; }

bool allowed(const Allocation& allocation, const Device& device, bool write, Use use) {
  switch (allocation.info.kind) {
    case MemoryKind::Host:
    case MemoryKind::Managed:
      return true;
    case MemoryKind::Mapped:
    case MemoryKind::Pool: {
      const auto& mask = write ? allocation.access->writers : allocation.access->readers;
      return ((mask.load(std::memory_order_relaxed) >> device.ordinal()) & 1u) != 0;
    }
    case MemoryKind::Device:
    case MemoryKind::Signal:
    case MemoryKind::Global:
      return use == Use::Copy || device.reaches(allocation.info.device);
  }
  return false;
}

}  // namespace

bool accessible(const void* address, std::size_t bytes, const Device& device, bool write, Use use) {
  const char* place = static_cast<const char*>(address);
  const char* const end = place + bytes;
  while (place < end) {
    bool may = false;
    const bool known = memory_table().look(place, [&](const Allocation& allocation) {
      const char* const here_end = static_cast<const char*>(allocation.info.base) + allocation.info.bytes;
      // Neighbouring mappings are one range to the program; other allocations have nothing behind them.
      may = allowed(allocation, device, write, use) && (end <= here_end || allocation.info.kind == MemoryKind::Mapped);
      place = here_end;
    });
    if (!known) return use == Use::Copy && place == address && !owned_range(address);
    if (!may) return false;
  }
  return true;
}

void grant_lazily(const void* address, const Device& device) {
  memory_table().look(address, [&](const Allocation& allocation) {
    if (allocation.info.kind == MemoryKind::Device && allocation.access && device.reaches(allocation.info.device))
      allocation.access->readers.fetch_or(1u << device.ordinal(), std::memory_order_relaxed);
  });
}

bool reached_lazily(std::uintptr_t word, const Device& device) {
  bool reached = true;
  memory_table().look(reinterpret_cast<const void*>(word), [&](const Allocation& allocation) {
    if (allocation.info.kind != MemoryKind::Device || !allocation.access || !device.reaches(allocation.info.device))
      return;
    const std::uint32_t given = allocation.access->readers.load(std::memory_order_relaxed);
    reached = ((given >> device.ordinal()) & 1u) != 0;
  });
  return reached;
}

hipError_t allocate(Device& device, MemoryKind kind, std::size_t bytes, unsigned flags, void** pointer,
                    std::shared_ptr<Access> access) {
  const std::size_t whole = pages_up(bytes);
  const bool counts = counts_as_device_memory(kind);
  if (whole < bytes || (counts && !device.take_memory(whole))) return hipErrorOutOfMemory;
  Allocation allocation;
  if (!arena_take(bytes, &allocation.range)) {
    if (counts) device.give_memory(whole);
    return hipErrorOutOfMemory;
  }
  allocation.info = {allocation.range.address, bytes, kind, device.ordinal(), flags};
  allocation.access = std::move(access);
  if (kind == MemoryKind::Device && quirks().lazy_peers) {
    allocation.access = std::make_shared<Access>();
    for (int other = 0; other < device_count(); ++other)
      if (cpuhip::device(other).reaches(device.ordinal())) allocation.access->readers.fetch_or(1u << other);
  }
  if (!memory_table().insert(allocation)) fatal("allocations overlap");
  *pointer = allocation.info.base;
  return hipSuccess;
}

void give_back(const Allocation& allocation) {
  if (allocation.range.address == nullptr) return;
  if (counts_as_device_memory(allocation.info.kind))
    device(allocation.info.device).give_memory(pages_up(allocation.info.bytes));
  arena_give(allocation.range);
}

void register_global(void* address, std::size_t bytes, int device) {
  Allocation allocation;
  allocation.info = {address, bytes, MemoryKind::Global, device, 0};
  memory_table().insert(allocation);
}

void unregister_global(void* address) {
  memory_table().remove(address, [](const Allocation& found) { return found.info.kind == MemoryKind::Global; });
}

namespace {

/// Allocations that HIP refuses inside a capture.
hipError_t allocate_checked(MemoryKind kind, std::size_t bytes, unsigned flags, void** pointer) {
  if (const hipError_t result = check_capture_unsafe_call(); result != hipSuccess) return result;
  if (pointer == nullptr) return hipErrorInvalidValue;
  *pointer = nullptr;
  return bytes == 0 ? hipSuccess : allocate(current_device(), kind, bytes, flags, pointer);
}

hipError_t host_allocate(void** pointer, std::size_t bytes, unsigned flags) {
  const unsigned kKnown = hipHostMallocPortable | hipHostMallocMapped | hipHostMallocWriteCombined |
                          hipHostMallocNumaUser | hipHostMallocCoherent | hipHostMallocNonCoherent;
  const unsigned kCoherence = hipHostMallocCoherent | hipHostMallocNonCoherent;
  if ((flags & ~kKnown) != 0 || (flags & kCoherence) == kCoherence) return hipErrorInvalidValue;
  return allocate_checked(MemoryKind::Host, bytes, flags, pointer);
}

hipError_t ext_allocate(void** pointer, std::size_t bytes, unsigned flags) {
  constexpr unsigned kUncached = 3, kContiguous = 4;
  const bool signal = flags == hipMallocSignalMemory;
  const bool newer = (flags == kUncached || flags == kContiguous) && config().version >= 60000000;
  if (pointer == nullptr || (flags > hipMallocSignalMemory && !newer)) return hipErrorInvalidValue;
  if (signal && bytes != sizeof(std::uint64_t)) return hipErrorInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return hipSuccess;
  const hipError_t result =
      allocate(current_device(), signal ? MemoryKind::Signal : MemoryKind::Device, bytes, flags, pointer);
  if (result == hipSuccess && signal) std::memset(*pointer, 0, bytes);
  return result;
}

hipError_t pitch_allocate(void** pointer, std::size_t* pitch, std::size_t width, std::size_t rows) {
  constexpr std::size_t kAlignment = 256;
  if (const hipError_t result = check_capture_unsafe_call(); result != hipSuccess) return result;
  if (pointer == nullptr || pitch == nullptr) return hipErrorInvalidValue;
  if (width == 0 || rows == 0) {
    *pointer = nullptr;
    return hipSuccess;
  }
  const std::size_t padded = (width + kAlignment - 1) / kAlignment * kAlignment;
  std::size_t bytes = 0;
  if (padded < width || __builtin_mul_overflow(padded, rows, &bytes)) return hipErrorOutOfMemory;
  const hipError_t result = allocate(current_device(), MemoryKind::Device, bytes, 0, pointer);
  if (result != hipSuccess) return result;
  *pitch = padded;
  memory_table().note_shape(*pointer, width, rows);
  return hipSuccess;
}

/// Waits as HIP does before memory goes: for the streams of its device, or of all for memory that belongs to none.
void synchronize_users(const AllocationInfo& info) {
  if (info.kind != MemoryKind::Host && info.kind != MemoryKind::Managed) {
    (void)synchronize(device(info.device));
    return;
  }
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) (void)synchronize(device(ordinal));
}

bool freeable(const Allocation& allocation) {
  if (allocation.freed) return false;
  switch (allocation.info.kind) {
    case MemoryKind::Device:
    case MemoryKind::Signal:
    case MemoryKind::Managed:
    case MemoryKind::Host:
      return !allocation.registered && !allocation.imported;
    case MemoryKind::Pool:
    case MemoryKind::Mapped:
      return true;
    case MemoryKind::Global:
      return false;
  }
  return false;
}

/// Any address of an allocation frees all of it. A mapping too: only its address range is left, which cannot be
/// unmapped any more (vmm.cpp).
hipError_t release(void* pointer) {
  if (const hipError_t result = check_capture_unsafe_call(); result != hipSuccess) return result;
  if (pointer == nullptr) return hipSuccess;
  const std::optional<Allocation> found = memory_table().find(pointer);
  if (!found || !freeable(*found)) return hipErrorInvalidValue;
  void* const base = found->info.base;
  const bool pooled = found->info.kind == MemoryKind::Pool;
  if (!pooled || config().version < 70000000) synchronize_users(found->info);
  if (free_graph_memory(base)) return hipSuccess;
  if (pooled) return pool_free(base);
  const auto removed = memory_table().remove(base, freeable);
  if (!removed) return hipErrorInvalidValue;  // another thread was faster
  give_back(*removed);
  return hipSuccess;
}

hipError_t register_host(void* pointer, std::size_t bytes, unsigned flags) {
  constexpr unsigned kKnown = 0x1f;
  if (const hipError_t result = check_capture_unsafe_call(); result != hipSuccess) return result;
  if (pointer == nullptr || bytes == 0 || flags > kKnown) return hipErrorInvalidValue;
  Allocation allocation;
  allocation.info = {pointer, bytes, MemoryKind::Host, current_device().ordinal(), flags};
  allocation.registered = true;
  return memory_table().insert(allocation) ? hipSuccess : hipErrorHostMemoryAlreadyRegistered;
}

hipError_t unregister_host(void* pointer) {
  if (const hipError_t result = check_capture_unsafe_call(); result != hipSuccess) return result;
  if (pointer == nullptr) return hipErrorInvalidValue;
  const auto removed = memory_table().remove(pointer, [](const Allocation& found) { return found.registered; });
  if (!removed) return hipErrorHostMemoryNotRegistered;
  synchronize_users(removed->info);
  return hipSuccess;
}

/// hipMemoryType got other values with HIP 6.
int memory_type(MemoryKind kind) {
  const bool six = config().version >= 60000000;
  switch (kind) {
    case MemoryKind::Host:
      return six ? 1 : 0;
    case MemoryKind::Managed:
      return six ? 3 : 0;
    default:
      return six ? 2 : 1;
  }
}

hipError_t attributes(hipPointerAttribute_t* place, const void* pointer) {
  if (place == nullptr) return hipErrorInvalidValue;
  *place = {};
  AllocationInfo info;
  if (!find_allocation(pointer, &info)) {
    const bool null_answered = pointer == nullptr && config().version >= 70000000;
    return null_answered ? hipSuccess : hipErrorInvalidValue;
  }
  place->memoryType = static_cast<hipMemoryType>(memory_type(info.kind));
  place->device = info.device;
  place->devicePointer = const_cast<void*>(pointer);
  const bool host = info.kind == MemoryKind::Host || info.kind == MemoryKind::Managed;
  place->hostPointer = host ? place->devicePointer : nullptr;
  place->isManaged = info.kind == MemoryKind::Managed;
  place->allocationFlags = info.flags;
  return hipSuccess;
}

hipError_t attribute(void* data, hipPointer_attribute wanted, void* pointer) {
  if (data == nullptr || pointer == nullptr) return hipErrorInvalidValue;
  const auto put = [&](auto value) {
    std::memcpy(data, &value, sizeof value);
    return hipSuccess;
  };
  AllocationInfo info;
  if (!find_allocation(pointer, &info)) {
    if (wanted == HIP_POINTER_ATTRIBUTE_BUFFER_ID || wanted == HIP_POINTER_ATTRIBUTE_RANGE_SIZE) (void)put(0u);
    return hipErrorInvalidValue;
  }
  const bool host = info.kind == MemoryKind::Host || info.kind == MemoryKind::Managed;
  switch (wanted) {
    case HIP_POINTER_ATTRIBUTE_CONTEXT:
      return put(static_cast<void*>(&device(info.device)));
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put(static_cast<unsigned>(memory_type(info.kind)));
    case HIP_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return put(pointer);
    case HIP_POINTER_ATTRIBUTE_HOST_POINTER:
      return host ? put(pointer) : hipErrorInvalidValue;
    case HIP_POINTER_ATTRIBUTE_IS_MANAGED:
      return put(info.kind == MemoryKind::Managed);
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put(info.device);
    case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return put(info.base);
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE:
      return put(static_cast<unsigned>(info.bytes));
    case HIP_POINTER_ATTRIBUTE_MAPPED:
      return put(true);
    case HIP_POINTER_ATTRIBUTE_BUFFER_ID:
      return put(info.id);
    default:
      return hipErrorNotSupported;
  }
}

}  // namespace
}  // namespace cpuhip

using namespace cpuhip;

CPUHIP_EXPORT hipError_t hipMalloc(void** pointer, std::size_t bytes) {
  return api("hipMalloc", [&](Call&) { return allocate_checked(MemoryKind::Device, bytes, 0, pointer); });
}

CPUHIP_EXPORT hipError_t hipExtMallocWithFlags(void** pointer, std::size_t bytes, unsigned flags) {
  return api("hipExtMallocWithFlags", [&](Call&) { return ext_allocate(pointer, bytes, flags); });
}

CPUHIP_EXPORT hipError_t hipMallocManaged(void** pointer, std::size_t bytes, unsigned flags) {
  return api("hipMallocManaged", [&](Call&) {
    if (bytes == 0 || (flags != hipMemAttachGlobal && flags != hipMemAttachHost)) return hipErrorInvalidValue;
    return allocate_checked(MemoryKind::Managed, bytes, flags, pointer);
  });
}

CPUHIP_EXPORT hipError_t hipMallocPitch(void** pointer, std::size_t* pitch, std::size_t width, std::size_t height) {
  return api("hipMallocPitch", [&](Call&) { return pitch_allocate(pointer, pitch, width, height); });
}

CPUHIP_EXPORT hipError_t hipMemAllocPitch(hipDeviceptr_t* pointer, std::size_t* pitch, std::size_t width,
                                          std::size_t height, unsigned element) {
  return api("hipMemAllocPitch", [&](Call&) {
    if (element != 4 && element != 8 && element != 16) return hipErrorInvalidValue;
    return pitch_allocate(pointer, pitch, width, height);
  });
}

CPUHIP_EXPORT hipError_t hipMalloc3D(hipPitchedPtr* pitched, hipExtent extent) {
  return api("hipMalloc3D", [&](Call&) {
    if (pitched == nullptr) return hipErrorInvalidValue;
    void* pointer = nullptr;
    std::size_t pitch = 0;
    const hipError_t result = pitch_allocate(&pointer, &pitch, extent.width, extent.height * extent.depth);
    if (result == hipSuccess) *pitched = {pointer, pitch, extent.width, extent.height};
    return result;
  });
}

#define CPUHIP_HOST_ENTRY(name)                                                 \
  CPUHIP_EXPORT hipError_t name(void** pointer, std::size_t bytes) {            \
    return api(#name, [&](Call&) { return host_allocate(pointer, bytes, 0); }); \
  }
CPUHIP_HOST_ENTRY(hipMallocHost)
CPUHIP_HOST_ENTRY(hipMemAllocHost)

#define CPUHIP_HOST_FLAGS_ENTRY(name)                                                \
  CPUHIP_EXPORT hipError_t name(void** pointer, std::size_t bytes, unsigned flags) { \
    return api(#name, [&](Call&) { return host_allocate(pointer, bytes, flags); });  \
  }
CPUHIP_HOST_FLAGS_ENTRY(hipHostMalloc)
CPUHIP_HOST_FLAGS_ENTRY(hipHostAlloc)
CPUHIP_HOST_FLAGS_ENTRY(hipExtHostAlloc)

#define CPUHIP_FREE_ENTRY(name)                                 \
  CPUHIP_EXPORT hipError_t name(void* pointer) {                \
    return api(#name, [&](Call&) { return release(pointer); }); \
  }
CPUHIP_FREE_ENTRY(hipFree)
CPUHIP_FREE_ENTRY(hipFreeHost)
CPUHIP_FREE_ENTRY(hipHostFree)

CPUHIP_EXPORT hipError_t hipHostRegister(void* pointer, std::size_t bytes, unsigned flags) {
  return api("hipHostRegister", [&](Call&) { return register_host(pointer, bytes, flags); });
}

CPUHIP_EXPORT hipError_t hipHostUnregister(void* pointer) {
  return api("hipHostUnregister", [&](Call&) { return unregister_host(pointer); });
}

CPUHIP_EXPORT hipError_t hipHostGetDevicePointer(void** device_pointer, void* pointer, unsigned flags) {
  return api("hipHostGetDevicePointer", [&](Call&) {
    AllocationInfo info;
    if (device_pointer == nullptr || flags != 0) return hipErrorInvalidValue;
    if (!find_allocation(pointer, &info) || info.kind != MemoryKind::Host) return hipErrorInvalidValue;
    *device_pointer = pointer;
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipHostGetFlags(unsigned* flags, void* pointer) {
  return api("hipHostGetFlags", [&](Call&) {
    AllocationInfo info;
    if (flags == nullptr || !find_allocation(pointer, &info) || info.kind != MemoryKind::Host)
      return hipErrorInvalidValue;
    *flags = info.flags;
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  return api("hipMemGetInfo", [&](Call&) {
    if (free_bytes == nullptr || total_bytes == nullptr) return hipErrorInvalidValue;
    *total_bytes = config().memory_bytes;
    *free_bytes = current_device().free_bytes();
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipMemGetAddressRange(hipDeviceptr_t* base, std::size_t* bytes, hipDeviceptr_t pointer) {
  return api("hipMemGetAddressRange", [&](Call&) {
    AllocationInfo info;
    if (!find_allocation(pointer, &info)) return hipErrorNotFound;
    if (base != nullptr) *base = info.base;
    if (bytes != nullptr) *bytes = info.bytes;
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipMemPtrGetInfo(void* pointer, std::size_t* bytes) {
  return api("hipMemPtrGetInfo", [&](Call&) {
    AllocationInfo info;
    if (bytes == nullptr || !find_allocation(pointer, &info)) return hipErrorInvalidValue;
    *bytes = info.bytes;
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipPointerGetAttributes(hipPointerAttribute_t* place, const void* pointer) {
  return api("hipPointerGetAttributes", [&](Call&) { return attributes(place, pointer); });
}

CPUHIP_EXPORT hipError_t hipPointerGetAttribute(void* data, hipPointer_attribute wanted, hipDeviceptr_t pointer) {
  return api("hipPointerGetAttribute", [&](Call&) { return attribute(data, wanted, pointer); });
}

CPUHIP_EXPORT hipError_t hipDrvPointerGetAttributes(unsigned count, hipPointer_attribute* wanted, void** data,
                                                    hipDeviceptr_t pointer) {
  return api("hipDrvPointerGetAttributes", [&](Call&) {
    if (count == 0 || wanted == nullptr || data == nullptr || pointer == nullptr) return hipErrorInvalidValue;
    // AMD's answers success, whatever the single attributes do.
    for (unsigned index = 0; index < count; ++index) (void)attribute(data[index], wanted[index], pointer);
    return hipSuccess;
  });
}
