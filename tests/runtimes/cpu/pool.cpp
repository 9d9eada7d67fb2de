// pool.cpp: stream-ordered memory. A pool keeps freed blocks up to its release threshold and hands them out again,
// filled with poison; memory becomes free when the stream reaches the free.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "api.h"
#include "capture.h"
#include "device.h"
#include "graph.h"
#include "memory.h"
#include "memory_table.h"
#include "stream.h"

struct ihipMemPoolHandle_t {
  explicit ihipMemPoolHandle_t(int on_device) : device(on_device) {
    access->readers = access->writers = std::uint32_t{1} << on_device;
  }

  const int device;
  const std::shared_ptr<cpuhip::Access> access = std::make_shared<cpuhip::Access>();
  bool destroyed = false;  ///< guarded by the pools' lock; the object stays, its memory goes with its last block
  std::mutex mutex;        ///< guards the rest
  std::uint64_t release_threshold = 0;
  std::uint64_t reserved = 0, reserved_high = 0, used = 0, used_high = 0;
  int reuse[3] = {1, 1, 1};              ///< the three reuse attributes: remembered, without effect
  std::vector<cpuhip::Allocation> kept;  ///< freed blocks, oldest first
};

namespace cpuhip {
namespace {

using Pool = ihipMemPoolHandle_t;

struct Pools {
  std::mutex mutex;
  std::vector<Pool*> all;
  Pool* standard[kMaxDevices] = {};
  Pool* current[kMaxDevices] = {};
  std::map<const void*, Pool*> blocks;  ///< live blocks by address
};

Pools& pools() {
  static auto& instance = *[] {
    auto* made = new Pools;
    for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
      made->standard[ordinal] = made->current[ordinal] = new Pool(ordinal);
      made->all.push_back(made->standard[ordinal]);
    }
    return made;
  }();
  return instance;
}

bool valid(int ordinal) { return ordinal >= 0 && ordinal < device_count(); }

bool known(Pool* pool) {
  const std::lock_guard lock(pools().mutex);
  for (const Pool* each : pools().all) {
    if (each == pool) return !each->destroyed;
  }
  return false;
}

/// Gives kept memory back until the pool reserves no more than `bytes`. Under the pool's lock.
void trim(Pool& pool, std::uint64_t bytes) {
  while (!pool.kept.empty() && pool.reserved > bytes) {
    pool.reserved -= pages_up(pool.kept.front().info.bytes);
    give_back(pool.kept.front());
    pool.kept.erase(pool.kept.begin());
  }
}

hipError_t allocate_from(Pool& pool, void** pointer, std::size_t bytes) {
  const std::uint64_t whole = pages_up(bytes);
  const std::lock_guard lock(pool.mutex);
  bool reused = false;
  for (auto place = pool.kept.begin(); place != pool.kept.end() && !reused; ++place) {
    if (pages_up(place->info.bytes) != whole) continue;
    reused = true;
    place->info.bytes = bytes;
    place->freed = false;
    poison(place->info.base, whole);
    if (!memory_table().insert(*place)) fatal("pool blocks overlap");
    *pointer = place->info.base;
    pool.kept.erase(place);
    break;
  }
  if (!reused) {
    hipError_t result = allocate(device(pool.device), MemoryKind::Pool, bytes, 0, pointer, pool.access);
    if (result == hipErrorOutOfMemory) {
      trim(pool, 0);
      result = allocate(device(pool.device), MemoryKind::Pool, bytes, 0, pointer, pool.access);
    }
    if (result != hipSuccess) return result;
    pool.reserved += whole;
  }
  pool.used += whole;
  pool.used_high = std::max(pool.used_high, pool.used);
  pool.reserved_high = std::max(pool.reserved_high, pool.reserved);
  const std::lock_guard all_lock(pools().mutex);
  pools().blocks[*pointer] = &pool;
  return hipSuccess;
}

/// What is allocated or freed in the order of a stream that does not capture is refused beside the capture of a
/// blocking stream of its device: of HIP 6 on (seen of AMD's 6.4.3 and 7.2.4). The capture goes on.
hipError_t check_beside_captures(Call& call, const Stream& stream) {
  const hipError_t result = check_capture_ordered_memory(stream);
  if (result != hipSuccess) call.is_refused_silently();
  return result;
}

hipError_t malloc_async(Call& call, void** pointer, std::size_t bytes, Pool* pool, hipStream_t handle) {
  if (pointer == nullptr) return hipErrorInvalidValue;
  Stream* stream = nullptr;
  if (const hipError_t result = resolve(call, handle, false, &stream); result != hipSuccess) return result;
  *pointer = nullptr;
  if (bytes == 0) return hipSuccess;
  if (stream->capture.load() != nullptr) return capture_malloc(*stream, pointer, bytes);
  if (const hipError_t result = check_beside_captures(call, *stream); result != hipSuccess) return result;
  if (pool != nullptr) return known(pool) ? allocate_from(*pool, pointer, bytes) : hipErrorInvalidValue;
  return pool_allocate(stream->device(), pointer, bytes);
}

bool freed_in_order(const Allocation& allocation) {
  return allocation.info.kind == MemoryKind::Pool || allocation.info.kind == MemoryKind::Device;
}

hipError_t free_async(Call& call, void* pointer, hipStream_t handle) {
  Stream* stream = nullptr;
  if (const hipError_t result = resolve(call, handle, false, &stream); result != hipSuccess) return result;
  if (pointer == nullptr) return hipErrorInvalidValue;
  if (stream->capture.load() != nullptr) return capture_free(*stream, pointer);
  if (const hipError_t result = check_beside_captures(call, *stream); result != hipSuccess) return result;
  // Any address of an allocation frees all of it.
  bool of_pool = false;
  memory_table().look(pointer, [&](const Allocation& allocation) {
    pointer = allocation.info.base;
    of_pool = allocation.info.kind != MemoryKind::Device;
  });
  if (std::shared_ptr<GraphMemory> of_graph = find_graph_memory(pointer)) {
    of_graph->set_live(false);
    stream->enqueue([of_graph = std::move(of_graph)] { return hipSuccess; });
    return hipSuccess;
  }
  // Here and not in the stream: whether a second free is refused does not depend on how far the stream has come.
  if (!memory_table().mark_freed(pointer, freed_in_order)) return hipErrorInvalidValue;
  stream->enqueue([pointer] { return pool_free(pointer); });
  if (!of_pool) call.leaves_last_error();
  return hipSuccess;
}

/// The attributes by number: 1 to 3 are int, the rest 64 bits.
hipError_t get_attribute(Pool& pool, hipMemPoolAttr wanted, void* value) {
  const std::lock_guard lock(pool.mutex);
  const auto put = [&](auto number) {
    std::memcpy(value, &number, sizeof number);
    return hipSuccess;
  };
  switch (wanted) {
    case hipMemPoolReuseFollowEventDependencies:
    case hipMemPoolReuseAllowOpportunistic:
    case hipMemPoolReuseAllowInternalDependencies:
      return put(pool.reuse[wanted - 1]);
    case hipMemPoolAttrReleaseThreshold:
      return put(pool.release_threshold);
    case hipMemPoolAttrReservedMemCurrent:
      return put(pool.reserved);
    case hipMemPoolAttrReservedMemHigh:
      return put(pool.reserved_high);
    case hipMemPoolAttrUsedMemCurrent:
      return put(pool.used);
    case hipMemPoolAttrUsedMemHigh:
      return put(pool.used_high);
  }
  return hipErrorInvalidValue;
}

hipError_t set_attribute(Pool& pool, hipMemPoolAttr wanted, const void* value) {
  const std::lock_guard lock(pool.mutex);
  std::uint64_t number = 0;
  switch (wanted) {
    case hipMemPoolReuseFollowEventDependencies:
    case hipMemPoolReuseAllowOpportunistic:
    case hipMemPoolReuseAllowInternalDependencies:
      std::memcpy(&pool.reuse[wanted - 1], value, sizeof(int));
      return hipSuccess;
    case hipMemPoolAttrReleaseThreshold:
      std::memcpy(&pool.release_threshold, value, sizeof number);
      return hipSuccess;
    case hipMemPoolAttrReservedMemHigh:
    case hipMemPoolAttrUsedMemHigh:
      std::memcpy(&number, value, sizeof number);
      if (number != 0) return hipErrorInvalidValue;  // the high-water marks can only be reset
      (wanted == hipMemPoolAttrReservedMemHigh ? pool.reserved_high : pool.used_high) = 0;
      return hipSuccess;
    default:
      return hipErrorInvalidValue;
  }
}

template <typename Body>
hipError_t with_pool(const char* name, Pool* pool, const void* argument, Body&& body) {
  return api(name, [&](Call&) {
    if (pool == nullptr || argument == nullptr || !known(pool)) return hipErrorInvalidValue;
    return body(*pool);
  });
}

}  // namespace

hipError_t pool_allocate(Device& device, void** pointer, std::size_t bytes) {
  Pool* pool = nullptr;
  {
    const std::lock_guard lock(pools().mutex);
    pool = pools().current[device.ordinal()];
  }
  return allocate_from(*pool, pointer, bytes);
}

hipError_t pool_free(void* pointer) {
  const auto removed = memory_table().remove(pointer, freed_in_order);
  if (!removed) return hipErrorInvalidValue;
  if (removed->info.kind == MemoryKind::Device) {  // hipFreeAsync of hipMalloc's memory
    give_back(*removed);
    return hipSuccess;
  }
  Pool* pool = nullptr;
  {
    const std::lock_guard lock(pools().mutex);
    const auto block = pools().blocks.find(pointer);
    pool = block->second;
    pools().blocks.erase(block);
  }
  {
    constexpr int kFreed = 0xDD;
    const std::lock_guard lock(pool->mutex);
    pool->used -= pages_up(removed->info.bytes);
    if (config().poison) std::memset(pointer, kFreed, removed->info.bytes);
    pool->kept.push_back(*removed);
    trim(*pool, std::max(pool->release_threshold, pool->used));
  }
  return hipSuccess;
}

}  // namespace cpuhip

using namespace cpuhip;

CPUHIP_EXPORT hipError_t hipMallocAsync(void** pointer, std::size_t bytes, hipStream_t stream) {
  return api("hipMallocAsync", [&](Call& call) { return malloc_async(call, pointer, bytes, nullptr, stream); });
}

CPUHIP_EXPORT hipError_t hipMallocFromPoolAsync(void** pointer, std::size_t bytes, hipMemPool_t pool,
                                                hipStream_t stream) {
  return api("hipMallocFromPoolAsync", [&](Call& call) {
    return pool == nullptr ? hipErrorInvalidValue : malloc_async(call, pointer, bytes, pool, stream);
  });
}

CPUHIP_EXPORT hipError_t hipFreeAsync(void* pointer, hipStream_t stream) {
  return api("hipFreeAsync", [&](Call& call) { return free_async(call, pointer, stream); });
}

CPUHIP_EXPORT hipError_t hipMemPoolCreate(hipMemPool_t* pool, const hipMemPoolProps* props) {
  return api("hipMemPoolCreate", [&](Call&) {
    if (pool == nullptr || props == nullptr || props->allocType != hipMemAllocationTypePinned)
      return hipErrorInvalidValue;
    if (props->location.type != hipMemLocationTypeDevice || !valid(props->location.id)) return hipErrorInvalidValue;
    if (props->handleTypes != hipMemHandleTypeNone) return hipErrorNotSupported;
    *pool = new Pool(props->location.id);
    const std::lock_guard lock(pools().mutex);
    pools().all.push_back(*pool);
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipMemPoolDestroy(hipMemPool_t pool) {
  return with_pool("hipMemPoolDestroy", pool, pool, [](Pool& destroyed) {
    {
      const std::lock_guard lock(pools().mutex);
      if (pools().standard[destroyed.device] == &destroyed) return hipErrorInvalidValue;
      destroyed.destroyed = true;
      Pool*& current = pools().current[destroyed.device];
      if (current == &destroyed) current = pools().standard[destroyed.device];
    }
    const std::lock_guard lock(destroyed.mutex);
    destroyed.release_threshold = 0;
    trim(destroyed, 0);
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipMemPoolTrimTo(hipMemPool_t pool, std::size_t bytes) {
  return with_pool("hipMemPoolTrimTo", pool, pool, [&](Pool& trimmed) {
    const std::lock_guard lock(trimmed.mutex);
    trim(trimmed, bytes);
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, hipMemPoolAttr wanted, void* value) {
  return with_pool("hipMemPoolGetAttribute", pool, value, [&](Pool& p) { return get_attribute(p, wanted, value); });
}

CPUHIP_EXPORT hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, hipMemPoolAttr wanted, void* value) {
  return with_pool("hipMemPoolSetAttribute", pool, value, [&](Pool& p) { return set_attribute(p, wanted, value); });
}

CPUHIP_EXPORT hipError_t hipMemPoolSetAccess(hipMemPool_t pool, const hipMemAccessDesc* list, std::size_t count) {
  return with_pool("hipMemPoolSetAccess", pool, list, [&](Pool& p) {
    for (std::size_t index = 0; index < count; ++index) {
      const hipMemAccessDesc& wanted = list[index];
      if (wanted.location.type != hipMemLocationTypeDevice || !valid(wanted.location.id)) return hipErrorInvalidValue;
      if (wanted.location.id == p.device && wanted.flags == hipMemAccessFlagsProtNone) return hipErrorInvalidValue;
      const std::uint32_t bit = std::uint32_t{1} << wanted.location.id;
      wanted.flags != hipMemAccessFlagsProtNone ? p.access->readers.fetch_or(bit) : p.access->readers.fetch_and(~bit);
      wanted.flags == hipMemAccessFlagsProtReadWrite ? p.access->writers.fetch_or(bit)
                                                     : p.access->writers.fetch_and(~bit);
    }
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipMemPoolGetAccess(hipMemAccessFlags* flags, hipMemPool_t pool, hipMemLocation* location) {
  return with_pool("hipMemPoolGetAccess", pool, flags, [&](Pool& p) {
    if (location == nullptr || location->type != hipMemLocationTypeDevice || !valid(location->id))
      return hipErrorInvalidValue;
    const bool reads = ((p.access->readers >> location->id) & 1u) != 0,
               writes = ((p.access->writers >> location->id) & 1u) != 0;
    *flags = writes ? hipMemAccessFlagsProtReadWrite : reads ? hipMemAccessFlagsProtRead : hipMemAccessFlagsProtNone;
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t* pool, int ordinal) {
  return api("hipDeviceGetDefaultMemPool", [&](Call&) {
    if (pool == nullptr) return hipErrorInvalidValue;
    if (!valid(ordinal)) return hipErrorInvalidDevice;
    *pool = pools().standard[ordinal];
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipDeviceGetMemPool(hipMemPool_t* pool, int ordinal) {
  return api("hipDeviceGetMemPool", [&](Call&) {
    if (pool == nullptr) return hipErrorInvalidValue;
    if (!valid(ordinal)) return hipErrorInvalidDevice;
    const std::lock_guard lock(pools().mutex);
    *pool = pools().current[ordinal];
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipDeviceSetMemPool(int ordinal, hipMemPool_t pool) {
  return with_pool("hipDeviceSetMemPool", pool, pool, [&](Pool& p) {
    if (!valid(ordinal)) return hipErrorInvalidDevice;
    if (p.device != ordinal) return hipErrorInvalidValue;
    const std::lock_guard lock(pools().mutex);
    pools().current[ordinal] = &p;
    return hipSuccess;
  });
}
