// Captures whose graph, nodes and dependencies a program asks for while they are open, as communication libraries do:
// natively and under the library the answers fit, graphs do what was captured, user objects end with what holds them
// natively, and each host function runs once a launch, with what its own capture gave it.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/preload/graphs/captures.h"

extern "C" {  // newer than the oldest header
hipError_t hipUserObjectCreate(void** object, void* pointer, hipHostFn_t destroy, unsigned references, unsigned flags);
hipError_t hipGraphRetainUserObject(hipGraph_t graph, void* object, unsigned count, unsigned flags);
}

namespace captures {
namespace {

struct Told {
  hipGraph_t graph = nullptr;
  std::vector<hipGraphNode_t> nodes;
};

Told told(hipStream_t stream) {
  Told answer;
  hipStreamCaptureStatus status{};
  unsigned long long id = 0;
  const hipGraphNode_t* nodes = nullptr;
  std::size_t count = 0;
  EXPECT_EQ(hipSuccess, hipStreamGetCaptureInfo_v2(stream, &status, &id, &answer.graph, &nodes, &count));
  EXPECT_EQ(hipStreamCaptureStatusActive, status);
  answer.nodes.assign(nodes, nodes + count);
  return answer;
}

/// The graph of the stream's capture holds an object that counts its end here.
void hold(hipStream_t stream, std::atomic<int>* ended) {
  void* object = nullptr;
  constexpr unsigned kNoDestructorSync = 1, kMove = 1;
  const hipHostFn_t end = [](void* count) { ++*static_cast<std::atomic<int>*>(count); };
  OK(hipUserObjectCreate(&object, ended, end, 1, kNoDestructorSync));
  OK(hipGraphRetainUserObject(told(stream).graph, object, 1, kMove));
}

/// A runtime may call a destructor on a thread of its own.
bool becomes(const std::atomic<int>& value, int expected) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (value != expected && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  return value == expected;
}

TEST(OpenGraphs, rule_11_user_objects_stay_while_their_graph_may_run) {
  const Kernels kernels;
  const Stream stream;
  int* flag = nullptr;
  OK(hipHostMalloc(reinterpret_cast<void**>(&flag), sizeof *flag, hipHostMallocDefault));
  for (int i = 0; i < 4; ++i) {
    std::atomic<int> ended{0};
    *static_cast<volatile int*>(flag) = 0;
    const hipGraph_t graph = capture(stream, [&] {
      hold(stream, &ended);
      OK(kernels.spin(stream, flag));
    });
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipGraphDestroy(graph));
    EXPECT_EQ(0, ended) << "the exec holds it: step " << i;
    OK(hipGraphLaunch(exec, stream));
    OK(hipGraphExecDestroy(exec));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(0, ended) << "its launch runs: step " << i;
    *static_cast<volatile int*>(flag) = 1;
    EXPECT_TRUE(becomes(ended, 1)) << "without a call of the program: step " << i;
    OK(hipStreamSynchronize(stream));
  }
  OK(hipHostFree(flag));
}

TEST(OpenGraphs, rule_11_user_objects_end_with_the_last_that_holds_them) {
  const Kernels kernels;
  const Stream stream;
  const Buffer buffer;
  for (int i = 0; i < 4; ++i) {
    std::atomic<int> ended{0};
    const hipGraph_t graph = capture(stream, [&] {
      hold(stream, &ended);
      OK(kernels.mix(stream, buffer.get(), kCount, 1));
      hold(stream, &ended);
    });
    hipGraphExec_t execs[2] = {};
    for (hipGraphExec_t& exec : execs) OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    hipGraph_t copy = nullptr;
    if (i == 2) OK(hipGraphClone(&copy, graph));
    std::size_t nodes = 0;
    if (i == 3) {
      hipGraphNode_t node = nullptr;
      nodes = 1;
      OK(hipGraphGetNodes(graph, &node, &nodes));
      EXPECT_EQ(1u, nodes) << "it is real now";
    }
    OK(hipGraphExecDestroy(execs[0]));
    OK(hipGraphDestroy(graph));
    EXPECT_EQ(0, ended) << "step " << i;
    OK(hipGraphLaunch(execs[1], stream));
    OK(hipStreamSynchronize(stream));
    OK(hipGraphExecDestroy(execs[1]));
    if (copy != nullptr) {
      EXPECT_EQ(0, ended) << "the copy holds them";
      OK(hipGraphDestroy(copy));
    }
    EXPECT_TRUE(becomes(ended, 2)) << "step " << i;
  }
}

TEST(OpenGraphs, rule_11_an_update_moves_no_user_object) {
  const Kernels kernels;
  const Stream stream;
  const Buffer buffer;
  std::vector<std::atomic<int>> ended(5);
  hipGraphExec_t exec = nullptr;
  for (std::size_t i = 0; i < ended.size(); ++i) {
    const hipGraph_t graph = capture(stream, [&] {
      hold(stream, &ended[i]);
      OK(kernels.mix(stream, buffer.get(), kCount, static_cast<int>(i)));
    });
    if (exec == nullptr) {
      OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    } else {
      hipGraphNode_t where = nullptr;
      hipGraphExecUpdateResult result{};
      OK(hipGraphExecUpdate(exec, graph, &where, &result));
    }
    OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
    OK(hipGraphDestroy(graph));
    EXPECT_TRUE(becomes(ended[i], i == 0 ? 0 : 1)) << "of graph " << i;
  }
  OK(hipGraphExecDestroy(exec));
  EXPECT_TRUE(becomes(ended[0], 1));
}

TEST(OpenGraphs, a_capture_that_fails_gives_its_user_objects_back) {
  const Kernels kernels;
  const Stream stream, other;
  const Buffer buffer;
  Event event;
  for (int i = 0; i < 4; ++i) {
    std::atomic<int> ended{0};
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
    hold(stream, &ended);
    OK(kernels.mix(stream, buffer.get(), kCount, 1));
    static_cast<void>(told(stream));
    if (i % 2 == 1) {
      EXPECT_NE(hipSuccess, hipStreamSynchronize(stream)) << "which invalidates it";
    }
    hipGraph_t graph = nullptr;
    const hipError_t result = hipStreamEndCapture(stream, &graph);
    EXPECT_EQ(i % 2 == 0, result == hipSuccess);
    if (result == hipSuccess) OK(hipGraphDestroy(graph));
    EXPECT_TRUE(becomes(ended, 1)) << "step " << i;
    static_cast<void>(hipGetLastError());
  }
}

TEST(OpenGraphs, handles_told_of_an_open_capture_stay_good) {
  const Kernels kernels;
  const Stream stream;
  const Buffer buffer;
  int value = 0;
  for (int i = 0; i < 8; ++i) {
    Told first, second;
    const hipGraph_t graph = capture(stream, [&] {
      EXPECT_TRUE(told(stream).nodes.empty());
      OK(kernels.mix(stream, buffer.get(), kCount, 1));
      first = told(stream);
      ASSERT_EQ(1u, first.nodes.size());
      if (i == 3) {  // in a call that the library does not follow
        hipGraphNodeType type{};
        OK(hipGraphNodeGetType(first.nodes[0], &type));
      }
      if (i == 4) {
        std::size_t count = 0;
        OK(hipGraphGetNodes(first.graph, nullptr, &count));
        EXPECT_EQ(1u, count);
      }
      // From here on it is not what was captured before.
      OK(kernels.mix(stream, buffer.get(), kCount, 2));
      if (i == 5) OK(hipMemsetAsync(buffer.get(), 0, kCount * sizeof(int), stream));
      second = told(stream);
      EXPECT_EQ(first.graph, second.graph);
      ASSERT_EQ(1u, second.nodes.size());
      EXPECT_NE(first.nodes[0], second.nodes[0]) << "step " << i;
    });
    EXPECT_EQ(first.graph, graph) << "step " << i;
    if (i == 6) {
      std::size_t count = 1;
      hipGraphNode_t before = nullptr;
      OK(hipGraphNodeGetDependencies(second.nodes[0], &before, &count));
      EXPECT_EQ(1u, count);
      EXPECT_EQ(first.nodes[0], before);
    }
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
    value = mixed(mixed(value, 1), 2);
    if (i == 5) value = 0;
    EXPECT_EQ(value, buffer.value()) << "step " << i;
  }
}

TEST(OpenGraphs, dependencies_are_set_by_handle) {
  const Kernels kernels;
  const Stream stream;
  const Buffer a, b;
  int value = 0;
  for (int i = 0; i < 8; ++i) {
    const Since since({"hipModuleLaunchKernel"});
    const int rounds = i < 6 ? 3 : 5;  // other captures begin alike
    const hipGraph_t graph = capture(stream, [&] {
      // The own stream joins once, behind nothing; temporary ones hand over where the capturing one is.
      Event event;
      const Stream own;
      OK(hipEventRecord(event, stream));
      OK(hipStreamWaitEvent(own, event, 0));
      OK(hipStreamUpdateCaptureDependencies(own, nullptr, 0, hipStreamSetCaptureDependencies));
      for (int round = 0; round < rounds; ++round) {
        OK(kernels.mix(stream, a.get(), kCount, round));
        OK(hipEventRecord(event, stream));
        const Stream temporary;
        OK(hipStreamWaitEvent(temporary, event, 0));
        Told last = told(temporary);
        ASSERT_EQ(1u, last.nodes.size());
        OK(hipStreamUpdateCaptureDependencies(
            own, last.nodes.data(), 1,
            round % 2 == 0 ? hipStreamSetCaptureDependencies : hipStreamAddCaptureDependencies));
        OK(kernels.join(own, b.get(), a.get(), kCount));
        OK(hipEventRecord(event, own));
        OK(hipStreamWaitEvent(stream, event, 0));
      }
    });
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
    static int of_a = 0;
    if (i == 0) of_a = 0;
    for (int round = 0; round < rounds; ++round) {
      of_a = mixed(of_a, round);
      value = static_cast<int>(static_cast<unsigned>(value) * 17 + static_cast<unsigned>(of_a));
    }
    EXPECT_EQ(value, b.value()) << "step " << i;
    const bool first = i == 0 || i == 6;
    EXPECT_EQ(!first && compares_captures() ? 0 : 2 * rounds, since["hipModuleLaunchKernel"]) << "step " << i;
  }
}

TEST(OpenGraphs, rule_12_host_nodes_added_by_handle_run_once_a_launch_each_with_its_own) {
  const Kernels kernels;
  const Stream stream;
  const Buffer buffer;
  constexpr int kSteps = 8, kLaunches = 3;
  std::vector<std::atomic<int>> runs(2 * kSteps);
  const hipHostFn_t run = [](void* count) { ++*static_cast<std::atomic<int>*>(count); };
  for (int i = 0; i < kSteps; ++i) {
    const Since since({"hipModuleLaunchKernel"});
    std::atomic<int>* const own = &runs[2 * static_cast<std::size_t>(i)];
    const hipGraph_t graph = capture(stream, [&] {
      OK(kernels.mix(stream, buffer.get(), kCount, 1));
      const Told last = told(stream);
      const hipHostNodeParams params{run, own};
      hipGraphNode_t node = nullptr;
      OK(hipGraphAddHostNode(&node, last.graph, last.nodes.data(), last.nodes.size(), &params));
      OK(hipStreamUpdateCaptureDependencies(stream, &node, 1, hipStreamSetCaptureDependencies));
      OK(kernels.mix(stream, buffer.get(), kCount, 2));
      OK(hipLaunchHostFunc(stream, run, own + 1));
    });
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    for (int launch = 0; launch < kLaunches; ++launch) OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
    for (int which = 0; which < 2; ++which) EXPECT_EQ(kLaunches, own[which]) << "step " << i;
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
    EXPECT_EQ(i > 0 && compares_captures() ? 0 : 2, since["hipModuleLaunchKernel"]) << "step " << i;
  }
  for (const auto& count : runs) EXPECT_EQ(kLaunches, count);
}

}  // namespace
}  // namespace captures
