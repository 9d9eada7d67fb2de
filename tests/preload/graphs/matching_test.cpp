// Captures of sequences seen before, and of sequences that differ from them at every position.
#include <thread>

#include "captures.h"

namespace captures {
namespace {

/// Mixes the constants into the buffer, one operation each.
void sequence(hipStream_t stream, const Buffer& buffer, const std::vector<int>& constants) {
  for (const int constant : constants) OK(kernels().mix(stream, buffer.get(), kCount, constant));
}

int expected(int value, const std::vector<int>& constants) {
  for (const int constant : constants) value = mixed(value, constant);
  return value;
}

TEST(Matching, steady_state_reaches_the_runtime_as_begin_end_and_launch) {
  const Stream stream;
  const Buffer buffer, other;
  int value = 0;
  const std::vector<int> constants = {1, 2, 3, 4};
  const auto one = [&] {
    step(stream, [&] {
      sequence(stream, buffer, constants);
      OK(hipMemsetAsync(other.get(), 0, 8, stream));
      OK(hipMemcpyAsync(other.get() + 4, other.get(), 8, hipMemcpyDeviceToDevice, stream));
    });
    value = expected(value, constants);
    EXPECT_EQ(value, buffer.value());
  };
  one();
  one();
  const Since since = graph_calls();
  for (int i = 0; i < 5; ++i) one();
  if (!under_library()) return;
  EXPECT_EQ(5, since["hipStreamBeginCapture"]);
  EXPECT_EQ(5, since["hipStreamEndCapture"]);
  EXPECT_EQ(5, since["hipGraphLaunch"]);
  EXPECT_EQ(0, since["hipModuleLaunchKernel"]);
  EXPECT_EQ(0, since["hipMemsetAsync"]);
  EXPECT_EQ(0, since["hipGraphInstantiate"]);
  EXPECT_EQ(0, since["hipGraphExecDestroy"]);
  EXPECT_EQ(0, since["hipGraphExecKernelNodeSetParams"]);
}

TEST(Matching, changed_constants_are_a_binding_not_a_capture) {
  const Stream stream;
  const Buffer buffer;
  int value = 0;
  const auto one = [&](int i) {
    const std::vector<int> constants = {i, 7, i * 3};
    step(stream, [&] { sequence(stream, buffer, constants); });
    value = expected(value, constants);
    EXPECT_EQ(value, buffer.value()) << "step " << i;
  };
  one(0);
  const Since since = graph_calls();
  for (int i = 1; i < 20; ++i) one(i);
  if (!under_library()) return;
  EXPECT_EQ(0, since["hipModuleLaunchKernel"]);
  EXPECT_LT(since["hipGraphInstantiate"], 8);  // then they are patched
  EXPECT_GT(since["hipGraphExecKernelNodeSetParams"], 0);
}

TEST(Matching, arguments_in_one_buffer_are_matched_and_asked_for_as_they_were_given) {
  const Stream stream;
  const Buffer buffer;
  int value = 0;
  const auto one = [&](int a) {
    step(stream, [&] {
      OK(kernels().mix_packed(stream, buffer.get(), kCount, a));
      OK(kernels().mix(stream, buffer.get(), kCount, a));
    });
    value = mixed(mixed(value, a), a);
    EXPECT_EQ(value, buffer.value());
  };
  one(1);
  const Since since = graph_calls();
  one(2);
  if (under_library()) {
    EXPECT_EQ(0, since["hipModuleLaunchKernel"]);
  }
  const hipGraph_t graph = capture(stream, [&] {
    OK(kernels().mix_packed(stream, buffer.get(), kCount, 3));
    OK(kernels().mix(stream, buffer.get(), kCount, 3));
  });
  hipGraphNode_t nodes[2];
  std::size_t count = 2;
  OK(hipGraphGetNodes(graph, nodes, &count));
  for (const bool packed : {true, false}) {
    hipKernelNodeParams params{};
    OK(hipGraphKernelNodeGetParams(nodes[packed ? 0 : 1], &params));
    EXPECT_EQ(packed, params.kernelParams == nullptr);
    EXPECT_EQ(packed, params.extra != nullptr);
  }
  OK(hipGraphDestroy(graph));
}

/// Where a second sequence differs from the first, by its index of the first other operation.
class Differs : public testing::TestWithParam<int> {};

TEST_P(Differs, the_other_sequence_is_captured_as_it_is) {
  const Stream stream;
  const Buffer buffer, other;
  const int at = GetParam();
  int value = 0, other_value = 0;
  for (int round = 0; round < 3; ++round) {
    step(stream, [&] { sequence(stream, buffer, {1, 2, 3, 4, 5}); });
    value = expected(value, {1, 2, 3, 4, 5});
    EXPECT_EQ(value, buffer.value());
    step(stream, [&] {
      for (int i = 0; i < 5; ++i) {
        if (i == at)
          OK(kernels().join(stream, buffer.get(), other.get(), kCount));
        else
          OK(kernels().mix(stream, buffer.get(), kCount, 10 + i));
      }
    });
    for (int i = 0; i < 5; ++i) value = i == at ? joined(value, other_value) : mixed(value, 10 + i);
    EXPECT_EQ(value, buffer.value()) << "round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Positions, Differs, testing::Range(0, 5));

TEST(Matching, changed_device_inside_a_capture_is_another_operation_rule_14) {
  int devices = 0;
  OK(hipGetDeviceCount(&devices));
  ASSERT_EQ(2, devices);
  const Stream stream;
  int ran = 0;
  const auto count = [](void* counter) { ++*static_cast<int*>(counter); };
  const auto calls_of = [&](int device) {
    const Since since({"hipLaunchHostFunc"});
    step(stream, [&] {
      OK(hipLaunchHostFunc(stream, count, &ran));
      OK(hipSetDevice(device));
      OK(hipLaunchHostFunc(stream, count, &ran));
      OK(hipSetDevice(0));
    });
    return since["hipLaunchHostFunc"];
  };
  EXPECT_EQ(2, calls_of(0));
  EXPECT_EQ(under_library() ? 0 : 2, calls_of(0));
  EXPECT_EQ(2, calls_of(1)) << "the second is another operation";
  EXPECT_EQ(6, ran);
}

TEST(Matching, a_capture_that_follows_another_on_its_stream_is_its_own) {
  const Stream stream, second;
  const Buffer buffer;
  int value = 0;
  for (int i = 0; i < 4; ++i) {
    const std::vector<int> constants = {1, 2};
    step(stream, [&] { sequence(stream, buffer, constants); });
    // Not captured, on the stream that was last captured.
    sequence(stream, buffer, {3});
    OK(hipStreamSynchronize(stream));
    step(second, [&] { sequence(second, buffer, {4}); });
    value = expected(value, {1, 2, 3, 4});
    EXPECT_EQ(value, buffer.value()) << "round " << i;
  }
}

TEST(Matching, shorter_longer_and_prefix_sequences) {
  const Stream stream;
  const Buffer buffer;
  int value = 0;
  for (int round = 0; round < 3; ++round) {
    for (const std::size_t length : {3u, 5u, 1u, 4u, 2u}) {
      std::vector<int> constants;
      for (std::size_t i = 0; i < length; ++i) constants.push_back(static_cast<int>(i) + round);
      step(stream, [&] { sequence(stream, buffer, constants); });
      value = expected(value, constants);
      EXPECT_EQ(value, buffer.value()) << length;
    }
  }
}

TEST(Matching, fork_and_join_over_streams) {
  const Stream one, two;
  const Buffer left, right;
  const Event fork, join;
  int left_value = 0, right_value = 0;
  const auto forked = [&](int a) {
    step(one, [&] {
      OK(kernels().mix(one, left.get(), kCount, a));
      OK(hipEventRecord(fork, one));
      OK(hipStreamWaitEvent(two, fork, 0));
      OK(kernels().mix(two, right.get(), kCount, a + 1));
      OK(kernels().mix(one, left.get(), kCount, a + 2));
      OK(hipEventRecord(join, two));
      OK(hipStreamWaitEvent(one, join, 0));
      OK(kernels().join(one, left.get(), right.get(), kCount));
    });
    right_value = mixed(right_value, a + 1);
    left_value = joined(mixed(mixed(left_value, a), a + 2), right_value);
    EXPECT_EQ(left_value, left.value());
    EXPECT_EQ(right_value, right.value());
  };
  forked(1);
  forked(1);
  const Since since = graph_calls();
  for (int i = 0; i < 4; ++i) forked(1);
  if (under_library()) {
    EXPECT_EQ(0, since["hipModuleLaunchKernel"]);
    // Before HIP 7 each stream has an event of the library's recorded, too.
    int version = 0;
    OK(hipRuntimeGetVersion(&version));
    EXPECT_EQ(version < 70000000 ? 16 : 8, since["hipEventRecord"]);
    EXPECT_EQ(8, since["hipStreamWaitEvent"]);
  }
  // A fork whose branch differs: the matched part is issued, dependencies included.
  for (int i = 0; i < 2; ++i) {
    step(one, [&] {
      OK(kernels().mix(one, left.get(), kCount, 1));
      OK(hipEventRecord(fork, one));
      OK(hipStreamWaitEvent(two, fork, 0));
      OK(kernels().mix(two, right.get(), kCount, 2));
      OK(kernels().join(two, right.get(), left.get(), kCount));
      OK(hipEventRecord(join, two));
      OK(hipStreamWaitEvent(one, join, 0));
      OK(kernels().join(one, left.get(), right.get(), kCount));
    });
    left_value = mixed(left_value, 1);
    right_value = joined(mixed(right_value, 2), left_value);
    left_value = joined(left_value, right_value);
    EXPECT_EQ(left_value, left.value());
    EXPECT_EQ(right_value, right.value());
  }
}

TEST(Matching, an_event_recorded_before_the_mismatch_still_orders_after_it) {
  const Stream one, two;
  const Buffer left, right;
  const Event fork, join;
  int left_value = 0, right_value = 0;
  for (const bool longer : {false, false, true, true, false}) {
    step(one, [&] {
      OK(kernels().mix(one, left.get(), kCount, 5));
      OK(hipEventRecord(fork, one));
      OK(kernels().mix(one, left.get(), kCount, 6));
      if (longer) OK(kernels().mix(one, left.get(), kCount, 7));
      OK(hipStreamWaitEvent(two, fork, 0));
      OK(kernels().mix(two, right.get(), kCount, 8));
      OK(hipEventRecord(join, two));
      OK(hipStreamWaitEvent(one, join, 0));
      OK(kernels().join(one, left.get(), right.get(), kCount));
    });
    right_value = mixed(right_value, 8);
    left_value = mixed(mixed(left_value, 5), 6);
    if (longer) left_value = mixed(left_value, 7);
    left_value = joined(left_value, right_value);
    EXPECT_EQ(left_value, left.value());
  }
}

TEST(Matching, a_capture_abandoned_by_a_failing_call_leaves_the_next_one_as_before) {
  const Stream stream;
  const Buffer buffer;
  const std::vector<int> constants = {1, 2, 3};
  int value = 0;
  const auto whole = [&] {
    step(stream, [&] { sequence(stream, buffer, constants); });
    value = expected(value, constants);
    EXPECT_EQ(value, buffer.value());
  };
  whole();
  whole();
  for (std::size_t at = 0; at <= constants.size(); ++at) {
    hipGraph_t graph = nullptr;
    OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    for (std::size_t i = 0; i < at; ++i) OK(kernels().mix(stream, buffer.get(), kCount, constants[i]));
    EXPECT_NE(hipSuccess, hipDeviceSynchronize());
    for (std::size_t i = at; i < constants.size(); ++i)
      static_cast<void>(kernels().mix(stream, buffer.get(), kCount, constants[i]));
    EXPECT_EQ(hipErrorStreamCaptureInvalidated, hipStreamEndCapture(stream, &graph));
    EXPECT_EQ(nullptr, graph);
    static_cast<void>(hipGetLastError());
    const Since since = graph_calls();
    whole();
    if (compares_captures()) {
      EXPECT_EQ(0, since["hipModuleLaunchKernel"]) << at;
    }
  }
}

TEST(Matching, two_captures_at_once_in_two_threads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([t] {
      const Stream stream;
      int* memory = nullptr;
      OK(hipMalloc(reinterpret_cast<void**>(&memory), kCount * sizeof(int)));
      OK(hipMemsetAsync(memory, 0, kCount * sizeof(int), stream));
      OK(hipStreamSynchronize(stream));
      int value = 0;
      for (int i = 0; i < 20; ++i) {
        hipGraph_t graph;
        hipGraphExec_t exec;
        OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
        for (int k = 0; k < 3 + t; ++k) {
          OK(kernels().mix(stream, memory, kCount, k + i % 2));
          value = mixed(value, k + i % 2);
        }
        OK(hipStreamEndCapture(stream, &graph));
        OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
        OK(hipGraphLaunch(exec, stream));
        OK(hipGraphExecDestroy(exec));
        OK(hipGraphDestroy(graph));
      }
      std::vector<int> host(kCount);
      OK(hipMemcpyAsync(host.data(), memory, kCount * sizeof(int), hipMemcpyDeviceToHost, stream));
      while (hipStreamQuery(stream) != hipSuccess) std::this_thread::yield();
      EXPECT_EQ(value, host[0]);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace captures
