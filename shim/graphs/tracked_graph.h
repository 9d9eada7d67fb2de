// tracked_graph.h: keeps a graph that the program holds and whose recording the library knows.
//
// It is tracked while it is what its recording says: captured or built through the library and not changed since. A
// deferred graph exists only as recording and binding until somebody needs the real one; its handle is one of the
// library's. A graph that is built node by node (node_graphs.h) has a build until it is first used; when it is deferred
// its nodes have handles of the library's, too. Once it is real those handles stand for its real nodes.
//
// Threads: each graph has a lock (kCapture), held while calls that neither wait nor call back are forwarded. Until the
// capture of a graph has ended only the capture changes it, under the capture's own lock.
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "shim/base/lock_rank.h"
#include "shim/capture/capture_sink.h"
#include "shim/execs/recording.h"
#include "shim/execs/user_objects.h"
#include "shim/graphs/memory_watch_list.h"
#include "shim/graphs/node_build.h"
#include "shim/recording/operation_writer.h"

namespace graphpool {

/// A child graph of a tracked graph: what it was when it was added.
struct GraphPart {
  std::uint32_t index = 0;            ///< of its operation
  std::uint64_t original = 0;         ///< TrackedGraph::original of the graph that was added
  hipGraph_t inside = nullptr;        ///< the copy, once the program has asked for it
  std::vector<hipGraphNode_t> nodes;  ///< the copy's, one an operation of the original; none: they are not known
};

/// Unmodified: it is exactly what its recording, or its build, says.
enum class GraphState : std::uint8_t {
  kOpen,          ///< the graph of a capture that is open, unmodified
  kUnmodified,    ///< no capture of it is open
  kOpenModified,  ///< the graph of a capture that is open, and the program may have changed it
  kModified,      ///< for good
  kDestroyed,
};

class TrackedGraph : public Watched {
 public:
  explicit TrackedGraph(GraphState state = GraphState::kUnmodified) noexcept;
  TrackedGraph(const TrackedGraph&) = delete;
  TrackedGraph& operator=(const TrackedGraph&) = delete;

  const std::uint64_t id;  ///< never used twice: an exec knows by it the graph it was made from
  mutable RankedMutex<LockRank::kCapture> lock;
  std::uint64_t memory_freed GUARDED_BY(lock);                            ///< memory_freed() before it had nodes
  Recording* recording GUARDED_BY(lock) = nullptr;                        ///< null: open, being built, or not known
  std::unique_ptr<NodeBuild> build GUARDED_BY(lock) PT_GUARDED_BY(lock);  ///< null: it is not being built
  Binding binding GUARDED_BY(lock);
  hipGraph_t real GUARDED_BY(lock) = nullptr;                  ///< null for a deferred graph nobody needed yet
  std::vector<hipGraphNode_t> nodes GUARDED_BY(lock);          ///< of the real graph, one an operation
  std::vector<hipGraphNode_t> handles GUARDED_BY(lock);        ///< the program's, made while it was not real
  std::unique_ptr<std::deque<NodeRef>> refs GUARDED_BY(lock);  ///< what those handles stand for; null: none
  std::vector<GraphPart> parts GUARDED_BY(lock);               ///< its child graphs
  Objects objects GUARDED_BY(lock);                            ///< what its user objects are held by; null: it has none
  std::uint32_t looks GUARDED_BY(lock) = 0;                    ///< in vain at this binding, because memory was freed
  std::atomic<std::uint32_t> given{0};  ///< times it was to be copied by the runtime while it was deferred
  std::shared_ptr<TrackedGraph> kept GUARDED_BY(g_recordings_lock);  ///< itself, while it is found by its real graph

  // Set before others find it.
  hipGraph_t handle = nullptr;  ///< the program's
  std::uint64_t original = id;  ///< `id` of the graph from which all copies come; its own if it is no copy

  bool unmodified() const noexcept { return state_.load(std::memory_order_acquire) <= GraphState::kUnmodified; }
  bool is_open() const noexcept {
    const GraphState state = state_.load(std::memory_order_acquire);
    return state == GraphState::kOpen || state == GraphState::kOpenModified;
  }
  bool is_destroyed() const noexcept { return state_.load(std::memory_order_acquire) == GraphState::kDestroyed; }
  /// Leaves the graph to the runtime, because the program may have changed it. `reason`: a literal, for the report.
  void leave(const char* reason) noexcept REQUIRES(lock);
  /// Notes that the program may have changed it, where somebody else has said why.
  void note_modified() noexcept { become_modified(); }
  /// Notes that the capture of it has ended.
  void capture_ended() noexcept;
  void note_destroyed() noexcept REQUIRES(lock) { state_.store(GraphState::kDestroyed, std::memory_order_release); }

  /// Makes it a copy of a deferred graph. Pre-condition: nobody else knows it yet.
  void copy_deferred(const TrackedGraph& from) REQUIRES(from.lock);

  /// How many operations it has: those of its build, or of its recording.
  std::size_t size() const noexcept REQUIRES(lock) {
    return build != nullptr ? build->size() : recording->operations.size();
  }
  const Operation& operation(std::uint32_t index) const noexcept REQUIRES(lock) {
    return build != nullptr ? build->operation(index) : recording->operations[index];
  }
  /// The place of that operation in the tree. Pre-condition: the graph is deferred or no longer being built.
  const TreeNode* tree_node(std::uint32_t index) const noexcept REQUIRES(lock) {
    return build != nullptr ? build->path[index] : recording->tree_node(index);
  }
  /// The child graph that this operation added, or null.
  GraphPart* part(std::uint32_t index) noexcept REQUIRES(lock);
  /// The program's handle of the operation's node; null: it has none.
  hipGraphNode_t node_handle(std::size_t index) const noexcept REQUIRES(lock) {
    return index < handles.size() ? handles[index] : nullptr;
  }
  /// The number of its recording, for messages; 0: it has none.
  std::uint64_t number() const noexcept REQUIRES(lock) { return recording != nullptr ? recording->number : 0; }

 private:
  bool become_modified() noexcept;

  std::atomic<GraphState> state_;
};

/// Compares what the program asks of a node with what the node was made by: true when nothing but the payload may
/// differ. The payload is left in `payload`.
bool same_but_payload(const Operation& operation, Describe describe, Binding* payload);

}  // namespace graphpool
