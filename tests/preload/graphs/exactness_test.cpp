// What random programs (tests/property) once saw differ under the library: each runs natively and under it.
#include <thread>

#include "captures.h"

namespace captures {
namespace {

TEST(Exactness, an_invalidated_stream_of_a_compared_capture_refuses_while_the_origin_goes_on) {
  const Stream s, t;
  const Buffer a, b;
  const Event fork, join;
  int first = 0, second = 0;
  for (int i = 0; i < 6; ++i) {
    const bool invalidated = i == 3;
    hipGraph_t graph = nullptr;
    OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
    OK(kernels().mix(s, a.get(), kCount, i));
    OK(hipEventRecord(fork, s));
    OK(hipStreamWaitEvent(t, fork, 0));
    OK(kernels().mix(t, b.get(), kCount, 10 + i));
    OK(hipEventRecord(join, t));
    OK(hipStreamWaitEvent(s, join, 0));
    if (invalidated) {
      EXPECT_EQ(hipErrorStreamCaptureUnsupported, hipStreamQuery(t));
      EXPECT_EQ(hipErrorStreamCaptureInvalidated, kernels().mix(t, b.get(), kCount, 99));
    }
    OK(kernels().mix(s, a.get(), kCount, 20 + i));
    OK(hipStreamEndCapture(s, &graph));
    run(s, graph);
    first = mixed(mixed(first, i), 20 + i);
    second = mixed(second, 10 + i);
    EXPECT_EQ(first, a.value()) << "step " << i;
    EXPECT_EQ(second, b.value()) << "step " << i;
  }
}

TEST(Exactness, what_an_invalidated_capture_held_does_not_reach_the_next_one_on_its_stream) {
  const Stream s;
  const Buffer a, b;
  int value = 0;
  for (int i = 0; i < 6; ++i) {
    hipGraph_t graph = nullptr;
    if (i == 4) {
      OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
      OK(kernels().mix(s, a.get(), kCount, 100));
      EXPECT_EQ(hipErrorStreamCaptureImplicit, hipMemset(b.get(), 0, sizeof(int)));
      OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
    } else {
      OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
      OK(kernels().mix(s, a.get(), kCount, i));
      value = mixed(value, i);
    }
    OK(kernels().mix(s, a.get(), kCount, 10 + i));
    value = mixed(value, 10 + i);
    OK(hipStreamEndCapture(s, &graph));
    run(s, graph);
    EXPECT_EQ(value, a.value()) << "step " << i;
  }
}

TEST(Exactness, a_forked_stream_destroyed_before_it_is_joined_is_not_joined) {
  const Stream s;
  const Buffer a;
  const Event fork, join;
  for (int i = 0; i < 5; ++i) {
    const bool destroyed = i == 3;
    hipStream_t t = nullptr;
    hipGraph_t graph = nullptr;
    OK(hipStreamCreate(&t));
    OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
    OK(hipEventRecord(fork, s));
    OK(hipStreamWaitEvent(t, fork, 0));
    OK(kernels().mix(t, a.get(), kCount, i));
    OK(hipEventRecord(join, t));
    if (destroyed) OK(hipStreamDestroy(t));
    OK(hipStreamWaitEvent(s, join, 0));
    if (destroyed) {
      EXPECT_EQ(hipErrorStreamCaptureUnjoined, hipStreamEndCapture(s, &graph));
      break;  // the stream stays in its capture
    }
    OK(hipStreamEndCapture(s, &graph));
    OK(hipGraphDestroy(graph));
    OK(hipStreamDestroy(t));
  }
}

/// What a program is told when the end of a capture is refused, and by everything it does then.
enum class Refused { kForkedStream, kOtherThread, kUnjoined, kUnjoinedRelaxed };

std::vector<int> told_after(Refused refused, hipStream_t s, hipStream_t t, const Buffer& a, const Buffer& b, int value,
                            bool* ended) {
  std::vector<int> told;
  const auto tell = [&](hipError_t result) { told.push_back(result); };
  const auto tell_status = [&] {
    for (const hipStream_t stream : {s, t}) {
      hipStreamCaptureStatus status{};
      tell(hipStreamIsCapturing(stream, &status));
      told.push_back(status);
    }
  };
  hipEvent_t fork, join;
  EXPECT_EQ(hipSuccess, hipEventCreate(&fork));
  EXPECT_EQ(hipSuccess, hipEventCreate(&join));
  const bool relaxed = refused == Refused::kUnjoinedRelaxed;
  tell(hipStreamBeginCapture(s, relaxed ? hipStreamCaptureModeRelaxed : hipStreamCaptureModeGlobal));
  tell(kernels().mix(s, a.get(), kCount, value));
  tell(hipEventRecord(fork, s));
  tell(hipStreamWaitEvent(t, fork, 0));
  tell(kernels().mix(t, b.get(), kCount, value));
  hipGraph_t graph = nullptr;
  if (refused == Refused::kOtherThread) {
    tell(hipEventRecord(join, t));
    tell(hipStreamWaitEvent(s, join, 0));
    std::thread([&] { tell(hipStreamEndCapture(s, &graph)); }).join();
  } else {
    tell(hipStreamEndCapture(refused == Refused::kForkedStream ? t : s, &graph));
  }
  EXPECT_EQ(refused == Refused::kForkedStream  ? hipErrorStreamCaptureUnmatched
            : refused == Refused::kOtherThread ? hipErrorStreamCaptureWrongThread
                                               : hipErrorStreamCaptureUnjoined,
            told.back());
  EXPECT_EQ(nullptr, graph);
  tell_status();
  tell(hipEventRecord(join, t));
  tell(hipStreamWaitEvent(s, join, 0));
  tell(kernels().mix(s, a.get(), kCount, value + 1));
  tell_status();
  tell(hipStreamEndCapture(s, &graph));
  told.push_back(graph != nullptr ? 1 : 0);
  tell_status();
  *ended = graph != nullptr;
  if (*ended) {
    hipGraphExec_t exec = nullptr;
    tell(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    tell(hipGraphLaunch(exec, s));
    tell(hipStreamSynchronize(s));
    EXPECT_EQ(hipSuccess, hipGraphExecDestroy(exec));
    EXPECT_EQ(hipSuccess, hipGraphDestroy(graph));
  }
  EXPECT_EQ(hipSuccess, hipEventDestroy(fork));
  EXPECT_EQ(hipSuccess, hipEventDestroy(join));
  return told;
}

TEST(Exactness, rule_08_a_capture_whose_end_was_refused_goes_on_as_the_first_time) {
  for (const Refused refused :
       {Refused::kForkedStream, Refused::kOtherThread, Refused::kUnjoined, Refused::kUnjoinedRelaxed}) {
    const Buffer a, b;
    int first = a.value(), second = b.value();
    std::vector<int> expected;
    for (int i = 0; i < 4; ++i) {
      const Stream s, t;
      bool ended = false;
      const std::vector<int> told = told_after(refused, s, t, a, b, 10 * i, &ended);
      if (i == 0) expected = told;
      EXPECT_EQ(expected, told) << "refusal " << static_cast<int>(refused) << ", step " << i;
      EXPECT_EQ(refused != Refused::kUnjoined, ended) << "HIP takes it out of the thread's list, so nobody can end it";
      if (ended) first = mixed(mixed(first, 10 * i), 10 * i + 1);
      if (ended) second = mixed(second, 10 * i);
      EXPECT_EQ(first, a.value()) << "refusal " << static_cast<int>(refused) << ", step " << i;
      EXPECT_EQ(second, b.value()) << "refusal " << static_cast<int>(refused) << ", step " << i;
    }
  }
}

TEST(Exactness, a_stream_with_the_handle_of_one_destroyed_feeds_no_capture) {
  const Stream s;
  const Buffer a, b;
  const Event fork, join;
  int value = 0, forked = 0;
  for (int i = 0; i < 5; ++i) {
    hipStream_t t = nullptr, u = nullptr;
    hipGraph_t graph = nullptr;
    OK(hipStreamCreate(&t));
    OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
    OK(hipEventRecord(fork, s));
    OK(hipStreamWaitEvent(t, fork, 0));
    OK(kernels().mix(t, b.get(), kCount, i));
    OK(hipEventRecord(join, t));
    OK(hipStreamWaitEvent(s, join, 0));
    OK(hipStreamDestroy(t));
    OK(hipStreamCreate(&u));  // often with the handle of t
    OK(kernels().mix(u, a.get(), kCount, i));
    OK(hipStreamSynchronize(u));
    value = mixed(value, i);
    OK(hipStreamEndCapture(s, &graph));
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipGraphLaunch(exec, s));
    forked = mixed(forked, i);
    OK(hipStreamSynchronize(s));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
    OK(hipStreamDestroy(u));
    EXPECT_EQ(value, a.value()) << "step " << i;
    EXPECT_EQ(forked, b.value()) << "step " << i;
  }
}

TEST(Exactness, rule_08_captures_that_meet_are_both_invalidated) {
  const Stream s, t;
  const Buffer a, b;
  const Event event;
  for (int i = 0; i < 5; ++i) {
    hipGraph_t first = nullptr, second = nullptr;
    OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
    OK(kernels().mix(s, a.get(), kCount, i));
    OK(hipEventRecord(event, s));
    OK(hipStreamBeginCapture(t, hipStreamCaptureModeRelaxed));
    OK(kernels().mix(t, b.get(), kCount, i));
    const bool meet = i == 3;
    if (meet) {
      EXPECT_EQ(hipErrorStreamCaptureMerge, hipStreamWaitEvent(t, event, 0));
    }
    const hipError_t expected = meet ? hipErrorStreamCaptureInvalidated : hipSuccess;
    EXPECT_EQ(expected, kernels().mix(s, a.get(), kCount, 10 + i)) << "step " << i;
    EXPECT_EQ(expected, kernels().mix(t, b.get(), kCount, 10 + i)) << "step " << i;
    EXPECT_EQ(expected, hipStreamEndCapture(s, &first)) << "step " << i;
    EXPECT_EQ(expected, hipStreamEndCapture(t, &second)) << "step " << i;
    if (meet) continue;
    OK(hipGraphDestroy(first));
    OK(hipGraphDestroy(second));
  }
}

/// The types of the nodes that the next operation of a capture would come behind, in the runtime's order.
std::vector<int> coming_behind(hipStream_t stream) {
  hipStreamCaptureStatus status{};
  hipGraph_t graph = nullptr;
  const hipGraphNode_t* nodes = nullptr;
  std::size_t count = 0;
  EXPECT_EQ(hipSuccess, hipStreamGetCaptureInfo_v2(stream, &status, nullptr, &graph, &nodes, &count));
  std::vector<int> types;
  for (std::size_t i = 0; i < count; ++i) {
    hipGraphNodeType type{};
    EXPECT_EQ(hipSuccess, hipGraphNodeGetType(nodes[i], &type));
    types.push_back(static_cast<int>(type));
  }
  return types;
}

TEST(Exactness, dependencies_of_a_capture_made_real_keep_the_order_they_were_waited_for_in) {
  const Stream s, t;
  const Buffer a, b;
  const Event fork, join;
  for (int i = 0; i < 3; ++i) {
    hipGraph_t graph = nullptr;
    OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
    OK(hipEventRecord(fork, s));
    OK(hipStreamWaitEvent(t, fork, 0));
    OK(hipMemsetAsync(b.get(), 0, kCount * sizeof(int), t));
    OK(kernels().mix(s, a.get(), kCount, i));
    OK(hipEventRecord(join, t));
    OK(hipStreamWaitEvent(s, join, 0));
    if (i == 2) {
      const std::vector<int> types = coming_behind(s);
      ASSERT_EQ(2u, types.size());
      EXPECT_EQ(types[0] + 2, types[1]) << "not a kernel, then a fill (versions number types from 0 or 1)";
    }
    OK(hipStreamEndCapture(s, &graph));
    OK(hipGraphDestroy(graph));
  }
}

TEST(Exactness, rule_14_an_error_the_program_has_not_fetched_outlives_what_fails_inside) {
  int version = 0;
  OK(hipRuntimeGetVersion(&version));
  if (version < 70000000) GTEST_SKIP() << "any call replaces the last error";
  const Stream s;
  const Buffer a;
  int* pinned = nullptr;
  OK(hipHostMalloc(reinterpret_cast<void**>(&pinned), 64, 0));
  hipGraph_t graph = nullptr;
  EXPECT_EQ(hipErrorIllegalState, hipStreamEndCapture(s, &graph));
  OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
  OK(hipMemcpyAsync(a.get(), pinned, 0, hipMemcpyHostToDevice, s));  // no node can be made of it by hand
  OK(hipStreamEndCapture(s, &graph));
  EXPECT_EQ(hipErrorIllegalState, hipPeekAtLastError());
  EXPECT_EQ(hipErrorIllegalState, hipGetLastError());
  EXPECT_EQ(hipSuccess, hipGetLastError());
  OK(hipGraphDestroy(graph));
  OK(hipHostFree(pinned));
}

}  // namespace
}  // namespace captures
