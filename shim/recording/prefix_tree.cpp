#include "shim/recording/prefix_tree.h"

#include <memory>
#include <utility>

namespace graphpool {
namespace {

/// Nodes not yet in the tree, each the only child of the one before.
struct Branch {
  TreeNode* top = nullptr;
  std::size_t nodes = 0;

  Branch() = default;
  Branch(const Branch&) = delete;
  Branch& operator=(const Branch&) = delete;
  ~Branch() {
    while (top != nullptr) {
      TreeNode* const below = top->first_child.load(std::memory_order_relaxed);
      delete top;
      top = below;
    }
  }
};

/// Notes the grids of all kernels up to `end` as accepted.
void note_grids(TreeNode* end, const Binding& binding) noexcept REQUIRES(g_recordings_lock) {
  for (TreeNode* node = end; node != nullptr; node = node->parent)
    if (node->operation.signature.kind == OperationKind::kKernel)
      node->accept(payload_at<KernelPayload>(binding, node->operation.payload_offset).grid);
}

}  // namespace

TreeNode* PrefixTree::find_begin(const Signature& begin) const noexcept {
  for (TreeNode* node = first_.load(std::memory_order_acquire); node != nullptr; node = node->next_sibling)
    if (node->operation.signature == begin) return node;
  return nullptr;
}

TreeNode* PrefixTree::find(const std::vector<Operation>& operations, const Binding& binding) noexcept {
  TreeNode* node = nullptr;
  for (const Operation& operation : operations) {
    node = node == nullptr ? find_begin(operation.signature) : node->find(operation.signature, operation.after);
    if (node == nullptr) return nullptr;
  }
  note_grids(node, binding);
  return node;
}

TreeNode* PrefixTree::insert(const std::vector<Operation>& operations, const Binding& binding) {
  TreeNode* known = nullptr;
  std::size_t i = 0;
  for (; i < operations.size(); ++i) {
    const Operation& operation = operations[i];
    TreeNode* const child =
        known == nullptr ? find_begin(operation.signature) : known->find(operation.signature, operation.after);
    if (child == nullptr) break;
    known = child;
  }
  // What is new is made aside and published as one: a capture never sees a part of it, and a failure leaves none.
  Branch branch;
  TreeNode* end = known;
  for (; i < operations.size(); ++i) {
    auto made = std::make_unique<TreeNode>();
    made->operation = operations[i];
    made->index = static_cast<std::uint32_t>(i);
    made->parent = end;
    if (branch.top == nullptr)
      branch.top = made.get();
    else
      end->first_child.store(made.get(), std::memory_order_relaxed);
    end = made.release();
    ++branch.nodes;
  }
  if (branch.top != nullptr) {
    std::atomic<TreeNode*>& head = known == nullptr ? first_ : known->first_child;
    branch.top->next_sibling = head.load(std::memory_order_relaxed);
    head.store(branch.top, std::memory_order_release);
    nodes_ += branch.nodes;
    branch.top = nullptr;
  }
  note_grids(end, binding);
  return end;
}

void PrefixTree::drop(TreeNode* end) noexcept {
  end->graph.store(nullptr, std::memory_order_release);
  end->number.store(0, std::memory_order_relaxed);
  if (std::exchange(end->dropped, true)) return;
  end->next_dropped = std::exchange(dropped_, end);
}

void PrefixTree::prune() noexcept {
  while (dropped_ != nullptr) {
    TreeNode* end = std::exchange(dropped_, dropped_->next_dropped);
    end->dropped = false;
    // A node that is still in the list has its own turn.
    while (end != nullptr && !end->dropped && end->first_child.load(std::memory_order_relaxed) == nullptr &&
           end->graph.load(std::memory_order_relaxed) == nullptr) {
      TreeNode* const parent = end->parent;
      std::atomic<TreeNode*>& head = parent == nullptr ? first_ : parent->first_child;
      TreeNode* sibling = head.load(std::memory_order_relaxed);
      if (sibling == end) {
        head.store(end->next_sibling, std::memory_order_release);
      } else {
        while (sibling->next_sibling != end) sibling = sibling->next_sibling;
        sibling->next_sibling = end->next_sibling;
      }
      delete end;
      --nodes_;
      end = parent;
    }
  }
}

}  // namespace graphpool
