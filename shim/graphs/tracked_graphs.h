// tracked_graphs.h: the graphs a program holds that are known, their nodes, and which handle stands for what.
//
// Words: a graph is *known* while it is exactly what its recording says: captured or built through us and not touched
// since. A *virtual* graph is a tracked graph that exists only as recording and binding until somebody needs the real
// one; its handle is one of ours. A graph that is built node by node (node_graphs.h) has a build until it is first
// used; when it is virtual its nodes have handles of ours too. Once it is real those handles stand for its real nodes:
// a call that takes nodes asks for the real ones, a call that gives nodes out gives the program's own handles back.
//
// Invariants: a deferred graph can always be made real: it is, before memory that it names goes back to the runtime and
// before a module is unloaded, for natively it was made before that (memory_leaves()). Ids are never used twice: an
// exec knows by it the graph it was made from. Errors are HIP's: a handle of ours that the program has destroyed is an
// invalid value. Threads: any. Locks: each graph's own (kCapture), held while calls that neither wait nor call back are
// forwarded; the tables are under the lock of Graphs (kRecordings), never held across next.
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shim/base/function_ref.h"
#include "shim/base/lock_rank.h"
#include "shim/base/pointer_table.h"
#include "shim/capture/capture.h"
#include "shim/capture/capture_sink.h"
#include "shim/execs/recording.h"
#include "shim/execs/user_objects.h"
#include "shim/execs/variants.h"
#include "shim/graphs/handle_table.h"
#include "shim/graphs/memory_index.h"
#include "shim/graphs/node_build.h"
#include "shim/hip/hip_abi.h"
#include "shim/recording/materialisation.h"
#include "shim/recording/reason_counts.h"
#include "shim/recording/reissue.h"

namespace graphpool {

inline constexpr const char* kUsedAsChild = "used as a child graph";

struct TrackedGraph;

/// A child graph of a tracked graph: what it was when it was added.
struct GraphPart {
  std::uint32_t index = 0;            ///< of its operation
  std::uint64_t original = 0;         ///< of the graph it is a copy of
  hipGraph_t inside = nullptr;        ///< the copy, once the program has asked for it
  std::vector<hipGraphNode_t> nodes;  ///< its nodes, one an operation of the original; none: they are not known
};

/// A graph the program holds that is known. Everything but id and handle is under its lock.
struct TrackedGraph {
  TrackedGraph();
  TrackedGraph(const TrackedGraph&) = delete;
  TrackedGraph& operator=(const TrackedGraph&) = delete;

  /// What made a node of it.
  const Operation& operation(std::uint32_t index) const noexcept {
    return build != nullptr ? build->operation(index) : recording->operations[index];
  }
  /// The place of that operation in the tree. Pre-condition: the graph is virtual or no longer being built.
  const TreeNode* tree_node(std::uint32_t index) const noexcept {
    return build != nullptr ? build->path[index] : recording->tree_node(index);
  }

  /// False once the program may have changed it, for good.
  bool exact() const noexcept { return exact_.load(std::memory_order_acquire); }
  /// It is not known any more: left to the runtime, for this reason, a literal, which the report has. Under its lock.
  void give_up(const char* why) noexcept;

  /// The same where somebody else has said why.
  void no_longer_exact() noexcept { exact_.store(false, std::memory_order_release); }

  const std::uint64_t id;
  std::uint64_t memory_freed;  ///< memory_freed() before it had nodes
  RankedMutex<LockRank::kCapture> lock;
  Recording* recording = nullptr;  ///< null while it is being built
  std::unique_ptr<NodeBuild> build;
  Binding binding;
  hipGraph_t handle = nullptr;                ///< the program's
  hipGraph_t real = nullptr;                  ///< null for a deferred graph nobody needed yet
  std::vector<hipGraphNode_t> nodes;          ///< of the real graph, one an operation
  std::vector<hipGraphNode_t> handles;        ///< built virtually: the program's handles, one an operation
  std::unique_ptr<std::deque<NodeRef>> refs;  ///< what those handles stand for; null: there was none
  std::uint64_t original = id;                ///< of the graph that it, or what it is a copy of, was copied from
  std::vector<GraphPart> parts;               ///< its child graphs
  bool gone = false;                          ///< destroyed
  /// The graph of a capture that is open. Until it has ended only the capture changes the graph, under its own lock.
  std::atomic<bool> open{false};
  Objects objects;                      ///< what its user objects are held by; null: it has none
  std::shared_ptr<TrackedGraph> kept;   ///< itself, while it is found by its real graph
  std::uint32_t looks = 0;              ///< times it was looked at because memory was freed
  std::atomic<std::uint32_t> given{0};  ///< times the runtime was given a graph in its place, to be copied
  static constexpr std::size_t kNowhere = ~std::size_t{0};
  // Under the lock of Graphs:
  std::size_t place = kNowhere;  ///< among the deferred graphs
  std::uint64_t indexed = 0;     ///< its number in the index

 private:
  std::atomic<bool> exact_{true};
};

/// What a graph is that becomes a part of another one.
struct ChildGraph {
  HeldRecording recording;  ///< none: it is not known, and HIP must see it
  Binding binding;
  hipGraph_t real = nullptr;          ///< null for a deferred graph
  std::vector<hipGraphNode_t> nodes;  ///< of the real one, one an operation
  std::uint64_t original = 0;         ///< TrackedGraph::original
  TrackedGraph* known = nullptr;

  Status describe(OperationWriter& to) const;
  /// Calls use() with a graph that the runtime can copy: `graph` where it is real or not known. No nodes: they are not
  /// known. A deferred graph that is given a second time is real from then on (read_part()), so that it is built once.
  hipError_t give(hipGraph_t graph, GraphUse use) const;
  /// The same where no graph's lock is held: it becomes real now where it must be built.
  hipError_t give_real(hipGraph_t graph, GraphUse use) const;

 private:
  bool give_set(GraphUse use, hipError_t* result) const;
};

/// Compares what the program asks of a node with what the node was made by: true when nothing but the payload may
/// differ. The payload is left in `payload`.
bool same_but_payload(const Operation& operation, Describe describe, Binding* payload);

using NativeNodeCall = FunctionRef<hipError_t(hipGraphNode_t node)>;

class TrackedGraphs {
 public:
  explicit TrackedGraphs(Variants::Lock& lock) noexcept : lock_(lock) {}

  // --- graphs ---

  /// Null when no handle is to be had.
  hipGraph_t add_deferred(const std::shared_ptr<TrackedGraph>& known);
  /// Pre-condition: known->real is the program's graph.
  void add_real(const std::shared_ptr<TrackedGraph>& known);
  /// The tracked graph behind a handle, or null. It lives until the program destroys it.
  TrackedGraph* find(hipGraph_t graph);
  /// Whether the library made this handle. The graph may have been destroyed since.
  bool gave_out(hipGraph_t graph) const noexcept { return graph_handles_.owns(graph); }

  /// The real graph behind a handle, for a call that only reads it. Makes a deferred graph real.
  /// hipErrorOutOfMemory when that fails; null is given to HIP as it is.
  hipError_t read(hipGraph_t* graph, const char* why);
  /// What the graph is that is to be a part of `parent`, which may be null. A virtual one stays so; one that is being
  /// built is built. hipErrorInvalidValue: it is gone.
  hipError_t read_part(hipGraph_t* graph, const TrackedGraph* parent, ChildGraph* child);
  /// The same of the child graph that a node's parameters name: `params` becomes `storage` where it had to be replaced.
  hipError_t read_child(const void** params, AnyNodeParams* storage);
  /// The same for a call that may change the graph, or keep it: it is not known any more.
  hipError_t expose(hipGraph_t* graph, const char* why);
  /// `known`: what find() says of it.
  hipError_t expose(hipGraph_t* graph, TrackedGraph* known, const char* why);
  hipError_t destroy(hipGraph_t graph);
  /// How many nodes a deferred graph has; false: HIP knows.
  bool count_nodes(hipGraph_t graph, std::size_t* count);
  /// The program has been given the graph inside a node, which is a copy of the one that was added.
  void note_inside(hipGraphNode_t node, hipGraph_t inside);
  /// The node of a copy that stands for this one; null: HIP knows. As in HIP, copies of copies are copies.
  hipGraphNode_t find_in_copy(hipGraphNode_t original, hipGraph_t copy);
  /// Under the graph's lock.
  hipError_t make_real(TrackedGraph& known, const char* why);

  /// Memory is about to go back to the runtime (no bytes: as much as nobody knows; null: all there is):
  /// deferred graphs that name it are made real while they can be.
  void memory_leaves(const void* address, std::size_t bytes, const char* why);
  /// Deferred graphs that have such an operation are made real.
  void make_real_with(OperationTest test, const char* why);
  /// Gives up the walks of all graphs that are being built, so that recordings can go.
  void end_builds(const char* why);

  // --- graphs of open captures (capture/told_graph.cpp) ---

  /// Makes a graph and a handle for it. Returns false if there is no handle left.
  bool add_told(std::shared_ptr<TrackedGraph>* made);
  /// The handle of one of its nodes; null: none is to be had.
  hipGraphNode_t told_handle(TrackedGraph& known, std::uint32_t index);
  /// Returns the node that one of the library's handles names, also in the graph of an open capture. No graph: the
  /// handle is not the library's, or its node is gone.
  NodeRef told_node(hipGraphNode_t node) const noexcept;
  bool gave_out(hipGraphNode_t node) const noexcept { return node_handles_.owns(node); }
  /// The capture was broken off.
  void drop_told(TrackedGraph& known) noexcept;
  /// It has ended: from now on the graph is one as others are.
  void told_ended(const std::shared_ptr<TrackedGraph>& known);

  // --- nodes ---

  /// A handle of ours for the next node. Null when none is to be had. Under the graph's lock.
  hipGraphNode_t add_handle(TrackedGraph& known, std::uint32_t index);
  /// A real node of a graph that is being built. Under the graph's lock.
  void add_node(TrackedGraph& known, hipGraphNode_t node, std::uint32_t index);

  NodeRef find_node(hipGraphNode_t node);
  /// The real node behind a handle, for a call that only reads it.
  hipError_t read_node(hipGraphNode_t* node, const char* why);
  /// The same for many: `nodes` points into `storage` where one had to be replaced.
  hipError_t read_nodes(const hipGraphNode_t** nodes, std::size_t count, std::vector<hipGraphNode_t>* storage,
                        const char* why);
  /// The same for a call that changes the node: its graph is not known any more.
  hipError_t expose_node(hipGraphNode_t* node, const char* why);
  /// By the handle the program knows it by.
  void node_destroyed(hipGraphNode_t node);
  /// The runtime may have destroyed the graph: its nodes may come back as others.
  void nodes_gone(hipGraph_t graph);
  /// The handle by which the program knows a real node.
  hipGraphNode_t as_program_knows(hipGraphNode_t real);

  /// The program sets what a node of a graph does: a tracked graph whose operation stays the same but for its payload
  /// has another binding from then on, and is no less known.
  hipError_t set_node(hipGraphNode_t node, Describe describe, NativeNodeCall forward);

  void note_materialised(const Materialisation& told) noexcept;
  std::vector<Materialisation> materialisations() const;
  static constexpr std::size_t kMostMaterialisations = 256;  ///< told apart; others are told by their reason

 private:
  /// A graph that has been looked at so often because memory was freed is found by the index from then on.
  static constexpr std::uint32_t kLooks = 16;

  std::vector<std::shared_ptr<TrackedGraph>> all_deferred() const;
  std::vector<std::shared_ptr<TrackedGraph>> that_may_name(const void* address, std::size_t bytes);
  void exchange_places(std::size_t a, std::size_t b) noexcept;
  void watch(TrackedGraph& known) noexcept;
  void stop_watching(TrackedGraph& known) noexcept;
  void take_out(TrackedGraph& known) noexcept;
  void count_materialisation(const Materialisation& told);
  TrackedGraph* find_real(hipGraph_t graph) const noexcept;
  void put_nodes(TrackedGraph& known);
  void forget_nodes(TrackedGraph& known) noexcept;
  hipGraphNode_t find_inside(const NodeRef& original, hipGraph_t inside);
  NodeRef look_up(hipGraphNode_t node) const noexcept;
  void settle(hipGraph_t graph);
  hipError_t build_real(TrackedGraph& known, const std::vector<Operation>& operations);
  void put_node(hipGraphNode_t node, const NodeRef& ref);

  Variants::Lock& lock_;
  PointerTable real_;                                ///< real graphs that are known, each kept by itself
  std::unordered_map<hipGraph_t, NodeRef> insides_;  ///< graphs inside nodes that the program was given: the nodes
  PointerTable nodes_;                               ///< real nodes of tracked graphs: the graph and the index
  /// Handles of ours. First those that are not to be looked at when memory is freed, because they are real or in the
  /// index, then the others.
  std::vector<std::shared_ptr<TrackedGraph>> deferred_;
  std::size_t unwatched_ = 0;
  MemoryIndex index_;  ///< its owners are tracked graphs
  HandleTable<TrackedGraph> graph_handles_;
  HandleTable<NodeRef> node_handles_;
  std::vector<Materialisation> materialisations_;
};

}  // namespace graphpool
