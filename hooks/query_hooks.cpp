// query_hooks.cpp: bodies of questions about memory and about the last error, of calls that make handles of memory for
// others, and of calls about mappings. The runtime refuses questions about kept memory: it is asked about an address
// that it never handed out. A part of a VMM chunk answers as the separate allocation it stands for. (Functions that
// need nothing else are rows with the effect Names or NamesRange.)
#include <atomic>
#include <cstdint>
#include <cstring>

#include "hooks/bodies.h"
#include "shim/base/log.h"
#include "shim/capture/capture.h"
#include "shim/graphs/epochs.h"
#include "shim/hip/kept_error.h"
#include "shim/hip/process_policy.h"
#include "shim/hip/restore.h"
#include "shim/memory/device_memory.h"
#include "shim/memory/mapped_kinds.h"
#include "shim/memory/shared_memory.h"
#include "shim/process/engine.h"
#include "shim/recording/operand.h"
#include "shim/verify/stale_addresses.h"

namespace graphpool::hooks {
namespace {

SharedMemory::Handle number(hipMemGenericAllocationHandle_t handle) noexcept {
  return reinterpret_cast<SharedMemory::Handle>(handle);
}

/// The live VMM block the address lies in, when the runtime's answer would be the whole chunk's.
const Block* part_of_chunk(const void* ptr) noexcept {
  if (!device_memory().chunks.any_parts()) return nullptr;
  const Block* block = block_table().find(ptr);
  return block != nullptr && block->live() && block->backing == BlockBacking::kVmm ? block : nullptr;
}

/// Corrects the runtime's answer about an address. `block`: the part of a chunk that the address is in; null: it is in
/// none.
void correct(const Block* block, hipPointer_attribute attribute, void* answer, const void* ptr) noexcept {
  if (answer == nullptr) return;
  if (attribute == HIP_POINTER_ATTRIBUTE_BUFFER_ID) {
    const std::uint32_t id = blocks().buffer_id(ptr);  // as wide as AMD's runtime writes it
    if (id != 0) std::memcpy(answer, &id, sizeof id);
  }
  if (block == nullptr) return;
  if (attribute == HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR) {
    void* const base = block->pointer();
    std::memcpy(answer, &base, sizeof base);
  } else if (attribute == HIP_POINTER_ATTRIBUTE_RANGE_SIZE) {
    const auto bytes = static_cast<std::uint32_t>(block->bytes());  // as wide as AMD's runtime writes it
    std::memcpy(answer, &bytes, sizeof bytes);
  }
}

}  // namespace

hipError_t on_hipMemGetInfo(Entry&, size_t* free_bytes, size_t* total_bytes) {
  const hipError_t result = doubted(next().hipMemGetInfo(free_bytes, total_bytes));
  if (result == hipSuccess && free_bytes != nullptr) {
    *free_bytes += memory_room().hidden_free_bytes(current_device());
    if (total_bytes != nullptr && *free_bytes > *total_bytes) *free_bytes = *total_bytes;
  }
  return result;
}

hipError_t on_hipMemGetAddressRange(Entry&, hipDeviceptr_t* base, size_t* bytes, hipDeviceptr_t ptr) {
  const Block* block = part_of_chunk(ptr);
  const hipError_t result = doubted(next().hipMemGetAddressRange(base, bytes, address_guard().seen_by_hip(ptr)));
  if (result == hipSuccess && block != nullptr) {
    if (base != nullptr) *base = block->pointer();
    if (bytes != nullptr) *bytes = block->bytes();
  }
  return result;
}

hipError_t on_hipMemPtrGetInfo(Entry&, void* ptr, size_t* bytes) {
  const Block* block = part_of_chunk(ptr);
  const hipError_t result = doubted(next().hipMemPtrGetInfo(address_guard().seen_by_hip(ptr), bytes));
  if (result == hipSuccess && block != nullptr && bytes != nullptr) *bytes = block->bytes();
  return result;
}

hipError_t on_hipPointerGetAttribute(Entry&, void* data, hipPointer_attribute attribute, hipDeviceptr_t ptr) {
  const Block* block = part_of_chunk(ptr);
  const hipError_t result = doubted(next().hipPointerGetAttribute(data, attribute, address_guard().seen_by_hip(ptr)));
  if (result == hipSuccess) correct(block, attribute, data, ptr);
  return result;
}

hipError_t on_hipDrvPointerGetAttributes(Entry&, unsigned int count, hipPointer_attribute* attributes, void** data,
                                         hipDeviceptr_t ptr) {
  const Block* block = part_of_chunk(ptr);
  const hipError_t result =
      doubted(next().hipDrvPointerGetAttributes(count, attributes, data, address_guard().seen_by_hip(ptr)));
  if (result == hipSuccess)
    for (unsigned int i = 0; i < count; ++i) correct(block, attributes[i], data[i], ptr);
  return result;
}

hipError_t on_hipIpcGetMemHandle(Entry&, hipIpcMemHandle_t* handle, void* ptr) {
  if (part_of_chunk(ptr) != nullptr) {
    static constinit std::atomic<bool> said{false};
    if (!said.exchange(true))
      log_warn("hipIpcGetMemHandle of VMM memory is refused: give its buffer rule backing = \"classic\"");
    // A handle of VMM memory can crash the kernel driver (hip/quirks.h, kIpcOfVmmCrashes). This call fails, and so
    // leaves the error where the program looks for it.
    const hipError_t refused = doubted(next().hipIpcGetMemHandle(handle, AddressGuard::refused()));
    return refused == hipSuccess ? hipErrorInvalidValue : refused;
  }
  const hipError_t result = doubted(next().hipIpcGetMemHandle(handle, address_guard().seen_by_hip(ptr)));
  if (result == hipSuccess) memory_exported(ptr, 0);
  return result;
}

hipError_t on_hipIpcOpenMemHandle(Entry&, void** ptr, hipIpcMemHandle_t handle, unsigned int flags) {
  const hipError_t result = next().hipIpcOpenMemHandle(ptr, handle, flags);
  if (result == hipSuccess) memory_opened(*ptr);
  if (captures_open()) note_capture_doubt();
  return result;
}

hipError_t on_hipIpcCloseMemHandle(Entry&, void* ptr) {
  memory_goes(ptr, 0, "memory of another process was closed");
  const hipError_t result = next().hipIpcCloseMemHandle(address_guard().seen_by_hip(ptr));
  if (result == hipSuccess) shared_memory().remove(ptr);
  if (captures_open()) note_capture_doubt();
  return result;
}

hipError_t on_hipMemGetHandleForAddressRange(Entry&, void* handle, hipDeviceptr_t ptr, size_t bytes, int type,
                                             unsigned long long flags) {
  void* const seen = address_guard().seen_by_hip(ptr);
  void* const range = seen == ptr ? address_guard().operand(seen, bytes) : seen;
  const hipError_t result = doubted(next().hipMemGetHandleForAddressRange(handle, range, bytes, type, flags));
  if (result == hipSuccess) memory_exported(ptr, bytes);
  return result;
}

hipError_t on_hipMemPoolExportPointer(Entry&, hipMemPoolPtrExportData* data, void* ptr) {
  const hipError_t result = next().hipMemPoolExportPointer(data, address_guard().seen_by_hip(ptr));
  if (result == hipSuccess) memory_exported(ptr, 0);
  if (captures_open()) note_capture_doubt();
  return result;
}

hipError_t on_hipMemPoolImportPointer(Entry&, void** ptr, hipMemPool_t from, hipMemPoolPtrExportData* data) {
  const hipError_t result = next().hipMemPoolImportPointer(ptr, from, data);
  if (result == hipSuccess) memory_opened(*ptr);
  if (captures_open()) note_capture_doubt();
  return result;
}

hipError_t on_hipGetLastError(Entry&) {
  forget_kept_error();
  const hipError_t result = last_error_of_program(next().hipGetLastError(), true);
  settle_failed_end();  // it replaces no error: none is pending now
  return result;
}
hipError_t on_hipPeekAtLastError(Entry&) {
  forget_kept_error();
  return last_error_of_program(next().hipPeekAtLastError(), false);
}

// Calls about mappings: memory of hipMalloc is no mapping, whatever we made it of.
hipError_t on_hipMemCreate(Entry&, hipMemGenericAllocationHandle_t* handle, size_t bytes,
                           const hipMemAllocationProp* properties, unsigned long long flags) {
  const hipError_t result = memory_room().retry_after_trim(
      current_device(), [&] { return next().hipMemCreate(handle, bytes, properties, flags); });
  if (result == hipSuccess) {
    shared_memory().made(number(*handle));
    mapped_kinds().made(number(*handle), properties);
  }
  if (captures_open()) note_capture_doubt();
  return result;
}
hipError_t on_hipMemExportToShareableHandle(Entry&, void* shareable, hipMemGenericAllocationHandle_t handle,
                                            hipMemAllocationHandleType type, unsigned long long flags) {
  const hipError_t result = next().hipMemExportToShareableHandle(shareable, handle, type, flags);
  if (result == hipSuccess) shared_memory().share(number(handle));
  if (captures_open()) note_capture_doubt();
  return result;
}
hipError_t on_hipMemImportFromShareableHandle(Entry&, hipMemGenericAllocationHandle_t* handle, void* os_handle,
                                              hipMemAllocationHandleType type) {
  const hipError_t result = next().hipMemImportFromShareableHandle(handle, os_handle, type);
  if (result == hipSuccess) {
    shared_memory().share(number(*handle));
    mapped_kinds().made(number(*handle), nullptr);
  }
  if (captures_open()) note_capture_doubt();
  return result;
}
hipError_t on_hipMemMap(Entry&, void* ptr, size_t bytes, size_t offset, hipMemGenericAllocationHandle_t handle,
                        unsigned long long flags) {
  const auto forward = [&] {
    return next().hipMemMap(address_guard().outside_chunks(ptr), bytes, offset, handle, flags);
  };
  // Where the memory is the same as before it was unmapped, earlier recordings stay valid.
  const std::uint64_t unmapped = mapped_kinds().unmapped_when(ptr, bytes, offset, number(handle));
  const bool same = unmapped != 0 && !recordings_judged_since(unmapped, ptr, bytes);
  const hipError_t result = same ? forward() : change_kind(ptr, bytes, forward);
  if (same && captures_open()) note_capture_doubt();
  if (result == hipSuccess) {
    shared_memory().map(ptr, bytes, number(handle));
    mapped_kinds().mapped(ptr, bytes, offset, number(handle));
    if (policy().graph.check) stale_addresses().mapped(ptr, bytes);
  }
  return result;
}
hipError_t on_hipMemUnmap(Entry&, void* ptr, size_t bytes) {
  memory_goes(ptr, bytes, "memory was unmapped");
  const hipError_t result = doubted(next().hipMemUnmap(address_guard().outside_chunks(ptr), bytes));
  if (result == hipSuccess) {
    shared_memory().unmap(ptr, bytes);
    mapped_kinds().unmapped(ptr, bytes, note_unmapped());
    if (policy().graph.check) stale_addresses().unmapped(ptr, bytes);
  }
  return result;
}
hipError_t on_hipMemAddressFree(Entry&, void* ptr, size_t bytes) {
  return doubted(next().hipMemAddressFree(address_guard().outside_chunks(ptr), bytes));
}
hipError_t on_hipMemSetAccess(Entry&, void* ptr, size_t bytes, const hipMemAccessDesc* access, size_t count) {
  return doubted(next().hipMemSetAccess(address_guard().outside_chunks(ptr), bytes, access, count));
}
hipError_t on_hipMemGetAccess(Entry&, unsigned long long* flags, const hipMemLocation* location, void* ptr) {
  return doubted(next().hipMemGetAccess(flags, location, address_guard().outside_chunks(ptr)));
}
hipError_t on_hipMemRetainAllocationHandle(Entry&, hipMemGenericAllocationHandle_t* handle, void* ptr) {
  const hipError_t result = doubted(next().hipMemRetainAllocationHandle(handle, address_guard().outside_chunks(ptr)));
  if (result == hipSuccess) {
    shared_memory().also(number(*handle), ptr);
    mapped_kinds().also(number(*handle), ptr);
  }
  return result;
}

}  // namespace graphpool::hooks
