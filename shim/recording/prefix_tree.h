// prefix_tree.h: keeps all known recordings as a tree of signatures; captures are matched against it call by call.
//
// Why: which graph a capture will become is known only at its end; a tree needs no guess, and recordings that begin
// alike share their first nodes.
// Invariants: a published node keeps its operation, its index and its parent; all else may change. Nodes are freed only
// while no capture, and no graph built node by node, walks the tree (execs/recording_tree.h). A recording may be
// dropped during a walk: its nodes stay, and the node at its end names no recording any more.
// Threads: reading takes no lock. The caller of a change holds g_recordings_lock; only functions_version and
// expected_bytes are stored without.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shim/recording/operation.h"
#include "shim/recording/recordings_lock.h"

namespace graphpool {

class Recording;

struct alignas(64) TreeNode {
  // What a capture reads of it, in two cache lines.
  Operation operation;
  std::uint32_t index = 0;               ///< position of the operation in its recordings
  std::atomic<std::uint32_t> grid[3]{};  ///< kernels: the largest that was accepted here, in each dimension
  std::atomic<TreeNode*> first_child{nullptr};
  TreeNode* next_sibling = nullptr;
  std::atomic<std::uint64_t> functions_version{0};  ///< kernels: Functions::version() when it was last looked up

  std::atomic<Recording*> graph{nullptr};  ///< where a recording ends; used under g_recordings_lock
  std::atomic<std::uint64_t> number{0};    ///< names the recording that ends here in messages
  TreeNode* parent = nullptr;
  TreeNode* next_dropped GUARDED_BY(g_recordings_lock) = nullptr;  ///< in the tree's list, while `dropped`
  bool dropped GUARDED_BY(g_recordings_lock) = false;
  std::uint64_t walks GUARDED_BY(g_recordings_lock) = 0;  ///< beginnings: captures from here that `verify` could pick
  std::atomic<std::uint32_t> expected_bytes{0};           ///< beginnings: the largest binding of a shell that matched

  /// Whether a grid is within what the runtime has accepted here (rule 28).
  bool accepts(const std::uint32_t (&wanted)[3]) const noexcept {
    // 0 less 1 is more than any.
    const auto within = [&](int i) { return wanted[i] - 1 < grid[i].load(std::memory_order_relaxed); };
    return within(0) && within(1) && within(2);
  }

  /// Whether the runtime has accepted this operation with such a payload. Only the grid of a kernel matters.
  bool accepts_payload(const Binding& binding, std::uint32_t offset) const noexcept {
    return operation.signature.kind != OperationKind::kKernel ||
           accepts(payload_at<KernelPayload>(binding, offset).grid);
  }

  /// Prefetches the first child, which probably comes next.
  void prefetch_child() const noexcept {
    const char* const child = reinterpret_cast<const char*>(first_child.load(std::memory_order_relaxed));
    __builtin_prefetch(child);
    __builtin_prefetch(child + 64);
  }

  /// The child with this signature, or null. Cost: one compare of 48 bytes where a program repeats itself.
  TreeNode* find(const Signature& wanted) const noexcept {
    for (TreeNode* child = first_child.load(std::memory_order_acquire); child != nullptr; child = child->next_sibling)
      if (child->operation.signature == wanted) return child;
    return nullptr;
  }

  /// Like find(wanted), but the operation must name the same dependencies, too. insert() compares by this one.
  TreeNode* find(const Signature& wanted, const std::vector<std::uint32_t>& after) const noexcept {
    for (TreeNode* child = first_child.load(std::memory_order_acquire); child != nullptr; child = child->next_sibling)
      if (child->operation.signature == wanted && child->operation.after == after) return child;
    return nullptr;
  }

  /// Notes that the runtime has accepted this grid here: keeps the maximum of each dimension.
  void accept(const std::uint32_t (&accepted)[3]) noexcept REQUIRES(g_recordings_lock) {
    for (int i = 0; i < 3; ++i)
      if (accepted[i] > grid[i].load(std::memory_order_relaxed)) grid[i].store(accepted[i], std::memory_order_relaxed);
  }
};

class PrefixTree {
 public:
  constexpr PrefixTree() = default;

  /// The node where captures with this first signature start, or null when none was recorded.
  TreeNode* find_begin(const Signature& begin) const noexcept;

  /// The node that these operations lead to, or null. Its `graph` is null where no recording ends there, or where the
  /// one that did was dropped. Notes the grids of `binding` as accepted.
  TreeNode* find(const std::vector<Operation>& operations, const Binding& binding) noexcept REQUIRES(g_recordings_lock);

  /// Adds a recording (which begins with kBegin or kCreate and ends with kEnd) and returns the node at its end: an
  /// existing one when the same sequence is known. Throws std::bad_alloc; then nothing was changed. `binding` tells the
  /// grids the runtime has accepted.
  TreeNode* insert(const std::vector<Operation>& operations, const Binding& binding) REQUIRES(g_recordings_lock);

  /// Drops the recording that ends there. Its nodes stay until prune().
  void drop(TreeNode* end) noexcept REQUIRES(g_recordings_lock);
  /// Frees the nodes that no recording needs any more. Pre-condition: nobody walks the tree.
  void prune() noexcept REQUIRES(g_recordings_lock);

  std::size_t nodes() const noexcept REQUIRES(g_recordings_lock) { return nodes_; }

 private:
  std::atomic<TreeNode*> first_{nullptr};  ///< the beginnings
  TreeNode* dropped_ GUARDED_BY(g_recordings_lock) = nullptr;
  std::size_t nodes_ GUARDED_BY(g_recordings_lock) = 0;
};

}  // namespace graphpool
