// Hands what captures say and ask on to the graphs and execs that the program holds.
#include <utility>

#include "shim/capture/capture_sink.h"
#include "shim/graphs/graphs.h"
#include "shim/recording/reason_counts.h"

namespace graphpool {
namespace {

class GraphsCaptureSink final : public CaptureSink {
 public:
  constexpr GraphsCaptureSink() = default;

  const GraphSettings& settings() const noexcept override { return graphs().settings; }
  TreeWalk walk_begins(const Signature& begin) override { return graphs().recordings.walk_begins(begin); }
  void walk_ended() noexcept override { graphs().recordings.walk_ended(); }
  HeldRecording hold(const TreeNode& end) noexcept override { return graphs().recordings.hold(end); }
  RecordedGraph real_graph_captured(CapturedGraph captured, RecordedCapture recording) override {
    return graphs().captured.real_graph_captured(std::move(captured), std::move(recording));
  }
  hipGraph_t untracked_graph_captured(CapturedGraph captured) override {
    return graphs().captured.untracked_graph_captured(std::move(captured));
  }
  hipGraph_t make_deferred_graph(HeldRecording recording, Binding binding, CapturedGraph captured) override {
    return graphs().captured.make_deferred_graph(std::move(recording), std::move(binding), std::move(captured));
  }
  void drop_free_execs_of(const void* place) override { graphs().drop_free_execs_of(place); }
  void capture_verified(Recording& recording) noexcept override { CapturedGraphs::verified(recording); }
  void capture_differs(Recording& recording, const Operation& operation, const Binding& binding, hipGraphNode_t node,
                       const char* reason) override {
    CapturedGraphs::differs(recording, {operation, binding, node, reason});
  }
  void note_refused(const char* reason) noexcept override { g_refusals.count(reason); }
  void note_materialised(const Materialisation& made) noexcept override { graphs().materialisations.note(made); }
  void nodes_gone(hipGraph_t graph) override { graphs().nodes.forget_all(graph); }
  void memory_leaves(const void* address, std::size_t bytes, const char* reason) override {
    graphs().before_memory_is_freed(address, bytes, reason);
  }
};

/// Only the capture itself touches the graph of an open capture, under its own lock, whose rank is the graph's.
class TrackedOpenGraphs final : public OpenGraphs {
 public:
  constexpr TrackedOpenGraphs() = default;

  bool add(std::shared_ptr<TrackedGraph>* made) override {
    *made = graphs().tracked.add_open();
    return *made != nullptr;
  }
  void drop(TrackedGraph& graph) noexcept override { graphs().tracked.drop_open(graph); }
  void made_real(TrackedGraph& graph, hipGraph_t real, const std::vector<hipGraphNode_t>& nodes) override {
    assume_held(graph.lock);
    graph.real = real;
    graph.nodes = nodes;
  }
  hipGraph_t handle(const TrackedGraph& graph) const noexcept override { return graph.handle; }
  hipGraphNode_t node_handle(TrackedGraph& graph, std::uint32_t index) override {
    assume_held(graph.lock);
    const hipGraphNode_t handle = graph.node_handle(index);
    return handle != nullptr ? handle : graphs().node_table.add_handle(graph, index);
  }
  hipGraphNode_t known_handle(const TrackedGraph& graph, std::size_t index) const noexcept override {
    assume_held(graph.lock);
    return graph.node_handle(index);
  }
  NodeRef node(hipGraphNode_t handle) const noexcept override { return graphs().node_table.find_handle(handle); }
  bool gave_out(hipGraphNode_t handle) const noexcept override { return graphs().node_table.gave_out(handle); }
  hipError_t read_nodes(const hipGraphNode_t** nodes, std::size_t count, std::vector<hipGraphNode_t>* storage,
                        const char* reason) override {
    return graphs().nodes.read_all(nodes, count, storage, reason);
  }
};

}  // namespace

CaptureSink& capture_sink() noexcept {
  static constinit GraphsCaptureSink sink;
  return sink;
}

OpenGraphs& open_graphs() noexcept {
  static constinit TrackedOpenGraphs instance;
  return instance;
}

}  // namespace graphpool
