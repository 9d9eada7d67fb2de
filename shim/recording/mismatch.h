// mismatch.h: counts for the report where captures leave the recordings they were compared with. Threads: any.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shim/recording/prefix_tree.h"

namespace graphpool {

enum class Mismatch : std::uint8_t {
  kFirst,  ///< at the first operation
  kMiddle,
  kLast,     ///< at the last operation of some recording
  kShorter,  ///< the capture ended where no recording ends
  kLonger,   ///< it went on where a recording ends
};
inline constexpr std::array<const char*, 5> kMismatchNames = {"first", "middle", "last", "shorter", "longer"};

/// Returns how a capture differs whose next operation has no place behind `last`, the last node that matched.
inline Mismatch mismatch_behind(const TreeNode& last) noexcept {
  const auto ends = [](const TreeNode& node) {
    for (const TreeNode* child = node.first_child.load(std::memory_order_acquire); child != nullptr;
         child = child->next_sibling)
      if (child->operation.signature.kind == OperationKind::kEnd) return true;
    return false;
  };
  if (ends(last)) return Mismatch::kLonger;
  if (last.parent == nullptr) return Mismatch::kFirst;
  for (const TreeNode* child = last.first_child.load(std::memory_order_acquire); child != nullptr;
       child = child->next_sibling)
    if (ends(*child)) return Mismatch::kLast;
  return Mismatch::kMiddle;
}

class MismatchCounts {
 public:
  void add(Mismatch what) noexcept { counts_[static_cast<std::size_t>(what)].fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t count(std::size_t what) const noexcept { return counts_[what].load(std::memory_order_relaxed); }

 private:
  std::array<std::atomic<std::uint64_t>, kMismatchNames.size()> counts_{};
};

/// The process's.
inline constinit MismatchCounts g_mismatches;

}  // namespace graphpool
