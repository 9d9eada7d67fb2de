// vmm.h: makes chunks: device memory of HIP's virtual memory management, reserved, created, mapped and given access.
//
//   hipMemAddressReserve -> hipMemCreate -> hipMemMap (offset 0) -> hipMemSetAccess (owner and every device that can
//   reach it) -> hipMemGetAccess (the mapping is believed only now: see hip/quirks.h, kMapErrorsHidden)
//
// Why whole chunks: on some runtimes access rights must cover whole mappings, and each of these calls costs more than
// the copies of a step. Smaller memory is a part of a chunk (ranges.h).
//
// Invariants: a failure undoes what was made; what is unmapped or freed here was mapped or reserved here, once.
// Threads: a Chunk belongs to its owner (a PooledChunk, a slot set). Only vmm_works() and may_map_now() take a lock
// (g_streams_lock). The functions make HIP calls that may wait (kMapWaits), so the caller holds none. Units: bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "shim/base/units.h"
#include "shim/hip/next.h"

namespace graphpool {

/// Chunks, and blocks from this size up, are aligned to it where the runtime allows that (kMapWholeReservation): the
/// size of a large page on the devices HIP drives.
inline constexpr std::size_t kLargePageBytes = 2 * kMiB;
constexpr std::size_t alignment_of(std::size_t bytes) noexcept {
  return bytes >= kLargePageBytes ? kLargePageBytes : kPageBytes;
}

/// An address range that we reserved.
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
  /// Unmaps, releases and frees. HIP's errors are ignored: there is nothing left to try.
  ~Chunk();

  std::uintptr_t base() const noexcept { return reinterpret_cast<std::uintptr_t>(main_.base); }
  std::size_t bytes() const noexcept { return bytes_; }
  int device() const noexcept { return device_; }
  /// False: only the addresses are held.
  bool resident() const noexcept { return main_.mapped; }

  /// Gives the physical memory back and keeps the addresses. No part of the chunk may be in use.
  void unload() noexcept;
  /// Gives it physical memory again, at the same addresses; the contents are not what they were.
  hipError_t load() noexcept;

 private:
  friend hipError_t make_chunk(int device, std::size_t bytes, std::unique_ptr<Chunk>* chunk) noexcept;
  Chunk() = default;

  Mapping main_;
  hipMemGenericAllocationHandle_t physical_ = nullptr;
  std::size_t bytes_ = 0;
  int device_ = 0;
};

/// Makes a chunk of at least this size. On failure nothing is changed, and HIP's error is not left in hipGetLastError.
hipError_t make_chunk(int device, std::size_t bytes, std::unique_ptr<Chunk>* chunk) noexcept;

/// Whether VMM works on the device. The first question makes and drops one small chunk to find out (5.x has no
/// attribute to ask). It does not try while a capture is open or mapping would wait: then it returns false.
bool vmm_works(int device) noexcept;

/// Whether memory may be mapped now. False: the program would wait where HIP natively does not (rule 16), or a capture
/// is open: runtimes map by commands on the null stream. Chunks are made only if this is true.
bool may_map_now(int device) noexcept;

/// The size of a chunk is rounded up to a multiple of this.
std::size_t chunk_granularity(int device) noexcept;

/// Forgets what was found out about a device. For a reset of the device, and for tests.
void forget_vmm(int device) noexcept;

}  // namespace graphpool
