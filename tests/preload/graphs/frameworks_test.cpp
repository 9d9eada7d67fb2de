// What frameworks do to a graph between capturing and launching it: they count its nodes, instantiate it with flags or
// parameters, ask the exec for its flags, copy it.
#include <vector>

#include "captures.h"

// Newer than the header.
extern "C" {
hipError_t hipGraphInstantiateWithParams(hipGraphExec_t* exec, hipGraph_t graph, void* params);
hipError_t hipGraphExecGetFlags(hipGraphExec_t exec, unsigned long long* flags);
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

}  // namespace
}  // namespace captures
