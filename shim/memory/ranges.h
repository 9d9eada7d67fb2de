// ranges.h: has the free parts of a range of offsets, lowest first: equal requests in equal order get equal places.
// Threads: none of its own. Units: bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace graphpool {

class Ranges {
 public:
  struct Range {
    std::size_t offset;
    std::size_t bytes;
    friend bool operator==(const Range&, const Range&) = default;
  };

  /// Makes everything in [0, bytes) free.
  void reset(std::size_t bytes);

  /// Takes the lowest free place whose address (base + offset) has the alignment. Returns its offset. May throw
  /// bad_alloc, then nothing changed.
  std::optional<std::size_t> take(std::size_t base, std::size_t bytes, std::size_t alignment);
  /// Gives back a place that take() gave. Never allocates: take() has made room.
  void give(std::size_t offset, std::size_t bytes) noexcept;

  std::size_t free_bytes() const noexcept;
  const std::vector<Range>& free() const noexcept { return free_; }

 private:
  std::vector<Range> free_;  // rising, never adjacent, never empty ones
  std::size_t taken_ = 0;    // ranges out: giving them back needs at most taken_ + free_.size() entries
};

}  // namespace graphpool
