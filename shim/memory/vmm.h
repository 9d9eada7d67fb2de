// vmm.h: chunks: device memory made by HIP's virtual memory management: reserved, created, mapped and given access
// once.
//
//   hipMemAddressReserve -> hipMemCreate -> hipMemMap (offset 0) -> hipMemSetAccess (owner and every device that can
//   reach it) -> hipMemGetAccess (the mapping is believed only now: see hip/quirks.h, kMapErrorsHidden)
//
// Why whole chunks: access rights must cover whole mappings on some runtimes, and each of these calls costs more than a
// step's copies. Everything smaller is a part of a chunk (ranges.h).
//
// Invariants: a failure undoes what was made; what is unmapped or freed here was mapped or reserved here, once.
// Threads: a Chunk belongs to its owner (a PooledChunk, a slot set). No lock is held by these functions; they
// make HIP calls that may wait (kMapWaits), so call them without one. Units: bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "shim/base/units.h"
#include "shim/hip/next.h"

namespace graphpool {

/// Chunks, and blocks from this size up, are aligned to it: the size of a large page on the devices HIP drives.
inline constexpr std::size_t kLargePageBytes = 2 * kMiB;
constexpr std::size_t alignment_of(std::size_t bytes) noexcept {
  return bytes >= kLargePageBytes ? kLargePageBytes : kPageBytes;
}

/// An address range we reserved.
struct Reservation {
  void* start = nullptr;
  std::size_t bytes = 0;
};

/// One mapping: a reservation and the aligned part of it that is mapped.
struct Mapping {
  Reservation reservation;
  void* base = nullptr;
  bool mapped = false;
};

class Chunk {
 public:
  Chunk(const Chunk&) = delete;
  Chunk& operator=(const Chunk&) = delete;
  /// Unmaps, releases and frees. HIP errors are swallowed: there is nothing left to try.
  ~Chunk();

  std::uintptr_t base() const noexcept { return reinterpret_cast<std::uintptr_t>(main_.base); }
  std::size_t bytes() const noexcept { return bytes_; }
  int device() const noexcept { return device_; }
  /// False: only the addresses are held.
  bool resident() const noexcept { return main_.mapped; }

  /// Gives the physical memory back and keeps the addresses. No part of the chunk may be in use.
  void unload() noexcept;
  /// Physical memory again, at the same addresses; its contents are not what they were.
  hipError_t load() noexcept;

 private:
  friend hipError_t make_chunk(int device, std::size_t bytes, std::unique_ptr<Chunk>* chunk) noexcept;
  Chunk() = default;

  Mapping main_;
  hipMemGenericAllocationHandle_t physical_ = nullptr;
  std::size_t bytes_ = 0;
  int device_ = 0;
};

/// Makes a chunk of at least this size. On failure HIP's error (not left in hipGetLastError) and nothing is changed.
hipError_t make_chunk(int device, std::size_t bytes, std::unique_ptr<Chunk>* chunk) noexcept;

/// Whether the device's runtime has working VMM: found out by making and dropping one small chunk, at the first
/// question outside captures (5.x has no attribute to ask). While a capture is open and nothing is known: false.
bool vmm_works(int device) noexcept;

/// Whether mapping now would make the program wait where HIP natively would not (rule 16). Outside a call that waits
/// anyway, chunks are made only where this is true.
bool may_map_now(int device) noexcept;

/// Size a chunk is rounded up to.
std::size_t chunk_granularity(int device) noexcept;

/// Forgets what was found out about a device (device reset; tests).
void forget_vmm(int device) noexcept;

}  // namespace graphpool
