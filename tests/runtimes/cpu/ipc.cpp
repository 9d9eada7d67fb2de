// ipc.cpp: memory of one process mapped by another. A handle says which part of which of the owner's files it is; the
// other process opens that file through /proc, so the owner must live while it does.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "api.h"
#include "arena.h"
#include "capture.h"
#include "device.h"
#include "memory.h"
#include "memory_table.h"
#include "stream.h"

namespace cpuhip {
namespace {

constexpr std::uint32_t kMagic = 0x43504950;

/// What the 64 bytes of a handle hold.
struct Handle {
  std::uint32_t magic;
  std::int32_t process, file;
  std::uint32_t flags;
  std::uint64_t offset, bytes, inside;  ///< of the allocation in the file; of the pointer in the allocation
};
static_assert(sizeof(Handle) <= sizeof(hipIpcMemHandle_t), "the handle's size is HIP's");

hipError_t get(hipIpcMemHandle_t* place, void* pointer) {
  if (place == nullptr || pointer == nullptr) return hipErrorInvalidValue;
  const std::optional<Allocation> found = memory_table().find(pointer);
  // AMD's runtime hands out broken handles for mapped memory up to 7.2; the error is that of later ones.
  if (!found || found->imported || (found->info.kind != MemoryKind::Device && found->info.kind != MemoryKind::Signal)) {
    return hipErrorInvalidValue;
  }
  const auto inside = static_cast<std::uint64_t>(static_cast<char*>(pointer) - static_cast<char*>(found->info.base));
  const Handle handle{kMagic,
                      getpid(),
                      found->range.file,
                      found->info.flags,
                      static_cast<std::uint64_t>(found->range.offset),
                      found->info.bytes,
                      inside};
  *place = {};
  std::memcpy(place, &handle, sizeof handle);
  return hipSuccess;
}

hipError_t open_handle(void** pointer, const hipIpcMemHandle_t& bytes, unsigned flags) {
  constexpr unsigned kLazyPeerAccess = 1;  // hipIpcMemLazyEnablePeerAccess; 0 in old headers
  if (pointer == nullptr || flags > kLazyPeerAccess) return hipErrorInvalidValue;
  Handle handle;
  std::memcpy(&handle, &bytes, sizeof handle);
  if (handle.magic != kMagic || handle.inside >= handle.bytes) return hipErrorInvalidValue;
  if (handle.process == getpid()) return hipErrorInvalidContext;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.process, handle.file);
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return hipErrorMapFailed;
  Allocation allocation;
  const bool reserved = arena_take_memory(handle.bytes, &allocation.range);
  void* mapped = reserved ? mmap(allocation.range.address, pages_up(handle.bytes), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_FIXED, file, static_cast<off_t>(handle.offset))
                          : MAP_FAILED;
  close(file);
  if (mapped == MAP_FAILED) {
    if (reserved) arena_give(allocation.range);
    return reserved ? hipErrorMapFailed : hipErrorOutOfMemory;
  }
  allocation.info = {mapped, handle.bytes, MemoryKind::Device, current_device().ordinal(), handle.flags};
  allocation.imported = true;
  if (!memory_table().insert(allocation)) fatal("an opened handle overlaps an allocation");
  *pointer = static_cast<char*>(mapped) + handle.inside;
  return hipSuccess;
}

/// A range of one allocation as a descriptor: of the file that the allocation is a part of.
hipError_t handle_for_range(void* place, void* pointer, std::size_t bytes, int type, unsigned long long flags) {
  constexpr int kDmaBuf = 1;
  if (place == nullptr || pointer == nullptr || bytes == 0 || type != kDmaBuf || flags != 0)
    return hipErrorInvalidValue;
  const std::optional<Allocation> found = memory_table().find(pointer);
  if (!found || found->imported || found->info.kind != MemoryKind::Device) return hipErrorInvalidValue;
  const auto inside = static_cast<std::size_t>(static_cast<char*>(pointer) - static_cast<char*>(found->info.base));
  if (bytes > found->info.bytes - inside) return hipErrorInvalidValue;
  const int descriptor = fcntl(found->range.file, F_DUPFD_CLOEXEC, 0);
  if (descriptor < 0) return hipErrorOperatingSystem;
  std::memcpy(place, &descriptor, sizeof descriptor);
  return hipSuccess;
}

hipError_t close_handle(void* pointer) {
  const std::optional<Allocation> found = memory_table().find(pointer);
  if (pointer == nullptr || !found || !found->imported) return hipErrorInvalidValue;
  (void)synchronize(device(found->info.device));
  const auto removed = memory_table().remove(found->info.base, [](const Allocation& each) { return each.imported; });
  if (!removed) return hipErrorInvalidValue;
  arena_restore(removed->range);
  arena_give(removed->range);
  return hipSuccess;
}

}  // namespace
}  // namespace cpuhip

using namespace cpuhip;

CPUHIP_EXPORT hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t* handle, void* pointer) {
  return api("hipIpcGetMemHandle", [&](Call&) { return get(handle, pointer); });
}

CPUHIP_EXPORT hipError_t hipIpcOpenMemHandle(void** pointer, hipIpcMemHandle_t handle, unsigned flags) {
  return api("hipIpcOpenMemHandle", [&](Call&) { return open_handle(pointer, handle, flags); });
}

CPUHIP_EXPORT hipError_t hipIpcCloseMemHandle(void* pointer) {
  return api("hipIpcCloseMemHandle", [&](Call&) { return close_handle(pointer); });
}

CPUHIP_EXPORT hipError_t hipMemGetHandleForAddressRange(void* handle, hipDeviceptr_t pointer, std::size_t bytes,
                                                        int type, unsigned long long flags) {
  return api("hipMemGetHandleForAddressRange",
             [&](Call&) { return handle_for_range(handle, pointer, bytes, type, flags); });
}
