#include "shim/capture/prefix_tree.h"

#include <memory>

namespace graphpool {

TreeNode* PrefixTree::find_begin(const Signature& begin) const noexcept {
  for (TreeNode* node = first_.load(std::memory_order_acquire); node != nullptr; node = node->next_sibling)
    if (node->operation.signature == begin) return node;
  return nullptr;
}

TreeNode* PrefixTree::insert(const std::vector<Operation>& operations, const Binding& binding) {
  TreeNode* at = nullptr;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    TreeNode* child = at == nullptr ? find_begin(operations[i].signature) : at->find(operations[i].signature);
    if (child == nullptr) {
      auto made = std::make_unique<TreeNode>();
      made->operation = operations[i];
      made->index = static_cast<std::uint32_t>(i);
      made->parent = at;
      std::atomic<TreeNode*>& head = at == nullptr ? first_ : at->first_child;
      made->next_sibling = head.load(std::memory_order_relaxed);
      child = made.release();
      head.store(child, std::memory_order_release);
      ++nodes_;
    }
    at = child;
    if (operations[i].signature.kind != OperationKind::kKernel) continue;
    const auto& accepted = payload_at<KernelPayload>(binding, operations[i].payload_offset).grid;
    for (int k = 0; k < 3; ++k)
      if (accepted[k] > at->grid[k].load(std::memory_order_relaxed))
        at->grid[k].store(accepted[k], std::memory_order_relaxed);
  }
  return at;
}

void PrefixTree::remove(TreeNode* end) noexcept {
  end->graph.store(nullptr, std::memory_order_release);
  while (end != nullptr && end->first_child.load(std::memory_order_relaxed) == nullptr &&
         end->graph.load(std::memory_order_relaxed) == nullptr) {
    TreeNode* const parent = end->parent;
    std::atomic<TreeNode*>& head = parent == nullptr ? first_ : parent->first_child;
    TreeNode* at = head.load(std::memory_order_relaxed);
    if (at == end) {
      head.store(end->next_sibling, std::memory_order_release);
    } else {
      while (at->next_sibling != end) at = at->next_sibling;
      at->next_sibling = end->next_sibling;
    }
    delete end;
    --nodes_;
    end = parent;
  }
}

}  // namespace graphpool
