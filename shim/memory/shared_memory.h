// shared_memory.h: knows the memory that other processes can reach: what the program has exported, opened or imported.
//
// Why: another process may read or write such memory while a graph of this one runs (custom all-reduces do), so the
// graph must work on that memory itself and never on slots (rule 21).
//
// A block says itself whether it is shared (Block::shared). Memory that is no block is held here by its range: memory
// opened or exported by address, and every mapping of a handle, because a handle may be exported after it was mapped.
// If there is no host memory to hold something, everything counts as shared. A range that was exported by address and
// then freed goes on counting: that costs staging and nothing else.
//
// Not seen: exports below HIP (hsa_amd_portable_export_dmabuf, hsa_amd_ipc_memory_create). Threads: any. Lock: kBlocks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_set>

#include "shim/base/lock_rank.h"

namespace graphpool {

class SharedMemory {
 public:
  using Handle = std::uint64_t;

  /// Changes whenever memory becomes shared that was not.
  static std::uint64_t version() noexcept { return version_.load(std::memory_order_acquire); }
  /// Notes that memory has become shared: a block of ours (Block::shared), or what is held here.
  void note() noexcept { version_.fetch_add(1, std::memory_order_acq_rel); }

  void add(const void* base, std::size_t bytes) noexcept;
  /// Forgets the range that the address lies in: it was opened, and is closed.
  void remove(const void* address) noexcept;

  /// Notes a new handle, whatever an older one of its value was.
  void made(Handle handle) noexcept;
  /// Notes that the handle was exported or imported.
  void share(Handle handle) noexcept;
  /// Notes that `handle` is another handle of the memory that is mapped at `mapped`.
  void also(Handle handle, const void* mapped) noexcept;
  void map(const void* base, std::size_t bytes, Handle handle) noexcept;
  void unmap(const void* base, std::size_t bytes) noexcept;

  bool holds(std::uint64_t address) noexcept;
  /// Whether the address lies in a range that is held here, shared or not: memory of the program that is no block.
  bool knows(std::uint64_t address) noexcept;

 private:
  struct Range {
    std::uint64_t end;
    Handle handle;  ///< kNone: it was opened or exported by address
    bool shared;
  };
  static constexpr Handle kNone = 0;

  template <typename Change>
  void change(Change&& body) noexcept;
  std::map<std::uint64_t, Range>::iterator range_of(std::uint64_t address) REQUIRES(lock_);

  static inline constinit std::atomic<std::uint64_t> version_{0};
  std::atomic<bool> any_{false};          ///< something is or was shared
  std::atomic<bool> ranges_held_{false};  ///< something was ever noted
  RankedMutex<LockRank::kBlocks> lock_;
  std::map<std::uint64_t, Range> ranges_ GUARDED_BY(lock_);  ///< by their beginnings
  std::unordered_set<Handle> handles_ GUARDED_BY(lock_);     ///< shared ones
  bool all_ GUARDED_BY(lock_) = false;                       ///< there was no memory to hold something
};

/// The process's. Never destroyed.
SharedMemory& shared_memory() noexcept;

/// Notes that so many bytes from the address on, or a handle of them, have left the process (0: the whole allocation).
void memory_exported(const void* address, std::size_t bytes) noexcept;
/// Notes that memory of another process can be reached at this address.
void memory_opened(const void* address) noexcept;

/// Whether other processes can reach the memory at the address.
bool is_shared(std::uint64_t address) noexcept;

}  // namespace graphpool
