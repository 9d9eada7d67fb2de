// capture_recorder.h: keeps the operations of a real capture and their nodes, and the payloads of any capture.
//
// A shell has payloads only: its operations are in the tree. Once it is made real it has all three, as if it had been
// recorded. The runtime's nodes are known, not guessed (rule 1): each was asked for when its operation had been made.
// Threads: one at a time (the capture's lock). Errors: std::bad_alloc.
#pragma once

#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "shim/capture/capture_streams.h"
#include "shim/execs/recording.h"
#include "shim/memory/freed_memory.h"
#include "shim/recording/operation.h"

namespace graphpool {

class CaptureRecorder {
 public:
  void start() noexcept { memory_freed_ = memory_freed(); }
  void clear() noexcept;

  Binding& binding() noexcept { return binding_; }
  const Binding& binding() const noexcept { return binding_; }
  const std::vector<Operation>& operations() const noexcept { return operations_; }
  const std::vector<hipGraphNode_t>& nodes() const noexcept { return nodes_; }
  hipGraphNode_t node(std::uint32_t operation) const noexcept { return nodes_[operation]; }
  /// The nodes of these operations.
  std::vector<hipGraphNode_t> nodes_at(const OperationTail& operations) const;

  /// Adds an operation whose payload is in the binding. `node`: null for an operation that makes none.
  void add(Operation operation, hipGraphNode_t node) {
    operations_.push_back(std::move(operation));
    nodes_.push_back(node);
  }
  /// Adds an operation that has neither payload nor node.
  void add_bare(const Signature& signature, std::vector<std::uint32_t> after = {}) {
    add({signature, static_cast<std::uint32_t>(binding_.size()), {nullptr}, std::move(after)}, nullptr);
  }
  bool has(OperationTest test) const;
  /// Returns the recorded capture. Add its end before.
  RecordedCapture take() { return {std::move(operations_), std::move(binding_), std::move(nodes_), memory_freed_}; }

  /// Lets the stream come behind these operations and no others.
  bool set_tail(hipStream_t stream, const OperationTail& tail) const;
  /// Sets what the stream comes behind, after a forwarded wait for an event that stands for other nodes in the runtime:
  /// the nodes of `before` and these operations. `before`: the stream's nodes before the wait; null: the runtime did
  /// not tell them.
  bool set_tail_after_wait(hipStream_t stream, const std::vector<hipGraphNode_t>* before,
                           const OperationTail& tail) const;
  /// Whether the stream's next operation comes behind these, in this order.
  bool comes_behind(hipStream_t stream, const OperationTail& tail) const;
  /// Whether the last call on the stream made no node: the stream still comes behind these operations, as it did
  /// before. `last`: the stream's last node; null: it has several or none.
  bool made_no_node(hipGraphNode_t last, hipStream_t stream, const OperationTail& tail) const {
    return last != nullptr ? tail.size() == 1 && nodes_[tail.front()] == last : comes_behind(stream, tail);
  }

 private:
  Binding binding_;
  std::vector<Operation> operations_;  ///< the beginning first
  std::vector<hipGraphNode_t> nodes_;  ///< the node of each operation, null for those without
  std::uint64_t memory_freed_ = 0;     ///< memory_freed() when the capture began
};

}  // namespace graphpool
