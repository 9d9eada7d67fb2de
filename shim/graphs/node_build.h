// node_build.h: keeps how far a graph that is built node by node has come, by a walk in the tree or by a recording.
//
// It walks while everything the program adds was added before in the same order: the graph is deferred meanwhile. Where
// the walk ends the graph is made real, and what follows is recorded. Not here: what drives it (node_graphs.h).
// Threads: guarded by the lock of its graph.
#pragma once

#include <cstdint>
#include <vector>

#include "shim/execs/recording.h"
#include "shim/recording/prefix_tree.h"

namespace graphpool {

struct NodeBuild {
  NodeBuild() = default;
  NodeBuild(const NodeBuild&) = delete;
  NodeBuild& operator=(const NodeBuild&) = delete;
  /// Takes kRecordings where it walked or has children.
  ~NodeBuild() { leave_tree(); }

  bool walks() const noexcept { return !path.empty(); }
  std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(walks() ? path.size() : operations.size()); }
  const Operation& operation(std::uint32_t index) const noexcept {
    return walks() ? path[index]->operation : operations[index];
  }
  void leave_tree() noexcept;

  std::vector<TreeNode*> path;          ///< walking: what was matched, the creation included
  bool verify = false;                  ///< real because the nodes are to be compared with the recording
  std::vector<Operation> operations;    ///< recording: what was added, the creation included
  std::vector<HeldRecording> children;  ///< of the child graphs that were added
};

}  // namespace graphpool
