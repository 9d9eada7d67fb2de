// What real programs do beside capturing and launching: graphs inside of graphs by the functions for any node, threads
// that launch on streams of their own, errors that were there before.
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "captures.h"
#include "node_calls.h"

namespace captures {
namespace {

/// hipGraphNodeParams (6.0) of a child graph.
struct ChildParams {
  int type = 4, reserved[3] = {};
  union {
    hipGraph_t graph;
    long long space[30];
  };
};

template <typename Function>
Function newer(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

TEST(Programs, a_graph_compared_with_a_recording_becomes_a_node_of_another) {
  using AddNode = hipError_t (*)(hipGraphNode_t*, hipGraph_t, const hipGraphNode_t*, std::size_t, void*);
  using SetInExec = hipError_t (*)(hipGraphExec_t, hipGraphNode_t, void*);
  const auto add_node = newer<AddNode>("hipGraphAddNode");
  const auto set_in_exec = newer<SetInExec>("hipGraphExecNodeSetParams");
  const Stream stream;
  const Buffer buffer;
  int value = 0;
  for (int i = 0; i < 4; ++i) {
    const auto captured = [&](int a) {
      return capture(stream, [&] { OK(kernels().mix(stream, buffer.get(), kCount, a)); });
    };
    step(stream, [&] { OK(kernels().mix(stream, buffer.get(), kCount, 1)); });
    value = mixed(value, 1);
    const hipGraph_t child = captured(i), other = captured(100 + i);
    const NodeGraph graph;
    ChildParams params{};
    params.graph = child;
    hipGraphNode_t node = nullptr;
    OK(add_node(&node, graph, nullptr, 0, &params));
    EXPECT_EQ(child, params.graph);
    OK(hipGraphDestroy(child));
    const hipGraphExec_t exec = graph.instantiate();
    OK(hipGraphLaunch(exec, stream));
    params.graph = other;
    OK(set_in_exec(exec, node, &params));
    EXPECT_EQ(other, params.graph);
    OK(hipGraphDestroy(other));
    OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
    value = mixed(mixed(value, i), 100 + i);
    EXPECT_EQ(value, buffer.value());
    OK(hipGraphExecDestroy(exec));
  }
}

/// Held back: what the stream is given waits until open().
class Gate {
 public:
  void close(hipStream_t stream) {
    open_ = false;
    EXPECT_EQ(hipSuccess, hipLaunchHostFunc(
                              stream,
                              [](void* open) {
                                while (!*static_cast<std::atomic<bool>*>(open)) std::this_thread::yield();
                              },
                              &open_));
  }
  void open() { open_ = true; }

 private:
  std::atomic<bool> open_{true};
};

/// False: the stream is not done after a while.
bool done_soon(hipStream_t stream) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (hipStreamQuery(stream) == hipErrorNotReady && std::chrono::steady_clock::now() < deadline)
    std::this_thread::yield();
  return hipStreamQuery(stream) == hipSuccess;
}

TEST(Programs, rule_20_an_exec_that_runs_on_another_threads_own_stream_is_not_used_again) {
  const Stream stream;
  const Buffer buffer;
  const auto made = [&] {
    const hipGraph_t graph = capture(stream, [&] { OK(kernels().mix(stream, buffer.get(), kCount, 3)); });
    hipGraphExec_t exec = nullptr;
    EXPECT_EQ(hipSuccess, hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    EXPECT_EQ(hipSuccess, hipGraphDestroy(graph));
    return exec;
  };
  for (int i = 0; i < 2; ++i) {
    const hipGraphExec_t exec = made();
    OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
    OK(hipGraphExecDestroy(exec));
  }
  Gate gate;
  std::atomic<bool> launched{false}, captured{false};
  const hipGraphExec_t waits = made();
  std::thread thread([&] {
    gate.close(hipStreamPerThread);
    OK(hipGraphLaunch(waits, hipStreamPerThread));
    launched = true;
    while (!captured) std::this_thread::yield();  // a wait beside a capture would invalidate it
    OK(hipStreamSynchronize(hipStreamPerThread));
  });
  while (!launched) std::this_thread::yield();
  OK(hipGraphExecDestroy(waits));
  const hipGraphExec_t second = made();
  captured = true;
  OK(hipGraphLaunch(second, stream));
  EXPECT_TRUE(done_soon(stream)) << "it waits for the exec behind the gate";
  gate.open();
  thread.join();
  OK(hipStreamSynchronize(stream));
  OK(hipGraphExecDestroy(second));
  int value = 0;
  for (int i = 0; i < 4; ++i) value = mixed(value, 3);
  EXPECT_EQ(value, buffer.value());
}

TEST(Programs, rule_19_streams_of_the_library_take_no_hardware_queue_from_the_programs) {
  hipStream_t former = nullptr;
  OK(hipStreamCreateWithFlags(&former, hipStreamNonBlocking));
  {
    const Buffer buffer;  // freed while both streams have work
    OK(kernels().mix(former, buffer.get(), kCount, 3));
    OK(hipMemsetAsync(buffer.get(), 1, kCount * sizeof(int), nullptr));
  }
  OK(hipStreamDestroy(former));
  int* flag = nullptr;
  OK(hipHostMalloc(reinterpret_cast<void**>(&flag), sizeof(int), 0));
  *flag = 0;
  hipStream_t waits = nullptr, writes = nullptr;
  OK(hipStreamCreateWithFlags(&waits, hipStreamNonBlocking));
  OK(hipStreamCreateWithFlags(&writes, hipStreamNonBlocking));
  OK(kernels().spin(waits, flag));
  OK(hipLaunchHostFunc(
      writes, [](void* user) { *static_cast<volatile int*>(user) = 1; }, flag));
  EXPECT_TRUE(done_soon(waits)) << "both streams share a queue";
  *static_cast<volatile int*>(flag) = 1;
  OK(hipStreamSynchronize(waits));
  OK(hipStreamSynchronize(writes));
  OK(hipStreamDestroy(waits));
  OK(hipStreamDestroy(writes));
  OK(hipHostFree(flag));
}

TEST(Programs, rule_20_a_wait_for_one_device_says_nothing_of_another) {
  for (const bool null : {false, true}) {
    OK(hipSetDevice(1));
    int* buffer = nullptr;
    OK(hipMalloc(reinterpret_cast<void**>(&buffer), kCount * sizeof(int)));
    hipStream_t behind = nullptr, stream = nullptr;
    OK(hipStreamCreateWithFlags(&behind, hipStreamNonBlocking));
    OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    const hipStream_t busy = null ? nullptr : behind;
    const auto made = [&] {
      EXPECT_EQ(hipSuccess, hipSetDevice(0));
      const hipGraph_t graph = capture(stream, [&] { OK(hipMemsetAsync(buffer, 1, kCount * sizeof(int), stream)); });
      hipGraphExec_t exec = nullptr;
      EXPECT_EQ(hipSuccess, hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
      EXPECT_EQ(hipSuccess, hipGraphDestroy(graph));
      EXPECT_EQ(hipSuccess, hipSetDevice(1));
      return exec;
    };
    for (int i = 0; i < 2; ++i) {
      const hipGraphExec_t exec = made();
      OK(hipGraphLaunch(exec, stream));
      OK(hipStreamSynchronize(stream));
      OK(hipGraphExecDestroy(exec));
    }
    Gate gate;
    gate.close(busy);
    const hipGraphExec_t waits = made();
    OK(hipGraphLaunch(waits, busy));
    OK(hipSetDevice(0));
    OK(hipDeviceSynchronize());
    OK(hipGraphExecDestroy(waits));
    const hipGraphExec_t second = made();
    OK(hipGraphLaunch(second, stream));
    EXPECT_TRUE(done_soon(stream)) << "it waits for the exec behind the gate";
    gate.open();
    OK(hipDeviceSynchronize());
    OK(hipGraphExecDestroy(second));
    OK(hipStreamDestroy(behind));
    OK(hipStreamDestroy(stream));
    OK(hipFree(buffer));
  }
  OK(hipSetDevice(0));
}

/// One exec that is updated by each step's graph, as runtimes of language models do it: the kernels of a step are not
/// always the same, and HIP takes another kernel at the same place.
class UpdatedExec {
 public:
  explicit UpdatedExec(hipStream_t stream) : stream_(stream) {
    graph_ = captured(0, false);
    EXPECT_EQ(hipSuccess, hipGraphInstantiate(&exec_, graph_, nullptr, nullptr, 0));
    std::size_t count = 1;
    EXPECT_EQ(hipSuccess, hipGraphGetRootNodes(graph_, &first_, &count));
    run(0, false);
  }
  ~UpdatedExec() {
    EXPECT_EQ(hipSuccess, hipGraphExecDestroy(exec_));
    EXPECT_EQ(hipSuccess, hipGraphDestroy(graph_));
    EXPECT_EQ(value_, buffer_.value());
  }
  UpdatedExec(const UpdatedExec&) = delete;
  UpdatedExec& operator=(const UpdatedExec&) = delete;

  void step(int a, bool joins) {
    const hipGraph_t graph = captured(a, joins);
    hipGraphNode_t failed = nullptr;
    hipGraphExecUpdateResult result = hipGraphExecUpdateError;
    EXPECT_EQ(hipSuccess, hipGraphExecUpdate(exec_, graph, &failed, &result));
    EXPECT_EQ(hipGraphExecUpdateSuccess, result);
    EXPECT_EQ(hipSuccess, hipGraphDestroy(graph));
    run(a, joins);
  }
  /// A graph that the exec cannot be.
  void refused_step() {
    const hipGraph_t graph = capture(stream_, [&] { OK(kernels().mix(stream_, buffer_.get(), kCount, 1)); });
    hipGraphNode_t failed = nullptr;
    hipGraphExecUpdateResult result = hipGraphExecUpdateSuccess;
    EXPECT_EQ(hipErrorGraphExecUpdateFailure, hipGraphExecUpdate(exec_, graph, &failed, &result));
    EXPECT_NE(hipGraphExecUpdateSuccess, result);
    EXPECT_EQ(hipSuccess, hipGraphDestroy(graph));
  }
  /// The first node gets another constant; the second stays what the last step made it.
  void set_first(int a, int last_a, bool joins) {
    MixParams params(buffer_.get(), a);
    EXPECT_EQ(hipSuccess, hipGraphExecKernelNodeSetParams(exec_, first_, &params));
    EXPECT_EQ(hipSuccess, hipGraphLaunch(exec_, stream_));
    EXPECT_EQ(hipSuccess, hipStreamSynchronize(stream_));
    note(a, last_a, joins);
  }

 private:
  hipGraph_t captured(int a, bool joins) {
    return capture(stream_, [&] {
      OK(kernels().mix(stream_, buffer_.get(), kCount, a));
      if (joins)
        OK(kernels().join(stream_, buffer_.get(), other_.get(), kCount));
      else
        OK(kernels().mix(stream_, buffer_.get(), kCount, a + 1));
    });
  }
  void run(int a, bool joins) {
    EXPECT_EQ(hipSuccess, hipGraphLaunch(exec_, stream_));
    EXPECT_EQ(hipSuccess, hipStreamSynchronize(stream_));
    note(a, a, joins);
  }
  void note(int first, int second, bool joins) {
    value_ = mixed(value_, first);
    value_ = joins ? joined(value_, 0) : mixed(value_, second + 1);
  }

  const hipStream_t stream_;
  Buffer buffer_, other_;
  hipGraph_t graph_ = nullptr;
  hipGraphNode_t first_ = nullptr;
  hipGraphExec_t exec_ = nullptr;
  int value_ = 0;
};

TEST(Programs, steady_updates_by_graphs_of_other_kernels) {
  const Stream stream;
  UpdatedExec exec(stream);
  const auto steps = [&] {
    for (int i = 0; i < 4; ++i) exec.step(5, i % 2 == 0);
    for (int i = 0; i < 4; ++i) exec.step(5, true);
  };
  steps();
  steps();
  const Since since = graph_calls();
  steps();
  if (!compares_captures()) return;
  EXPECT_EQ(0, since["hipModuleLaunchKernel"]);
  EXPECT_EQ(0, since["hipGraphAddKernelNode"]);
  EXPECT_EQ(0, since["hipGraphExecUpdate"]);
  EXPECT_EQ(0, since["hipGraphInstantiate"]);
  EXPECT_EQ(8, since["hipGraphLaunch"]);
}

TEST(Programs, an_exec_updated_by_graphs_of_other_kernels_keeps_the_nodes_it_was_made_with) {
  const Stream stream;
  for (const bool joins : {false, true}) {
    UpdatedExec exec(stream);
    for (int i = 0; i < 6; ++i) exec.step(i, (i % 2 == 1) == joins);
    exec.set_first(77, 5, joins);
    for (int i = 0; i < 3; ++i) exec.step(i, !joins);
    exec.set_first(78, 2, !joins);
  }
}

TEST(Programs, a_refused_update_leaves_the_exec_to_the_runtime) {
  const Stream stream;
  UpdatedExec exec(stream);
  for (int i = 0; i < 4; ++i) exec.step(i, i % 2 == 0);
  exec.refused_step();
  for (int i = 0; i < 4; ++i) exec.step(i, i % 2 == 1);
}

// AMD's runtimes refuse it whatever it is: a program that makes a new exec then must be told so every time.
TEST(Programs, an_update_by_a_fill_of_several_rows_is_refused_as_by_the_runtime) {
  const Stream stream;
  const Buffer buffer;
  constexpr std::size_t kRow = kCount * sizeof(int) / 4;
  const auto captured = [&](int value) {
    return capture(stream, [&] {
      OK(kernels().mix(stream, buffer.get(), kCount, value));
      OK(hipMemset2DAsync(buffer.get(), kRow, value, kRow, 4, stream));
    });
  };
  hipGraph_t graph = captured(0);
  hipGraphExec_t exec = nullptr;
  OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  OK(hipGraphDestroy(graph));
  for (int i = 1; i < 9; ++i) {
    graph = captured(i / 2);  // what the exec does already, and something else, in turn
    hipGraphNode_t failed = nullptr;
    hipGraphExecUpdateResult result = hipGraphExecUpdateSuccess;
    EXPECT_EQ(hipErrorGraphExecUpdateFailure, hipGraphExecUpdate(exec, graph, &failed, &result)) << i;
    EXPECT_EQ(hipGraphExecUpdateErrorParametersChanged, result) << i;
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipGraphDestroy(graph));
    OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
    EXPECT_EQ(i / 2 * 0x01010101, buffer.value()) << i;
  }
  OK(hipGraphExecDestroy(exec));
}

TEST(Programs, nodes_of_an_exec_are_set_one_by_one_in_any_order) {
  const Stream stream;
  const Buffer one, other;
  constexpr int kNodes = 40;
  NodeGraph graph;
  std::vector<hipGraphNode_t> nodes;
  for (int i = 0; i < kNodes; ++i)
    nodes.push_back(graph.mix(i == 0 ? NodeGraph::After{} : NodeGraph::After{nodes.back()}, one.get(), i));
  const hipGraphExec_t kept = graph.instantiate(), exec = graph.instantiate();
  int values[2] = {};
  const auto run = [&](hipGraphExec_t which, int last, bool moved) {
    OK(hipGraphLaunch(which, stream));
    OK(hipStreamSynchronize(stream));
    int& value = values[moved ? 1 : 0];
    for (int i = 0; i < kNodes; ++i) value = mixed(value, i == last ? 1000 : i);
    EXPECT_EQ(values[0], one.value());
    EXPECT_EQ(values[1], other.value());
  };
  const auto set = [&](int i, bool moved, int a) {
    MixParams params(moved ? other.get() : one.get(), a);
    OK(hipGraphExecKernelNodeSetParams(exec, nodes[static_cast<std::size_t>(i)], &params));
  };
  run(kept, -1, false);
  OK(hipGraphExecDestroy(kept));  // whoever has its binding again may have it
  for (int round = 0; round < 4; ++round) {
    const bool moved = round % 2 == 0;
    for (int i = 0; i < kNodes; ++i) set(round < 2 ? i : kNodes - 1 - i, moved, round < 2 ? i : kNodes - 1 - i);
    run(exec, -1, moved);
    const int changed = round * kNodes / 4;
    set(changed, moved, 1000);
    run(exec, changed, moved);
    set(changed, moved, changed);
    run(exec, -1, moved);
  }
  OK(hipGraphExecDestroy(exec));
}

TEST(Programs, an_error_before_a_captured_call_shows_as_long_as_natively) {
  const Stream stream, busy;
  const Buffer buffer;
  int* flag = nullptr;
  OK(hipHostMalloc(reinterpret_cast<void**>(&flag), sizeof(int), 0));
  std::vector<hipError_t> first;
  for (int i = 0; i < 4; ++i) {
    *static_cast<volatile int*>(flag) = 0;
    OK(kernels().spin(busy, flag));
    std::vector<hipError_t> seen;
    hipGraph_t graph = nullptr;
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
    hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
    OK(hipThreadExchangeStreamCaptureMode(&mode));
    const auto fail = [&] {
      int answer = 0;
      seen.push_back(hipDeviceGetAttribute(&answer, static_cast<hipDeviceAttribute_t>(0x7ffffff), 0));
    };
    const auto look = [&] {
      seen.push_back(hipPeekAtLastError());
      seen.push_back(hipGetLastError());
    };
    OK(kernels().mix(stream, buffer.get(), kCount, i));
    fail();
    OK(kernels().mix(stream, buffer.get(), kCount, i));
    look();
    fail();
    OK(hipMemsetAsync(buffer.get(), 0, kCount * sizeof(int), stream));
    look();
    seen.push_back(hipStreamQuery(busy));
    OK(kernels().mix(stream, buffer.get(), kCount, i));
    look();
    fail();
    OK(hipStreamEndCapture(stream, &graph));
    look();
    hipGraphExec_t exec = nullptr;
    fail();
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    look();
    fail();
    OK(hipGraphLaunch(exec, stream));
    look();
    fail();
    hipGraphNode_t error_node = nullptr;
    hipGraphExecUpdateResult result{};
    OK(hipGraphExecUpdate(exec, graph, &error_node, &result));
    look();
    fail();
    OK(hipGraphExecDestroy(exec));
    look();
    fail();
    OK(hipGraphDestroy(graph));
    look();
    OK(hipThreadExchangeStreamCaptureMode(&mode));
    *static_cast<volatile int*>(flag) = 1;
    OK(hipStreamSynchronize(busy));
    OK(hipStreamSynchronize(stream));
    if (i == 0) first = seen;
    EXPECT_EQ(first, seen) << i;
  }
  OK(hipHostFree(flag));
}

}  // namespace
}  // namespace captures
