#include "memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

#include "checked.h"
#include "settings.h"

namespace hsa_cpu {
namespace {

/// The memory file of one device, handed out in parts.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) : bytes_(round_up(bytes, kPage)) {
    file_ = memfd_create("device", MFD_CLOEXEC);
    // Twice as much: parts that lie apart never make it fail earlier than its bytes do.
    if (file_ < 0 || ftruncate(file_, static_cast<off_t>(2 * bytes_)) != 0) complain("no memory file can be made");
    free_.emplace(0, 2 * bytes_);
  }
  std::optional<Extent> take(std::size_t bytes) {
    const std::scoped_lock guard(mutex_);
    if (bytes > bytes_ - used_) return std::nullopt;
    const auto found = std::find_if(free_.begin(), free_.end(), [&](const auto& part) { return part.second >= bytes; });
    if (found == free_.end()) return std::nullopt;
    const auto [offset, room] = *found;
    free_.erase(found);
    if (room > bytes) free_.emplace(offset + bytes, room - bytes);
    used_ += bytes;
    return Extent{file_, offset, bytes};
  }
  void give(const Extent& extent) {
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(extent.offset),
              static_cast<off_t>(extent.bytes));
    const std::scoped_lock guard(mutex_);
    used_ -= extent.bytes;
    auto [at, added] = free_.emplace(extent.offset, extent.bytes);
    static_cast<void>(added);
    if (const auto next = std::next(at); next != free_.end() && at->first + at->second == next->first) {
      at->second += next->second;
      free_.erase(next);
    }
    if (at == free_.begin()) return;
    if (const auto before = std::prev(at); before->first + before->second == at->first) {
      before->second += at->second;
      free_.erase(at);
    }
  }
  std::size_t used() {
    const std::scoped_lock guard(mutex_);
    return used_;
  }

 private:
  std::mutex mutex_;
  int file_;
  std::size_t bytes_, used_ = 0;
  std::map<std::size_t, std::size_t> free_;  ///< bytes by offset
};

DeviceMemory& memory_of(const Agent& agent) {
  static const auto* const all = [] {
    auto* const made = new std::map<const Agent*, DeviceMemory*>;
    for (const Agent* each : agents())
      if (each->gpu) made->emplace(each, new DeviceMemory(each->memory_bytes));
    return made;
  }();
  return *all->at(&agent);
}

struct Allocations {
  std::mutex mutex;
  std::map<std::uintptr_t, Allocation> by_base;

  std::map<std::uintptr_t, Allocation>::iterator find(const void* address) {
    auto it = by_base.upper_bound(reinterpret_cast<std::uintptr_t>(address));
    if (it == by_base.begin()) return by_base.end();
    --it;
    return reinterpret_cast<std::uintptr_t>(address) < it->first + it->second.bytes ? it : by_base.end();
  }
};
Allocations& allocations() {
  static auto* const all = new Allocations;
  return *all;
}

/// Addresses for so many bytes and a page that faults behind them.
char* reserve(std::size_t bytes) {
  void* const base = mmap(nullptr, bytes + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return base == MAP_FAILED ? nullptr : static_cast<char*>(base);
}

hsa_status_t allocate(const Pool& pool, std::size_t bytes, void** out) {
  if (bytes == 0 || out == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  if (!may_allocate() || bytes > pool.bytes) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  const std::size_t mapped = round_up(bytes, kPage);
  char* const base = reserve(mapped);
  if (base == nullptr) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  Extent extent{-1, 0, mapped};
  bool done = false;
  if (pool.agent->gpu) {
    const std::optional<Extent> taken = take_extent(*pool.agent, mapped);
    if (taken) {
      extent = *taken;
      done = mmap(base, mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, extent.file,
                  static_cast<off_t>(extent.offset)) != MAP_FAILED;
      if (!done) give_extent(*pool.agent, extent);
    }
  } else {
    done = mprotect(base, mapped, PROT_READ | PROT_WRITE) == 0;
  }
  if (!done) {
    munmap(base, mapped + kPage);
    return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  }
  add_allocation({base, bytes, &pool, HSA_EXT_POINTER_TYPE_HSA, extent, 0});
  const Agents owner = agent_bit(pool.agent->node);
  ledger_add(base, bytes, MemoryIs::Allocation, pool.agent->gpu ? pool.agent->index : -1, owner, owner);
  *out = base;
  return HSA_STATUS_SUCCESS;
}

Agents bits_of(std::uint32_t count, const hsa_agent_t* named) {
  Agents bits = 0;
  for (std::uint32_t i = 0; i < count; ++i) bits |= agent_bit(agent_of(named[i])->node);
  return bits;
}
/// The set of the agents in a list; all agents where the list is empty.
Agents bits_or_all(int count, const hsa_agent_t* named) {
  return count <= 0 || named == nullptr ? kAllAgents : bits_of(static_cast<std::uint32_t>(count), named);
}

/// Copies with the processor. The host may touch what any of the agents may.
bool checked_copy(const void* to, const void* from, std::size_t bytes) {
  if (!checked() || bytes == 0) return true;
  bool may = true;
  for (const bool writes : {true, false}) {
    const void* const end = writes ? to : from;
    if (anybody_may_touch(end, bytes, writes)) continue;
    const CallStack here = call_stack();
    tell_finding({"copy", "hsa_memory_copy", ""}, {reinterpret_cast<std::uint64_t>(end), bytes, 0, writes}, &here);
    may = false;
  }
  return may;
}

/// hsa_amd_ipc_memory_t.
struct IpcHandle {
  std::uint64_t base;
  std::uint32_t process;
  std::int32_t file;
  std::uint64_t offset;
  std::uint64_t bytes_and_device;  ///< bytes * 256 + device
};
static_assert(sizeof(IpcHandle) == sizeof(hsa_amd_ipc_memory_t));

}  // namespace

std::optional<Extent> take_extent(const Agent& agent, std::size_t bytes) { return memory_of(agent).take(bytes); }
void give_extent(const Agent& agent, const Extent& extent) { memory_of(agent).give(extent); }
std::size_t memory_used(const Agent& agent) { return agent.gpu ? memory_of(agent).used() : 0; }

std::optional<Allocation> find_allocation(const void* address) {
  Allocations& all = allocations();
  const std::scoped_lock guard(all.mutex);
  const auto found = all.find(address);
  if (found == all.by_base.end()) return std::nullopt;
  return found->second;
}

void add_allocation(const Allocation& allocation) {
  Allocations& all = allocations();
  const std::scoped_lock guard(all.mutex);
  all.by_base[reinterpret_cast<std::uintptr_t>(allocation.base)] = allocation;
}

bool remove_allocation(const void* base) {
  Allocations& all = allocations();
  const std::scoped_lock guard(all.mutex);
  return all.by_base.erase(reinterpret_cast<std::uintptr_t>(base)) != 0;
}

char* map_image(const Agent& agent, std::size_t bytes) {
  char* const base = reserve(bytes);
  if (base == nullptr || mprotect(base, bytes, PROT_READ | PROT_WRITE) != 0) return nullptr;
  add_allocation({base, bytes, &agent.pools[0], HSA_EXT_POINTER_TYPE_HSA, {-1, 0, bytes}, 0});
  ledger_add(base, bytes, MemoryIs::CodeObject, agent.index, kAllAgents, kAllAgents);
  return base;
}

void unmap_image(char* base, std::size_t bytes) {
  remove_allocation(base);
  ledger_remove(base);
  munmap(base, bytes + kPage);
}

bool may_allocate() {
  static std::atomic<long> made{0};
  const long limit = settings().fail_at;
  return limit == 0 || made.fetch_add(1) < limit;
}

int share_extent(const Extent& extent, const Agent& agent) {
  const int file = memfd_create("shared", MFD_CLOEXEC);
  const SharedExtent shared{kSharedMagic,
                            static_cast<std::uint32_t>(getpid()),
                            extent.file,
                            extent.offset,
                            extent.bytes,
                            static_cast<std::uint32_t>(agent.index),
                            0};
  if (file < 0 || pwrite(file, &shared, sizeof shared, 0) == sizeof shared) return file;
  close(file);
  return -1;
}

bool keep_extent(const void* base) {
  Allocations& all = allocations();
  const std::scoped_lock guard(all.mutex);
  const auto found = all.by_base.find(reinterpret_cast<std::uintptr_t>(base));
  if (found == all.by_base.end()) return false;
  found->second.exported = true;
  return true;
}

int open_shared(const SharedExtent& shared) {
  if (shared.process == static_cast<std::uint32_t>(getpid())) return fcntl(shared.file, F_DUPFD_CLOEXEC, 0);
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%u/fd/%d", shared.process, shared.file);
  return open(path, O_RDWR | O_CLOEXEC);
}

}  // namespace hsa_cpu

using namespace hsa_cpu;

HSA_CPU_API hsa_status_t hsa_amd_memory_pool_allocate(hsa_amd_memory_pool_t pool, std::size_t bytes, std::uint32_t,
                                                      void** out) {
  return allocate(*pool_of(pool), bytes, out);
}

HSA_CPU_API hsa_status_t hsa_amd_memory_pool_free(void* base) {
  if (base == nullptr) return HSA_STATUS_SUCCESS;
  Allocation gone{};
  {
    Allocations& all = allocations();
    const std::scoped_lock guard(all.mutex);
    const auto found = all.by_base.find(reinterpret_cast<std::uintptr_t>(base));
    if (found == all.by_base.end() || found->second.pool == nullptr || found->second.type != HSA_EXT_POINTER_TYPE_HSA) {
      complain("memory %p is freed, which is no allocation", base);
      return HSA_STATUS_ERROR_INVALID_ALLOCATION;
    }
    gone = found->second;
    all.by_base.erase(found);
  }
  ledger_remove(base);
  if (checked())
    retire_addresses(gone.base, gone.extent.bytes + kPage);
  else
    munmap(base, gone.extent.bytes + kPage);
  if (gone.pool->agent->gpu && !gone.exported) give_extent(*gone.pool->agent, gone.extent);
  return HSA_STATUS_SUCCESS;
}

// All devices share the process's address space here. Only checked mode looks at what each was allowed to touch.
HSA_CPU_API hsa_status_t hsa_amd_agents_allow_access(std::uint32_t count, const hsa_agent_t* allowed,
                                                     const std::uint32_t*, const void* base) {
  ledger_allow(base, bits_of(count, allowed));
  return HSA_STATUS_SUCCESS;
}
HSA_CPU_API hsa_status_t hsa_memory_register(void*, std::size_t) { return HSA_STATUS_SUCCESS; }
HSA_CPU_API hsa_status_t hsa_memory_deregister(void*, std::size_t) { return HSA_STATUS_SUCCESS; }
HSA_CPU_API hsa_status_t hsa_memory_copy(void* to, const void* from, std::size_t bytes) {
  if (!checked_copy(to, from, bytes)) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  std::memmove(to, from, bytes);
  return HSA_STATUS_SUCCESS;
}

// The host's memory has the same address for devices. It may be locked several times.
HSA_CPU_API hsa_status_t hsa_amd_memory_lock_to_pool(void* host, std::size_t bytes, hsa_agent_t* agents_of_it,
                                                     int count, hsa_amd_memory_pool_t, std::uint32_t, void** out) {
  ledger_lock(host, bytes, bits_or_all(count, agents_of_it));
  Allocations& all = allocations();
  const std::scoped_lock guard(all.mutex);
  Allocation& entry = all.by_base[reinterpret_cast<std::uintptr_t>(host)];
  if (entry.base == nullptr)
    entry = {static_cast<char*>(host), bytes, nullptr, HSA_EXT_POINTER_TYPE_LOCKED, {-1, 0, 0}, 0};
  ++entry.locks;
  *out = host;
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_status_t hsa_amd_memory_unlock(void* host) {
  ledger_unlock(host);
  Allocations& all = allocations();
  const std::scoped_lock guard(all.mutex);
  const auto found = all.by_base.find(reinterpret_cast<std::uintptr_t>(host));
  // ROCR answers success for memory it does not know.
  if (found != all.by_base.end() && --found->second.locks <= 0 && found->second.pool == nullptr)
    all.by_base.erase(found);
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_status_t hsa_amd_pointer_info(const void* address, hsa_amd_pointer_info_t* info,
                                              void* (*allocate_list)(std::size_t), std::uint32_t* count,
                                              hsa_agent_t** accessible) {
  const std::optional<Allocation> found = find_allocation(address);
  hsa_amd_pointer_info_t told{};
  // The caller's structure may be an older, shorter one.
  told.size = std::min<std::uint32_t>(info->size, sizeof told);
  told.type = HSA_EXT_POINTER_TYPE_UNKNOWN;
  if (found) {
    told.type = static_cast<hsa_amd_pointer_type_t>(found->type);
    told.agentBaseAddress = told.hostBaseAddress = found->base;
    told.sizeInBytes = found->bytes;
    told.agentOwner = handle_of(found->pool != nullptr ? found->pool->agent : agents().front());
    constexpr std::uint32_t kLockedFlags = HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED;
    told.global_flags = found->pool != nullptr ? found->pool->flags : kLockedFlags;
  }
  std::memcpy(info, &told, told.size);
  if (allocate_list == nullptr || count == nullptr || accessible == nullptr) return HSA_STATUS_SUCCESS;
  *count = found ? static_cast<std::uint32_t>(agents().size()) : 0;
  *accessible = static_cast<hsa_agent_t*>(allocate_list(sizeof(hsa_agent_t) * agents().size()));
  for (std::uint32_t i = 0; i < *count; ++i) (*accessible)[i] = handle_of(agents()[i]);
  return HSA_STATUS_SUCCESS;
}

// --- memory of other processes ---

HSA_CPU_API hsa_status_t hsa_amd_ipc_memory_create(void* base, std::size_t bytes, hsa_amd_ipc_memory_t* out) {
  const std::optional<Allocation> found = find_allocation(base);
  if (!found || found->base != base || found->extent.file < 0) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const IpcHandle handle{reinterpret_cast<std::uint64_t>(base), static_cast<std::uint32_t>(getpid()),
                         found->extent.file, found->extent.offset,
                         bytes * 256 + static_cast<std::uint64_t>(found->pool->agent->index)};
  std::memcpy(out, &handle, sizeof handle);
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_status_t hsa_amd_ipc_memory_attach(const hsa_amd_ipc_memory_t* in, std::size_t, std::uint32_t count,
                                                   const hsa_agent_t* mapped_by, void** out) {
  IpcHandle handle{};
  std::memcpy(&handle, in, sizeof handle);
  if (handle.process == static_cast<std::uint32_t>(getpid())) {
    *out = reinterpret_cast<void*>(handle.base);
    return HSA_STATUS_SUCCESS;
  }
  const std::size_t bytes = handle.bytes_and_device / 256, device = handle.bytes_and_device % 256;
  const std::size_t mapped = round_up(bytes, kPage);
  const int file = open_shared({kSharedMagic, handle.process, handle.file, handle.offset, bytes, 0, 0});
  if (file < 0) {
    complain("memory of process %u cannot be opened", handle.process);
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  }
  void* const base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(handle.offset));
  close(file);
  if (base == MAP_FAILED) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  const Agent* const owner = agents()[std::min(device + 1, agents().size() - 1)];
  add_allocation({static_cast<char*>(base), bytes, &owner->pools[0], HSA_EXT_POINTER_TYPE_IPC, {-1, 0, mapped}, 0});
  const Agents agents_of_it = bits_or_all(static_cast<int>(count), mapped_by);
  ledger_add(base, bytes, MemoryIs::OtherProcess, owner->index, agents_of_it, agents_of_it);
  *out = base;
  return HSA_STATUS_SUCCESS;
}

HSA_CPU_API hsa_status_t hsa_amd_ipc_memory_detach(void* base) {
  const std::optional<Allocation> found = find_allocation(base);
  if (!found || found->type != HSA_EXT_POINTER_TYPE_IPC) return HSA_STATUS_SUCCESS;
  remove_allocation(base);
  ledger_remove(base);
  munmap(base, found->extent.bytes);
  return HSA_STATUS_SUCCESS;
}
