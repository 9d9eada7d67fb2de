// chunk_store.h: has the chunks of VMM memory from which blocks are cut, by device.
//
//   kResident -> kParking -> kParked    no part of the chunk is in use: its physical memory goes, its addresses stay
//   kParked -> kLoading -> kResident    a part of it is wanted again: it gets physical memory at the same addresses
//                      \-> kParked      there was no memory
//
// Why addresses stay: memory may go back to make room, or because nobody used it. Graphs that name it find it where it
// was. Why whole chunks: a chunk is one mapping (vmm.h).
//
// A part of a chunk is a block (block_table.h) or is being made a block. It is in use while the program has it, or
// while the device may still touch it. An address that is in a chunk and in no part must never reach the runtime, which
// would take the whole chunk as meant.
//
// Invariants: parts never overlap; a chunk that is not resident has no part in use but the one that it is loaded for.
// Threads: guarded by g_blocks_lock; any_parts() and between_parts() are asked without it. Public functions
// that are marked EXCLUDES make HIP calls that may wait. Units: bytes, rounded to pages. Not here: which chunk goes
// (memory_return.h), and when (memory_room.h).
#pragma once

#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "shim/memory/block_table.h"
#include "shim/memory/ranges.h"
#include "shim/memory/vmm.h"
#include "shim/streams/devices.h"

namespace graphpool {

enum class ChunkState : std::uint8_t {
  kResident,  ///< it has physical memory
  kParking,   ///< its physical memory is being given back
  kParked,    ///< only its addresses are held
  kLoading,   ///< it is being given physical memory
};

constexpr bool may_become(ChunkState now, ChunkState next) noexcept {
  switch (next) {
    case ChunkState::kResident:
      return now == ChunkState::kLoading;
    case ChunkState::kParking:
      return now == ChunkState::kResident;
    case ChunkState::kParked:
      return now == ChunkState::kParking || now == ChunkState::kLoading;
    case ChunkState::kLoading:
      return now == ChunkState::kParked;
  }
  return false;
}

/// A chunk, with what is known of its parts.
struct PooledChunk {
  /// A chunk without parts. May throw std::bad_alloc.
  explicit PooledChunk(std::unique_ptr<Chunk> chunk) : memory(std::move(chunk)) { free_ranges.reset(memory->bytes()); }

  const std::unique_ptr<Chunk> memory;
  ChunkState state GUARDED_BY(g_blocks_lock) = ChunkState::kResident;
  Ranges free_ranges GUARDED_BY(g_blocks_lock);          ///< by offset: those in no part
  std::size_t used_bytes GUARDED_BY(g_blocks_lock) = 0;  ///< of the parts that the program has
  std::size_t busy_parts GUARDED_BY(g_blocks_lock) = 0;  ///< parts in use
  std::uint32_t freed_ms GUARDED_BY(g_blocks_lock) = 0;  ///< when a part of it was last freed, by the IdleClock

  std::uintptr_t base() const noexcept { return memory->base(); }
  std::size_t bytes() const noexcept { return memory->bytes(); }
  int device() const noexcept { return memory->device(); }

  void become(ChunkState next) noexcept REQUIRES(g_blocks_lock) {
    assert(may_become(state, next) && "a chunk comes and goes as chunk_store.h says");
    state = next;
  }
  /// part_taken(): the program has got a part that was there. part_freed(): it has freed one. `busy_parts` is counted
  /// apart.
  void part_taken(std::size_t bytes) noexcept REQUIRES(g_blocks_lock) { used_bytes += bytes; }
  void part_freed(std::size_t bytes, std::uint32_t now_ms) noexcept REQUIRES(g_blocks_lock) {
    used_bytes -= bytes;
    freed_ms = now_ms;
  }
};

class ChunkStore {
 public:
  constexpr ChunkStore() = default;
  ChunkStore(const ChunkStore&) = delete;
  ChunkStore& operator=(const ChunkStore&) = delete;

  /// A chunk has at least `chunk_bytes`, the first one of a device at least `preallocate_bytes`.
  void configure(std::size_t chunk_bytes, std::size_t preallocate_bytes) noexcept REQUIRES(g_blocks_lock) {
    chunk_bytes_ = chunk_bytes;
    preallocate_bytes_ = preallocate_bytes;
  }

  /// Whether there is any part, also one that was abandoned: then addresses in its chunk are not the runtime's to
  /// judge.
  bool any_parts() const noexcept { return parts_.load(std::memory_order_relaxed) != 0; }
  std::size_t parts() const noexcept REQUIRES(g_blocks_lock);
  /// Whether an address that no block has lies in a chunk. Takes the lock only near chunks.
  bool between_parts(const void* ptr) const noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(ptr);
    return address >= begin_.load(std::memory_order_relaxed) && address < end_.load(std::memory_order_relaxed) &&
           in_chunk(address);
  }

  /// The place of a new part, which is in use and the program's from now on. No chunk: there is no place.
  struct Place {
    PooledChunk* chunk = nullptr;
    std::uintptr_t address = 0;
  };
  /// Takes a place in a resident chunk. May throw std::bad_alloc; then nothing has changed.
  Place take_place(int device, std::size_t bytes) REQUIRES(g_blocks_lock);
  /// Takes a place in a new chunk. No chunk: none can be made, or none may be made now (rule 16).
  Place make_place(int device, std::size_t bytes) EXCLUDES(g_blocks_lock);
  /// Gives the place of a part back, which is in use. `used`: it was the program's until now.
  void give_place(Place place, std::size_t bytes, bool used) noexcept REQUIRES(g_blocks_lock);
  /// Notes a part that stays where it is for good and that nobody gets again: another process may hold it.
  void abandon_part(int device) noexcept REQUIRES(g_blocks_lock) { ++device_of(device).abandoned; }

  /// Says that the chunk, of which no part is in use, will be parked; park() does that. Returns false if too many are
  /// parked: then it is to be taken out.
  bool begin_parking(PooledChunk& chunk) noexcept REQUIRES(g_blocks_lock);
  void park(PooledChunk& chunk) noexcept EXCLUDES(g_blocks_lock);
  /// Takes the chunk out of the store. The caller forgets its parts, and destroys it without the lock: that gives its
  /// memory and addresses back.
  std::unique_ptr<PooledChunk> take_out(const PooledChunk& chunk) noexcept REQUIRES(g_blocks_lock);
  /// Gives a chunk that is kLoading its memory. Returns HIP's error, or hipErrorNotReady if nothing may be mapped now.
  /// The caller tells loaded() how it went.
  static hipError_t load(PooledChunk& chunk) noexcept EXCLUDES(g_blocks_lock);
  void loaded(PooledChunk& chunk, bool worked) noexcept REQUIRES(g_blocks_lock);

  /// How many bytes of the device's chunks the runtime counts as used, and the program does not use. A chunk that is
  /// being loaded has none yet.
  std::size_t unused_bytes(int device) const noexcept REQUIRES(g_blocks_lock);
  std::size_t size(int device) const noexcept REQUIRES(g_blocks_lock) { return device_of(device).chunks.size(); }

  using Chunks = std::vector<std::unique_ptr<PooledChunk>>;
  /// Takes out the chunks of a device that is about to be reset; they have no parts any more. The caller destroys them
  /// without the lock. A device in error unmaps nothing until it has been reset: then device_was_reset() destroys them.
  Chunks drop(int device, bool in_error) noexcept REQUIRES(g_blocks_lock);
  void device_was_reset(int device) noexcept EXCLUDES(g_blocks_lock);

 private:
  struct Device {
    bool preallocated GUARDED_BY(g_blocks_lock) = false;
    std::size_t parked GUARDED_BY(g_blocks_lock) = 0;     ///< chunks that are not resident
    std::size_t abandoned GUARDED_BY(g_blocks_lock) = 0;  ///< parts
    Chunks chunks GUARDED_BY(g_blocks_lock);
    Chunks dropped GUARDED_BY(g_blocks_lock);  ///< of a device in error, until it has been reset
  };
  static constexpr std::size_t kMaxParked = 1024;

  Device& device_of(int device) noexcept { return devices_[static_cast<std::size_t>(device)]; }
  const Device& device_of(int device) const noexcept { return devices_[static_cast<std::size_t>(device)]; }
  bool in_chunk(std::uintptr_t address) const noexcept EXCLUDES(g_blocks_lock);
  Place take_from(PooledChunk& chunk, std::size_t bytes) REQUIRES(g_blocks_lock);
  std::size_t bytes_of_next(Device& device, std::size_t bytes) REQUIRES(g_blocks_lock);
  void add_parts(std::size_t more) noexcept REQUIRES(g_blocks_lock) {
    parts_.store(parts_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }

  std::atomic<std::size_t> parts_{0};                      ///< with abandoned ones; changed under the lock only
  std::atomic<std::uintptr_t> begin_{~std::uintptr_t{0}};  ///< all chunks there ever were lie between these
  std::atomic<std::uintptr_t> end_{0};
  std::size_t chunk_bytes_ GUARDED_BY(g_blocks_lock) = 0;
  std::size_t preallocate_bytes_ GUARDED_BY(g_blocks_lock) = 0;
  std::array<Device, kMaxDevices> devices_{};
};

}  // namespace graphpool
