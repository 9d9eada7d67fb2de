// frame_tree.h: keeps call stacks as a tree of frames; a stack is the index of its innermost frame.
//
// Why: stacks repeat. Interned, a stack costs one number. A walk over parent indices, which copies nothing, tells
// whether it begins with given frames. (The shape is heaptrack's trace tree, from the outermost frame down.)
// Invariants: a node's parent has a smaller index, but a root is its own parent; nodes never go and only their counts
// change, so an index is good for ever. Two roots: below kRoot are whole stacks, below kCutRoot those whose outermost
// frames were not seen.
// Threads: everything from any thread. A stack seen before is found without a lock; new frames are added under
// kCallSites. Bounded: kMaxFrames nodes; past that, new stacks are kUnknown. Never destroyed.
// Units: a depth counts frames, roots have none. Not here: what a frame is called (symbols.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "shim/base/lock_rank.h"

namespace graphpool {

class FrameTree {
 public:
  using Index = std::uint32_t;
  static constexpr Index kUnknown = 0, kRoot = 1, kCutRoot = 2;
  static constexpr std::size_t kMaxFrames = std::size_t{1} << 20;

  constexpr FrameTree() = default;

  /// The index of a stack of return addresses, innermost first; kUnknown when it cannot be kept or is empty.
  /// `whole`: the last one is the thread's outermost frame.
  Index intern(std::span<const std::uintptr_t> addresses, bool whole = true) noexcept;

  std::uintptr_t address(Index frame) const noexcept { return node(frame).address; }
  Index parent(Index frame) const noexcept { return node(frame).parent; }
  std::size_t depth(Index frame) const noexcept { return frame == kUnknown ? 0 : node(frame).depth; }
  bool is_whole(Index frame) const noexcept;

  /// The frame `steps` calls further out.
  Index ancestor(Index frame, std::size_t steps) const noexcept;

  /// Whether `stack` begins, from the outermost frame, with all frames of `prefix`.
  bool is_prefix(Index prefix, Index stack) const noexcept {
    const std::size_t outer = depth(prefix), inner = depth(stack);
    return prefix != kUnknown && stack != kUnknown && outer <= inner && ancestor(stack, inner - outer) == prefix;
  }

  /// Counts a visit of a frame, and returns how many came before. Wraps at 2^32.
  std::uint32_t count(Index frame) noexcept { return node(frame).count.fetch_add(1, std::memory_order_relaxed); }

  /// Nodes in use, without the roots.
  std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }

 private:
  struct Node {
    std::uintptr_t address;
    Index parent;
    std::uint32_t depth;
    std::atomic<std::uint32_t> count;
  };
  struct Table {
    Table* previous;  ///< keeps outgrown tables reachable: a reader may be in one
    std::size_t mask;
    std::atomic<Index>* slots;  ///< 0: empty
  };
  static constexpr std::size_t kChunkNodes = 4096, kChunks = kMaxFrames / kChunkNodes;

  Node& node(Index frame) const noexcept {
    return chunks_[frame / kChunkNodes].load(std::memory_order_acquire)[frame % kChunkNodes];
  }
  static std::size_t home(Index parent, std::uintptr_t address, std::size_t mask) noexcept {
    return static_cast<std::size_t>(((address ^ parent * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu) >> 24) & mask;
  }
  Index find_child(const Table* table, Index parent, std::uintptr_t address) const noexcept;
  Index add_child(Index parent, std::uintptr_t address) noexcept REQUIRES(mutex_);
  bool grow() noexcept REQUIRES(mutex_);

  std::atomic<Table*> table_{nullptr};
  std::atomic<Node*> chunks_[kChunks]{};
  std::atomic<std::uint32_t> size_{0};
  RankedMutex<LockRank::kCallSites> mutex_;
};

}  // namespace graphpool
