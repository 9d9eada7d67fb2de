// What captures say and ask, handed on to the graphs and execs that the program holds.
#include <utility>

#include "shim/capture/capture_sink.h"
#include "shim/graphs/graphs.h"

namespace graphpool {
namespace {

class GraphsCaptureSink final : public CaptureSink {
 public:
  constexpr GraphsCaptureSink() = default;

  const GraphSettings& settings() const noexcept override { return graphs().settings(); }
  TreeNode* walk_begins(const Signature& begin, bool* verify) override { return graphs().walk_begins(begin, verify); }
  void walk_ended() noexcept override { graphs().walk_ended(); }
  HeldRecording hold(const TreeNode& end) noexcept override { return graphs().hold(end); }
  hipGraph_t real_graph_captured(CapturedGraph captured, RecordedCapture recording, bool* learned) override {
    return graphs().real_graph_captured(std::move(captured), std::move(recording), learned);
  }
  hipGraph_t untracked_graph_captured(CapturedGraph captured) override {
    return graphs().untracked_graph_captured(std::move(captured));
  }
  hipGraph_t make_deferred_graph(HeldRecording recording, Binding binding, CapturedGraph captured) override {
    return graphs().make_deferred_graph(std::move(recording), std::move(binding), std::move(captured));
  }
  void drop_free_execs_of(const void* place) override { graphs().drop_free_execs_of(place); }
  void capture_verified(Recording& recording) noexcept override { graphs().capture_verified(recording); }
  void capture_differs(Recording& recording, const Operation& operation, const Binding& binding, hipGraphNode_t node,
                       const char* why) override {
    graphs().capture_differs(recording, operation, binding, node, why);
  }
  void note_refused(const char* why) noexcept override { graphs().note_refused(why); }
  void note_materialised(const Materialisation& told) noexcept override { graphs().known().note_materialised(told); }
  void nodes_gone(hipGraph_t graph) override { graphs().known().nodes_gone(graph); }
  void memory_leaves(const void* address, std::size_t bytes, const char* why) override {
    graphs().memory_leaves(address, bytes, why);
  }
};

class KnownToldGraphs final : public ToldGraphs {
 public:
  constexpr KnownToldGraphs() = default;

  bool add(std::shared_ptr<TrackedGraph>* made) override { return graphs().known().add_told(made); }
  void drop(TrackedGraph& told) noexcept override { graphs().known().drop_told(told); }
  void made_real(TrackedGraph& told, hipGraph_t real, const std::vector<hipGraphNode_t>& nodes) override {
    told.real = real;
    told.nodes = nodes;
  }
  hipGraph_t handle(const TrackedGraph& told) const noexcept override { return told.handle; }
  hipGraphNode_t node_handle(TrackedGraph& told, std::uint32_t index) override {
    return graphs().known().told_handle(told, index);
  }
  hipGraphNode_t handle_told(const TrackedGraph& told, std::size_t index) const noexcept override {
    return index < told.handles.size() ? told.handles[index] : nullptr;
  }
  NodeRef node(hipGraphNode_t handle) const noexcept override { return graphs().known().told_node(handle); }
  bool gave_out(hipGraphNode_t handle) const noexcept override { return graphs().known().gave_out(handle); }
  hipError_t read_nodes(const hipGraphNode_t** nodes, std::size_t count, std::vector<hipGraphNode_t>* storage,
                        const char* why) override {
    return graphs().known().read_nodes(nodes, count, storage, why);
  }
};

}  // namespace

CaptureSink& capture_sink() noexcept {
  static constinit GraphsCaptureSink sink;
  return sink;
}

ToldGraphs& told_graphs() noexcept {
  static constinit KnownToldGraphs told;
  return told;
}

}  // namespace graphpool
