// What frameworks do to a graph between capturing and launching it: they count its nodes, instantiate it with flags or
// parameters, ask the exec for its flags, copy it; and what they put into captures and graphs by other means.
#include <vector>

#include "captures.h"
#include "node_calls.h"

// Newer than the header.
extern "C" {
hipError_t hipGraphInstantiateWithParams(hipGraphExec_t* exec, hipGraph_t graph, void* params);
hipError_t hipGraphExecGetFlags(hipGraphExec_t exec, unsigned long long* flags);
hipError_t hipStreamBeginCaptureToGraph(hipStream_t stream, hipGraph_t graph, const hipGraphNode_t* dependencies,
                                        const void* edges, size_t count, hipStreamCaptureMode mode);
hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream, unsigned int flags);
}

namespace captures {
namespace {

struct InstantiateParams {
  hipGraphNode_t error_node;
  unsigned long long flags;
  int result;
  hipStream_t upload_stream;
};

Since native_graph_calls() {
  return Since({"hipModuleLaunchKernel", "hipGraphInstantiate", "hipGraphInstantiateWithFlags",
                "hipGraphInstantiateWithParams", "hipGraphAddKernelNode", "hipGraphClone"});
}

void expect_only_launches(const Since& since) {
  if (!compares_captures()) return;
  for (const char* const name : {"hipModuleLaunchKernel", "hipGraphInstantiate", "hipGraphInstantiateWithFlags",
                                 "hipGraphInstantiateWithParams", "hipGraphAddKernelNode", "hipGraphClone"})
    EXPECT_EQ(0, since[name]) << name;
}

class Frameworks : public testing::Test {
 protected:
  hipGraph_t captured() {
    return capture(stream_, [&] {
      hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
      unsigned long long id = 0;
      OK(hipStreamGetCaptureInfo(stream_, &status, &id));
      EXPECT_EQ(hipStreamCaptureStatusActive, status);
      OK(kernels().mix(stream_, buffer_.get(), kCount, 3));
      OK(kernels().mix(stream_, buffer_.get(), kCount, 4));
      OK(hipStreamIsCapturing(stream_, &status));
    });
  }

  void launch(hipGraphExec_t exec) {
    OK(hipGraphLaunch(exec, stream_));
    OK(hipStreamSynchronize(stream_));
    expected_ = mixed(mixed(expected_, 3), 4);
    EXPECT_EQ(expected_, buffer_.value());
  }

  Stream stream_;
  Buffer buffer_;
  int expected_ = 0;
};

TEST_F(Frameworks, steady_steps_that_count_nodes_and_free_on_launch_are_only_launched) {
  const auto one = [&] {
    const hipGraph_t graph = captured();
    std::size_t nodes = 0;
    OK(hipGraphGetNodes(graph, nullptr, &nodes));
    EXPECT_EQ(2u, nodes);
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiateWithFlags(&exec, graph, hipGraphInstantiateFlagAutoFreeOnLaunch));
    OK(hipGraphDestroy(graph));
    unsigned long long flags = 0;
    OK(hipGraphExecGetFlags(exec, &flags));
    EXPECT_EQ(1u, flags);
    launch(exec);
    OK(hipGraphExecDestroy(exec));
  };
  one();
  one();
  const Since since = native_graph_calls();
  for (int i = 0; i < 3; ++i) one();
  expect_only_launches(since);
}

TEST_F(Frameworks, steady_steps_that_instantiate_with_parameters_are_only_launched) {
  const auto one = [&](unsigned long long flags) {
    const hipGraph_t graph = captured();
    hipGraphExec_t exec = nullptr;
    InstantiateParams params{};
    params.flags = flags;
    params.result = 1;
    OK(hipGraphInstantiateWithParams(&exec, graph, &params));
    EXPECT_EQ(0, params.result);
    EXPECT_EQ(nullptr, params.error_node);
    OK(hipGraphExecGetFlags(exec, &params.flags));
    EXPECT_EQ(flags, params.flags);
    launch(exec);
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
  };
  for (const unsigned long long flags : {0, 1}) one(flags);
  const Since since = native_graph_calls();
  for (const unsigned long long flags : {0, 1, 1, 0}) one(flags);
  expect_only_launches(since);
}

TEST_F(Frameworks, what_only_the_runtime_can_judge_is_left_to_it) {
  const hipGraph_t graph = captured();
  hipGraphExec_t exec = nullptr;
  EXPECT_EQ(hipErrorInvalidValue, hipGraphInstantiateWithFlags(&exec, graph, 1ull << 20));
  InstantiateParams params{};
  params.flags = 1ull << 20;
  EXPECT_EQ(hipErrorInvalidValue, hipGraphInstantiateWithParams(&exec, graph, &params));
  EXPECT_EQ(1, params.result);
  EXPECT_EQ(hipErrorInvalidValue, hipGraphInstantiateWithParams(&exec, graph, nullptr));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphExecGetFlags(nullptr, &params.flags));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphClone(nullptr, graph));
  OK(hipGraphInstantiateWithFlags(&exec, graph, 8));  // priorities of nodes
  launch(exec);
  EXPECT_EQ(hipErrorInvalidValue, hipGraphExecGetFlags(exec, nullptr));
  OK(hipGraphExecGetFlags(exec, &params.flags));
  EXPECT_EQ(8u, params.flags);
  OK(hipGraphExecDestroy(exec));
  OK(hipGraphDestroy(graph));
}

TEST_F(Frameworks, steady_copies_of_graphs_are_only_launched) {
  const auto one = [&] {
    const hipGraph_t graph = captured();
    hipGraph_t copy = nullptr;
    OK(hipGraphClone(&copy, graph));
    EXPECT_NE(graph, copy);
    OK(hipGraphDestroy(graph));
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiate(&exec, copy, nullptr, nullptr, 0));
    launch(exec);
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(copy));
  };
  one();
  one();
  const Since since = native_graph_calls();
  for (int i = 0; i < 3; ++i) one();
  expect_only_launches(since);
}

TEST_F(Frameworks, nodes_are_found_in_a_copy_and_set_there_alone) {
  for (int round = 0; round < 3; ++round) {
    const hipGraph_t graph = captured();
    hipGraph_t copy = nullptr, second = nullptr;
    OK(hipGraphClone(&copy, graph));
    OK(hipGraphClone(&second, copy));
    hipGraphNode_t nodes[2] = {}, found = nullptr;
    std::size_t count = 2;
    OK(hipGraphGetNodes(graph, nodes, &count));
    ASSERT_EQ(2u, count);
    for (const hipGraphNode_t node : nodes) {
      OK(hipGraphNodeFindInClone(&found, node, copy));
      EXPECT_NE(node, found);
      hipKernelNodeParams original{}, copied{};
      OK(hipGraphKernelNodeGetParams(node, &original));
      OK(hipGraphKernelNodeGetParams(found, &copied));
      EXPECT_EQ(original.func, copied.func);
      EXPECT_EQ(*static_cast<int*>(original.kernelParams[2]), *static_cast<int*>(copied.kernelParams[2]));
    }
    OK(hipGraphNodeFindInClone(&found, nodes[0], second));
    EXPECT_NE(nodes[0], found);
    OK(hipGraphNodeFindInClone(&found, nodes[1], copy));
    hipKernelNodeParams params{};
    OK(hipGraphKernelNodeGetParams(found, &params));
    int* p = buffer_.get();
    int n = kCount, a = 9;
    void* arguments[] = {&p, &n, &a};
    params.kernelParams = arguments;
    OK(hipGraphKernelNodeSetParams(found, &params));
    hipGraphExec_t changed = nullptr, unchanged = nullptr;
    OK(hipGraphInstantiate(&changed, copy, nullptr, nullptr, 0));
    OK(hipGraphInstantiate(&unchanged, second, nullptr, nullptr, 0));
    launch(unchanged);
    OK(hipGraphLaunch(changed, stream_));
    OK(hipStreamSynchronize(stream_));
    expected_ = mixed(mixed(expected_, 3), 9);
    EXPECT_EQ(expected_, buffer_.value());
    for (const hipGraphExec_t exec : {changed, unchanged}) OK(hipGraphExecDestroy(exec));
    for (const hipGraph_t each : {graph, copy, second}) OK(hipGraphDestroy(each));
  }
}

/// Instantiates, launches, waits, and destroys both.
void run_once(hipGraph_t graph, hipStream_t stream) { run(stream, graph); }

std::size_t nodes_of(hipGraph_t graph) {
  std::size_t nodes = 0;
  EXPECT_EQ(hipSuccess, hipGraphGetNodes(graph, nullptr, &nodes));
  return nodes;
}

TEST_F(Frameworks, a_capture_into_a_graph_goes_behind_its_nodes) {
  for (int round = 0; round < 3; ++round) {
    hipGraph_t graph = nullptr, ended = nullptr;
    OK(hipGraphCreate(&graph, 0));
    MixParams params(buffer_.get(), 1);
    hipGraphNode_t node = nullptr;
    OK(hipGraphAddKernelNode(&node, graph, nullptr, 0, &params));
    OK(hipStreamBeginCaptureToGraph(stream_, graph, &node, nullptr, 1, hipStreamCaptureModeRelaxed));
    OK(kernels().mix(stream_, buffer_.get(), kCount, 3));
    OK(hipStreamEndCapture(stream_, &ended));
    EXPECT_EQ(graph, ended);
    EXPECT_EQ(2u, nodes_of(graph));
    run_once(graph, stream_);
    expected_ = mixed(mixed(expected_, 1), 3);
    EXPECT_EQ(expected_, buffer_.value());
  }
}

/// A graph of one kernel, built as others were before.
class BuiltAgain {
 public:
  explicit BuiltAgain(int* p) : params_(p, 1) {
    EXPECT_EQ(hipSuccess, hipGraphCreate(&graph, 0));
    EXPECT_EQ(hipSuccess, hipGraphAddKernelNode(&node, graph, nullptr, 0, &params_));
  }
  hipGraph_t graph = nullptr;
  hipGraphNode_t node = nullptr;

 private:
  MixParams params_;
};

TEST_F(Frameworks, a_capture_into_a_graph_built_again_gives_the_graph_by_its_handle) {
  for (int round = 0; round < 3; ++round) {
    run_once(BuiltAgain(buffer_.get()).graph, stream_);
    const BuiltAgain built(buffer_.get());
    hipGraph_t ended = nullptr;
    OK(hipStreamBeginCaptureToGraph(stream_, built.graph, &built.node, nullptr, 1, hipStreamCaptureModeRelaxed));
    OK(kernels().mix(stream_, buffer_.get(), kCount, 3));
    OK(hipStreamEndCapture(stream_, &ended));
    EXPECT_EQ(built.graph, ended);
    run_once(ended, stream_);
    expected_ = mixed(mixed(mixed(expected_, 1), 1), 3);
    EXPECT_EQ(expected_, buffer_.value());
  }
}

TEST_F(Frameworks, nodes_of_a_graph_that_went_with_its_capture_come_back_as_others) {
  const Event event;
  for (int round = 0; round < 2; ++round) run_once(BuiltAgain(buffer_.get()).graph, stream_);
  for (int round = 0; round < 9; ++round) {
    const BuiltAgain built(buffer_.get());
    hipGraph_t ended = nullptr;
    OK(hipStreamBeginCaptureToGraph(stream_, built.graph, &built.node, nullptr, 1, hipStreamCaptureModeRelaxed));
    for (int i = 0; i < round % 3; ++i) OK(kernels().mix(stream_, buffer_.get(), kCount, i));
    EXPECT_EQ(hipErrorStreamCaptureUnsupported, hipStreamSynchronize(stream_));
    EXPECT_EQ(hipErrorStreamCaptureInvalidated, hipStreamEndCapture(stream_, &ended));
    // The runtime has destroyed the graph.
    hipGraph_t other = nullptr;
    hipGraphNode_t record = nullptr, listed = nullptr;
    std::size_t count = 1;
    OK(hipGraphCreate(&other, 0));
    OK(hipGraphAddEventRecordNode(&record, other, nullptr, 0, event));
    OK(hipGraphGetNodes(other, &listed, &count));
    ASSERT_EQ(record, listed) << round;
    OK(hipGraphEventRecordNodeSetEvent(record, event));
    OK(hipGraphDestroy(other));
  }
}

TEST_F(Frameworks, a_node_added_to_an_open_capture_runs_in_its_place) {
  for (int round = 0; round < 6; ++round) {
    const bool with_node = round % 3 == 2;
    const hipGraph_t graph = capture(stream_, [&] {
      OK(kernels().mix(stream_, buffer_.get(), kCount, 1));
      if (with_node) {
        hipStreamCaptureStatus status;
        unsigned long long id = 0;
        hipGraph_t captured_to = nullptr;
        const hipGraphNode_t* dependencies = nullptr;
        std::size_t count = 0;
        OK(hipStreamGetCaptureInfo_v2(stream_, &status, &id, &captured_to, &dependencies, &count));
        ASSERT_EQ(1u, count);
        MixParams params(buffer_.get(), 7);
        hipGraphNode_t added = nullptr;
        OK(hipGraphAddKernelNode(&added, captured_to, dependencies, count, &params));
        OK(hipStreamUpdateCaptureDependencies(stream_, &added, 1, hipStreamSetCaptureDependencies));
      }
      OK(kernels().mix(stream_, buffer_.get(), kCount, 5));
    });
    EXPECT_EQ(with_node ? 3u : 2u, nodes_of(graph));
    run_once(graph, stream_);
    expected_ = mixed(expected_, 1);
    if (with_node) expected_ = mixed(expected_, 7);
    expected_ = mixed(expected_, 5);
    EXPECT_EQ(expected_, buffer_.value());
  }
}

TEST_F(Frameworks, an_event_recorded_with_flags_is_no_node) {
  const Event event;
  for (int round = 0; round < 6; ++round) {
    const hipGraph_t graph = capture(stream_, [&] {
      OK(kernels().mix(stream_, buffer_.get(), kCount, 1));
      if (round % 3 != 1) OK(hipEventRecordWithFlags(event, stream_, 0));
      OK(kernels().mix(stream_, buffer_.get(), kCount, 2));
    });
    EXPECT_EQ(2u, nodes_of(graph));
    run_once(graph, stream_);
    expected_ = mixed(mixed(expected_, 1), 2);
    EXPECT_EQ(expected_, buffer_.value());
  }
}

TEST_F(Frameworks, a_captured_graph_becomes_a_child) {
  for (int round = 0; round < 3; ++round) {
    const hipGraph_t child = captured();
    hipGraph_t graph = nullptr, held = nullptr;
    OK(hipGraphCreate(&graph, 0));
    MixParams params(buffer_.get(), 1);
    hipGraphNode_t first = nullptr, second = nullptr;
    OK(hipGraphAddKernelNode(&first, graph, nullptr, 0, &params));
    OK(hipGraphAddChildGraphNode(&second, graph, &first, 1, child));
    OK(hipGraphDestroy(child));
    OK(hipGraphChildGraphNodeGetGraph(second, &held));
    EXPECT_EQ(2u, nodes_of(held));
    run_once(graph, stream_);
    expected_ = mixed(mixed(mixed(expected_, 1), 3), 4);
    EXPECT_EQ(expected_, buffer_.value());
  }
}

}  // namespace
}  // namespace captures
