// mapped_kinds.h: knows the kind of the memory that the program maps at each address. So the library can tell whether
// memory that is mapped there later is of the same kind.
//
// Why: allocators that reserve addresses once exchange what is mapped there again and again (expandable segments,
// memory that is put to sleep). Recordings that name such memory by its address are made for the memory that was there.
// They stay right for memory of the same kind, of the same size and at the same place.
//
// The kind of a handle is the properties that it was created with, byte by byte. Of handles that came from elsewhere
// nothing is known. Bounded: kMost handles and as many mappings; nothing is known of more. Threads: any. Lock: kBlocks.
#pragma once

#include <hip/hip_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>

#include "shim/base/lock_rank.h"

namespace graphpool {

class MappedKinds {
 public:
  using Handle = std::uint64_t;
  static constexpr std::size_t kMost = 1 << 16;

  /// Notes a new handle. `properties`: what it was made with; null: nobody knows.
  void made(Handle handle, const hipMemAllocationProp* properties) noexcept;
  /// Notes that `handle` is another handle of the memory that is mapped at `mapped`.
  void also(Handle handle, const void* mapped) noexcept;

  /// Returns the count that unmapped() got for the mapping that lay last at exactly this range, with this offset, if
  /// its memory was of the handle's kind. Returns 0 if the memory was of another kind, if it is still mapped, or if no
  /// such mapping is known.
  std::uint64_t unmapped_when(const void* base, std::size_t bytes, std::size_t offset, Handle handle) noexcept;
  /// Notes that the program has mapped the handle's memory there.
  void mapped(const void* base, std::size_t bytes, std::size_t offset, Handle handle) noexcept;
  /// Notes that the program has unmapped this range. `when`: from note_unmapped() of recording/operand.h; never 0.
  void unmapped(const void* base, std::size_t bytes, std::uint64_t when) noexcept;

 private:
  /// The first 28 bytes of the properties: type, kind of handle, place, data for another system, and flags. In the
  /// older layout (vmm.cpp) half of the data for another system, which has none here, is left out.
  using Kind = std::array<std::byte, 28>;
  struct Mapping {
    std::uint64_t bytes = 0, offset = 0;
    Kind kind{};
    std::uint64_t unmapped = 0;  ///< `when` it was unmapped; 0: it is mapped
  };

  RankedMutex<LockRank::kBlocks> lock_;
  std::unordered_map<Handle, Kind> kinds_ GUARDED_BY(lock_);
  std::map<std::uint64_t, Mapping> mappings_
      GUARDED_BY(lock_);  ///< of a known kind, by their beginnings, and what they were last
};

/// The process's. Never destroyed.
MappedKinds& mapped_kinds() noexcept;

}  // namespace graphpool
