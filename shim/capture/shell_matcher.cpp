#include "shim/capture/shell_matcher.h"

#include <algorithm>

#include "shim/capture/capture_sink.h"
#include "shim/execs/recording.h"
#include "shim/recording/mismatch.h"
#include "shim/recording/operation_functions.h"

namespace graphpool {
namespace {

/// The child that was found, where the runtime has accepted the payload that the binding ends with; else null.
TreeNode* accepted(TreeNode* child, const Binding& binding) noexcept {
  return child != nullptr && child->accepts_payload(binding, child->operation.payload_offset) ? child : nullptr;
}

}  // namespace

void ShellMatcher::leave_tree() noexcept {
  shell_ = begin_ = beside_ = nullptr;
  if (std::exchange(holds_tree_, false)) capture_sink().walk_ended();
}

TreeNode* ShellMatcher::step(const Signature& signature, const Binding& binding) noexcept {
  TreeNode* const found = accepted(shell_->find(signature), binding);
  if (found == nullptr) {
    g_mismatches.add(mismatch_behind(*shell_));
    return nullptr;
  }
  advance(found);
  return found;
}

std::vector<const TreeNode*> ShellMatcher::withheld() const {
  std::vector<const TreeNode*> path;
  for (const TreeNode* node = shell_; node != nullptr; node = node->parent) path.push_back(node);
  std::reverse(path.begin(), path.end());
  return path;
}

bool ShellMatcher::withholds(OperationTest test) const {
  for (const TreeNode* node = shell_; node != nullptr; node = node->parent)
    if (holds(node->operation, test)) return true;
  return false;
}

void ShellMatcher::follow(const Signature& signature, const Binding& binding,
                          const std::vector<std::uint32_t>* after) noexcept {
  if (beside_ == nullptr) return;
  beside_ = accepted(after == nullptr ? beside_->find(signature) : beside_->find(signature, *after), binding);
}

HeldRecording ShellMatcher::matched_end(std::size_t binding_bytes) {
  TreeNode* const end = shell_->find(kEndSignature);
  if (end == nullptr) {
    g_mismatches.add(Mismatch::kShorter);
    return HeldRecording();
  }
  if (begin_->expected_bytes.load(std::memory_order_relaxed) < binding_bytes)
    begin_->expected_bytes.store(static_cast<std::uint32_t>(binding_bytes), std::memory_order_relaxed);
  HeldRecording recording = capture_sink().hold(*end);
  return recording && (*recording).rebuildable.load(std::memory_order_acquire) ? std::move(recording) : HeldRecording();
}

HeldRecording ShellMatcher::expected_end() const {
  const TreeNode* const end = beside_ == nullptr ? nullptr : beside_->find(kEndSignature);
  return end == nullptr ? HeldRecording() : capture_sink().hold(*end);
}

}  // namespace graphpool
