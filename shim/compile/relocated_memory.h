// relocated_memory.h: a process that waits before its main gives back the memory that relocations took.
//
// Why: the loader relocates tables of pointers in every library (11 MB of clang 15), and no process shares them with
// another. Where many compilers wait inside a limit of memory, these tables leave little for those that run.
// How: such a table is protected after its relocation, so nobody changes it any more. Its pages are dropped: they are
// those of the file again. Later the relocations are applied again. Each piece is rebuilt and compared once before it
// is dropped for good. A piece that does not come out the same stays as it was, and so do those behind it in its
// object. From the page on in which .dynamic begins all stays, because the loader reads that when it looks for a
// function.
// Nothing is dropped in a process with a second thread or with a handler of signals, because code could run that reads
// the tables; nor in objects whose table is below 1 MiB or whose relocations have other forms or no order, beyond
// kMostRanges objects, or without host memory. Threads: the only one of its process, from drop() to restore(). Units:
// bytes. Throws nothing.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

#include "shim/compile/machine.h"

namespace graphpool {

class RelocatedMemory {
 public:
  constexpr RelocatedMemory() = default;
  ~RelocatedMemory() { restore(); }
  RelocatedMemory(const RelocatedMemory&) = delete;
  RelocatedMemory& operator=(const RelocatedMemory&) = delete;

  /// Drops what can be dropped. Only the first call does anything. Returns how many bytes were dropped.
  std::size_t drop(const Machine& machine) noexcept;
  /// Brings everything back. Does nothing without an earlier drop().
  void restore() noexcept;

 private:
  /// A word that a relocation of another kind than R_X86_64_RELATIVE has written.
  struct Word {
    std::uint64_t* place;
    std::uint64_t value;
  };
  /// A dropped range of an object.
  struct Range {
    std::uintptr_t base, begin, end;
    const ElfW(Rela) * relative_begin;
    const ElfW(Rela) * relative_end;
    Word* words;  ///< in the order of their places
    std::size_t word_count, word_bytes;
  };
  static constexpr std::size_t kMostRanges = 8;

  void drop_object(const dl_phdr_info& info) noexcept;
  static bool drop_piece(const Range& range, std::uintptr_t begin, std::uintptr_t end, void* scratch) noexcept;
  static void rebuild(const Range& range, std::uintptr_t begin, std::uintptr_t end) noexcept;

  Range ranges_[kMostRanges] = {};
  std::size_t range_count_ = 0;
  bool tried_ = false;
};

}  // namespace graphpool
