// dmabuf.cpp: exports memory of devices as file descriptors, and maps such descriptors.
//
// The file behind a descriptor holds a SharedExtent, which says where the memory lies. The file of an exported handle
// of virtual memory holds the same. Who maps the descriptor maps the device's own file. Memory that was exported is not
// handed out again after it was freed, because another process may still hold a descriptor.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "checked.h"
#include "memory.h"

using namespace hsa_cpu;

HSA_CPU_API hsa_status_t hsa_amd_portable_export_dmabuf(const void* base, std::size_t bytes, int* file,
                                                        std::uint64_t* offset) {
  if (base == nullptr || bytes == 0 || file == nullptr || offset == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const std::optional<Allocation> found = find_allocation(base);
  if (!found || found->extent.file < 0) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  const auto from = static_cast<std::size_t>(static_cast<const char*>(base) - found->base);
  if (bytes > round_up(found->bytes, kPage) - from) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  if (!keep_extent(found->base)) return HSA_STATUS_ERROR_INVALID_ALLOCATION;
  *file = share_extent(found->extent, *found->pool->agent);
  if (*file < 0) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  *offset = from;
  return HSA_STATUS_SUCCESS;
}
HSA_CPU_API hsa_status_t hsa_amd_portable_export_dmabuf_v2(const void* base, std::size_t bytes, int* file,
                                                           std::uint64_t* offset, std::uint64_t) {
  return hsa_amd_portable_export_dmabuf(base, bytes, file, offset);
}
HSA_CPU_API hsa_status_t hsa_amd_portable_close_dmabuf(int file) {
  return close(file) == 0 ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

// --- memory of others, by descriptor ---

HSA_CPU_API hsa_status_t hsa_amd_interop_map_buffer(std::uint32_t count, hsa_agent_t* mapped_by, int file,
                                                    std::uint32_t, std::size_t* bytes, void** out,
                                                    std::size_t* metadata_bytes, const void** metadata) {
  SharedExtent shared{};
  if (pread(file, &shared, sizeof shared, 0) != sizeof shared || shared.magic != kSharedMagic)
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const int own = open_shared(shared);
  if (own < 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  void* const base =
      mmap(nullptr, shared.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, own, static_cast<off_t>(shared.offset));
  close(own);
  if (base == MAP_FAILED) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  const Agent* const owner = agents()[std::min<std::size_t>(shared.device + 1, agents().size() - 1)];
  add_allocation({static_cast<char*>(base),
                  shared.bytes,
                  &owner->pools[0],
                  HSA_EXT_POINTER_TYPE_GRAPHICS,
                  {-1, 0, shared.bytes},
                  0});
  Agents allowed = count == 0 ? kAllAgents : 0;
  for (std::uint32_t i = 0; i < count; ++i) allowed |= agent_bit(agent_of(mapped_by[i])->node);
  ledger_add(base, shared.bytes, MemoryIs::OtherProcess, owner->index, allowed, allowed);
  *bytes = shared.bytes;
  *out = base;
  if (metadata_bytes != nullptr) *metadata_bytes = 0;
  if (metadata != nullptr) *metadata = nullptr;
  return HSA_STATUS_SUCCESS;
}
HSA_CPU_API hsa_status_t hsa_amd_interop_unmap_buffer(void* base) {
  const std::optional<Allocation> found = find_allocation(base);
  if (!found || found->base != base || found->type != HSA_EXT_POINTER_TYPE_GRAPHICS)
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  remove_allocation(base);
  ledger_remove(base);
  munmap(base, found->extent.bytes);
  return HSA_STATUS_SUCCESS;
}
