// memory_index.h: finds those of many bindings that may name memory of a range, without reading the bindings.
//
// Why: every real free asks this about graphs and execs that the program holds and that exist only as bindings
// (memory_watch_list.h). The time of an answer grows with the logarithm of what is held, and with what is found.
//
// The index holds the pages that words of a binding point to, whatever the words are: an answer may have too many,
// never too few. The pages lie in sorted runs, each more than twice as long as the next. Removed pages are left there
// until they are half of all.
//
// Threads: guarded by its user. Units: bytes, but pages where it says so. Throws std::bad_alloc, with nothing changed
// but how it is arranged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "shim/recording/operation.h"

namespace graphpool {

class MemoryIndex {
 public:
  /// The pages that words of a binding point to, each once, in rising order.
  static std::vector<std::uint64_t> pages_of(const Binding& binding);

  /// Adds a binding, which `owner` stands for. Returns the number to remove it by: not 0, and never used again.
  std::uint64_t add(void* owner, const std::vector<std::uint64_t>& pages);
  /// Does nothing where nothing is held by that number.
  void remove(std::uint64_t number) noexcept;

  /// The owners of the bindings that may name an address of this range, each once. Arranges what is held anew where
  /// that is due.
  std::vector<void*> find(const void* address, std::size_t bytes);

  /// How many pages are held, those left behind included.
  std::size_t size() const noexcept { return size_; }

 private:
  struct Entry {
    std::uint64_t page, number;
  };
  struct Held {
    void* owner;
    std::size_t pages;
  };
  using Run = std::vector<Entry>;

  void merge(std::size_t first, Run merged, const Run& added) noexcept;
  void drop_removed();

  std::vector<Run> runs_;
  std::unordered_map<std::uint64_t, Held> held_;  ///< by number
  std::uint64_t last_number_ = 0;
  std::size_t size_ = 0, left_ = 0;
};

}  // namespace graphpool
