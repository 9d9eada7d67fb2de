// memory_hooks.cpp: bodies of the calls that allocate, register and free memory, and of those that reset devices. They
// ask the parts of shim/memory/device_memory.h.
#include "hooks/hot_bodies.h"
#include "shim/capture/capture.h"
#include "shim/capture/momentary_streams.h"
#include "shim/graphs/epochs.h"
#include "shim/graphs/graphs.h"
#include "shim/hip/kept_error.h"
#include "shim/memory/device_memory.h"
#include "shim/memory/registered_memory.h"
#include "shim/streams/stream_work.h"

namespace graphpool::hooks {
namespace {

constexpr int kAllDevices = -1;

void doubt_captures() noexcept {
  if (captures_open()) note_capture_doubt();
}

/// Notes an allocation or a free in a stream's order as work of the stream, unless the stream captures: then it is a
/// node, or refused.
void note_uncaptured(hipStream_t stream) noexcept {
  if (!in_open_capture({stream, false})) work_counts().note_work(stream);
}

hipError_t allocate(AllocationFunction function, void** ptr, size_t bytes, unsigned int flags, hipStream_t stream) {
  settle_failed_end();
  const hipError_t result = device_memory().pool.allocate({function, bytes, current_device(), flags, stream}, ptr);
  doubt_captures();
  if (result == hipSuccess) graphs().store.evict_if_due();  // after a failure it would replace the error
  return result;
}

/// Lets the runtime make an allocation that the pool never serves; if that fails for memory, once more after kept
/// memory was given back.
template <typename Call>
hipError_t native(int device, Call&& call) {
  const hipError_t result = memory_room().retry_after_trim(device, call);
  doubt_captures();
  return result;
}

template <typename Call>
hipError_t host(void** ptr, size_t bytes, unsigned int flags, Call&& call) {
  const hipError_t result = native(kAllDevices, call);
  if (result == hipSuccess && ptr != nullptr)
    blocks().note_native(
        *ptr, {.bytes = bytes, .device = current_device(), .flags = flags, .function = AllocationFunction::kHostMalloc},
        MemoryKind::kHost);
  return result;
}

/// The allocation that a free of the address frees. `bytes` is 0 where the library does not know it.
struct Freed {
  const void* base;
  size_t bytes;
};
Freed freed_by(const void* ptr) noexcept {
  const Block* const block = block_table().find(ptr);
  return block == nullptr ? Freed{ptr, 0} : Freed{block->pointer(), block->bytes()};
}

bool is_device_memory(const void* ptr) noexcept {
  const Block* const block = block_table().find(ptr);
  return block != nullptr && block->kind == MemoryKind::kDevice;
}

hipError_t free(void* ptr, BlockFrees::Forward forward) {
  const Freed memory = freed_by(ptr);
  // A withheld capture that names the memory becomes real while its addresses are still the program's (rule 7).
  if (captures_open() && ptr != nullptr) materialise_captures_naming(memory.base, memory.bytes, "memory was freed");
  const auto freed = [&] { return device_memory().frees.free(ptr, forward); };
  const bool any_kind = ptr != nullptr && !is_device_memory(ptr);
  const hipError_t result = any_kind ? change_kind(memory.base, memory.bytes, freed) : freed();
  doubt_captures();
  return result;
}

/// Whether this is device memory that was not allocated in stream order. hipFreeAsync frees it, too.
bool is_unordered(const void* ptr) noexcept {
  const Block* const block = block_table().find(ptr);
  return block != nullptr && block->kind == MemoryKind::kDevice && block->function != AllocationFunction::kMallocAsync;
}

template <typename Call>
hipError_t reset(int device, Call&& call) {
  any_stream_named();
  drop_device(device);
  unknown_ends();
  const hipError_t result = call();
  device_memory().device_was_reset(device);
  doubt_captures();
  return result;
}

}  // namespace

hipError_t on_hipMalloc(Entry&, void** ptr, size_t bytes) {
  return allocate(AllocationFunction::kMalloc, ptr, bytes, hipDeviceMallocDefault, nullptr);
}
hipError_t on_hipExtMallocWithFlags(Entry&, void** ptr, size_t bytes, unsigned int flags) {
  return allocate(AllocationFunction::kExtMalloc, ptr, bytes, flags, nullptr);
}
hipError_t on_hipMallocAsync(Entry&, void** ptr, size_t bytes, hipStream_t stream) {
  const KeptError last_error;
  // On a capturing stream it is a node that no recording can hold.
  if (captures_open()) expose_capture({stream, false}, "hipMallocAsync was captured");
  const hipError_t result = allocate(AllocationFunction::kMallocAsync, ptr, bytes, 0, stream);
  if (result == hipSuccess) note_uncaptured(stream);  // after a failure its question would replace the error
  if (result == hipErrorStreamCaptureUnsupported) last_error.keep();
  return result;
}
hipError_t on_hipMallocFromPoolAsync(Entry&, void** ptr, size_t bytes, hipMemPool_t from, hipStream_t stream) {
  if (captures_open()) expose_capture({stream, false}, "hipMallocFromPoolAsync was captured");
  const bool capturing = captures_open();
  const int device = current_device();
  const hipError_t result = native(device, [&] { return next().hipMallocFromPoolAsync(ptr, bytes, from, stream); });
  if (result == hipSuccess && ptr != nullptr && !capturing)
    blocks().note_native(*ptr, {.bytes = bytes, .device = device, .function = AllocationFunction::kMallocFromPool},
                         MemoryKind::kStreamOrdered);
  if (result == hipSuccess) note_uncaptured(stream);
  return result;
}

hipError_t on_hipMallocManaged(Entry&, void** ptr, size_t bytes, unsigned int flags) {
  const int device = current_device();
  const hipError_t result = native(device, [&] { return next().hipMallocManaged(ptr, bytes, flags); });
  if (result == hipSuccess && ptr != nullptr)
    blocks().note_native(
        *ptr, {.bytes = bytes, .device = device, .flags = flags, .function = AllocationFunction::kMallocManaged},
        MemoryKind::kManaged);
  return result;
}
hipError_t on_hipMallocPitch(Entry&, void** ptr, size_t* pitch, size_t width, size_t height) {
  const int device = current_device();
  const hipError_t result = native(device, [&] { return next().hipMallocPitch(ptr, pitch, width, height); });
  if (result == hipSuccess && ptr != nullptr && pitch != nullptr)
    blocks().note_native(*ptr,
                         {.bytes = *pitch * height, .device = device, .function = AllocationFunction::kMallocPitch},
                         MemoryKind::kDevice);
  return result;
}
hipError_t on_hipMemAllocPitch(Entry&, hipDeviceptr_t* ptr, size_t* pitch, size_t width, size_t height,
                               unsigned int element_bytes) {
  const int device = current_device();
  const hipError_t result =
      native(device, [&] { return next().hipMemAllocPitch(ptr, pitch, width, height, element_bytes); });
  if (result == hipSuccess && ptr != nullptr && pitch != nullptr)
    blocks().note_native(*ptr,
                         {.bytes = *pitch * height, .device = device, .function = AllocationFunction::kMallocPitch},
                         MemoryKind::kDevice);
  return result;
}
hipError_t on_hipMalloc3D(Entry&, hipPitchedPtr* made, hipExtent extent) {
  const int device = current_device();
  const hipError_t result = native(device, [&] { return next().hipMalloc3D(made, extent); });
  if (result == hipSuccess && made != nullptr)
    blocks().note_native(made->ptr,
                         {.bytes = made->pitch * extent.height * extent.depth,
                          .device = device,
                          .function = AllocationFunction::kMalloc3D},
                         MemoryKind::kDevice);
  return result;
}

hipError_t on_hipHostMalloc(Entry&, void** ptr, size_t bytes, unsigned int flags) {
  return host(ptr, bytes, flags, [&] { return next().hipHostMalloc(ptr, bytes, flags); });
}
hipError_t on_hipHostAlloc(Entry&, void** ptr, size_t bytes, unsigned int flags) {
  return host(ptr, bytes, flags, [&] { return next().hipHostAlloc(ptr, bytes, flags); });
}
hipError_t on_hipExtHostAlloc(Entry&, void** ptr, size_t bytes, unsigned int flags) {
  return host(ptr, bytes, flags, [&] { return next().hipExtHostAlloc(ptr, bytes, flags); });
}
hipError_t on_hipMallocHost(Entry&, void** ptr, size_t bytes) {
  return host(ptr, bytes, 0, [&] { return next().hipMallocHost(ptr, bytes); });
}
hipError_t on_hipMemAllocHost(Entry&, void** ptr, size_t bytes) {
  return host(ptr, bytes, 0, [&] { return next().hipMemAllocHost(ptr, bytes); });
}

// These pin and unpin a host range, of which recordings hold only the address (rule 38).
hipError_t on_hipHostRegister(Entry&, void* ptr, size_t bytes, unsigned int flags) {
  const hipError_t result = change_kind(
      ptr, bytes, [&] { return native(kAllDevices, [&] { return next().hipHostRegister(ptr, bytes, flags); }); });
  if (result == hipSuccess) g_registered_memory.add(ptr, bytes);
  return result;
}
hipError_t on_hipHostUnregister(Entry&, void* ptr) {
  memory_goes(ptr, 0, "host memory was unregistered");
  const hipError_t result =
      change_kind(ptr, g_registered_memory.bytes_at(ptr), [&] { return next().hipHostUnregister(ptr); });
  if (result == hipSuccess) g_registered_memory.remove(ptr);
  return result;
}

hipError_t free_slowly(void* ptr) {
  settle_failed_end();
  return free(ptr, next().hipFree);
}
hipError_t on_hipHostFree(Entry&, void* ptr) { return free(ptr, next().hipHostFree); }
hipError_t on_hipFreeHost(Entry&, void* ptr) { return free(ptr, next().hipFreeHost); }
hipError_t on_hipFreeAsync(Entry&, void* ptr, hipStream_t stream) {
  const KeptError last_error;
  const bool unordered = is_unordered(ptr);
  if (captures_open()) {
    expose_capture({stream, false}, "hipFreeAsync was captured");
    const Freed memory = freed_by(ptr);
    if (ptr != nullptr) materialise_captures_naming(memory.base, memory.bytes, "memory was freed");
  }
  const hipError_t result = device_memory().frees.free_async(ptr, stream);
  if (result == hipSuccess) note_uncaptured(stream);
  doubt_captures();
  const bool left = result == hipErrorStreamCaptureUnsupported ||
                    (result == hipSuccess && unordered && !in_open_capture({stream, false}));
  if (left) last_error.keep();
  return result;
}

hipError_t on_hipDeviceReset(Entry&) {
  return reset(current_device(), [] { return next().hipDeviceReset(); });
}
hipError_t on_hipDevicePrimaryCtxReset(Entry&, hipDevice_t device) {
  return reset(device, [device] { return next().hipDevicePrimaryCtxReset(device); });
}

}  // namespace graphpool::hooks
