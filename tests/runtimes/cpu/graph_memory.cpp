// graph_memory.cpp: memory of alloc nodes, and the entries about it.
//
// HIP reserves an address when the node is made and maps memory when it is launched. Here the memory is there from the
// start and `live` says whether it would be mapped. Memory that is live when its graph and execs are gone is the
// program's to free.
#include <array>
#include <unordered_map>

#include "api.h"
#include "capture.h"
#include "device.h"
#include "graph.h"
#include "memory.h"

namespace cpuhip {
namespace {

struct Amount {
  std::uint64_t current = 0, high = 0;
  void add(std::uint64_t bytes) {
    current += bytes;
    if (current > high) high = current;
  }
};
struct Registry {
  std::mutex mutex;
  std::unordered_map<const void*, std::weak_ptr<GraphMemory>> by_address;
  std::array<Amount, kMaxDevices> used, reserved;
};
Registry& registry() {
  static Registry* const instance = new Registry;
  return *instance;
}

/// A use of a device by the number of hipGraphMemAttributeType; null when there is none.
std::uint64_t* attribute(Registry& all, int device, int attribute) {
  const auto index = static_cast<std::size_t>(device);
  switch (attribute) {
    case hipfront::kMemUsedCurrent:
      return &all.used[index].current;
    case hipfront::kMemUsedHigh:
      return &all.used[index].high;
    case hipfront::kMemReservedCurrent:
      return &all.reserved[index].current;
    case hipfront::kMemReservedHigh:
      return &all.reserved[index].high;
    default:
      return nullptr;
  }
}

}  // namespace

hipError_t GraphMemory::create(int device, std::size_t bytes, std::shared_ptr<GraphMemory>* out) {
  std::shared_ptr<GraphMemory> memory(new GraphMemory);
  const hipError_t result = pool_allocate(cpuhip::device(device), &memory->pointer_, bytes);
  if (result != hipSuccess) return result;
  memory->bytes_ = bytes;
  memory->device_ = device;
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.by_address[memory->pointer_] = memory;
  all.reserved[static_cast<std::size_t>(device)].add(bytes);
  graph_counters().memory_bytes.fetch_add(bytes, std::memory_order_relaxed);
  *out = std::move(memory);
  return hipSuccess;
}

GraphMemory::~GraphMemory() {
  if (pointer_ == nullptr) return;
  {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    all.by_address.erase(pointer_);
    all.reserved[static_cast<std::size_t>(device_)].current -= bytes_;
    if (live()) all.used[static_cast<std::size_t>(device_)].current -= bytes_;
  }
  graph_counters().memory_bytes.fetch_sub(bytes_, std::memory_order_relaxed);
  if (!live()) (void)pool_free(pointer_);
}

void GraphMemory::set_live(bool live) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (live_.exchange(live) == live) return;
  Amount& used = all.used[static_cast<std::size_t>(device_)];
  if (live) {
    used.add(bytes_);
  } else {
    used.current -= bytes_;
  }
}

std::shared_ptr<GraphMemory> find_graph_memory(const void* pointer) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_address.find(pointer);
  return found == all.by_address.end() ? nullptr : found->second.lock();
}

bool free_graph_memory(void* pointer) {
  const std::shared_ptr<GraphMemory> memory = find_graph_memory(pointer);
  if (memory == nullptr) return false;
  memory->set_live(false);
  return true;
}

}  // namespace cpuhip

using namespace cpuhip;

/// The attribute is hipGraphMemAttributeType, which the oldest header lacks.
CPUHIP_EXPORT hipError_t hipDeviceGetGraphMemAttribute(int ordinal, int which, void* value) {
  return api("hipDeviceGetGraphMemAttribute", [&](Call&) {
    if (ordinal < 0 || ordinal >= device_count()) return hipErrorInvalidDevice;
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    const std::uint64_t* found = attribute(all, ordinal, which);
    if (value == nullptr || found == nullptr) return hipErrorInvalidValue;
    *static_cast<std::uint64_t*>(value) = *found;
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipDeviceSetGraphMemAttribute(int ordinal, int which, void* value) {
  return api("hipDeviceSetGraphMemAttribute", [&](Call&) {
    if (ordinal < 0 || ordinal >= device_count()) return hipErrorInvalidDevice;
    if (value == nullptr || (which != hipfront::kMemUsedHigh && which != hipfront::kMemReservedHigh))
      return hipErrorInvalidValue;
    if (*static_cast<const std::uint64_t*>(value) != 0) return hipErrorInvalidValue;  // only a reset
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    *attribute(all, ordinal, which) = *attribute(all, ordinal, which - 1);
    return hipSuccess;
  });
}

CPUHIP_EXPORT hipError_t hipDeviceGraphMemTrim(int ordinal) {
  return api("hipDeviceGraphMemTrim", [&](Call&) {
    return ordinal < 0 || ordinal >= device_count() ? hipErrorInvalidDevice : hipSuccess;  // nothing is kept back
  });
}
