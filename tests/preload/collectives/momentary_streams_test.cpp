// Streams that a program makes inside a capture for a moment, as RCCL 2.27 does in each collective: it makes one, lets
// it wait for an event of the capture, asks where it stands and destroys it. Natively and under the library answers,
// errors and results are the same. In a capture that is served such streams cost the runtime no call.
#include <atomic>
#include <thread>

#include "tests/preload/graphs/registered.h"

namespace captures {
namespace {

__attribute__((noinline)) void mix_stub() { asm volatile(""); }

/// The capture's nodes that the stream comes behind.
std::vector<hipGraphNode_t> nodes_behind(hipStream_t stream) {
  hipStreamCaptureStatus status{};
  unsigned long long id = 0;
  const hipGraphNode_t* nodes = nullptr;
  std::size_t count = 0;
  EXPECT_EQ(hipSuccess, hipStreamGetCaptureInfo_v2(stream, &status, &id, nullptr, &nodes, &count));
  EXPECT_EQ(hipStreamCaptureStatusActive, status);
  EXPECT_NE(0u, id);
  return {nodes, nodes + count};
}

hipStreamCaptureStatus status_of(hipStream_t stream) {
  hipStreamCaptureStatus status{};
  EXPECT_EQ(hipSuccess, hipStreamIsCapturing(stream, &status));
  return status;
}

std::size_t live_streams() {
  cpuhip_statistics_t now{};
  cpuhip_statistics(&now);
  return now.streams;
}

class MomentaryStreams : public testing::Test {
 protected:
  hipStream_t made() {
    hipStream_t stream = nullptr;
    EXPECT_EQ(hipSuccess, hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    return stream;
  }
  /// A stream that has joined the capture, behind all that was captured.
  hipStream_t joined() {
    EXPECT_EQ(hipSuccess, hipEventRecord(event_, stream_));
    const hipStream_t stream = made();
    EXPECT_EQ(hipSuccess, hipStreamWaitEvent(stream, event_, 0));
    return stream;
  }
  void mix(int a) { OK(kernels().mix(stream_, buffer_.get(), kCount, a)); }
  /// The handle of a stream that was destroyed.
  hipStream_t momentary() {
    const hipStream_t stream = joined();
    EXPECT_EQ(1u, nodes_behind(stream).size());
    EXPECT_EQ(hipSuccess, hipStreamDestroy(stream));
    return stream;
  }
  /// The same step as ever; the handle of its last momentary stream.
  hipStream_t usual_step(int streams = 1) {
    hipStream_t last = nullptr;
    step(stream_, [&] {
      mix(1);
      for (int i = 0; i < streams; ++i) {
        last = momentary();
        mix(2);
      }
    });
    expected_ = mixed(expected_, 1);
    for (int i = 0; i < streams; ++i) expected_ = mixed(expected_, 2);
    EXPECT_EQ(expected_, buffer_.value());
    return last;
  }
  hipStream_t destroyed_in_a_served_capture() {
    for (int i = 0; i < 3; ++i) usual_step();
    return usual_step();
  }

  const Stream stream_;
  const Event event_;
  const Buffer buffer_;
  int expected_ = 0;
};

TEST_F(MomentaryStreams, cost_no_call_where_their_capture_is_served) {
  for (int i = 0; i < 3; ++i) usual_step(5);
  const Since since({"hipStreamCreateWithFlags", "hipStreamDestroy", "hipStreamWaitEvent"});
  for (int i = 0; i < 10; ++i) usual_step(5);
  const int each = compares_captures() ? 0 : 50;
  EXPECT_EQ(each, since["hipStreamCreateWithFlags"]);
  EXPECT_EQ(each, since["hipStreamDestroy"]);
  EXPECT_EQ(each, since["hipStreamWaitEvent"]);
}

using Call = hipError_t (*)(hipStream_t stream, hipEvent_t event, int* memory);
struct NamedCall {
  const char* name;
  Call call;
};
const NamedCall kCalls[] = {
    {"hipStreamQuery", [](hipStream_t stream, hipEvent_t, int*) { return hipStreamQuery(stream); }},
    {"hipStreamSynchronize", [](hipStream_t stream, hipEvent_t, int*) { return hipStreamSynchronize(stream); }},
    {"hipEventRecord", [](hipStream_t stream, hipEvent_t event, int*) { return hipEventRecord(event, stream); }},
    {"hipStreamWaitEvent",
     [](hipStream_t stream, hipEvent_t event, int*) { return hipStreamWaitEvent(stream, event, 0); }},
    {"hipLaunchKernel",
     [](hipStream_t stream, hipEvent_t, int* memory) {
       int count = kCount, a = 1;
       void* arguments[] = {&memory, &count, &a};
       return hipLaunchKernel(reinterpret_cast<const void*>(&mix_stub), dim3(1), dim3(64), arguments, 0, stream);
     }},
    {"hipModuleLaunchKernel",
     [](hipStream_t stream, hipEvent_t, int* memory) { return kernels().mix(stream, memory, kCount, 1); }},
    {"hipMemsetAsync",
     [](hipStream_t stream, hipEvent_t, int* memory) { return hipMemsetAsync(memory, 0, 4, stream); }},
    {"hipStreamBeginCapture",
     [](hipStream_t stream, hipEvent_t, int*) { return hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed); }},
    {"hipStreamIsCapturing",
     [](hipStream_t stream, hipEvent_t, int*) {
       hipStreamCaptureStatus status{};
       return hipStreamIsCapturing(stream, &status);
     }},
    {"hipStreamGetCaptureInfo_v2",
     [](hipStream_t stream, hipEvent_t, int*) {
       hipStreamCaptureStatus status{};
       std::size_t count = 0;
       return hipStreamGetCaptureInfo_v2(stream, &status, nullptr, nullptr, nullptr, &count);
     }},
    {"hipStreamGetFlags",
     [](hipStream_t stream, hipEvent_t, int*) {
       unsigned flags = 0;
       return hipStreamGetFlags(stream, &flags);
     }},
    {"hipStreamGetPriority",
     [](hipStream_t stream, hipEvent_t, int*) {
       int priority = 0;
       return hipStreamGetPriority(stream, &priority);
     }},
    {"hipStreamDestroy", [](hipStream_t stream, hipEvent_t, int*) { return hipStreamDestroy(stream); }},
};

TEST_F(MomentaryStreams, rule_47_are_refused_by_each_call_once_they_are_destroyed) {
  const Registered registered(
      "extern \"C\" __global__ void mix_of_stub(int* p, int n, int a) { if (n > 0) p[0] = p[0] * 31 + a; }",
      "mix_of_stub", reinterpret_cast<const void*>(&mix_stub));
  const Event other;
  for (const NamedCall& each : kCalls) {
    const hipStream_t gone = destroyed_in_a_served_capture();
    const Since since({"hipStreamDestroy"});
    EXPECT_EQ(hipErrorContextIsDestroyed, each.call(gone, other, buffer_.get())) << each.name;
    EXPECT_EQ(hipErrorContextIsDestroyed, each.call(gone, other, buffer_.get())) << each.name << " again";
    static_cast<void>(hipGetLastError());
    if (compares_captures()) {
      EXPECT_LE(1, since["hipStreamDestroy"]) << each.name << ": it is really destroyed now";
    }
    EXPECT_EQ(expected_, buffer_.value()) << each.name;
  }
}

TEST_F(MomentaryStreams, rule_47_are_refused_inside_the_capture_too) {
  for (int i = 0; i < 3; ++i) usual_step();
  step(stream_, [&] {
    mix(1);
    const hipStream_t gone = momentary();
    unsigned flags = 0;
    EXPECT_EQ(hipErrorContextIsDestroyed, hipStreamGetFlags(gone, &flags));
    EXPECT_EQ(hipErrorContextIsDestroyed, kernels().mix(gone, buffer_.get(), kCount, 1));
    EXPECT_EQ(hipErrorContextIsDestroyed, hipStreamDestroy(gone));
    mix(2);
  });
  static_cast<void>(hipGetLastError());
  expected_ = mixed(mixed(expected_, 1), 2);
  EXPECT_EQ(expected_, buffer_.value());
  usual_step();
}

TEST_F(MomentaryStreams, are_the_programs_while_another_threads_calls_make_joins) {
  for (int i = 0; i < 3; ++i) usual_step();
  std::atomic<bool> done{false};
  std::thread other([&] {
    while (!done) {
      hipEvent_t event = nullptr;
      OK(hipEventCreate(&event));
      OK(hipEventDestroy(event));
    }
  });
  for (int i = 0; i < 1000; ++i) usual_step();
  done = true;
  other.join();
}

TEST_F(MomentaryStreams, of_a_capture_that_becomes_real_later) {
  for (int i = 0; i < 3; ++i) usual_step();
  for (int i = 0; i < 3; ++i) {
    step(stream_, [&] {
      mix(1);
      momentary();
      mix(2);
      mix(3 + i);
      if (i == 1) OK(kernels().join(stream_, buffer_.get(), buffer_.get(), kCount));
      momentary();
      mix(4);
    });
    expected_ = mixed(mixed(mixed(expected_, 1), 2), 3 + i);
    if (i == 1) expected_ = captures::joined(expected_, expected_);
    expected_ = mixed(expected_, 4);
    EXPECT_EQ(expected_, buffer_.value()) << i;
  }
  usual_step();
}

TEST_F(MomentaryStreams, that_are_used_after_all_take_part_in_the_capture) {
  const Buffer other;
  for (int i = 0; i < 3; ++i) usual_step();
  const auto uses = [&](bool asked) {
    step(stream_, [&] {
      mix(1);
      const hipStream_t side = joined();
      if (asked) {
        EXPECT_EQ(hipStreamCaptureStatusActive, status_of(side));
      }
      OK(kernels().join(side, other.get(), buffer_.get(), kCount));
      const Event back;
      OK(hipEventRecord(back, side));
      OK(hipStreamWaitEvent(stream_, back, 0));
      OK(hipStreamDestroy(side));
      mix(2);
    });
    expected_ = mixed(mixed(expected_, 1), 2);
    EXPECT_EQ(expected_, buffer_.value());
  };
  int value = other.value();
  for (const bool asked : {false, true, false}) {
    const int seen = mixed(expected_, 1);
    uses(asked);
    value = captures::joined(value, seen);
    EXPECT_EQ(value, other.value());
  }
  usual_step();
}

TEST_F(MomentaryStreams, join_behind_what_their_event_stood_for) {
  for (int i = 0; i < 4; ++i) {
    step(stream_, [&] {
      mix(1);
      const std::vector<hipGraphNode_t> before = nodes_behind(stream_);
      const hipStream_t side = joined();
      mix(2);
      OK(hipEventRecord(event_, stream_));  // it stands for more now
      EXPECT_EQ(before, nodes_behind(side));
      OK(hipStreamDestroy(side));
      momentary();
      mix(2);
    });
    expected_ = mixed(mixed(mixed(expected_, 1), 2), 2);
    EXPECT_EQ(expected_, buffer_.value()) << i;
  }
}

TEST_F(MomentaryStreams, whose_event_goes) {
  for (int i = 0; i < 4; ++i) {
    step(stream_, [&] {
      mix(1);
      hipEvent_t event = nullptr;
      OK(hipEventCreate(&event));
      OK(hipEventRecord(event, stream_));
      const hipStream_t side = made();
      OK(hipStreamWaitEvent(side, event, 0));
      OK(hipEventDestroy(event));
      EXPECT_EQ(1u, nodes_behind(side).size());
      EXPECT_EQ(hipStreamCaptureStatusActive, status_of(side));
      OK(hipStreamDestroy(side));
      mix(2);
    });
    expected_ = mixed(mixed(expected_, 1), 2);
    EXPECT_EQ(expected_, buffer_.value()) << i;
  }
}

TEST_F(MomentaryStreams, destroyed_by_another_thread) {
  for (int i = 0; i < 4; ++i) {
    hipStream_t gone = nullptr;
    step(stream_, [&] {
      mix(1);
      gone = joined();
      EXPECT_EQ(1u, nodes_behind(gone).size());
      std::thread([&] { OK(hipStreamDestroy(gone)); }).join();
      mix(2);
    });
    EXPECT_EQ(hipErrorContextIsDestroyed, hipStreamQuery(gone));
    static_cast<void>(hipGetLastError());
    expected_ = mixed(mixed(expected_, 1), 2);
    EXPECT_EQ(expected_, buffer_.value()) << i;
  }
}

TEST_F(MomentaryStreams, that_outlive_the_capture) {
  for (int i = 0; i < 4; ++i) {
    hipStream_t side = nullptr;
    step(stream_, [&] {
      mix(1);
      side = joined();
      EXPECT_EQ(1u, nodes_behind(side).size());
      mix(2);
    });
    expected_ = mixed(mixed(expected_, 1), 2);
    EXPECT_EQ(hipStreamCaptureStatusNone, status_of(side));
    OK(kernels().mix(side, buffer_.get(), kCount, 5));
    OK(hipStreamSynchronize(side));
    OK(hipStreamDestroy(side));
    expected_ = mixed(expected_, 5);
    EXPECT_EQ(expected_, buffer_.value()) << i;
    EXPECT_EQ(hipErrorContextIsDestroyed, hipStreamQuery(side));
    static_cast<void>(hipGetLastError());
  }
}

TEST_F(MomentaryStreams, work_outside_of_the_capture_is_done) {
  const Event outside;
  const Buffer other;
  int value = 0;
  for (int i = 0; i < 4; ++i) {
    step(stream_, [&] {
      mix(1);
      const hipStream_t side = made();
      OK(hipStreamWaitEvent(side, outside, 0));
      OK(kernels().mix(side, other.get(), kCount, 7));
      OK(hipStreamDestroy(side));
      mix(2);
    });
    value = mixed(value, 7);
    expected_ = mixed(mixed(expected_, 1), 2);
    EXPECT_EQ(value, other.value()) << i;
    EXPECT_EQ(expected_, buffer_.value()) << i;
  }
}

TEST_F(MomentaryStreams, are_what_the_program_asks_for) {
  int least = 0, greatest = 0;
  OK(hipDeviceGetStreamPriorityRange(&least, &greatest));
  ASSERT_NE(least, greatest);
  for (int i = 0; i < 6; ++i) {
    step(stream_, [&] {
      mix(1);
      OK(hipEventRecord(event_, stream_));
      for (const int priority : {least, greatest}) {
        hipStream_t side = nullptr;
        OK(hipStreamCreateWithPriority(&side, hipStreamNonBlocking, priority));
        if (i < 4) OK(hipStreamWaitEvent(side, event_, 0));
        int told = 17;
        unsigned flags = 17;
        if (i >= 4) OK(hipStreamGetPriority(side, &told));
        if (i >= 4) OK(hipStreamGetFlags(side, &flags));
        EXPECT_EQ(i < 4 ? 17 : priority, told);
        EXPECT_EQ(i < 4 ? 17u : hipStreamNonBlocking, flags);
        OK(hipStreamDestroy(side));
      }
      for (const unsigned wanted : {hipStreamNonBlocking, hipStreamDefault}) {
        hipStream_t side = nullptr;
        unsigned flags = 17;
        OK(hipStreamCreateWithFlags(&side, wanted));
        if (i >= 4) OK(hipStreamGetFlags(side, &flags));
        EXPECT_EQ(i < 4 ? 17 : wanted, flags);
        OK(hipStreamDestroy(side));
      }
    });
    expected_ = mixed(expected_, 1);
    EXPECT_EQ(expected_, buffer_.value()) << i;
  }
}

TEST_F(MomentaryStreams, rule_30_few_are_kept) {
  constexpr std::size_t kMostOfKind = 4;
  for (int i = 0; i < 3; ++i) usual_step();
  const std::size_t before = live_streams();
  for (int i = 0; i < 4; ++i) {
    step(stream_, [&] {
      mix(1);
      std::vector<hipStream_t> all(12);
      for (hipStream_t& each : all) each = joined();
      for (const hipStream_t each : all) OK(hipStreamDestroy(each));
      mix(2);
    });
    expected_ = mixed(mixed(expected_, 1), 2);
    EXPECT_EQ(expected_, buffer_.value()) << i;
  }
  EXPECT_GE(before + kMostOfKind, live_streams());
}

TEST_F(MomentaryStreams, rule_08_of_a_capture_that_is_invalidated) {
  for (int i = 0; i < 3; ++i) usual_step();
  hipGraph_t graph = nullptr;
  OK(hipStreamBeginCapture(stream_, hipStreamCaptureModeGlobal));
  mix(1);
  const hipStream_t side = joined();
  void* memory = nullptr;
  EXPECT_EQ(hipErrorStreamCaptureUnsupported, hipHostMalloc(&memory, 1 << 20, hipHostMallocDefault));
  EXPECT_EQ(hipStreamCaptureStatusInvalidated, status_of(stream_));
  EXPECT_EQ(hipStreamCaptureStatusActive, status_of(side));
  EXPECT_EQ(hipSuccess, kernels().mix(side, buffer_.get(), kCount, 9));
  OK(hipStreamDestroy(side));
  EXPECT_EQ(hipErrorStreamCaptureInvalidated, hipStreamEndCapture(stream_, &graph));
  static_cast<void>(hipGetLastError());
  EXPECT_EQ(expected_, buffer_.value());
  usual_step();
}

TEST_F(MomentaryStreams, rule_31_go_with_their_device) {
  const hipStream_t gone = destroyed_in_a_served_capture();
  int device = 0;
  OK(hipGetDevice(&device));
  OK(hipSetDevice(1 - device));
  OK(hipDeviceReset());
  OK(hipSetDevice(device));
  EXPECT_EQ(hipErrorContextIsDestroyed, hipStreamQuery(gone));
  static_cast<void>(hipGetLastError());
  usual_step();
  usual_step();
}

TEST_F(MomentaryStreams, rule_25_go_back_before_a_call_may_fail_for_memory) {
  destroyed_in_a_served_capture();
  const std::size_t kept = compares_captures() ? 1 : 0, before = live_streams();
  std::size_t free = 0, total = 0;
  OK(hipMemGetInfo(&free, &total));
  void* memory = nullptr;
  EXPECT_EQ(hipErrorOutOfMemory, hipMalloc(&memory, total));
  static_cast<void>(hipGetLastError());
  EXPECT_EQ(before - kept, live_streams());
  usual_step();
}

}  // namespace
}  // namespace captures
