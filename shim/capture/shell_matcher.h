// shell_matcher.h: keeps where a capture is in the tree of recordings (recording/prefix_tree.h). While the capture
// walks there it holds the tree: no node is freed.
//
// A shell stands at the node of the last operation that it withheld; what was withheld before are that node's parents.
// A real capture that `verify` compares moves through the tree, too: each of its operations leads to the node at which
// a shell would stand. Threads: one at a time (the capture's lock). leave_tree() takes locks of rank kRecordings and
// above.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "shim/recording/operation.h"
#include "shim/recording/prefix_tree.h"

namespace graphpool {

class HeldRecording;

/// How a capture that has begun is followed.
enum class CaptureMode : std::uint8_t {
  kRecord,   ///< it is recorded
  kCompare,  ///< it is a shell: compared with the tree
  kVerify,   ///< it is recorded, and its operations are looked up in the tree
};

class ShellMatcher {
 public:
  /// `begin`: the node where such captures start; the tree is held from now on. Null: there is no such node.
  void start(TreeNode* begin, CaptureMode mode) noexcept {
    begin_ = begin;
    shell_ = mode == CaptureMode::kCompare ? begin : nullptr;
    beside_ = mode == CaptureMode::kVerify ? begin : nullptr;
    holds_tree_ = begin != nullptr;
  }
  /// Lets go of the tree, if it is held. The capture is no shell any more.
  void leave_tree() noexcept;

  /// Where the shell stands; null: the capture is none.
  TreeNode* shell() const noexcept { return shell_; }
  /// Takes the shell one step on, and returns where it stands now. Returns null where the tree has no such operation
  /// there, or the runtime has not yet accepted such a payload (the last bytes of `binding`).
  TreeNode* step(const Signature& signature, const Binding& binding) noexcept;
  /// Lets the shell stand at this child of its node from now on.
  void advance(TreeNode* child) noexcept {
    shell_ = child;
    child->prefetch_child();
  }
  /// Makes the capture no shell any more. Returns where it stood.
  TreeNode* leave_shell() noexcept { return std::exchange(shell_, nullptr); }
  /// The operations that the shell has withheld, the beginning first.
  std::vector<const TreeNode*> withheld() const;
  /// Whether the shell has withheld an operation for which the test is true.
  bool withholds(OperationTest test) const;

  /// Moves a verified capture on by an operation that the capture has made. `after`: what the operation names as its
  /// dependencies; null: it names none.
  void follow(const Signature& signature, const Binding& binding, const std::vector<std::uint32_t>* after) noexcept;

  /// Returns the recording that the shell has come to the end of. Empty: there is none, or it is not kept, or captures
  /// are not to match it (Recording::rebuildable).
  HeldRecording matched_end(std::size_t binding_bytes);
  /// Returns the recording that a shell would have come to the end of, where the capture is verified.
  HeldRecording expected_end() const;

 private:
  TreeNode* begin_ = nullptr;
  TreeNode* shell_ = nullptr;
  TreeNode* beside_ = nullptr;  ///< verified: where a shell would be
  bool holds_tree_ = false;
};

}  // namespace graphpool
