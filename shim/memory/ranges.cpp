#include "shim/memory/ranges.h"

#include <algorithm>

#include "shim/base/units.h"

namespace graphpool {

void Ranges::reset(std::size_t bytes) {
  free_.clear();
  taken_ = 0;
  if (bytes > 0) free_.push_back({0, bytes});
}

std::optional<std::size_t> Ranges::take(std::size_t base, std::size_t bytes, std::size_t alignment) {
  for (std::size_t i = 0; i < free_.size(); ++i) {
    const Range range = free_[i];
    const std::size_t offset = round_up(base + range.offset, alignment) - base;
    const std::size_t skipped = offset - range.offset;
    if (skipped > range.bytes || range.bytes - skipped < bytes) continue;
    free_.reserve(free_.size() + taken_ + 3);
    const std::size_t rest = range.bytes - skipped - bytes;
    free_[i].bytes = skipped;
    if (rest > 0) free_.insert(free_.begin() + static_cast<std::ptrdiff_t>(i) + 1, {offset + bytes, rest});
    if (skipped == 0) free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
    ++taken_;
    return offset;
  }
  return std::nullopt;
}

void Ranges::give(std::size_t offset, std::size_t bytes) noexcept {
  --taken_;
  auto after = std::lower_bound(free_.begin(), free_.end(), offset,
                                [](const Range& range, std::size_t value) { return range.offset < value; });
  const bool joins_after = after != free_.end() && offset + bytes == after->offset;
  const bool joins_before = after != free_.begin() && (after - 1)->offset + (after - 1)->bytes == offset;
  if (joins_before && joins_after) {
    (after - 1)->bytes += bytes + after->bytes;
    free_.erase(after);
  } else if (joins_before) {
    (after - 1)->bytes += bytes;
  } else if (joins_after) {
    after->offset = offset;
    after->bytes += bytes;
  } else {
    free_.insert(after, {offset, bytes});
  }
}

std::size_t Ranges::free_bytes() const noexcept {
  std::size_t sum = 0;
  for (const Range& range : free_) sum += range.bytes;
  return sum;
}

}  // namespace graphpool
