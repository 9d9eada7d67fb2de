// memory_table.h: every range of memory the runtime knows: allocations, registered host memory, mappings, variables.
// Threads: any; readers (each operand of each operation is looked up) do not exclude each other.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "arena.h"
#include "memory.h"

namespace cpuhip {

class Device;

/// Which devices may read and write: one bit a device. Shared by the ranges it governs (a pool's blocks).
struct Access {
  std::atomic<std::uint32_t> readers{0}, writers{0};
};

struct Allocation {
  AllocationInfo info;
  Range range;                     ///< its memory; no address for registered memory, mappings and variables
  std::shared_ptr<Access> access;  ///< Mapped and Pool; Device: who was given access, where peers are lazy
  bool imported = false;           ///< opened from another process
  bool registered = false;         ///< the program's own memory
  bool freed = false;  ///< given to hipFreeAsync: there until the stream comes to it, nobody's to free again
};

class MemoryTable {
 public:
  /// False when it overlaps a known range. What has no id gets one that nothing had before; memory of a pool keeps its
  /// own, as AMD's does.
  bool insert(const Allocation& allocation);
  std::optional<Allocation> find(const void* address) const;
  /// Marks the range that begins at `base` freed, if `wanted` agrees and it is not; false otherwise.
  template <typename Wanted>
  bool mark_freed(const void* base, Wanted&& wanted) {
    const std::unique_lock lock(mutex_);
    const auto found = ranges_.find(reinterpret_cast<std::uintptr_t>(base));
    if (found == ranges_.end() || found->second.freed || !wanted(found->second)) return false;
    return found->second.freed = true;
  }
  /// The range that begins at `base` is pitched memory of this shape.
  void note_shape(const void* base, std::size_t width, std::size_t rows) {
    const std::unique_lock lock(mutex_);
    const auto found = ranges_.find(reinterpret_cast<std::uintptr_t>(base));
    if (found != ranges_.end()) found->second.info.width = width, found->second.info.rows = rows;
  }
  /// Removes the range that begins at `base` if `wanted` agrees.
  template <typename Wanted>
  std::optional<Allocation> remove(const void* base, Wanted&& wanted) {
    const std::unique_lock lock(mutex_);
    const auto found = ranges_.find(reinterpret_cast<std::uintptr_t>(base));
    if (found == ranges_.end() || !wanted(found->second)) return std::nullopt;
    Allocation allocation = std::move(found->second);
    ranges_.erase(found);
    return allocation;
  }
  /// Removes all ranges that `wanted` names.
  template <typename Wanted>
  std::vector<Allocation> remove_all(Wanted&& wanted) {
    const std::unique_lock lock(mutex_);
    std::vector<Allocation> removed;
    for (auto place = ranges_.begin(); place != ranges_.end();) {
      if (!wanted(place->second)) {
        ++place;
        continue;
      }
      removed.push_back(std::move(place->second));
      place = ranges_.erase(place);
    }
    return removed;
  }
  /// Calls body(allocation) for the range that holds the address, under the table's lock; false when there is none.
  template <typename Body>
  bool look(const void* address, Body&& body) const {
    const std::shared_lock lock(mutex_);
    const Allocation* allocation = at(address);
    if (allocation == nullptr) return false;
    body(*allocation);
    return true;
  }

 private:
  const Allocation* at(const void* address) const;

  mutable std::shared_mutex mutex_;
  std::map<std::uintptr_t, Allocation> ranges_;  ///< by base
  std::uint32_t last_id_ = 0;
};

MemoryTable& memory_table();

/// Gives back a removed allocation's memory and its share of the device's budget.
void give_back(const Allocation& allocation);
/// Takes memory of a kind from the arena, accounted to the device, and enters it into the table.
hipError_t allocate(Device& device, MemoryKind kind, std::size_t bytes, unsigned flags, void** pointer,
                    std::shared_ptr<Access> access = nullptr);

}  // namespace cpuhip
