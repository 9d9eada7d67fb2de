#include "shim/callsite/frame_tree.h"

#include <new>

namespace graphpool {
namespace {

constexpr std::size_t kFirstSlots = 4096;
constexpr FrameTree::Index kFirstFrame = FrameTree::kCutRoot + 1;

}  // namespace

bool FrameTree::is_whole(Index frame) const noexcept {
  return frame != kUnknown && ancestor(frame, depth(frame)) == kRoot;
}

FrameTree::Index FrameTree::ancestor(Index frame, std::size_t steps) const noexcept {
  for (; steps > 0; --steps) frame = parent(frame);
  return frame;
}

FrameTree::Index FrameTree::intern(std::span<const std::uintptr_t> addresses, bool whole) noexcept {
  if (addresses.empty()) return kUnknown;
  Index frame = whole ? kRoot : kCutRoot;
  const Table* table = table_.load(std::memory_order_acquire);
  std::size_t left = addresses.size();
  while (left > 0) {
    const Index child = table == nullptr ? kUnknown : find_child(table, frame, addresses[left - 1]);
    if (child == kUnknown) break;
    frame = child;
    --left;
  }
  if (left == 0) return frame;
  const LockGuard lock(mutex_);
  for (; left > 0 && frame != kUnknown; --left) frame = add_child(frame, addresses[left - 1]);
  return frame;
}

FrameTree::Index FrameTree::find_child(const Table* table, Index parent, std::uintptr_t address) const noexcept {
  for (std::size_t i = home(parent, address, table->mask);; i = (i + 1) & table->mask) {
    const Index frame = table->slots[i].load(std::memory_order_acquire);
    if (frame == kUnknown) return kUnknown;
    const Node& there = node(frame);
    if (there.address == address && there.parent == parent) return frame;
  }
}

/// The child, added if it is not there.
FrameTree::Index FrameTree::add_child(Index parent, std::uintptr_t address) noexcept {
  if (table_.load(std::memory_order_relaxed) == nullptr && !grow()) return kUnknown;
  Table* table = table_.load(std::memory_order_relaxed);
  if (const Index known = find_child(table, parent, address); known != kUnknown) return known;
  const std::uint32_t used = size_.load(std::memory_order_relaxed);
  const Index frame = kFirstFrame + used;
  if (frame >= kMaxFrames) return kUnknown;
  if ((used + 1) * std::size_t{2} > table->mask + 1) {
    if (!grow()) return kUnknown;
    table = table_.load(std::memory_order_relaxed);
  }
  std::atomic<Node*>& chunk = chunks_[frame / kChunkNodes];
  if (chunk.load(std::memory_order_relaxed) == nullptr) {
    auto* nodes = new (std::nothrow) Node[kChunkNodes]();
    if (nodes == nullptr) return kUnknown;
    chunk.store(nodes, std::memory_order_release);
  }
  Node& added = node(frame);
  added.address = address;
  added.parent = parent;
  added.depth = static_cast<std::uint32_t>(depth(parent)) + 1;
  std::size_t i = home(parent, address, table->mask);
  while (table->slots[i].load(std::memory_order_relaxed) != kUnknown) i = (i + 1) & table->mask;
  size_.store(used + 1, std::memory_order_relaxed);
  table->slots[i].store(frame, std::memory_order_release);  // readers see the whole node from here on
  return frame;
}

/// Makes a larger table; at the first call also the roots.
bool FrameTree::grow() noexcept {
  Table* old = table_.load(std::memory_order_relaxed);
  const std::size_t count = old == nullptr ? kFirstSlots : 2 * (old->mask + 1);
  if (old == nullptr && chunks_[0].load(std::memory_order_relaxed) == nullptr) {
    auto* nodes = new (std::nothrow) Node[kChunkNodes]();
    if (nodes == nullptr) return false;
    nodes[kRoot].parent = kRoot;
    nodes[kCutRoot].parent = kCutRoot;
    chunks_[0].store(nodes, std::memory_order_release);
  }
  auto* table = new (std::nothrow) Table{old, count - 1, new (std::nothrow) std::atomic<Index>[count]()};
  if (table == nullptr || table->slots == nullptr) {
    delete table;
    return false;
  }
  for (std::size_t i = 0; old != nullptr && i <= old->mask; ++i) {
    const Index frame = old->slots[i].load(std::memory_order_relaxed);
    if (frame == kUnknown) continue;
    std::size_t to = home(parent(frame), address(frame), table->mask);
    while (table->slots[to].load(std::memory_order_relaxed) != kUnknown) to = (to + 1) & table->mask;
    table->slots[to].store(frame, std::memory_order_relaxed);
  }
  table_.store(table, std::memory_order_release);
  return true;
}

}  // namespace graphpool
