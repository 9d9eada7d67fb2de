// arena.h: address ranges with memory from files, for everything the runtime allocates.
// Why files: a range can be mapped again by another process (IPC). Why ranges of our own: a freed address must fault
// and must not come back at once, whatever malloc or mmap would do. Invariants: every range is followed by a page that
// faults; a freed range has no memory and no access; its address is handed out again as config().reuse says. Threads:
// any. Units: bytes.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace cpuhip {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t pages_up(std::size_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

struct Range {
  void* address = nullptr;
  std::size_t bytes = 0;  ///< a multiple of the page size
  int file = -1;          ///< where its memory is, for mapping it again
  off_t offset = 0;
};

/// A readable and writable range of at least `bytes`; false when the system has no memory left.
bool arena_take(std::size_t bytes, Range* range);
/// Takes the memory away and makes the range fault.
void arena_give(const Range& range);
/// Whether the address was ever the arena's.
bool arena_owns(const void* address);
/// Memory without an address: a part of one of the arena's files (for hipMemCreate); given back by arena_give.
/// Its address must not be touched: the range has no access.
bool arena_take_memory(std::size_t bytes, Range* range);
/// Undoes a fixed mapping made over the range or a part of it.
void arena_restore(const Range& range);

/// What fresh memory holds, so that nobody relies on zeroes; large ranges are filled at their ends only.
void poison(void* address, std::size_t bytes);

}  // namespace cpuhip
