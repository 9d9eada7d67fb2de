// node_creation.h: makes nodes one at a time in the process, where the runtime may give those of two threads one id.
//
// Why: before HIP 7.14 the ids of nodes come from a plain counter (ROCm/rocm-systems#6888, mended by #6241). Nodes of
// one graph that share an id are one to hipGraphNodeFindInClone, and from 7.2 on execs of such a graph lack nodes,
// without an error. The library makes nodes on threads of the program that natively make none then. So all nodes are
// made in line: those of the library, those that the program captures, and those that it adds.
//
// Threads: any. The lock (kNodes) is held over calls that make a node, and over the end of a capture whose graph nobody
// else knows: they neither wait nor call back (rule 18). Does not nest.
#pragma once

#include "shim/base/lock_rank.h"
#include "shim/base/sole_lock.h"
#include "shim/hip/hip_version.h"
#include "shim/hip/quirks.h"

namespace graphpool {

class NodeCreation {
 public:
  /// `needed`: false for a call that may do more than make one node.
  explicit NodeCreation(bool needed = true) noexcept : locked_(needed && runtime_version() < kIdsOfTheirOwn) {
    if (locked_) lock_.lock();
  }
  ~NodeCreation() {
    if (locked_) lock_.unlock();
  }
  NodeCreation(const NodeCreation&) = delete;
  NodeCreation& operator=(const NodeCreation&) = delete;

 private:
  /// The first version that is known to give every node an id of its own.
  static constexpr int kIdsOfTheirOwn = hip_version(7, 14);

  static inline constinit SoleLock<LockRank::kNodes> lock_;

  const bool locked_;
};

}  // namespace graphpool
