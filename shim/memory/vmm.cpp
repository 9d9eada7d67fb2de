#include "shim/memory/vmm.h"

#include <atomic>
#include <cstring>
#include <new>

#include "shim/base/lock_rank.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"
#include "shim/streams/devices.h"
#include "shim/streams/open_captures.h"
#include "shim/streams/stream_work.h"

namespace graphpool {
namespace {

/// hipMemAllocationProp as runtimes from 5.6 on read it; the header we build with has the older order.
struct NewAllocationProp {
  hipMemAllocationType type;
  hipMemAllocationHandleType requested_handle_type;
  hipMemLocation location;
  void* win32_handle_meta_data;
  struct {
    unsigned char compression_type;
    unsigned char gpu_direct_rdma_capable;
    unsigned short usage;
  } flags;
};

/// The same for 5.1 to 5.5.
struct OldAllocationProp {
  unsigned char compression_type;
  hipMemLocation location;
  hipMemAllocationHandleType requested_handle_type;
  hipMemAllocationType type;
  unsigned short usage;
  void* win32_handle_meta_data;
};
static_assert(sizeof(OldAllocationProp) <= 64 && sizeof(NewAllocationProp) <= 64);

/// Pinned memory on a device, for either layout.
class AllocationProp {
 public:
  explicit AllocationProp(int device) noexcept {
    const hipMemLocation location{hipMemLocationTypeDevice, device};
    if (has_defect(Defect::kOldAllocationProperties)) {
      auto* prop = new (bytes_) OldAllocationProp{};
      prop->location = location;
      prop->type = hipMemAllocationTypePinned;
    } else {
      auto* prop = new (bytes_) NewAllocationProp{};
      prop->location = location;
      prop->type = hipMemAllocationTypePinned;
    }
  }
  const hipMemAllocationProp* get() const noexcept { return reinterpret_cast<const hipMemAllocationProp*>(bytes_); }

 private:
  alignas(8) unsigned char bytes_[64] = {};
};

/// Makes a call of ours. Returns its answer, and leaves no error behind.
template <typename Call>
hipError_t swallow(Call&& call) noexcept {
  hipError_t error = hipSuccess;
  (void)PrivateCalls::worked([&] { return error = call(); });
  return error;
}

void unreserve(void* start, std::size_t bytes) noexcept {
  const auto call = [&] { return next().hipMemAddressFree(start, bytes); };
  if (!PrivateCalls::worked(call) && !has_defect(Defect::kUnmapUnknownCrashes)) (void)PrivateCalls::worked(call);
}

void release(hipMemGenericAllocationHandle_t physical) noexcept {
  (void)PrivateCalls::gave_back([&] { return next().hipMemRelease(physical); });
}

hipError_t reserve(std::size_t bytes, Mapping* mapping) noexcept {
  void* start = nullptr;
  hipError_t error = swallow([&] { return next().hipMemAddressReserve(&start, bytes, kLargePageBytes, nullptr, 0); });
  if (error != hipSuccess) return error;
  const bool aligned = reinterpret_cast<std::uintptr_t>(start) % kLargePageBytes == 0;
  if (aligned || has_defect(Defect::kMapWholeReservation)) {
    *mapping = {{start, bytes}, start, false};
    return hipSuccess;
  }
  unreserve(start, bytes);
  const std::size_t more = bytes + kLargePageBytes;
  error = swallow([&] { return next().hipMemAddressReserve(&start, more, kLargePageBytes, nullptr, 0); });
  if (error != hipSuccess) return error;
  const std::uintptr_t base = round_up(reinterpret_cast<std::uintptr_t>(start), kLargePageBytes);
  *mapping = {{start, more}, reinterpret_cast<void*>(base), false};
  return hipSuccess;
}

/// Gives access to the owner and to every device that can reach it, at once: hipDeviceEnablePeerAccess does not extend
/// to VMM memory, and natively copies between devices work without it (rule 23).
hipError_t grant_access(void* base, std::size_t bytes, int owner) noexcept {
  hipMemAccessDesc access[kMaxDevices];
  std::size_t count = 0;
  auto add = [&](int device) {
    access[count].location = {hipMemLocationTypeDevice, device};
    access[count].flags = hipMemAccessFlagsProtReadWrite;
    ++count;
  };
  add(owner);
  int devices = 0;
  if (!PrivateCalls::worked([&] { return next().hipGetDeviceCount(&devices); })) devices = 0;
  for (int device = 0; device < devices && device < kMaxDevices; ++device) {
    int can = 0;
    if (device != owner && PrivateCalls::worked([&] { return next().hipDeviceCanAccessPeer(&can, device, owner); }) &&
        can != 0)
      add(device);
  }
  const hipError_t error = swallow([&] { return next().hipMemSetAccess(base, bytes, access, count); });
  if (error != hipSuccess || !has(EntryId::hipMemGetAccess)) return error;
  unsigned long long granted = 0;
  const hipError_t asked = swallow([&] { return next().hipMemGetAccess(&granted, &access[0].location, base); });
  if (asked == hipErrorNotSupported) return hipSuccess;
  if (asked != hipSuccess) return asked;
  return granted == hipMemAccessFlagsProtReadWrite ? hipSuccess : hipErrorUnknown;
}

hipError_t map(Mapping* mapping, std::size_t bytes, hipMemGenericAllocationHandle_t physical, int owner) noexcept {
  hipError_t error = swallow([&] { return next().hipMemMap(mapping->base, bytes, 0, physical, 0); });
  if (error != hipSuccess) return error;
  error = grant_access(mapping->base, bytes, owner);
  if (error != hipSuccess) {
    // If the map itself failed unseen, this unmap fails too. It names memory that we reserved, which 6.3 survives.
    (void)PrivateCalls::gave_back([&] { return next().hipMemUnmap(mapping->base, bytes); });
    return error;
  }
  mapping->mapped = true;
  return hipSuccess;
}

void unmap(Mapping* mapping, std::size_t bytes) noexcept {
  if (!mapping->mapped) return;
  (void)PrivateCalls::gave_back([&] { return next().hipMemUnmap(mapping->base, bytes); });
  mapping->mapped = false;
}

void free_reservation(Mapping* mapping) noexcept {
  if (mapping->reservation.start == nullptr) return;
  unreserve(mapping->reservation.start, mapping->reservation.bytes);
  *mapping = {};
}

enum class Works : std::uint8_t { kUnknown, kYes, kNo };

constinit std::atomic<Works> g_works[kMaxDevices] = {};
constinit std::atomic<std::size_t> g_granularity[kMaxDevices] = {};

bool try_vmm(int device) noexcept {
  for (const EntryId id :
       {EntryId::hipMemAddressReserve, EntryId::hipMemCreate, EntryId::hipMemMap, EntryId::hipMemSetAccess,
        EntryId::hipMemUnmap, EntryId::hipMemRelease, EntryId::hipMemAddressFree})
    if (!has(id)) return false;
  std::unique_ptr<Chunk> chunk;
  return make_chunk(device, chunk_granularity(device), &chunk) == hipSuccess;
}

}  // namespace

Chunk::~Chunk() {
  PrivateCalls private_calls;
  SavedDevice current(device_);
  unmap(&main_, bytes_);
  if (physical_ != nullptr) release(physical_);
  free_reservation(&main_);
}

void Chunk::unload() noexcept {
  PrivateCalls private_calls;
  SavedDevice current(device_);
  unmap(&main_, bytes_);
  if (physical_ != nullptr) release(physical_);
  physical_ = nullptr;
}

hipError_t Chunk::load() noexcept {
  PrivateCalls private_calls;
  SavedDevice current(device_);
  if (!current.ok()) return hipErrorInvalidDevice;
  hipMemGenericAllocationHandle_t physical = nullptr;
  hipError_t error = swallow([&] { return next().hipMemCreate(&physical, bytes_, AllocationProp(device_).get(), 0); });
  if (error != hipSuccess) return error;
  error = map(&main_, bytes_, physical, device_);
  if (error != hipSuccess) {
    release(physical);
    return error;
  }
  physical_ = physical;
  return hipSuccess;
}

hipError_t make_chunk(int device, std::size_t bytes, std::unique_ptr<Chunk>* chunk) noexcept {
  PrivateCalls private_calls;
  SavedDevice current(device);
  if (!current.ok()) return hipErrorInvalidDevice;
  std::unique_ptr<Chunk> made(new (std::nothrow) Chunk);
  if (made == nullptr) return hipErrorOutOfMemory;
  made->device_ = device;
  made->bytes_ = round_up(bytes, chunk_granularity(device));
  hipError_t error = reserve(made->bytes_, &made->main_);
  if (error == hipSuccess) error = made->load();
  if (error != hipSuccess) return error;  // the destructor undoes what was made
  *chunk = std::move(made);
  return hipSuccess;
}

std::size_t chunk_granularity(int device) noexcept {
  if (!valid_device(device)) return kLargePageBytes;
  std::size_t known = g_granularity[device].load(std::memory_order_relaxed);
  if (known == 0) {
    if (!PrivateCalls::worked([&] {
          return next().hipMemGetAllocationGranularity(&known, AllocationProp(device).get(),
                                                       hipMemAllocationGranularityMinimum);
        }) ||
        known == 0)
      known = kLargePageBytes;
    known = round_up(known, kPageBytes);
    g_granularity[device].store(known, std::memory_order_relaxed);
  }
  return known;
}

bool vmm_works(int device) noexcept {
  if (!valid_device(device) || has_defect(Defect::kMapSpoilsFills)) return false;
  Works works = g_works[device].load();
  if (works == Works::kUnknown) {
    // Trying maps memory: not in a capture, and not where it would wait for the program's work.
    if (!may_map_now(device)) return false;
    works = try_vmm(device) ? Works::kYes : Works::kNo;
    g_works[device].store(works);
  }
  return works == Works::kYes;
}

bool may_map_now(int device) noexcept {
  if (captures_open()) return false;
  if (!has_defect(Defect::kMapWaits)) return true;
  StreamWork& work = stream_work();
  if (work.counts.is_idle(device)) return true;
  // The device was busy when it was last looked at; it may have finished.
  Fence* fence = work.fences.make(device);
  if (fence == nullptr) return false;
  PrivateCalls private_calls;
  const bool done = work.fences.passed(fence);
  work.fences.release(fence);
  return done;
}

void forget_vmm(int device) noexcept {
  if (!valid_device(device)) return;
  g_works[device].store(Works::kUnknown);
  g_granularity[device].store(0);
}

}  // namespace graphpool
