// memory.h: devices' memory: allocations, virtual memory management, who may access what.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace cpuhip {

class Device;

enum class MemoryKind {
  Device,
  Host,
  Managed,
  Signal,
  Mapped /* VMM */,
  Pool /* stream-ordered */,
  Global /* module variable */
};

struct AllocationInfo {
  void* base = nullptr;
  std::size_t bytes = 0;  ///< as the program asked
  MemoryKind kind = MemoryKind::Device;
  int device = 0;
  unsigned flags = 0;
  std::uint32_t id = 0;             ///< HIP_POINTER_ATTRIBUTE_BUFFER_ID; 0 until the memory table has entered it
  std::size_t width = 0, rows = 0;  ///< of pitched memory, as the program asked
};

/// The live allocation that contains the address. False for host memory the runtime does not know and freed memory.
bool find_allocation(const void* address, AllocationInfo* info);

enum class Use { Kernel, Copy };
/// Whether work on `device` may touch all of [address, address + bytes). Kernels reach their own device, its enabled
/// peers, managed and host memory of the runtime; copies reach all devices' classic memory without enabling peers, and
/// plain host memory the runtime does not know. Mapped (VMM) memory: always as hipMemSetAccess says.
bool accessible(const void* address, std::size_t bytes, const Device& device, bool write, Use use = Use::Kernel);

/// Quirk lazy_peers: gives the device access to the allocation that holds the address, as far as its peers go.
void grant_lazily(const void* address, const Device& device);
/// Quirk lazy_peers: whether a kernel that finds this word inside an argument may follow it: no address, or memory the
/// device was given access to.
bool reached_lazily(std::uintptr_t word, const Device& device);

/// Stream-ordered memory, from the device's current pool; used by the pool entries and by graphs' alloc nodes.
hipError_t pool_allocate(Device& device, void** pointer, std::size_t bytes);
hipError_t pool_free(void* pointer);

/// What the program has reserved and created of virtual memory.
void count_vmm(std::size_t* reservations, std::size_t* physical_handles);

/// Whether the address lies in a range the runtime manages, live or freed.
bool owned_range(const void* address);

/// Registers memory of a loaded module's variables so that copies to symbols and pointer queries know it.
void register_global(void* address, std::size_t bytes, int device);
void unregister_global(void* address);

}  // namespace cpuhip
