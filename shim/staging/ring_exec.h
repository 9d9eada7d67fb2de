// ring_exec.h: holds an exec of a slot ring, with the graph that it was made of.
//
// Why: a ring has several execs over the operations of one recording. They differ in the memory that they work on and
// in the copies around the operations (fused_exec.h, direct_exec.h).
// Errors: HIP's; a build that fails leaves nothing. Threads: one at a time, as the ring.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "shim/memory/slot_set.h"
#include "shim/recording/operation.h"
#include "shim/staging/staging.h"

namespace graphpool {

/// The recording and the plan that all execs of a ring are made of. `operations` and `plan` outlive the ring.
struct RingGraph {
  const std::vector<Operation>& operations;
  const StagePlan& plan;
  const Binding canonical;  ///< StagePlan::canonical()
};

/// What an instantiate that fails for memory does: gives kept memory back and tries again, or fails.
enum class OnNoMemory : std::uint8_t { kTrim, kGiveUp };

/// Owns a graph and an exec, both private. Moved from, it owns nothing.
class RingExec {
 public:
  RingExec() = default;
  ~RingExec() { destroy(); }
  RingExec(RingExec&& other) noexcept
      : graph_(std::exchange(other.graph_, nullptr)),
        exec_(std::exchange(other.exec_, nullptr)),
        device_(other.device_) {}
  RingExec& operator=(RingExec&& other) noexcept {
    destroy();
    graph_ = std::exchange(other.graph_, nullptr);
    exec_ = std::exchange(other.exec_, nullptr);
    device_ = other.device_;
    return *this;
  }

  explicit operator bool() const noexcept { return exec_ != nullptr; }
  hipGraphExec_t exec() const noexcept { return exec_; }
  hipGraph_t graph() const noexcept { return graph_; }

  /// Makes an empty graph, which the caller fills.
  hipError_t create_graph();
  /// Makes the graph of the ring's operations over this binding. *nodes: the node of each operation, null for those
  /// without.
  hipError_t build_graph(const RingGraph& ring, const Binding& binding, std::vector<hipGraphNode_t>* nodes);
  /// Adds a node behind these nodes that records the event.
  hipError_t record_behind(const std::vector<hipGraphNode_t>& nodes, hipEvent_t event);
  hipError_t instantiate(int device, OnNoMemory on_no_memory);

  void destroy() noexcept;
  /// Forgets both, because the device is being reset: they are gone, and are not to be destroyed.
  void forget() noexcept {
    graph_ = nullptr;
    exec_ = nullptr;
  }

 private:
  hipGraph_t graph_ = nullptr;
  hipGraphExec_t exec_ = nullptr;
  int device_ = 0;  ///< of the exec
};

/// The nodes that no other node comes behind; `head` if no operation has a node. `nodes`: the node of each operation.
std::vector<hipGraphNode_t> leaf_nodes(const std::vector<Operation>& operations,
                                       const std::vector<hipGraphNode_t>& nodes,
                                       const std::vector<hipGraphNode_t>& head);

/// A RingExec that has buffers of the program baked in.
struct BoundExec {
  RingExec exec;
  std::vector<char*> bases;        ///< the program's buffers, in the order of the plan
  std::uint64_t memory_freed = 0;  ///< memory_freed() before they were baked in: nodes may hold on to allocations

  /// Whether it works on these buffers as they were when memory_freed() was `freed`. What other threads have freed
  /// since were other buffers.
  bool current_for(const std::vector<char*>& buffers, std::uint64_t freed) const noexcept {
    return exec && bases == buffers && memory_freed >= freed;
  }
};

}  // namespace graphpool
