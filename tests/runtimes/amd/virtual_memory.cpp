// virtual_memory.cpp: addresses that are reserved, memory that has none, and mappings of one to the other
// (hsa_amd_vmem_*). A reservation is a mapping without access; memory is a part of the device's file.
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "checked.h"
#include "memory.h"
#include "settings.h"

namespace hsa_cpu {
namespace {

/// Memory that has no address of its own. Lives while a handle or a mapping names it.
struct Physical {
  Extent extent;
  const Pool* pool;
  int type;       ///< hsa_amd_memory_type_t
  bool imported;  ///< another process's: the file is this process's copy of its descriptor
  bool exported = false;

  ~Physical() {
    if (imported)
      close(extent.file);
    else if (exported)
      return;  // another process may have it mapped: it is not handed out again
    else
      give_extent(*pool->agent, extent);
  }
};
struct Handle {
  std::shared_ptr<Physical> memory;
  int count;
};
struct Mapping {
  std::size_t bytes;
  std::shared_ptr<Physical> memory;
  hsa_access_permission_t access;
};

struct VirtualMemory {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, Handle> handles;
  std::map<std::uintptr_t, Mapping> mappings;
  std::uint64_t last_handle = 0;

  std::uint64_t add(std::shared_ptr<Physical> memory) {
    handles[++last_handle] = {std::move(memory), 1};
    return last_handle;
  }
  Mapping* find(const void* address) {
    auto it = mappings.upper_bound(reinterpret_cast<std::uintptr_t>(address));
    if (it == mappings.begin()) return nullptr;
    --it;
    return reinterpret_cast<std::uintptr_t>(address) < it->first + it->second.bytes ? &it->second : nullptr;
  }
};
VirtualMemory& virtual_memory() {
  static auto* const all = new VirtualMemory;
  return *all;
}

int protection(hsa_access_permission_t access) {
  switch (access) {
    case HSA_ACCESS_PERMISSION_RO:
      return PROT_READ;
    case HSA_ACCESS_PERMISSION_WO:
      return PROT_WRITE;
    case HSA_ACCESS_PERMISSION_RW:
      return PROT_READ | PROT_WRITE;
  }
  return PROT_NONE;
}

hsa_status_t reserve(void** out, std::size_t bytes, std::uint64_t hint, std::size_t alignment) {
  if (bytes == 0 || bytes % kPage != 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  if (alignment < kPage) alignment = kPage;
  void* const wide = mmap(reinterpret_cast<void*>(hint), bytes + alignment, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (wide == MAP_FAILED) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  char* const from = static_cast<char*>(wide);
  char* const start = reinterpret_cast<char*>(round_up(reinterpret_cast<std::uintptr_t>(from), alignment));
  const auto before = static_cast<std::size_t>(start - from);
  if (before != 0) munmap(from, before);
  if (alignment > before) munmap(start + bytes, alignment - before);
  *out = start;
  return HSA_STATUS_SUCCESS;
}

}  // namespace
}  // namespace hsa_cpu

using namespace hsa_cpu;

HSA_CPU_API hsa_status_t hsa_amd_vmem_address_reserve_align(void** out, std::size_t bytes, std::uint64_t hint,
                                                            std::uint64_t alignment, std::uint64_t) {
  return reserve(out, bytes, hint, alignment);
}
HSA_CPU_API hsa_status_t hsa_amd_vmem_address_reserve(void** out, std::size_t bytes, std::uint64_t hint,
                                                      std::uint64_t) {
  return reserve(out, bytes, hint, kPage);
}
HSA_CPU_API hsa_status_t hsa_amd_vmem_address_free(void* base, std::size_t bytes) {
  return munmap(base, bytes) == 0 ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ALLOCATION;
}

HSA_CPU_API hsa_status_t hsa_amd_vmem_handle_create(hsa_amd_memory_pool_t pool_handle, std::size_t bytes, int type,
                                                    std::uint64_t, VmemHandle* out) {
  const Pool& pool = *pool_of(pool_handle);
  if (bytes == 0 || bytes % kPage != 0 || !pool.agent->gpu) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  if (!may_allocate()) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  const std::optional<Extent> extent = take_extent(*pool.agent, bytes);
  if (!extent) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  VirtualMemory& all = virtual_memory();
  const std::scoped_lock guard(all.mutex);
  out->handle = all.add(std::shared_ptr<Physical>(new Physical{*extent, &pool, type, false}));
  return HSA_STATUS_SUCCESS;
}

// clr releases handle 0 after a creation that failed: it is looked up, never followed.
HSA_CPU_API hsa_status_t hsa_amd_vmem_handle_release(VmemHandle handle) {
  VirtualMemory& all = virtual_memory();
  const std::scoped_lock guard(all.mutex);
  const auto found = all.handles.find(handle.handle);
  if (found == all.handles.end()) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  if (--found->second.count == 0) all.handles.erase(found);
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_status_t hsa_amd_vmem_map(void* base, std::size_t bytes, std::size_t offset, VmemHandle handle,
                                          std::uint64_t) {
  VirtualMemory& all = virtual_memory();
  const std::scoped_lock guard(all.mutex);
  const auto found = all.handles.find(handle.handle);
  if (found == all.handles.end()) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  const std::shared_ptr<Physical>& memory = found->second.memory;
  if (offset + bytes > memory->extent.bytes || all.find(base) != nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  if (mmap(base, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, memory->extent.file,
           static_cast<off_t>(memory->extent.offset + offset)) == MAP_FAILED)
    return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  all.mappings[reinterpret_cast<std::uintptr_t>(base)] = {bytes, memory, kNoAccess};
  add_allocation({static_cast<char*>(base), bytes, memory->pool, kPointerTypeVirtualMemory, {-1, 0, bytes}, 0});
  ledger_add(base, bytes, MemoryIs::Mapping, memory->pool->agent->index, 0, 0);
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_status_t hsa_amd_vmem_unmap(void* base, std::size_t bytes) {
  VirtualMemory& all = virtual_memory();
  const std::scoped_lock guard(all.mutex);
  const auto found = all.mappings.find(reinterpret_cast<std::uintptr_t>(base));
  if (found == all.mappings.end() || found->second.bytes != bytes) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  mmap(base, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  remove_allocation(base);
  ledger_remove(base);
  all.mappings.erase(found);
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_status_t hsa_amd_vmem_set_access(void* base, std::size_t bytes, const AccessDescription* wanted,
                                                 std::size_t count) {
  // One address space: the widest permission of all agents.
  int access = PROT_NONE;
  for (std::size_t i = 0; i < count; ++i) access |= protection(wanted[i].permissions);
  VirtualMemory& all = virtual_memory();
  const std::scoped_lock guard(all.mutex);
  if (all.find(base) == nullptr) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  if (mprotect(base, bytes, access) != 0) return HSA_STATUS_ERROR;
  const auto start = reinterpret_cast<std::uintptr_t>(base);
  for (auto it = all.mappings.lower_bound(start); it != all.mappings.end() && it->first < start + bytes; ++it)
    it->second.access = count == 0 ? kNoAccess : wanted[0].permissions;
  for (std::size_t i = 0; i < count; ++i) {
    const int wanted_access = protection(wanted[i].permissions);
    ledger_permit(base, bytes, agent_bit(agent_of(wanted[i].agent)->node), (wanted_access & PROT_READ) != 0,
                  (wanted_access & PROT_WRITE) != 0);
  }
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_status_t hsa_amd_vmem_get_access(void* base, hsa_access_permission_t* out, hsa_agent_t) {
  VirtualMemory& all = virtual_memory();
  const std::scoped_lock guard(all.mutex);
  const Mapping* const found = all.find(base);
  if (found == nullptr) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  *out = found->access;
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_status_t hsa_amd_vmem_export_shareable_handle(int* file, VmemHandle handle, std::uint64_t) {
  VirtualMemory& all = virtual_memory();
  const std::scoped_lock guard(all.mutex);
  const auto found = all.handles.find(handle.handle);
  if (found == all.handles.end()) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  found->second.memory->exported = true;
  *file = share_extent(found->second.memory->extent, *found->second.memory->pool->agent);
  return *file < 0 ? HSA_STATUS_ERROR_OUT_OF_RESOURCES : HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_status_t hsa_amd_vmem_import_shareable_handle(int file, VmemHandle* out) {
  SharedExtent shared{};
  if (pread(file, &shared, sizeof shared, 0) != sizeof shared || shared.magic != kSharedMagic)
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const int own = open_shared(shared);
  if (own < 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const Agent* const owner = agents()[std::min<std::size_t>(shared.device + 1, agents().size() - 1)];
  VirtualMemory& all = virtual_memory();
  const std::scoped_lock guard(all.mutex);
  out->handle =
      all.add(std::shared_ptr<Physical>(new Physical{{own, shared.offset, shared.bytes}, &owner->pools[0], 0, true}));
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_status_t hsa_amd_vmem_retain_alloc_handle(VmemHandle* out, void* base) {
  VirtualMemory& all = virtual_memory();
  const std::scoped_lock guard(all.mutex);
  const Mapping* const found = all.find(base);
  if (found == nullptr) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  for (auto& [handle, held] : all.handles) {
    if (held.memory != found->memory) continue;
    ++held.count;
    out->handle = handle;
    return HSA_STATUS_SUCCESS;
  }
  out->handle = all.add(found->memory);
  return HSA_STATUS_SUCCESS;
}
