#include "shim/execs/recording_tree.h"

namespace graphpool {

void RecordingTree::prune() noexcept {
  tree_.prune();
  left_ = left_bytes_ = 0;
}

Recording* RecordingTree::find(const std::vector<Operation>& operations, const Binding& binding) {
  TreeNode* const found = tree_.find(operations, binding);
  return found == nullptr ? nullptr : found->graph.load(std::memory_order_acquire);
}

void RecordingTree::insert(Recording& recording, const Binding& binding) {
  recording.end = tree_.insert(recording.operations, binding);
}

void RecordingTree::publish(Recording& recording) noexcept {
  recording.end->number.store(recording.number, std::memory_order_relaxed);
  recording.end->graph.store(&recording, std::memory_order_release);
}

void RecordingTree::drop(const Recording& recording) noexcept {
  tree_.drop(recording.end);
  ++left_;
  left_bytes_ += recording.host_bytes;
  if (walks_ == 0) prune();
}

}  // namespace graphpool
