// The program sets what nodes do: in an exec, and in a graph before it is instantiated.
#include <array>
#include <memory>

#include "node_calls.h"

namespace captures {
namespace {

hipGraphNode_t first_node(hipGraph_t graph) {
  hipGraphNode_t node = nullptr;
  std::size_t count = 1;
  EXPECT_EQ(hipSuccess, hipGraphGetRootNodes(graph, &node, &count));
  return node;
}

/// One exec of a graph that is captured or built: fill `filled`, copy it to `copied`, mix `a` into `mixed_in`.
struct OneExec {
  OneExec(bool built, hipStream_t stream, const Buffer& filled, const Buffer& copied, const Buffer& mixed_in, int a) {
    if (built) {
      own = std::make_unique<NodeGraph>();
      fill = own->fill({}, filled.get(), 1);
      copy = own->copy({fill}, copied.get(), filled.get());
      mix = own->mix({copy}, mixed_in.get(), a);
      graph = *own;
    } else {
      graph = capture(stream, [&] {
        OK(hipMemsetD32Async(filled.get(), 1, kCount, stream));
        OK(hipMemcpyAsync(copied.get(), filled.get(), kCount * 4, hipMemcpyDeviceToDevice, stream));
        OK(kernels().mix(stream, mixed_in.get(), kCount, a));
      });
      fill = first_node(graph);
      std::size_t count = 1;
      EXPECT_EQ(hipSuccess, hipGraphNodeGetDependentNodes(fill, &copy, &count));
      EXPECT_EQ(hipSuccess, hipGraphNodeGetDependentNodes(copy, &mix, &count));
    }
    EXPECT_EQ(hipSuccess, hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  }
  ~OneExec() {
    EXPECT_EQ(hipSuccess, hipGraphExecDestroy(exec));
    if (own == nullptr) {
      EXPECT_EQ(hipSuccess, hipGraphDestroy(graph));
    }
  }
  OneExec(const OneExec&) = delete;
  OneExec& operator=(const OneExec&) = delete;
  void run(hipStream_t stream) const {
    EXPECT_EQ(hipSuccess, hipGraphLaunch(exec, stream));
    EXPECT_EQ(hipSuccess, hipStreamSynchronize(stream));
  }

  std::unique_ptr<NodeGraph> own;
  hipGraph_t graph = nullptr;
  hipGraphExec_t exec = nullptr;
  hipGraphNode_t fill = nullptr, copy = nullptr, mix = nullptr;
};

class Params : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(BuiltOrCaptured, Params, testing::Bool());

TEST_P(Params, an_exec_does_what_it_was_set_to) {
  const Stream stream;
  const Buffer filled, copied, target, other_filled, other_copied, other_target;
  int value = 0, other_value = 0;
  const OneExec one(GetParam(), stream, filled, copied, target, 4);
  one.run(stream);
  value = mixed(value, 4);
  const Since since = node_calls();
  for (int i = 0; i < 6; ++i) {
    const bool other = i % 2 == 1;
    const Buffer &to = other ? other_target : target, &fill_to = other ? other_filled : filled;
    MixParams params(to.get(), i);
    OK(hipGraphExecKernelNodeSetParams(one.exec, one.mix, &params));
    const hipMemsetParams fill = fill_params(fill_to.get(), static_cast<unsigned>(10 + i), kCount);
    OK(hipGraphExecMemsetNodeSetParams(one.exec, one.fill, &fill));
    OK(hipGraphExecMemcpyNodeSetParams1D(one.exec, one.copy, other_copied.get(), fill_to.get(), kCount * 4,
                                         hipMemcpyDeviceToDevice));
    one.run(stream);
    (other ? other_value : value) = mixed(other ? other_value : value, i);
    EXPECT_EQ(value, target.value());
    EXPECT_EQ(other_value, other_target.value());
    EXPECT_EQ(10 + i, other_copied.value());
    EXPECT_EQ(1, copied.value());
    // The same once more: nothing differs.
    const Since again = node_calls();
    OK(hipGraphExecKernelNodeSetParams(one.exec, one.mix, &params));
    OK(hipGraphExecMemsetNodeSetParams(one.exec, one.fill, &fill));
    OK(hipGraphExecMemcpyNodeSetParams1D(one.exec, one.copy, other_copied.get(), fill_to.get(), kCount * 4,
                                         hipMemcpyDeviceToDevice));
    if (compares_captures()) {
      EXPECT_EQ(0, again["hipGraphExecKernelNodeSetParams"]);
      EXPECT_EQ(0, again["hipGraphExecMemsetNodeSetParams"]);
      EXPECT_EQ(0, again["hipGraphExecMemcpyNodeSetParams1D"]);
    }
  }
  if (compares_captures()) {
    EXPECT_EQ(0, since["hipGraphInstantiate"]) << "the exec's own variant was given what differs";
  }
}

TEST_P(Params, rule_02_what_was_set_stays_with_its_exec) {
  const Stream stream;
  const Buffer filled, copied, target, other;
  int value = 0;
  for (int round = 0; round < 6; ++round) {
    const OneExec one(GetParam(), stream, filled, copied, target, 4);
    int constant = 4;
    if (round % 3 == 1) {
      constant = 100 + round;
      MixParams params(target.get(), constant);
      OK(hipGraphExecKernelNodeSetParams(one.exec, one.mix, &params));
      OK(hipGraphExecMemcpyNodeSetParams1D(one.exec, one.copy, other.get(), filled.get(), kCount * 4,
                                           hipMemcpyDeviceToDevice));
    }
    OK(hipMemset(copied.get(), 0, kCount * 4));
    OK(hipMemset(other.get(), 0, kCount * 4));
    one.run(stream);
    value = mixed(value, constant);
    EXPECT_EQ(value, target.value()) << round;
    EXPECT_EQ(round % 3 == 1 ? 0 : 1, copied.value()) << round;
    EXPECT_EQ(round % 3 == 1 ? 1 : 0, other.value()) << round;
  }
}

TEST(ExecParams, rule_03_a_launch_in_flight_keeps_what_was_set_before) {
  const Stream stream;
  const Buffer buffer;
  int* flag = nullptr;
  OK(hipHostMalloc(reinterpret_cast<void**>(&flag), sizeof(int), 0));
  int value = 0;
  for (int round = 0; round < 4; ++round) {
    *flag = 0;
    NodeGraph graph;
    const hipGraphNode_t spin = graph.spin({}, flag);
    const hipGraphNode_t mix = graph.mix({spin}, buffer.get(), 1);
    const hipGraphExec_t exec = graph.instantiate();
    for (int i = 1; i <= 3; ++i) {
      MixParams params(buffer.get(), i);
      OK(hipGraphExecKernelNodeSetParams(exec, mix, &params));
      OK(hipGraphLaunch(exec, stream));
      value = mixed(value, i);
    }
    *reinterpret_cast<volatile int*>(flag) = 1;
    OK(hipStreamSynchronize(stream));
    EXPECT_EQ(value, buffer.value()) << round;
    OK(hipGraphExecDestroy(exec));
  }
  OK(hipHostFree(flag));
}

TEST_P(Params, rule_09_what_an_exec_refuses_it_refuses_at_the_same_call_and_stays_as_it_was) {
  const Stream stream;
  const Buffer filled, copied, target, more;
  const hipMemsetParams too_long = fill_params(filled.get(), 1, kCount + 1), nothing = fill_params(filled.get(), 1, 0);
  const auto refused = [&](int which, const OneExec& one, const OneExec& stranger) {
    MixParams params(target.get(), 9);
    const hipGraphExec_t exec = one.exec;
    switch (which) {
      case 0:
        return hipGraphExecKernelNodeSetParams(exec, stranger.mix, &params);
      case 1:
        return hipGraphExecKernelNodeSetParams(exec, one.fill, &params);
      case 2:
        return hipGraphExecKernelNodeSetParams(exec, one.mix, nullptr);
      case 3:
        return hipGraphExecKernelNodeSetParams(exec, nullptr, &params);
      case 4:
        params.get().func = nullptr;
        return hipGraphExecKernelNodeSetParams(exec, one.mix, &params);
      case 5:
        return hipGraphExecMemcpyNodeSetParams1D(exec, one.copy, copied.get(), filled.get(), 0,
                                                 hipMemcpyDeviceToDevice);
      case 6:
        return hipGraphExecMemcpyNodeSetParams1D(exec, one.copy, copied.get(), copied.get(), 4,
                                                 hipMemcpyDeviceToDevice);
      case 7:
        return hipGraphExecMemcpyNodeSetParams1D(exec, one.copy, copied.get(), filled.get(), 4, hipMemcpyHostToDevice);
      case 8:
        return hipGraphExecMemcpyNodeSetParams1D(exec, one.copy, copied.get(), filled.get(), kCount * 4 + 4,
                                                 hipMemcpyDeviceToDevice);
      case 9:
        return hipGraphExecMemsetNodeSetParams(exec, one.fill, &too_long);
      case 10:
        return hipGraphExecMemsetNodeSetParams(exec, one.fill, &nothing);
      case 11:
        return hipGraphExecMemsetNodeSetParams(exec, one.fill, nullptr);
      default:
        return hipGraphExecKernelNodeSetParams(nullptr, one.mix, &params);
    }
  };
  constexpr int kCalls = 13;
  std::array<hipError_t, kCalls> first{};
  int value = 0;
  for (int round = 0; round < 3; ++round) {
    std::array<hipError_t, kCalls> results{};
    for (int which = 0; which < kCalls; ++which) {
      const OneExec one(GetParam(), stream, filled, copied, target, 4);
      const OneExec stranger(GetParam(), stream, filled, copied, more, 4);
      results[static_cast<std::size_t>(which)] = refused(which, one, stranger);
      EXPECT_NE(hipSuccess, results[static_cast<std::size_t>(which)]) << which;
      static_cast<void>(hipGetLastError());
      one.run(stream);
      value = mixed(value, 4);
      EXPECT_EQ(value, target.value()) << which;
      EXPECT_EQ(1, copied.value()) << which;
    }
    if (round == 0) first = results;
    EXPECT_EQ(first, results) << round;
  }
}

TEST_P(Params, a_graphs_nodes_are_set_before_it_is_instantiated) {
  const Stream stream;
  const Buffer filled, copied, target, other;
  int value = 0;
  const auto set_and_run = [&](int round) {
    std::unique_ptr<NodeGraph> own;
    hipGraph_t graph = nullptr;
    hipGraphNode_t fill = nullptr, copy = nullptr, mix = nullptr;
    if (GetParam()) {
      own = std::make_unique<NodeGraph>();
      fill = own->fill({}, filled.get(), 1);
      copy = own->copy({fill}, copied.get(), filled.get());
      mix = own->mix({copy}, target.get(), 1);
      graph = *own;
    } else {
      graph = capture(stream, [&] {
        OK(hipMemsetD32Async(filled.get(), 1, kCount, stream));
        OK(hipMemcpyAsync(copied.get(), filled.get(), kCount * 4, hipMemcpyDeviceToDevice, stream));
        OK(kernels().mix(stream, target.get(), kCount, 1));
      });
      fill = first_node(graph);
      std::size_t count = 1;
      OK(hipGraphNodeGetDependentNodes(fill, &copy, &count));
      OK(hipGraphNodeGetDependentNodes(copy, &mix, &count));
    }
    MixParams params(target.get(), round);
    OK(hipGraphKernelNodeSetParams(mix, &params));
    const hipMemsetParams fill_to = fill_params(filled.get(), static_cast<unsigned>(round), kCount);
    OK(hipGraphMemsetNodeSetParams(fill, &fill_to));
    OK(hipGraphMemcpyNodeSetParams1D(copy, other.get(), filled.get(), kCount * 4, hipMemcpyDeviceToDevice));
    EXPECT_NE(hipSuccess, hipGraphMemcpyNodeSetParams1D(copy, nullptr, filled.get(), 4, hipMemcpyDeviceToDevice));
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
    OK(hipGraphExecDestroy(exec));
    value = mixed(value, round);
    EXPECT_EQ(value, target.value());
    EXPECT_EQ(round, other.value());
    hipMemsetParams now{};
    OK(hipGraphMemsetNodeGetParams(fill, &now));
    EXPECT_EQ(static_cast<unsigned>(round), now.value);
    if (own == nullptr) OK(hipGraphDestroy(graph));
  };
  for (int round = 1; round < 5; ++round) set_and_run(round);
}

/// A copy or a fill may hold on to the allocation it was made with, so the program's call must reach it.
TEST_P(Params, steady_sets_reach_the_runtime_after_memory_was_freed) {
  const Stream stream;
  const Buffer filled, copied, target;
  const OneExec exec(GetParam(), stream, filled, copied, target, 3);
  exec.run(stream);
  const auto set_the_same = [&] {
    const hipMemsetParams fill_to = fill_params(filled.get(), 1, kCount);
    MixParams params(target.get(), 3);
    OK(hipGraphExecMemsetNodeSetParams(exec.exec, exec.fill, &fill_to));
    OK(hipGraphExecMemcpyNodeSetParams1D(exec.exec, exec.copy, copied.get(), filled.get(), kCount * 4,
                                         hipMemcpyDeviceToDevice));
    OK(hipGraphExecKernelNodeSetParams(exec.exec, exec.mix, &params));
    exec.run(stream);
  };
  const Since before = node_calls();
  set_the_same();
  EXPECT_EQ(under_library() ? 0 : 1, before["hipGraphExecMemsetNodeSetParams"]);
  void* freed = nullptr;
  OK(hipMallocAsync(&freed, 4096, stream));
  OK(hipFreeAsync(freed, stream));
  const Since since = node_calls();
  set_the_same();
  EXPECT_EQ(1, since["hipGraphExecMemsetNodeSetParams"]);
  EXPECT_EQ(1, since["hipGraphExecMemcpyNodeSetParams1D"]);
  EXPECT_EQ(under_library() ? 0 : 1, since["hipGraphExecKernelNodeSetParams"]);
  EXPECT_EQ(mixed(mixed(mixed(0, 3), 3), 3), target.value());
  EXPECT_EQ(1, copied.value());
}

TEST(ExecParams, rule_02_an_exec_of_a_recording_that_cannot_be_rebuilt_knows_the_nodes_of_its_own_graph) {
  const Stream stream;
  const Buffer buffer;
  int value = 0;
  for (unsigned after = 1; after < 40; ++after) {
    // Another recording each time, of which one call of the library's may fail.
    MixParams one(buffer.get(), 1), seven(buffer.get(), 7);
    one.get().sharedMemBytes = seven.get().sharedMemBytes = after;
    for (int round = 0; round < 3; ++round) {
      const NodeGraph graph;
      hipGraphNode_t node = nullptr;
      OK(hipGraphAddKernelNode(&node, graph, nullptr, 0, &one));
      hipGraphExec_t exec = nullptr;
      if (round == 0) cpuhip_fail(after, hipErrorOutOfMemory);
      const hipError_t made = hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0);
      cpuhip_fail(0, 0);
      if (made != hipSuccess && round == 0) continue;
      OK(made);
      const auto runs_with = [&](MixParams& params, int a) {
        OK(hipGraphExecKernelNodeSetParams(exec, node, &params));
        OK(hipGraphLaunch(exec, stream));
        OK(hipStreamSynchronize(stream));
        value = mixed(value, a);
        EXPECT_EQ(value, buffer.value());
      };
      runs_with(seven, 7);
      runs_with(one, 1);
      OK(hipGraphExecDestroy(exec));
    }
  }
}

TEST(GraphParams, steady_sets_of_a_virtual_graph_reach_nobody) {
  const Stream stream;
  const Buffer filled, copied, target;
  int value = 0;
  const auto one = [&](int a) {
    NodeGraph graph;
    const hipGraphNode_t fill = graph.fill({}, filled.get(), 1);
    const hipGraphNode_t copy = graph.copy({fill}, copied.get(), filled.get());
    const hipGraphNode_t mix = graph.mix({copy}, target.get(), 0);
    MixParams params(target.get(), a);
    OK(hipGraphKernelNodeSetParams(mix, &params));
    const hipMemsetParams fill_to = fill_params(filled.get(), 7, kCount);
    OK(hipGraphMemsetNodeSetParams(fill, &fill_to));
    OK(hipGraphMemcpyNodeSetParams1D(copy, copied.get(), filled.get(), kCount * 4, hipMemcpyDeviceToDevice));
    graph.run(stream);
    value = mixed(value, a);
    EXPECT_EQ(value, target.value());
    EXPECT_EQ(7, copied.value());
  };
  one(5);
  one(5);
  const Since since = node_calls();
  for (int i = 0; i < 4; ++i) one(5);
  if (!under_library()) return;
  for (const char* const call : {"hipGraphCreate", "hipGraphKernelNodeSetParams", "hipGraphMemsetNodeSetParams",
                                 "hipGraphMemcpyNodeSetParams1D", "hipGraphInstantiate"})
    EXPECT_EQ(0, since[call]) << call;
}

}  // namespace
}  // namespace captures
