// vmm.cpp: virtual memory management. Physical memory is a part of a file, a mapping a fixed mapping of it, so one
// handle can be at two addresses. What no device may access is inaccessible to everybody; which device may is checked
// before each operation, because devices share one address space here. By version: before 7.14 mapping and unmapping
// wait for the null stream (probe mapping_waits_for_nothing on AMD's 7.2.4); from 6.1 on to unmap or free what nobody
// reserved ends the process; before 6.2 a map covers a whole
// reservation; hipMemAllocationProp got another layout with 5.6; hipMemRetainAllocationHandle takes no reference
// before 7.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "api.h"
#include "arena.h"
#include "device.h"
#include "memory.h"
#include "memory_table.h"
#include "stream.h"

namespace cpuhip {
namespace {

/// A handle's memory. References: one for each time the program may release it, one for each mapping.
struct Physical {
  Range range;  ///< from the arena, or a file of its own when it can be exported (then without an address)
  std::size_t bytes = 0;
  int device = 0;
  int handle_type = hipMemHandleTypeNone;
  bool imported = false;
  int references = 1, mappings = 0;
};

struct Mapping {
  std::size_t bytes;
  Physical* physical;
  std::shared_ptr<Access> access;
};

struct Reservation {
  Range range;
  std::size_t bytes;
  std::map<char*, Mapping> mappings;
};

struct Vmm {
  std::mutex mutex;
  std::map<char*, Reservation> reservations;
  std::map<Physical*, std::unique_ptr<Physical>> handles;
};

Vmm& vmm() {
  static auto& instance = *new Vmm;
  return instance;
}

/// What hipMemAllocationProp says, whatever its layout.
struct Properties {
  int type = 0, handle_type = 0, location_type = 0, location = 0;
};

/// From HIP 5.6 on.
struct NewLayout {
  int type, handle_type, location_type, location;
  void* win32;
  struct {
    unsigned char compression, gpu_direct_rdma;
    unsigned short usage;
  } flags;
};

constexpr int kNewLayoutSince = 50600000, kCrashesSince = 60100000, kPartialMapsSince = 60200000,
              kReferencesSince = 70000000, kDirectMapsSince = 71400000;
constexpr int kImportByValueSince = 70100000;

Properties read_properties(const hipMemAllocationProp* place) {
  if (config().version < kNewLayoutSince) {
    return {place->type, place->requestedHandleType, place->location.type, place->location.id};
  }
  NewLayout layout;
  std::memcpy(&layout, place, sizeof layout);
  return {layout.type, layout.handle_type, layout.location_type, layout.location};
}

void write_properties(hipMemAllocationProp* place, const Physical& physical) {
  if (config().version >= kNewLayoutSince) {
    const NewLayout layout{
        hipMemAllocationTypePinned, physical.handle_type, hipMemLocationTypeDevice, physical.device, nullptr, {}};
    std::memcpy(place, &layout, sizeof layout);
    return;
  }
  *place = {};
  place->type = hipMemAllocationTypePinned;
  place->requestedHandleType = static_cast<hipMemAllocationHandleType>(physical.handle_type);
  place->location = {hipMemLocationTypeDevice, physical.device};
}

bool valid(int ordinal) { return ordinal >= 0 && ordinal < device_count(); }

hipError_t check_properties(const hipMemAllocationProp* place, Properties* properties) {
  if (place == nullptr) return hipErrorInvalidValue;
  *properties = read_properties(place);
  const bool pinned_on_device = properties->type == hipMemAllocationTypePinned &&
                                properties->location_type == hipMemLocationTypeDevice && valid(properties->location);
  if (!pinned_on_device) return hipErrorInvalidValue;
  const bool supported =
      properties->handle_type == hipMemHandleTypeNone || properties->handle_type == hipMemHandleTypePosixFileDescriptor;
  return supported ? hipSuccess : hipErrorNotSupported;
}

void wait_for_null_stream() {
  if (config().version < kDirectMapsSince) (void)current_device().null_stream().marker()->wait_in_call();
}

/// Under the lock.
Physical* find_handle(hipMemGenericAllocationHandle_t handle) {
  const auto found = vmm().handles.find(reinterpret_cast<Physical*>(handle));
  return found != vmm().handles.end() ? found->second.get() : nullptr;
}

hipMemGenericAllocationHandle_t handle_of(Physical* physical) {
  return reinterpret_cast<hipMemGenericAllocationHandle_t>(physical);
}

/// Under the lock: gives the memory back when nobody is left to use it.
void drop_if_unused(Physical* physical) {
  if (physical->references != 0 || physical->mappings != 0) return;
  if (physical->range.address != nullptr) {
    arena_give(physical->range);
  } else {
    close(physical->range.file);
  }
  if (!physical->imported) device(physical->device).give_memory(physical->bytes);
  vmm().handles.erase(physical);
}

hipMemGenericAllocationHandle_t add_handle(const Physical& physical) {
  auto owned = std::make_unique<Physical>(physical);
  Physical* pointer = owned.get();
  const std::lock_guard lock(vmm().mutex);
  vmm().handles.emplace(pointer, std::move(owned));
  return handle_of(pointer);
}

hipError_t create(hipMemGenericAllocationHandle_t* handle, std::size_t bytes, const hipMemAllocationProp* wanted,
                  unsigned long long flags) {
  Properties properties;
  if (handle == nullptr || bytes == 0 || bytes % kPageBytes != 0 || flags != 0) return hipErrorInvalidValue;
  if (const hipError_t result = check_properties(wanted, &properties); result != hipSuccess) return result;
  Physical physical;
  physical.bytes = bytes;
  physical.device = properties.location;
  physical.handle_type = properties.handle_type;
  if (!device(physical.device).take_memory(bytes)) return hipErrorOutOfMemory;
  bool made = false;
  if (physical.handle_type == hipMemHandleTypeNone) {
    made = arena_take_memory(bytes, &physical.range);
  } else {
    physical.range.file = memfd_create("cpuhip-shared", MFD_CLOEXEC);
    made = physical.range.file >= 0 && ftruncate(physical.range.file, static_cast<off_t>(bytes)) == 0;
    if (!made && physical.range.file >= 0) close(physical.range.file);
  }
  if (!made) {
    device(physical.device).give_memory(bytes);
    return hipErrorOutOfMemory;
  }
  // Fresh memory is not zero: filled through a mapping of its own, the handle has no address yet.
  void* window = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, physical.range.file, physical.range.offset);
  if (window != MAP_FAILED) {
    poison(window, bytes);
    munmap(window, bytes);
  }
  *handle = add_handle(physical);
  return hipSuccess;
}

hipError_t release(hipMemGenericAllocationHandle_t handle) {
  const std::lock_guard lock(vmm().mutex);
  Physical* physical = find_handle(handle);
  if (physical == nullptr || physical->references == 0) return hipErrorInvalidValue;
  --physical->references;
  drop_if_unused(physical);
  return hipSuccess;
}

hipError_t reserve(void** pointer, std::size_t bytes, std::size_t alignment, unsigned long long flags) {
  const bool power_of_two = (alignment & (alignment - 1)) == 0;
  if (pointer == nullptr || bytes == 0 || bytes % kPageBytes != 0 || !power_of_two || flags != 0) {
    return hipErrorInvalidValue;
  }
  // The wanted address and the alignment are hints that AMD's runtime ignores too.
  Reservation reservation;
  if (!arena_take_memory(bytes, &reservation.range)) return hipErrorOutOfMemory;
  reservation.bytes = bytes;
  *pointer = reservation.range.address;
  const std::lock_guard lock(vmm().mutex);
  vmm().reservations.emplace(static_cast<char*>(*pointer), std::move(reservation));
  return hipSuccess;
}

/// The reservation that holds the whole range, or null. Under the lock.
Reservation* reservation_of(char* place, std::size_t bytes) {
  auto after = vmm().reservations.upper_bound(place);
  if (after == vmm().reservations.begin()) return nullptr;
  auto& [base, reservation] = *--after;
  const auto before = static_cast<std::size_t>(place - base);
  return before < reservation.bytes && bytes <= reservation.bytes - before ? &reservation : nullptr;
}

/// Nobody reserved the address: AMD's runtimes with mappings take it all the same, and crash (probe
/// strange_mapping_is_refused). Under the lock.
void crash_if_strange(const char* call, void* pointer) {
  if (config().version >= kCrashesSince && pointer != nullptr &&
      reservation_of(static_cast<char*>(pointer), 1) == nullptr)
    fatal("%s of %p, which nobody reserved", call, pointer);
}

hipError_t unreserve(void* pointer, std::size_t bytes) {
  const std::lock_guard lock(vmm().mutex);
  crash_if_strange("hipMemAddressFree", pointer);
  const auto found = vmm().reservations.find(static_cast<char*>(pointer));
  if (found == vmm().reservations.end() || found->second.bytes != bytes || !found->second.mappings.empty()) {
    return hipErrorInvalidValue;
  }
  arena_give(found->second.range);
  vmm().reservations.erase(found);
  return hipSuccess;
}

bool overlaps(const Reservation& reservation, char* place, std::size_t bytes) {
  auto next = reservation.mappings.lower_bound(place);
  if (next != reservation.mappings.end() && next->first < place + bytes) return true;
  return next != reservation.mappings.begin() && (--next)->first + next->second.bytes > place;
}

hipError_t map(void* pointer, std::size_t bytes, std::size_t offset, hipMemGenericAllocationHandle_t handle,
               unsigned long long flags) {
  if (pointer == nullptr || bytes == 0 || bytes % kPageBytes != 0 || offset != 0 || flags != 0)
    return hipErrorInvalidValue;
  wait_for_null_stream();
  char* place = static_cast<char*>(pointer);
  const std::lock_guard lock(vmm().mutex);
  Physical* physical = find_handle(handle);
  Reservation* reservation = reservation_of(place, bytes);
  if (physical == nullptr || reservation == nullptr || bytes > physical->bytes) return hipErrorInvalidValue;
  if (reinterpret_cast<std::uintptr_t>(place) % kPageBytes != 0) return hipErrorInvalidValue;
  const bool whole = place == reservation->range.address && bytes == reservation->bytes;
  if ((!whole && config().version < kPartialMapsSince) || overlaps(*reservation, place, bytes))
    return hipErrorInvalidValue;
  void* mapped = mmap(place, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, physical->range.file,
                      physical->range.offset);
  if (mapped == MAP_FAILED) return hipErrorMapFailed;
  Allocation allocation;
  allocation.info = {place, bytes, MemoryKind::Mapped, physical->device, 0};
  allocation.access = std::make_shared<Access>();
  if (!memory_table().insert(allocation)) fatal("a mapping overlaps an allocation");
  ++physical->mappings;
  reservation->mappings.emplace(place, Mapping{bytes, physical, allocation.access});
  return hipSuccess;
}

/// Calls body for the mappings that make up exactly the range; false when they do not. Under the lock.
template <typename Body>
bool for_mappings(Reservation& reservation, char* place, std::size_t bytes, Body&& body) {
  const auto first = reservation.mappings.find(place);
  char* reached = place;
  auto last = first;
  while (last != reservation.mappings.end() && last->first == reached && reached < place + bytes) {
    reached += last->second.bytes;
    ++last;
  }
  if (reached != place + bytes) return false;
  for (auto each = first; each != last;) {
    auto next = std::next(each);
    body(each);
    each = next;
  }
  return true;
}

hipError_t unmap(void* pointer, std::size_t bytes) {
  wait_for_null_stream();
  char* place = static_cast<char*>(pointer);
  const std::lock_guard lock(vmm().mutex);
  crash_if_strange("hipMemUnmap", pointer);
  Reservation* reservation = bytes != 0 ? reservation_of(place, bytes) : nullptr;
  if (reservation == nullptr) return hipErrorInvalidValue;
  const bool whole = for_mappings(*reservation, place, bytes, [&](auto mapping) {
    const auto [base, found] = *mapping;
    if (!memory_table().remove(base, [](const Allocation&) { return true; }))
      fatal("hipMemUnmap of a mapping that hipFree has taken apart");
    const off_t offset = reservation->range.offset + (base - static_cast<char*>(reservation->range.address));
    arena_restore({base, found.bytes, reservation->range.file, offset});
    reservation->mappings.erase(mapping);
    --found.physical->mappings;
    drop_if_unused(found.physical);
  });
  return whole ? hipSuccess : hipErrorInvalidValue;
}

hipError_t set_access(void* pointer, std::size_t bytes, const hipMemAccessDesc* list, std::size_t count) {
  if (pointer == nullptr || bytes == 0 || list == nullptr || count == 0) return hipErrorInvalidValue;
  for (std::size_t index = 0; index < count; ++index) {
    const bool device = list[index].location.type == hipMemLocationTypeDevice && valid(list[index].location.id);
    const int flags = list[index].flags;
    if (!device || flags < hipMemAccessFlagsProtNone || flags > hipMemAccessFlagsProtReadWrite || flags == 2) {
      return hipErrorInvalidValue;
    }
  }
  char* place = static_cast<char*>(pointer);
  const std::lock_guard lock(vmm().mutex);
  Reservation* reservation = reservation_of(place, bytes);
  if (reservation == nullptr) return hipErrorInvalidValue;
  const bool whole = for_mappings(*reservation, place, bytes, [&](auto mapping) {
    Access& access = *mapping->second.access;
    for (std::size_t index = 0; index < count; ++index) {
      const std::uint32_t bit = std::uint32_t{1} << list[index].location.id;
      list[index].flags != hipMemAccessFlagsProtNone ? access.readers.fetch_or(bit) : access.readers.fetch_and(~bit);
      list[index].flags == hipMemAccessFlagsProtReadWrite ? access.writers.fetch_or(bit)
                                                          : access.writers.fetch_and(~bit);
    }
    const int writable = access.writers != 0 ? PROT_READ | PROT_WRITE : PROT_NONE;
    const int protection = access.readers != 0 ? writable | PROT_READ : PROT_NONE;
    if (mprotect(mapping->first, mapping->second.bytes, protection) != 0) fatal("cannot set access");
  });
  return whole ? hipSuccess : hipErrorInvalidValue;
}

hipError_t get_access(unsigned long long* flags, const hipMemLocation* location, void* pointer) {
  if (flags == nullptr || location == nullptr || location->type != hipMemLocationTypeDevice || !valid(location->id)) {
    return hipErrorInvalidValue;
  }
  bool mapped = false;
  memory_table().look(pointer, [&](const Allocation& allocation) {
    if (allocation.info.kind != MemoryKind::Mapped) return;
    mapped = true;
    const bool reads = ((allocation.access->readers >> location->id) & 1u) != 0;
    const bool writes = ((allocation.access->writers >> location->id) & 1u) != 0;
    *flags = writes ? hipMemAccessFlagsProtReadWrite : reads ? hipMemAccessFlagsProtRead : hipMemAccessFlagsProtNone;
  });
  return mapped ? hipSuccess : hipErrorInvalidValue;
}

hipError_t retain(hipMemGenericAllocationHandle_t* handle, void* pointer) {
  if (handle == nullptr || pointer == nullptr) return hipErrorInvalidValue;
  char* place = static_cast<char*>(pointer);
  const std::lock_guard lock(vmm().mutex);
  Reservation* reservation = reservation_of(place, 1);
  if (reservation == nullptr) return hipErrorInvalidValue;
  auto after = reservation->mappings.upper_bound(place);
  if (after == reservation->mappings.begin()) return hipErrorInvalidValue;
  const auto& [base, mapping] = *--after;
  if (place >= base + mapping.bytes) return hipErrorInvalidValue;
  if (config().version >= kReferencesSince) ++mapping.physical->references;
  *handle = handle_of(mapping.physical);
  return hipSuccess;
}

hipError_t export_handle(void* place, hipMemGenericAllocationHandle_t handle, hipMemAllocationHandleType type,
                         unsigned long long flags) {
  if (place == nullptr || flags != 0 || type != hipMemHandleTypePosixFileDescriptor) return hipErrorInvalidValue;
  const std::lock_guard lock(vmm().mutex);
  Physical* physical = find_handle(handle);
  if (physical == nullptr || physical->handle_type != type) return hipErrorInvalidValue;
  const int descriptor = fcntl(physical->range.file, F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0) return hipErrorOperatingSystem;
  std::memcpy(place, &descriptor, sizeof descriptor);
  return hipSuccess;
}

hipError_t import_handle(hipMemGenericAllocationHandle_t* handle, void* os_handle, hipMemAllocationHandleType type) {
  if (handle == nullptr || type != hipMemHandleTypePosixFileDescriptor) return hipErrorInvalidValue;
  int descriptor = static_cast<int>(reinterpret_cast<std::intptr_t>(os_handle));
  if (config().version < kImportByValueSince) {  // the descriptor's address there
    if (os_handle == nullptr) return hipErrorInvalidValue;
    std::memcpy(&descriptor, os_handle, sizeof descriptor);
  }
  Physical physical;
  physical.range.file = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  const off_t end = physical.range.file >= 0 ? lseek(physical.range.file, 0, SEEK_END) : -1;
  if (end <= 0) {
    if (physical.range.file >= 0) close(physical.range.file);
    return hipErrorInvalidValue;
  }
  physical.bytes = static_cast<std::size_t>(end);
  physical.device = current_device().ordinal();
  physical.handle_type = type;
  physical.imported = true;
  *handle = add_handle(physical);
  return hipSuccess;
}

/// The frame of all these entries: they may be switched off.
template <typename Body>
hipError_t vmm_api(const char* name, Body&& body) {
  return api(name, [&](Call&) { return config().vmm ? body() : hipErrorNotSupported; });
}

}  // namespace

void count_vmm(std::size_t* reservations, std::size_t* physical_handles) {
  const std::lock_guard lock(vmm().mutex);
  *reservations = vmm().reservations.size();
  *physical_handles = vmm().handles.size();
}

}  // namespace cpuhip

using namespace cpuhip;

CPUHIP_EXPORT hipError_t hipMemGetAllocationGranularity(std::size_t* granularity, const hipMemAllocationProp* wanted,
                                                        hipMemAllocationGranularity_flags option) {
  return vmm_api("hipMemGetAllocationGranularity", [&] {
    constexpr std::size_t kRecommended = std::size_t{2} << 20;
    Properties properties;
    if (granularity == nullptr || option > hipMemAllocationGranularityRecommended) return hipErrorInvalidValue;
    if (const hipError_t result = check_properties(wanted, &properties); result != hipSuccess) return result;
    const bool large = option == hipMemAllocationGranularityRecommended && config().version >= kReferencesSince;
    *granularity = large ? kRecommended : kPageBytes;
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipMemCreate(hipMemGenericAllocationHandle_t* handle, std::size_t bytes,
                                      const hipMemAllocationProp* wanted, unsigned long long flags) {
  return vmm_api("hipMemCreate", [&] { return create(handle, bytes, wanted, flags); });
}

CPUHIP_EXPORT hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle) {
  return vmm_api("hipMemRelease", [&] { return release(handle); });
}

CPUHIP_EXPORT hipError_t hipMemAddressReserve(void** pointer, std::size_t bytes, std::size_t alignment, void*,
                                              unsigned long long flags) {
  return vmm_api("hipMemAddressReserve", [&] { return reserve(pointer, bytes, alignment, flags); });
}

CPUHIP_EXPORT hipError_t hipMemAddressFree(void* pointer, std::size_t bytes) {
  return vmm_api("hipMemAddressFree", [&] { return unreserve(pointer, bytes); });
}

CPUHIP_EXPORT hipError_t hipMemMap(void* pointer, std::size_t bytes, std::size_t offset,
                                   hipMemGenericAllocationHandle_t handle, unsigned long long flags) {
  return vmm_api("hipMemMap", [&] { return map(pointer, bytes, offset, handle, flags); });
}

CPUHIP_EXPORT hipError_t hipMemUnmap(void* pointer, std::size_t bytes) {
  return vmm_api("hipMemUnmap", [&] { return unmap(pointer, bytes); });
}

CPUHIP_EXPORT hipError_t hipMemSetAccess(void* pointer, std::size_t bytes, const hipMemAccessDesc* list,
                                         std::size_t count) {
  return vmm_api("hipMemSetAccess", [&] { return set_access(pointer, bytes, list, count); });
}

CPUHIP_EXPORT hipError_t hipMemGetAccess(unsigned long long* flags, const hipMemLocation* location, void* pointer) {
  return vmm_api("hipMemGetAccess", [&] { return get_access(flags, location, pointer); });
}

CPUHIP_EXPORT hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t* handle, void* pointer) {
  return vmm_api("hipMemRetainAllocationHandle", [&] { return retain(handle, pointer); });
}

CPUHIP_EXPORT hipError_t hipMemGetAllocationPropertiesFromHandle(hipMemAllocationProp* place,
                                                                 hipMemGenericAllocationHandle_t handle) {
  return vmm_api("hipMemGetAllocationPropertiesFromHandle", [&] {
    const std::lock_guard lock(vmm().mutex);
    const Physical* physical = find_handle(handle);
    if (place == nullptr || physical == nullptr) return hipErrorInvalidValue;
    write_properties(place, *physical);
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipMemExportToShareableHandle(void* place, hipMemGenericAllocationHandle_t handle,
                                                       hipMemAllocationHandleType type, unsigned long long flags) {
  return vmm_api("hipMemExportToShareableHandle", [&] { return export_handle(place, handle, type, flags); });
}

CPUHIP_EXPORT hipError_t hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t* handle, void* os_handle,
                                                         hipMemAllocationHandleType type) {
  return vmm_api("hipMemImportFromShareableHandle", [&] { return import_handle(handle, os_handle, type); });
}
