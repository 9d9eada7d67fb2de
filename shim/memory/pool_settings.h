// pool_settings.h: has what the policy sets for kept memory as a whole, and what the report tells of it. Units: bytes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "shim/base/units.h"

namespace graphpool {

struct PoolSettings {
  bool enabled = true;
  std::size_t limit_bytes = 0;       ///< the most that is kept on a device; 0: limit_percent decides
  unsigned limit_percent = 25;       ///< of the device's memory
  std::size_t large_bytes = kGiB;    ///< from this size up allocations are exact and really freed
  std::chrono::nanoseconds idle{0};  ///< memory that was kept so long goes back; 0: it stays
  /// Returns the time in milliseconds; null: the machine's clock. If it is given, or `idle` is less than a second,
  /// every call asks for the time, else one call in a moment (idle_clock.h).
  std::uint32_t (*clock_ms)() noexcept = nullptr;
  bool deferred_free = false;
  std::size_t chunk_bytes = 64 * kMiB;
  std::size_t preallocate_bytes = 0;  ///< least size of the first VMM chunk of a device
  bool serve_captures = false;        ///< kept memory also serves a hipMalloc that a capture forbids
  /// Is told of memory that is about to go back to the runtime, without a lock held. `bytes` 0: nobody knows how much.
  void (*leaving)(const void* address, std::size_t bytes) noexcept = nullptr;
};

struct PoolCounters {
  std::uint64_t fresh = 0;    ///< allocations of new memory: the runtime's, or a new part of a chunk
  std::uint64_t reused = 0;   ///< allocations kept memory served
  std::uint64_t kept = 0;     ///< frees that kept the memory
  std::uint64_t real = 0;     ///< frees the runtime did
  std::uint64_t evicted = 0;  ///< kept blocks, or whole chunks of them, given back for the limit
  std::uint64_t trimmed = 0;  ///< kept blocks, or whole chunks of them, given back because a call failed for memory
  std::uint64_t idle = 0;     ///< kept blocks, or whole chunks of them, given back because nobody reused them
};

/// What is kept on a device, parts of chunks included.
struct PoolMemory {
  int device = 0;
  std::size_t kept_blocks = 0, kept_bytes = 0, peak_kept_bytes = 0;
  std::size_t chunks = 0;
};

}  // namespace graphpool
