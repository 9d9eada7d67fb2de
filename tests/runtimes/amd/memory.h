// memory.h: memory of the devices and of the host, as one address space.
//
// Memory of a device is a part of one file in memory (memfd) for each device: no file descriptor an allocation, and
// other processes can map it. After each allocation comes a page that faults, so that none begins where another ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "agents.h"

namespace hsa_cpu {

constexpr std::size_t kPage = 4096;
constexpr std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

/// A part of a device's memory file, counted against the device's memory.
struct Extent {
  int file;
  std::size_t offset, bytes;
};
/// Null where the device has not so much left. `bytes` are whole pages.
std::optional<Extent> take_extent(const Agent& agent, std::size_t bytes);
void give_extent(const Agent& agent, const Extent& extent);
std::size_t memory_used(const Agent& agent);

struct Allocation {
  char* base;
  std::size_t bytes;
  const Pool* pool;  ///< null: the host's own memory, locked
  int type;          ///< hsa_amd_pointer_type_t
  Extent extent;     ///< of a device's memory
  int locks;
  bool exported = false;  ///< another process may have mapped it, so its extent is not handed out again
};

/// The allocation that the address lies in, by value: it may be freed by another thread.
std::optional<Allocation> find_allocation(const void* address);
/// Enters memory that was mapped elsewhere, or takes it off again.
void add_allocation(const Allocation& allocation);
bool remove_allocation(const void* base);

/// Memory of code objects: on the device, not counted.
char* map_image(const Agent& agent, std::size_t bytes);
void unmap_image(char* base, std::size_t bytes);

/// Whether HSACPU_FAIL_AT lets one more allocation succeed.
bool may_allocate();

/// What a file descriptor that stands for device memory holds: which process's file, and which part of it.
struct SharedExtent {
  std::uint64_t magic;
  std::uint32_t process;
  std::int32_t file;
  std::uint64_t offset, bytes;
  std::uint32_t device, reserved;
};
constexpr std::uint64_t kSharedMagic = 0x7470757061736868;
/// Makes a file that says where the extent lies. Returns its descriptor, which the caller closes; -1: the system has
/// refused it.
int share_extent(const Extent& extent, const Agent& agent);
/// Marks the allocation that begins there as exported. Returns false where no allocation begins there.
bool keep_extent(const void* base);
/// Opens the file of another process's extent, or hands out this process's; -1 where it is gone.
int open_shared(const SharedExtent& shared);

}  // namespace hsa_cpu
