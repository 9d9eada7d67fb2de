// Executable graphs: order, concurrency, parameters, updates, and the switches and quirks that change them. Tests of a
// switch run only where it is set: see meson.build.
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "graph_support.h"

namespace graph_test {
namespace {

bool is_set(const char* variable, const char* value) {
  const char* text = std::getenv(variable);
  return text != nullptr && std::string(text) == value;
}

class ExecTest : public testing::Test {
 protected:
  void SetUp() override {
    before_ = statistics();
    ASSERT_HIP(hipGraphCreate(&graph_, 0));
  }
  void TearDown() override {
    if (exec_ != nullptr) {
      EXPECT_HIP(hipGraphExecDestroy(exec_));
    }
    if (graph_ != nullptr) {
      EXPECT_HIP(hipGraphDestroy(graph_));
    }
    (void)hipGetLastError();
    EXPECT_TRUE(eventually([&] { return statistics().launches == 0; }));
    EXPECT_EQ(before_.graphs, statistics().graphs);
    EXPECT_EQ(before_.execs, statistics().execs);
    EXPECT_EQ(before_.exec_argument_bytes, statistics().exec_argument_bytes);
  }

  hipGraphNode_t fill(std::size_t offset, unsigned value, std::vector<hipGraphNode_t> after = {}) {
    hipMemsetParams params = fill_params(offset, value);
    hipGraphNode_t node = nullptr;
    EXPECT_HIP(hipGraphAddMemsetNode(&node, graph_, after.data(), after.size(), &params));
    return node;
  }
  hipMemsetParams fill_params(std::size_t offset, unsigned value) const {
    hipMemsetParams params = {};
    params.dst = buffer_.data() + offset;
    params.elementSize = 1;
    params.value = value;
    params.width = 8;
    params.height = 1;
    return params;
  }
  hipGraphNode_t copy(std::size_t to, std::size_t from, std::vector<hipGraphNode_t> after = {}) {
    hipGraphNode_t node = nullptr;
    EXPECT_HIP(hipGraphAddMemcpyNode1D(&node, graph_, after.data(), after.size(), buffer_.data() + to,
                                       buffer_.data() + from, 8, hipMemcpyDeviceToDevice));
    return node;
  }
  hipGraphNode_t call(hipHostFn_t function, void* user, std::vector<hipGraphNode_t> after = {}) {
    const hipHostNodeParams params{function, user};
    hipGraphNode_t node = nullptr;
    EXPECT_HIP(hipGraphAddHostNode(&node, graph_, after.data(), after.size(), &params));
    return node;
  }
  void instantiate() { ASSERT_HIP(hipGraphInstantiate(&exec_, graph_, nullptr, nullptr, 0)); }
  void launch(int times = 1) {
    for (int i = 0; i < times; ++i) EXPECT_HIP(hipGraphLaunch(exec_, stream_));
  }
  void run() {
    launch();
    EXPECT_HIP(hipStreamSynchronize(stream_));
  }
  unsigned at(std::size_t offset) const { return buffer_.read()[offset]; }

  /// Launches a graph that waits at the gate and then fills at 0 with 1; while it waits, that is set to 2 at 8.
  void set_while_it_runs(Gate& gate) {
    const auto waits = call(Gate::wait, &gate), filled = fill(0, 1, {waits});
    instantiate();
    launch();
    EXPECT_TRUE(eventually([&] { return gate.entered.load(); }));
    const hipMemsetParams params = fill_params(8, 2);
    EXPECT_HIP(hipGraphExecMemsetNodeSetParams(exec_, filled, &params));
    gate.open = true;
    EXPECT_HIP(hipStreamSynchronize(stream_));
  }

  Buffer buffer_{256};
  TestStream stream_;
  hipGraph_t graph_ = nullptr;
  hipGraphExec_t exec_ = nullptr;
  cpuhip_statistics_t before_;
};

TEST_F(ExecTest, RunsInTheOrderOfTheStream) {
  const auto a = fill(0, 1), b = copy(8, 0, {a});
  copy(16, 8, {b});
  instantiate();
  EXPECT_HIP(hipMemsetAsync(buffer_.data(), 9, 64, stream_));
  launch();
  EXPECT_HIP(hipMemcpyAsync(buffer_.data() + 24, buffer_.data() + 16, 8, hipMemcpyDeviceToDevice, stream_));
  EXPECT_HIP(hipStreamSynchronize(stream_));
  EXPECT_EQ(1u, at(16));
  EXPECT_EQ(1u, at(24));
  EXPECT_EQ(9u, at(32));
}

TEST_F(ExecTest, LaunchReturnsAtOnce) {
  Gate gate;
  call(Gate::wait, &gate);
  instantiate();
  launch();
  EXPECT_TRUE(eventually([&] { return gate.entered.load(); }));
  EXPECT_EQ(hipErrorNotReady, hipStreamQuery(stream_));
  EXPECT_EQ(1u, statistics().launches);
  gate.open = true;
  EXPECT_HIP(hipStreamSynchronize(stream_));
}

struct Meeting {
  std::atomic<int> arrived{0};
  int expected = 0;
  static void wait(void* meeting) {
    auto* const self = static_cast<Meeting*>(meeting);
    ++self->arrived;
    while (self->arrived < self->expected) std::this_thread::yield();
  }
};

TEST_F(ExecTest, BranchesRunAtTheSameTime) {
  Meeting meeting;
  meeting.expected = 12;
  const auto root = fill(0, 1);
  std::vector<hipGraphNode_t> branches;
  for (int i = 0; i < meeting.expected; ++i) branches.push_back(call(Meeting::wait, &meeting, {root}));
  fill(8, 2, branches);
  instantiate();
  run();
  EXPECT_EQ(2u, at(8));
}

TEST_F(ExecTest, AWaitValueInOneBranchWaitsForAnother) {
  // streams' waits and writes of values are not captured, so a host function stands for the write
  struct Flag {
    std::atomic<bool> set{false};
  } flag;
  const auto waits = call(
      [](void* f) {
        while (!static_cast<Flag*>(f)->set) std::this_thread::yield();
      },
      &flag);
  const auto sets = call([](void* f) { static_cast<Flag*>(f)->set = true; }, &flag);
  fill(0, 7, {waits, sets});
  instantiate();
  run();
  EXPECT_EQ(7u, at(0));
}

TEST_F(ExecTest, ChildGraphsRunBetweenTheirNeighbours) {
  hipGraph_t inner = nullptr, innermost = nullptr;
  hipGraphNode_t node = nullptr, first = nullptr;
  hipMemsetParams params = fill_params(16, 3);
  ASSERT_HIP(hipGraphCreate(&inner, 0));
  ASSERT_HIP(hipGraphCreate(&innermost, 0));
  ASSERT_HIP(hipGraphAddMemcpyNode1D(&node, innermost, nullptr, 0, buffer_.data() + 8, buffer_.data(), 8,
                                     hipMemcpyDeviceToDevice));
  ASSERT_HIP(hipGraphAddChildGraphNode(&first, inner, nullptr, 0, innermost));
  ASSERT_HIP(hipGraphAddMemsetNode(&node, inner, nullptr, 0, &params));
  ASSERT_HIP(hipGraphAddMemcpyNode1D(&node, inner, &first, 1, buffer_.data() + 24, buffer_.data() + 8, 8,
                                     hipMemcpyDeviceToDevice));
  const auto before = fill(0, 5);
  hipGraphNode_t child = nullptr, nothing = nullptr;
  hipGraph_t no_nodes = nullptr;
  ASSERT_HIP(hipGraphCreate(&no_nodes, 0));
  ASSERT_HIP(hipGraphAddChildGraphNode(&child, graph_, &before, 1, inner));
  ASSERT_HIP(hipGraphAddChildGraphNode(&nothing, graph_, &child, 1, no_nodes));
  copy(32, 24, {nothing});
  copy(40, 16, {nothing});
  for (hipGraph_t graph : {inner, innermost, no_nodes}) EXPECT_HIP(hipGraphDestroy(graph));
  instantiate();
  run();
  EXPECT_EQ(5u, at(32));
  EXPECT_EQ(3u, at(40));
}

TEST_F(ExecTest, EmptyGraphsDoNothing) {
  instantiate();
  run();
}

TEST_F(ExecTest, RandomGraphsGiveWhatAChainGives) {
  unsigned random = 1;
  const auto next = [&](unsigned limit) {
    random = random * 1664525u + 1013904223u;
    return (random >> 16) % limit;
  };
  for (int round = 0; round < 20; ++round) {
    // node i adds 1 to its slot after copying the largest of its dependencies' slots: the depth of each node
    hipGraph_t graph = nullptr;
    ASSERT_HIP(hipGraphCreate(&graph, 0));
    constexpr unsigned kNodes = 40;
    struct Depth {
      std::vector<const Depth*> after;
      int value = 0;
      static void run(void* self) {
        auto* const depth = static_cast<Depth*>(self);
        int deepest = 0;
        for (const Depth* other : depth->after) deepest = std::max(deepest, other->value);
        depth->value = deepest + 1;
      }
    };
    std::vector<Depth> depths(kNodes);
    std::vector<hipGraphNode_t> nodes;
    std::vector<int> expected;
    for (unsigned i = 0; i < kNodes; ++i) {
      std::vector<hipGraphNode_t> after;
      int deepest = 0;
      for (unsigned j = 0; j < i; ++j) {
        if (next(10) != 0) continue;
        after.push_back(nodes[j]);
        depths[i].after.push_back(&depths[j]);
        deepest = std::max(deepest, expected[j]);
      }
      expected.push_back(deepest + 1);
      const hipHostNodeParams params{Depth::run, &depths[i]};
      hipGraphNode_t node = nullptr;
      ASSERT_HIP(hipGraphAddHostNode(&node, graph, after.data(), after.size(), &params));
      nodes.push_back(node);
    }
    hipGraphExec_t exec = nullptr;
    ASSERT_HIP(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    EXPECT_HIP(hipGraphLaunch(exec, stream_));
    EXPECT_HIP(hipStreamSynchronize(stream_));
    for (unsigned i = 0; i < kNodes; ++i) EXPECT_EQ(expected[i], depths[i].value);
    EXPECT_HIP(hipGraphExecDestroy(exec));
    EXPECT_HIP(hipGraphDestroy(graph));
  }
}

TEST_F(ExecTest, FlagsAndForms) {
  unsigned long long flags = 7;
  EXPECT_EQ(hipErrorInvalidValue, hipGraphInstantiate(nullptr, graph_, nullptr, nullptr, 0));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphInstantiate(&exec_, nullptr, nullptr, nullptr, 0));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphInstantiateWithFlags(&exec_, graph_, 2));
  ASSERT_HIP(hipGraphInstantiateWithFlags(&exec_, graph_, 8));
  EXPECT_HIP(hipGraphExecGetFlags(exec_, &flags));
  EXPECT_EQ(8u, flags);
  hipGraphExec_t other = nullptr;
  hipfront::InstantiateParams params = {};
  params.flags = 16;
  EXPECT_EQ(hipErrorInvalidValue, hipGraphInstantiateWithParams(&other, graph_, &params));
  EXPECT_EQ(1, params.result);
  params.flags = 2;
  params.upload_stream = stream_;
  ASSERT_HIP(hipGraphInstantiateWithParams(&other, graph_, &params));
  EXPECT_EQ(0, params.result);
  EXPECT_HIP(hipGraphUpload(other, stream_));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphUpload(nullptr, stream_));
  EXPECT_HIP(hipGraphLaunch_spt(other, nullptr));
  EXPECT_HIP(hipStreamSynchronize(hipStreamPerThread));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphLaunch(nullptr, stream_));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphExecDestroy(nullptr));
  EXPECT_HIP(hipGraphExecDestroy(other));
}

TEST_F(ExecTest, GraphAndExecAreIndependent) {
  const auto node = fill(0, 1);
  instantiate();
  hipMemsetParams params = fill_params(0, 2);
  EXPECT_HIP(hipGraphMemsetNodeSetParams(node, &params));
  fill(8, 3);
  run();
  EXPECT_EQ(1u, at(0));
  EXPECT_EQ(0u, at(8));
  EXPECT_HIP(hipGraphDestroy(graph_));
  graph_ = nullptr;
  buffer_.clear();
  run();
  EXPECT_EQ(1u, at(0));
}

TEST_F(ExecTest, DestroyInFlight) {
  Gate gate;
  std::atomic<int> destroyed{0};
  hipUserObject_t object = nullptr;
  ASSERT_HIP(hipUserObjectCreate(&object, &destroyed, count_up, 1, 1));
  EXPECT_HIP(hipGraphRetainUserObject(graph_, object, 1, 1));
  const auto waits = call(Gate::wait, &gate);
  fill(0, 4, {waits});
  instantiate();
  launch(3);
  EXPECT_HIP(hipGraphExecDestroy(exec_));
  EXPECT_HIP(hipGraphDestroy(graph_));
  exec_ = nullptr;
  graph_ = nullptr;
  EXPECT_EQ(0, destroyed);
  gate.open = true;
  EXPECT_HIP(hipStreamSynchronize(stream_));
  EXPECT_EQ(4u, at(0));
  EXPECT_TRUE(eventually([&] { return destroyed == 1; }));
}

// --- Parameters of an exec ---

TEST_F(ExecTest, SettingParametersChangesTheExecOnly) {
  std::atomic<int> first{0}, second{0};
  const auto filled = fill(0, 1), copied = copy(8, 0, {filled}), called = call(count_up, &first, {copied});
  instantiate();
  hipMemsetParams params = fill_params(0, 6);
  EXPECT_HIP(hipGraphExecMemsetNodeSetParams(exec_, filled, &params));
  EXPECT_HIP(hipGraphExecMemcpyNodeSetParams1D(exec_, copied, buffer_.data() + 16, buffer_.data(), 8,
                                               hipMemcpyDeviceToDevice));
  const hipHostNodeParams other{count_up, &second};
  EXPECT_HIP(hipGraphExecHostNodeSetParams(exec_, called, &other));
  run();
  EXPECT_EQ(6u, at(0));
  EXPECT_EQ(0u, at(8));
  EXPECT_EQ(6u, at(16));
  EXPECT_EQ(0, first);
  EXPECT_EQ(1, second);
  hipGraphExec_t fresh = nullptr;
  ASSERT_HIP(hipGraphInstantiate(&fresh, graph_, nullptr, nullptr, 0));
  EXPECT_HIP(hipGraphLaunch(fresh, stream_));
  EXPECT_HIP(hipStreamSynchronize(stream_));
  EXPECT_EQ(1u, at(8));
  EXPECT_EQ(1, first);
  EXPECT_HIP(hipGraphExecDestroy(fresh));
}

TEST_F(ExecTest, SettingParametersIsChecked) {
  const auto filled = fill(0, 1), copied = copy(8, 64);
  instantiate();
  const auto later = fill(16, 1);
  hipMemsetParams params = fill_params(0, 6);
  EXPECT_EQ(hipErrorInvalidValue, hipGraphExecMemsetNodeSetParams(exec_, later, &params));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphExecMemsetNodeSetParams(exec_, copied, &params));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphExecMemsetNodeSetParams(nullptr, filled, &params));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphExecMemsetNodeSetParams(exec_, nullptr, &params));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphExecMemsetNodeSetParams(exec_, filled, nullptr));
  params.width = 0;
  EXPECT_EQ(hipErrorInvalidValue, hipGraphExecMemsetNodeSetParams(exec_, filled, &params));
  params.width = 300;
  EXPECT_EQ(hipErrorInvalidValue, hipGraphExecMemsetNodeSetParams(exec_, filled, &params));
  params = fill_params(0, 6);
  params.height = 2;
  params.pitch = 8;
  EXPECT_EQ(hipErrorInvalidValue, hipGraphExecMemsetNodeSetParams(exec_, filled, &params));  // another shape
  unsigned char* const data = buffer_.data();
  EXPECT_EQ(hipErrorInvalidValue, hipGraphExecMemcpyNodeSetParams1D(exec_, copied, data, data, 8, hipMemcpyDefault));
  EXPECT_EQ(hipErrorInvalidValue,
            hipGraphExecMemcpyNodeSetParams1D(exec_, copied, data + 8, data, 0, hipMemcpyDeviceToDevice));
  EXPECT_EQ(hipErrorInvalidValue,
            hipGraphExecMemcpyNodeSetParams1D(exec_, copied, data + 8, data, 8, hipMemcpyDefault));  // another kind
  const hipHostNodeParams none{nullptr, nullptr};
  EXPECT_EQ(hipErrorInvalidValue, hipGraphExecHostNodeSetParams(exec_, filled, &none));
  run();
  EXPECT_EQ(1u, at(0));
}

TEST_F(ExecTest, AnUpdateChangesLaterLaunchesOnly) {
  if (is_set("CPUHIP_EXEC_PARAMS", "node")) GTEST_SKIP() << "parameters are read at each node";
  Gate gate;
  set_while_it_runs(gate);
  EXPECT_EQ(1u, at(0));
  EXPECT_EQ(0u, at(8));
  run();
  EXPECT_EQ(2u, at(8));
}

TEST_F(ExecTest, SwitchParametersReadAtEachNode) {
  if (!is_set("CPUHIP_EXEC_PARAMS", "node")) GTEST_SKIP() << "CPUHIP_EXEC_PARAMS=node is not set";
  Gate gate;
  set_while_it_runs(gate);
  EXPECT_EQ(0u, at(0));
  EXPECT_EQ(2u, at(8));
}

TEST_F(ExecTest, DisabledNodesAreSkipped) {
  const auto filled = fill(0, 1), copied = copy(8, 0, {filled});
  std::atomic<int> calls{0};
  const auto called = call(count_up, &calls, {copied});
  instantiate();
  unsigned enabled = 0;
  EXPECT_HIP(hipGraphNodeGetEnabled(exec_, copied, &enabled));
  EXPECT_EQ(1u, enabled);
  EXPECT_HIP(hipGraphNodeSetEnabled(exec_, copied, 0));
  EXPECT_HIP(hipGraphNodeGetEnabled(exec_, copied, &enabled));
  EXPECT_EQ(0u, enabled);
  run();
  EXPECT_EQ(1u, at(0));
  EXPECT_EQ(0u, at(8));
  EXPECT_EQ(1, calls);
  EXPECT_HIP(hipGraphNodeSetEnabled(exec_, copied, 1));
  run();
  EXPECT_EQ(1u, at(8));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphNodeSetEnabled(exec_, called, 0));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphNodeGetEnabled(exec_, copied, nullptr));
}

// --- hipGraphExecUpdate ---

class UpdateTest : public ExecTest {
 protected:
  void TearDown() override {
    if (other_ != nullptr) {
      EXPECT_HIP(hipGraphDestroy(other_));
    }
    ExecTest::TearDown();
  }
  /// From here on nodes are added to a second graph.
  void start_other() {
    instantiate();
    other_ = graph_;
    ASSERT_HIP(hipGraphCreate(&graph_, 0));
  }
  void expect_failure(hipGraphExecUpdateResult expected, hipGraphNode_t expected_node) {
    hipGraphExecUpdateResult result = hipGraphExecUpdateSuccess;
    auto* node = reinterpret_cast<hipGraphNode_t>(1);
    EXPECT_EQ(hipErrorGraphExecUpdateFailure, hipGraphExecUpdate(exec_, graph_, &node, &result));
    EXPECT_EQ(expected, result);
    EXPECT_EQ(expected_node, node);
  }
  void expect_success() {
    hipGraphExecUpdateResult result = hipGraphExecUpdateError;
    hipGraphNode_t node = nullptr;
    EXPECT_HIP(hipGraphExecUpdate(exec_, graph_, &node, &result));
    EXPECT_EQ(hipGraphExecUpdateSuccess, result);
  }
  hipGraph_t other_ = nullptr;
};

TEST_F(UpdateTest, FillsOfSeveralRowsAreRefusedButOfPitchedMemory) {
  void *pitched = nullptr, *plain = nullptr;
  std::size_t pitch = 0;
  ASSERT_HIP(hipMallocPitch(&pitched, &pitch, 16, 4));
  ASSERT_HIP(hipMalloc(&plain, 4 * pitch));
  for (void* const memory : {pitched, plain}) {
    SCOPED_TRACE(memory == plain ? "plain" : "pitched");
    const hipError_t expected = memory == plain ? hipErrorInvalidValue : hipSuccess;
    hipMemsetParams params{};
    params.dst = memory, params.pitch = pitch, params.elementSize = 1, params.width = 16, params.height = 4;
    hipGraph_t graph = nullptr;
    hipGraphNode_t node = nullptr, failed = nullptr;
    hipGraphExec_t exec = nullptr;
    hipGraphExecUpdateResult result = hipGraphExecUpdateSuccess;
    ASSERT_HIP(hipGraphCreate(&graph, 0));
    ASSERT_HIP(hipGraphAddMemsetNode(&node, graph, nullptr, 0, &params));
    ASSERT_HIP(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    EXPECT_HIP(hipGraphExecMemsetNodeSetParams(exec, node, &params));
    EXPECT_EQ(expected, hipGraphMemsetNodeSetParams(node, &params));
    EXPECT_EQ(expected == hipSuccess ? hipSuccess : hipErrorGraphExecUpdateFailure,
              hipGraphExecUpdate(exec, graph, &failed, &result));
    EXPECT_EQ(expected == hipSuccess ? hipGraphExecUpdateSuccess : hipGraphExecUpdateErrorParametersChanged, result);
    EXPECT_HIP(hipGraphExecDestroy(exec));
    EXPECT_HIP(hipGraphDestroy(graph));
  }
  EXPECT_HIP(hipFree(pitched));
  EXPECT_HIP(hipFree(plain));
}

TEST_F(UpdateTest, TakesTheParametersOfTheOtherGraph) {
  std::atomic<int> first{0}, second{0};
  auto node = fill(0, 1);
  call(count_up, &first, {copy(8, 0, {node})});
  start_other();
  node = fill(32, 2);
  call(count_up, &second, {copy(40, 32, {node})});
  expect_success();
  run();
  EXPECT_EQ(0u, at(8));
  EXPECT_EQ(2u, at(40));
  EXPECT_EQ(0, first);
  EXPECT_EQ(1, second);
}

TEST_F(UpdateTest, NullPointersFail) {
  fill(0, 1);
  instantiate();
  hipGraphExecUpdateResult result;
  hipGraphNode_t node = nullptr;
  EXPECT_EQ(hipErrorInvalidValue, hipGraphExecUpdate(nullptr, graph_, &node, &result));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphExecUpdate(exec_, nullptr, &node, &result));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphExecUpdate(exec_, graph_, nullptr, &result));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphExecUpdate(exec_, graph_, &node, nullptr));
}

TEST_F(UpdateTest, AnotherCountOfNodes) {
  fill(0, 1);
  start_other();
  fill(0, 1);
  fill(8, 1);
  expect_failure(hipGraphExecUpdateErrorTopologyChanged, nullptr);
}

TEST_F(UpdateTest, AnotherTypeOfNode) {
  fill(0, 1);
  start_other();
  expect_failure(hipGraphExecUpdateErrorNodeTypeChanged, copy(8, 0));
}

TEST_F(UpdateTest, AnotherNumberOfDependenciesButNotWhich) {
  auto a = fill(0, 1), b = fill(8, 1);
  fill(16, 1, {a});
  start_other();
  a = fill(0, 1);
  b = fill(8, 1);
  fill(16, 2, {b});  // HIP does not look which
  expect_success();
  EXPECT_HIP(hipGraphDestroy(graph_));
  ASSERT_HIP(hipGraphCreate(&graph_, 0));
  a = fill(0, 1);
  b = fill(8, 1);
  expect_failure(hipGraphExecUpdateErrorTopologyChanged, fill(16, 1, {a, b}));
}

TEST_F(UpdateTest, AnotherKindOfCopy) {
  copy(8, 0);
  start_other();
  hipGraphNode_t node = nullptr;
  ASSERT_HIP(
      hipGraphAddMemcpyNode1D(&node, graph_, nullptr, 0, buffer_.data() + 8, buffer_.data(), 8, hipMemcpyDefault));
  expect_failure(hipGraphExecUpdateErrorParametersChanged, node);
}

TEST_F(UpdateTest, AFailureLeavesEarlierNodesUpdated) {
  if (std::getenv("CPUHIP_QUIRKS") != nullptr) GTEST_SKIP() << "quirks are set";
  fill(0, 1);
  copy(8, 16);
  start_other();
  fill(0, 2);
  hipGraphNode_t node = nullptr;
  ASSERT_HIP(
      hipGraphAddMemcpyNode1D(&node, graph_, nullptr, 0, buffer_.data() + 8, buffer_.data(), 8, hipMemcpyDefault));
  expect_failure(hipGraphExecUpdateErrorParametersChanged, node);
  run();
  EXPECT_EQ(2u, at(0));
}

TEST_F(UpdateTest, WithoutThePartialQuirkAFailureChangesNothing) {
  if (!is_set("CPUHIP_QUIRKS", "none")) GTEST_SKIP() << "CPUHIP_QUIRKS=none is not set";
  fill(0, 1);
  copy(8, 16);
  start_other();
  fill(0, 2);
  fill(8, 2);
  hipGraphExecUpdateResult result;
  hipGraphNode_t node = nullptr;
  EXPECT_EQ(hipErrorGraphExecUpdateFailure, hipGraphExecUpdate(exec_, graph_, &node, &result));
  run();
  EXPECT_EQ(1u, at(0));
}

TEST_F(UpdateTest, ChildGraphsAreUpdatedByPosition) {
  const auto add_child = [&](unsigned value, int nodes) {
    hipGraph_t inner = nullptr;
    hipGraphNode_t node = nullptr;
    EXPECT_HIP(hipGraphCreate(&inner, 0));
    for (int i = 0; i < nodes; ++i) {
      hipMemsetParams params = fill_params(0, value);
      EXPECT_HIP(hipGraphAddMemsetNode(&node, inner, nullptr, 0, &params));
    }
    EXPECT_HIP(hipGraphAddChildGraphNode(&node, graph_, nullptr, 0, inner));
    return std::pair{inner, node};
  };
  const auto [first, first_node] = add_child(1, 1);
  start_other();
  const auto [second, second_node] = add_child(2, 1);
  expect_success();
  run();
  EXPECT_EQ(2u, at(0));
  EXPECT_HIP(hipGraphExecChildGraphNodeSetParams(exec_, first_node, first));
  run();
  EXPECT_EQ(1u, at(0));
  EXPECT_HIP(hipGraphDestroy(graph_));
  ASSERT_HIP(hipGraphCreate(&graph_, 0));
  const auto [third, third_node] = add_child(3, 2);
  expect_failure(hipGraphExecUpdateErrorParametersChanged, third_node);
  EXPECT_EQ(hipErrorUnknown, hipGraphExecChildGraphNodeSetParams(exec_, first_node, third));
  EXPECT_EQ(hipErrorUnknown, hipGraphExecChildGraphNodeSetParams(exec_, first_node, other_));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphExecChildGraphNodeSetParams(exec_, first_node, nullptr));
  for (hipGraph_t graph : {first, second, third}) EXPECT_HIP(hipGraphDestroy(graph));
}

TEST_F(UpdateTest, WhileItRuns) {
  Gate gate;
  call(Gate::wait, &gate);
  for (std::size_t i = 0; i < 8; ++i) fill(8 * i, 1);
  start_other();
  call(Gate::wait, &gate);
  for (std::size_t i = 0; i < 8; ++i) fill(8 * i, 2);
  launch();
  expect_success();
  launch();
  gate.open = true;
  EXPECT_HIP(hipStreamSynchronize(stream_));
  EXPECT_EQ(2u, at(0));
}

// --- Order of launches ---

TEST_F(ExecTest, LaunchesOfOneExecWaitForEachOther) {
  if (is_set("CPUHIP_EXEC_ORDER", "overlap")) GTEST_SKIP() << "launches overlap";
  TestStream other;
  Gate gate;
  call(Gate::wait, &gate);
  instantiate();
  launch();
  EXPECT_TRUE(eventually([&] { return gate.entered.load(); }));
  gate.entered = false;
  EXPECT_HIP(hipGraphLaunch(exec_, other));
  EXPECT_TRUE(eventually([&] { return cpuhip_held_up(other) != 0; }));
  EXPECT_FALSE(gate.entered);
  EXPECT_EQ(hipErrorNotReady, hipStreamQuery(other));
  gate.open = true;
  EXPECT_HIP(hipStreamSynchronize(other));
  EXPECT_TRUE(gate.entered);
}

TEST_F(ExecTest, SwitchLaunchesOfOneExecOverlap) {
  if (!is_set("CPUHIP_EXEC_ORDER", "overlap")) GTEST_SKIP() << "CPUHIP_EXEC_ORDER=overlap is not set";
  TestStream other;
  Meeting meeting;
  meeting.expected = 2;
  call(Meeting::wait, &meeting);
  instantiate();
  launch();
  EXPECT_HIP(hipGraphLaunch(exec_, other));  // each waits for the other
  EXPECT_HIP(hipStreamSynchronize(stream_));
  EXPECT_HIP(hipStreamSynchronize(other));
}

TEST_F(ExecTest, TwoExecsOverlap) {
  TestStream other;
  Meeting meeting;
  meeting.expected = 2;
  call(Meeting::wait, &meeting);
  instantiate();
  hipGraphExec_t second = nullptr;
  ASSERT_HIP(hipGraphInstantiate(&second, graph_, nullptr, nullptr, 0));
  launch();
  EXPECT_HIP(hipGraphLaunch(second, other));
  EXPECT_HIP(hipStreamSynchronize(stream_));
  EXPECT_HIP(hipStreamSynchronize(other));
  EXPECT_HIP(hipGraphExecDestroy(second));
}

TEST_F(ExecTest, LaunchesOrderWithTheNullStream) {
  TestStream blocking(hipStreamDefault);
  Gate gate;
  const auto waits = call(Gate::wait, &gate);
  fill(0, 3, {waits});
  instantiate();
  EXPECT_HIP(hipGraphLaunch(exec_, blocking));
  EXPECT_HIP(hipMemcpyAsync(buffer_.data() + 8, buffer_.data(), 8, hipMemcpyDeviceToDevice, nullptr));
  EXPECT_EQ(hipErrorNotReady, hipStreamQuery(nullptr));
  gate.open = true;
  EXPECT_HIP(hipStreamSynchronize(nullptr));
  EXPECT_EQ(3u, at(8));
}

TEST_F(ExecTest, ManyThreadsLaunchAndUpdate) {
  const auto root = fill(0, 1);
  std::vector<hipGraphNode_t> nodes;
  for (std::size_t i = 1; i < 6; ++i) nodes.push_back(fill(8 * i, 1, {root}));
  fill(80, 1, nodes);
  instantiate();
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      TestStream stream;
      for (int round = 0; round < 40; ++round) EXPECT_HIP(hipGraphLaunch(exec_, stream));
      EXPECT_HIP(hipStreamSynchronize(stream));
    });
  }
  for (unsigned round = 0; round < 100; ++round) {
    hipMemsetParams params = fill_params(8, round % 7);
    EXPECT_HIP(hipGraphExecMemsetNodeSetParams(exec_, nodes[0], &params));
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(ExecTest, NotCapturedOnACapturingStream) {
  fill(0, 8);
  instantiate();
  TestStream capturing;
  ASSERT_HIP(hipStreamBeginCapture(capturing, hipStreamCaptureModeRelaxed));
  EXPECT_HIP(hipGraphLaunch(exec_, capturing));
  hipGraph_t captured = nullptr;
  ASSERT_HIP(hipStreamEndCapture(capturing, &captured));
  EXPECT_TRUE(nodes_of(captured).empty());
  EXPECT_HIP(hipStreamSynchronize(capturing));
  EXPECT_EQ(8u, at(0));
  EXPECT_HIP(hipGraphDestroy(captured));
}

// --- Events in graphs ---

TEST_F(ExecTest, EventNodesRecordAndWait) {
  TestEvent recorded, awaited;
  TestStream other;
  Gate before, after;
  hipGraphNode_t wait = nullptr, record = nullptr;
  EXPECT_HIP(hipLaunchHostFunc(other, Gate::wait, &before));
  EXPECT_HIP(hipEventRecord(awaited, other));
  ASSERT_HIP(hipGraphAddEventWaitNode(&wait, graph_, nullptr, 0, awaited));
  const auto filled = fill(0, 4, {wait});
  ASSERT_HIP(hipGraphAddEventRecordNode(&record, graph_, &filled, 1, recorded));
  call(Gate::wait, &after, {record});
  instantiate();
  launch();
  EXPECT_EQ(hipErrorNotReady, hipEventQuery(recorded));
  EXPECT_EQ(hipErrorNotReady, hipStreamQuery(stream_));
  before.open = true;
  EXPECT_HIP(hipEventSynchronize(recorded));  // though the graph has not ended
  EXPECT_EQ(hipErrorNotReady, hipStreamQuery(stream_));
  EXPECT_HIP(hipStreamWaitEvent(other, recorded, 0));
  EXPECT_HIP(hipMemcpyAsync(buffer_.data() + 8, buffer_.data(), 8, hipMemcpyDeviceToDevice, other));
  EXPECT_HIP(hipStreamSynchronize(other));
  after.open = true;
  EXPECT_HIP(hipStreamSynchronize(stream_));
  EXPECT_EQ(4u, at(8));

  TestEvent another;
  EXPECT_HIP(hipGraphExecEventRecordNodeSetEvent(exec_, record, another));
  EXPECT_HIP(hipGraphExecEventWaitNodeSetEvent(exec_, wait, another));  // not recorded yet: nothing to wait for
  EXPECT_EQ(hipErrorInvalidValue, hipGraphExecEventWaitNodeSetEvent(exec_, record, another));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphExecEventRecordNodeSetEvent(exec_, record, nullptr));
  run();
  EXPECT_HIP(hipEventQuery(another));
}

// --- Errors in a graph ---

TEST_F(ExecTest, AnErrorStopsTheGraphAndSticks) {
  void* freed = nullptr;
  std::atomic<int> calls{0};
  ASSERT_HIP(hipMalloc(&freed, 64));
  hipMemsetParams params = fill_params(0, 1);
  params.dst = freed;
  hipGraphNode_t bad = nullptr;
  ASSERT_HIP(hipGraphAddMemsetNode(&bad, graph_, nullptr, 0, &params));
  call(count_up, &calls, {bad});
  instantiate();
  EXPECT_HIP(hipFree(freed));
  launch();
  EXPECT_EQ(hipErrorIllegalAddress, hipStreamSynchronize(stream_));
  EXPECT_EQ(0, calls);
  _exit(testing::Test::HasFailure() ? 1 : 0);  // the device is lost for what follows
}

// --- Quirks ---

TEST_F(ExecTest, QuirkEmptyGraphsCrash) {
  if (!is_set("CPUHIP_QUIRKS", "empty_graph")) GTEST_SKIP() << "CPUHIP_QUIRKS=empty_graph is not set";
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH((void)hipGraphInstantiate(&exec_, graph_, nullptr, nullptr, 0), "empty graphs");
}

TEST_F(ExecTest, QuirkExternalWaitsOffIsIsolation) {
  if (!is_set("CPUHIP_QUIRKS", "none")) GTEST_SKIP() << "CPUHIP_QUIRKS=none is not set";
  TestEvent event;
  TestStream other;
  EXPECT_HIP(hipEventRecord(event, other));
  ASSERT_HIP(hipStreamBeginCapture(stream_, hipStreamCaptureModeRelaxed));
  EXPECT_EQ(hipErrorStreamCaptureIsolation, hipStreamWaitEvent(stream_, event, 0));
  hipGraph_t graph = nullptr;
  EXPECT_HIP(hipStreamEndCapture(stream_, &graph));
  EXPECT_HIP(hipGraphDestroy(graph));
}

TEST_F(ExecTest, QuirkFittingCallsOffAnyCallWillDo) {
  if (!is_set("CPUHIP_QUIRKS", "none")) GTEST_SKIP() << "CPUHIP_QUIRKS=none is not set";
  const auto node = copy(8, 0);
  hipMemcpy3DParms params = {};
  EXPECT_HIP(hipGraphMemcpyNodeGetParams(node, &params));
  EXPECT_EQ(buffer_.data(), params.srcPtr.ptr);
  EXPECT_EQ(8u, params.extent.width);
  params.dstPtr.ptr = buffer_.data() + 32;
  EXPECT_HIP(hipGraphMemcpyNodeSetParams(node, &params));
  EXPECT_HIP(hipMemset(buffer_.data(), 3, 8));
  instantiate();
  run();
  EXPECT_EQ(3u, at(32));
}

TEST_F(ExecTest, QuirkHostCopyAtPatch) {
  if (!is_set("CPUHIP_QUIRKS", "host_copy_at_patch")) GTEST_SKIP() << "CPUHIP_QUIRKS=host_copy_at_patch is not set";
  unsigned char from[8] = {5}, to[8] = {}, other[8] = {};
  hipGraphNode_t node = nullptr;
  ASSERT_HIP(hipGraphAddMemcpyNode1D(&node, graph_, nullptr, 0, to, from, 8, hipMemcpyHostToHost));
  instantiate();
  EXPECT_HIP(hipGraphExecMemcpyNodeSetParams1D(exec_, node, other, from, 8, hipMemcpyHostToHost));
  EXPECT_EQ(5, other[0]);
}

TEST_F(ExecTest, QuirkStuckInvalidation) {
  if (!is_set("CPUHIP_QUIRKS", "stuck_invalidation")) GTEST_SKIP() << "CPUHIP_QUIRKS=stuck_invalidation is not set";
  hipGraph_t graph = nullptr;
  ASSERT_HIP(hipStreamBeginCapture(stream_, hipStreamCaptureModeGlobal));
  EXPECT_EQ(hipErrorStreamCaptureUnsupported, hipStreamQuery(stream_));
  EXPECT_EQ(hipErrorStreamCaptureInvalidated, hipStreamEndCapture(stream_, &graph));
  EXPECT_EQ(hipStreamCaptureStatusInvalidated, status(stream_));
  EXPECT_EQ(hipErrorStreamCaptureInvalidated, hipMemsetAsync(buffer_.data(), 1, 8, stream_));
  ASSERT_HIP(hipStreamBeginCapture(stream_, hipStreamCaptureModeGlobal));
  EXPECT_HIP(hipStreamEndCapture(stream_, &graph));
  EXPECT_HIP(hipGraphDestroy(graph));
  EXPECT_HIP(hipStreamQuery(stream_));
}

}  // namespace
}  // namespace graph_test
