// Each row of the tables at the top of capture.cpp: error code, what is invalidated, what is not.
#include <time.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "graph_support.h"

namespace graph_test {
namespace {

class CaptureTest : public testing::Test {
 protected:
  void SetUp() override {
    before_ = statistics();
    void* memory = nullptr;
    ASSERT_HIP(hipMalloc(&memory, 4096));
    data_ = static_cast<unsigned char*>(memory);
  }
  void TearDown() override {
    set_mode(hipStreamCaptureModeGlobal);
    EXPECT_HIP(hipFree(data_));
    (void)hipGetLastError();
    EXPECT_EQ(before_.captures, statistics().captures);
    EXPECT_EQ(before_.graphs, statistics().graphs);
    EXPECT_EQ(before_.nodes, statistics().nodes);
  }

  hipError_t fill(hipStream_t stream, std::size_t offset = 0) { return hipMemsetAsync(data_ + offset, 1, 16, stream); }
  static void set_mode(hipStreamCaptureMode mode) { EXPECT_HIP(hipThreadExchangeStreamCaptureMode(&mode)); }
  /// Ends an invalidated capture.
  static void end_invalid(hipStream_t stream) {
    auto* graph = reinterpret_cast<hipGraph_t>(1);
    EXPECT_EQ(hipErrorStreamCaptureInvalidated, hipStreamEndCapture(stream, &graph));
    EXPECT_EQ(nullptr, graph);
    EXPECT_EQ(hipStreamCaptureStatusNone, status(stream));
  }
  static void end(hipStream_t stream, std::size_t nodes) {
    hipGraph_t graph = nullptr;
    ASSERT_HIP(hipStreamEndCapture(stream, &graph));
    EXPECT_EQ(nodes, nodes_of(graph).size());
    EXPECT_EQ(hipStreamCaptureStatusNone, status(stream));
    EXPECT_HIP(hipGraphDestroy(graph));
  }

  unsigned char* data_ = nullptr;
  cpuhip_statistics_t before_;
};

constexpr hipStreamCaptureMode kModes[] = {hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal,
                                           hipStreamCaptureModeRelaxed};

TEST_F(CaptureTest, CapturesWithoutRunning) {
  TestStream stream;
  std::atomic<int> calls{0};
  for (const auto mode : kModes) {
    ASSERT_HIP(hipStreamBeginCapture(stream, mode));
    EXPECT_EQ(hipStreamCaptureStatusActive, status(stream));
    EXPECT_HIP(fill(stream));
    EXPECT_HIP(hipMemcpyAsync(data_ + 64, data_, 16, hipMemcpyDeviceToDevice, stream));
    EXPECT_HIP(hipLaunchHostFunc(stream, count_up, &calls));
    hipGraph_t graph = nullptr;
    ASSERT_HIP(hipStreamEndCapture(stream, &graph));
    EXPECT_EQ(0, calls);
    EXPECT_EQ(3u, nodes_of(graph).size());
    EXPECT_EQ(2u, edge_count(graph));
    EXPECT_HIP(hipGraphDestroy(graph));
  }
}

TEST_F(CaptureTest, BeginIsRefused) {
  TestStream stream;
  EXPECT_EQ(hipErrorStreamCaptureUnsupported, hipStreamBeginCapture(nullptr, hipStreamCaptureModeGlobal));
  EXPECT_EQ(hipErrorStreamCaptureUnsupported,
            hipStreamBeginCapture(reinterpret_cast<hipStream_t>(1), hipStreamCaptureModeGlobal));
  EXPECT_EQ(hipErrorInvalidValue, hipStreamBeginCapture(stream, static_cast<hipStreamCaptureMode>(3)));
  ASSERT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  EXPECT_EQ(hipErrorIllegalState, hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  EXPECT_EQ(hipStreamCaptureStatusActive, status(stream));
  end(stream, 0);
}

TEST_F(CaptureTest, EndIsRefused) {
  TestStream stream;
  hipGraph_t graph = nullptr;
  EXPECT_EQ(hipErrorIllegalState, hipStreamEndCapture(stream, &graph));
  EXPECT_EQ(hipErrorIllegalState, hipStreamEndCapture(nullptr, &graph));
  ASSERT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  EXPECT_EQ(hipErrorInvalidValue, hipStreamEndCapture(stream, nullptr));
  std::thread([&] { EXPECT_EQ(hipErrorStreamCaptureWrongThread, hipStreamEndCapture(stream, &graph)); }).join();
  EXPECT_EQ(hipStreamCaptureStatusActive, status(stream));
  end(stream, 0);
  ASSERT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
  std::thread([&] { end(stream, 0); }).join();
}

TEST_F(CaptureTest, AThreadThatHasTheIdOfAnEndedOneIsAnother) {
  TestStream stream;
  hipGraph_t graph = nullptr;
  std::thread([&] { ASSERT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal)); }).join();
  std::thread([&] { EXPECT_EQ(hipErrorStreamCaptureWrongThread, hipStreamEndCapture(stream, &graph)); }).join();
  EXPECT_EQ(hipStreamCaptureStatusActive, status(stream));
}

TEST_F(CaptureTest, PerThreadStreamIsCaptured) {
  ASSERT_HIP(hipStreamBeginCapture_spt(nullptr, hipStreamCaptureModeThreadLocal));
  EXPECT_HIP(hipMemsetAsync(data_, 1, 16, hipStreamPerThread));
  hipStreamCaptureStatus found = hipStreamCaptureStatusNone;
  EXPECT_HIP(hipStreamIsCapturing_spt(nullptr, &found));
  EXPECT_EQ(hipStreamCaptureStatusActive, found);
  std::thread([] { EXPECT_EQ(hipStreamCaptureStatusNone, status(hipStreamPerThread)); }).join();
  hipGraph_t graph = nullptr;
  ASSERT_HIP(hipStreamEndCapture_spt(nullptr, &graph));
  EXPECT_EQ(1u, nodes_of(graph).size());
  EXPECT_HIP(hipGraphDestroy(graph));
}

TEST_F(CaptureTest, AThreadThatEndsTakesItsCaptureAlong) {
  std::thread([&] {
    ASSERT_HIP(hipStreamBeginCapture(hipStreamPerThread, hipStreamCaptureModeGlobal));
    EXPECT_HIP(fill(hipStreamPerThread));
  }).join();
  EXPECT_EQ(before_.captures, statistics().captures);
  EXPECT_HIP(hipDeviceSynchronize());
}

TEST_F(CaptureTest, InfoNamesIdGraphAndLastNodes) {
  TestStream stream;
  hipStreamCaptureStatus found;
  unsigned long long first = 0, second = 0;
  EXPECT_EQ(hipErrorInvalidValue, hipStreamGetCaptureInfo(stream, nullptr, &first));
  for (unsigned long long* id : {&first, &second}) {
    ASSERT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    EXPECT_HIP(hipStreamGetCaptureInfo(stream, &found, id));
    EXPECT_EQ(hipStreamCaptureStatusActive, found);
    unsigned long long again = 0;
    hipGraph_t graph = nullptr, ended = nullptr;
    const hipGraphNode_t* last = nullptr;
    std::size_t count = 9;
    EXPECT_HIP(hipStreamGetCaptureInfo_v2(stream, &found, &again, &graph, &last, &count));
    EXPECT_EQ(*id, again);
    EXPECT_EQ(0u, count);
    EXPECT_HIP(fill(stream));
    EXPECT_HIP(hipStreamGetCaptureInfo_v2(stream, &found, nullptr, nullptr, &last, &count));
    ASSERT_EQ(1u, count);
    const hipGraphNode_t node = last[0];
    ASSERT_HIP(hipStreamEndCapture(stream, &ended));
    EXPECT_EQ(graph, ended);
    EXPECT_EQ(std::vector{node}, nodes_of(ended));
    EXPECT_HIP(hipGraphDestroy(ended));
  }
  EXPECT_NE(first, second);
}

TEST_F(CaptureTest, NullStreamQueriesWhileABlockingStreamCaptures) {
  TestStream blocking(hipStreamDefault), other;
  hipStreamCaptureStatus found = hipStreamCaptureStatusActive;
  ASSERT_HIP(hipStreamBeginCapture(other, hipStreamCaptureModeGlobal));
  EXPECT_HIP(hipStreamIsCapturing(nullptr, &found));
  EXPECT_EQ(hipStreamCaptureStatusNone, found);
  end(other, 0);
  ASSERT_HIP(hipStreamBeginCapture(blocking, hipStreamCaptureModeGlobal));
  EXPECT_EQ(hipErrorStreamCaptureImplicit, hipStreamIsCapturing(nullptr, &found));
  EXPECT_EQ(hipErrorStreamCaptureImplicit, hipStreamGetCaptureInfo(nullptr, &found, nullptr));
  EXPECT_EQ(hipErrorStreamCaptureImplicit,
            hipStreamGetCaptureInfo_v2(nullptr, &found, nullptr, nullptr, nullptr, nullptr));
  EXPECT_EQ(hipStreamCaptureStatusActive, status(blocking));
  end(blocking, 0);
}

// --- Calls that are unsafe in a capture: by the calling thread's mode ---

TEST_F(CaptureTest, MallocInAGlobalCaptureInvalidatesIt) {
  TestStream stream;
  ASSERT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  void* memory = nullptr;
  EXPECT_EQ(hipErrorStreamCaptureUnsupported, hipMalloc(&memory, 16));
  EXPECT_EQ(hipStreamCaptureStatusInvalidated, status(stream));
  EXPECT_EQ(hipErrorStreamCaptureInvalidated, fill(stream));
  end_invalid(stream);
  EXPECT_HIP(fill(stream));  // works as a stream again
  EXPECT_HIP(hipStreamSynchronize(stream));
}

TEST_F(CaptureTest, FreeInACaptureInvalidatesItAndKeepsTheMemory) {
  TestStream stream;
  void* memory = nullptr;
  ASSERT_HIP(hipMalloc(&memory, 16));
  ASSERT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
  EXPECT_EQ(hipErrorStreamCaptureUnsupported, hipFree(memory));
  end_invalid(stream);
  EXPECT_HIP(hipFree(memory));
}

TEST_F(CaptureTest, UnsafeCallsByModeOfThreadAndCapture) {
  struct Row {
    hipStreamCaptureMode thread, capture;
    bool same_thread, allowed;
  };
  const hipStreamCaptureMode global = hipStreamCaptureModeGlobal, local = hipStreamCaptureModeThreadLocal,
                             relaxed = hipStreamCaptureModeRelaxed;
  const Row rows[] = {{global, global, true, false},  {global, local, true, false}, {global, relaxed, true, true},
                      {local, global, true, false},   {local, local, true, false},  {local, relaxed, true, true},
                      {relaxed, global, true, true},  {relaxed, local, true, true}, {relaxed, relaxed, true, true},
                      {global, global, false, false}, {global, local, false, true}, {global, relaxed, false, true},
                      {local, global, false, true},   {local, local, false, true},  {relaxed, global, false, true}};
  for (const Row& row : rows) {
    SCOPED_TRACE(testing::Message() << row.thread << row.capture << row.same_thread);
    TestStream stream;
    ASSERT_HIP(hipStreamBeginCapture(stream, row.capture));
    const auto call = [&] {
      set_mode(row.thread);
      void* memory = nullptr;
      const hipError_t expected = row.allowed ? hipSuccess : hipErrorStreamCaptureUnsupported;
      EXPECT_EQ(expected, hipMalloc(&memory, 16));
      set_mode(relaxed);
      if (row.allowed) {
        EXPECT_HIP(hipFree(memory));
      }
      set_mode(global);
    };
    if (row.same_thread) {
      call();
    } else {
      std::thread(call).join();
    }
    EXPECT_EQ(row.allowed ? hipStreamCaptureStatusActive : hipStreamCaptureStatusInvalidated, status(stream));
    if (row.allowed) {
      end(stream, 0);
    } else {
      end_invalid(stream);
    }
  }
}

TEST_F(CaptureTest, OwnCapturesShieldOthersFromUnsafeCalls) {
  TestStream mine, others;
  std::atomic<int> step{0};
  std::thread other([&] {
    EXPECT_HIP(hipStreamBeginCapture(others, hipStreamCaptureModeGlobal));
    step = 1;
    while (step != 2) std::this_thread::yield();
    end(others, 0);
  });
  while (step != 1) std::this_thread::yield();
  EXPECT_HIP(hipStreamBeginCapture(mine, hipStreamCaptureModeGlobal));
  void* memory = nullptr;
  EXPECT_EQ(hipErrorStreamCaptureUnsupported, hipMalloc(&memory, 16));
  EXPECT_EQ(hipStreamCaptureStatusInvalidated, status(mine));
  EXPECT_EQ(hipStreamCaptureStatusActive, status(others));
  step = 2;
  other.join();
  end_invalid(mine);
}

TEST_F(CaptureTest, ExchangeModeAnswersTheOldOne) {
  hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
  EXPECT_HIP(hipThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(hipStreamCaptureModeGlobal, mode);
  EXPECT_HIP(hipThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(hipStreamCaptureModeRelaxed, mode);
  EXPECT_EQ(hipErrorInvalidValue, hipThreadExchangeStreamCaptureMode(nullptr));
  mode = static_cast<hipStreamCaptureMode>(3);
  EXPECT_EQ(hipErrorInvalidValue, hipThreadExchangeStreamCaptureMode(&mode));
}

TEST_F(CaptureTest, DeviceSynchronizeInvalidatesEveryCapture) {
  for (const auto mode : kModes) {
    TestStream stream;
    ASSERT_HIP(hipStreamBeginCapture(stream, mode));
    std::thread([] { EXPECT_EQ(hipErrorStreamCaptureUnsupported, hipDeviceSynchronize()); }).join();
    EXPECT_EQ(hipStreamCaptureStatusInvalidated, status(stream));
    end_invalid(stream);
  }
}

TEST_F(CaptureTest, SynchronousCopiesAreImplicitAndInvalidateEveryCapture) {
  for (const auto mode : kModes) {
    for (int call = 0; call < 3; ++call) {
      TestStream stream;
      unsigned char byte = 7;
      ASSERT_HIP(hipStreamBeginCapture(stream, mode));
      std::thread([&] {
        const hipError_t result = call == 0   ? hipMemcpy(data_, &byte, 1, hipMemcpyHostToDevice)
                                  : call == 1 ? hipMemset(data_, 1, 16)
                                              : hipMemcpy2D(data_, 8, data_ + 64, 8, 8, 2, hipMemcpyDeviceToDevice);
        EXPECT_EQ(hipErrorStreamCaptureImplicit, result);
      }).join();
      end_invalid(stream);
    }
  }
}

TEST_F(CaptureTest, QueryingACapturingStreamInvalidatesIt) {
  for (const auto mode : kModes) {
    for (const auto call : {hipStreamQuery, hipStreamSynchronize}) {
      TestStream stream;
      ASSERT_HIP(hipStreamBeginCapture(stream, mode));
      EXPECT_EQ(hipErrorStreamCaptureUnsupported, call(stream));
      EXPECT_EQ(hipStreamCaptureStatusInvalidated, status(stream));
      EXPECT_EQ(hipErrorStreamCaptureUnsupported, call(stream));
      end_invalid(stream);
    }
  }
}

TEST_F(CaptureTest, QueryingAnotherStreamInvalidatesGlobalCaptures) {
  TestStream stream, other;
  ASSERT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  EXPECT_HIP(hipStreamQuery(nullptr));  // never the null stream
  EXPECT_EQ(hipStreamCaptureStatusActive, status(stream));
  set_mode(hipStreamCaptureModeRelaxed);
  EXPECT_HIP(hipStreamQuery(other));
  set_mode(hipStreamCaptureModeGlobal);
  EXPECT_EQ(hipStreamCaptureStatusActive, status(stream));
  std::thread([&] { EXPECT_EQ(hipErrorStreamCaptureUnsupported, hipStreamQuery(other)); }).join();
  end_invalid(stream);

  ASSERT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
  std::thread([&] { EXPECT_HIP(hipStreamSynchronize(other)); }).join();
  EXPECT_EQ(hipStreamCaptureStatusActive, status(stream));
  EXPECT_EQ(hipErrorStreamCaptureUnsupported, hipStreamSynchronize(other));
  end_invalid(stream);

  ASSERT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
  EXPECT_HIP(hipStreamSynchronize(other));
  end(stream, 0);
}

TEST_F(CaptureTest, QueryingAnEventOfACapturingStream) {
  for (const bool recorded_before : {true, false}) {
    for (const auto call : {hipEventQuery, hipEventSynchronize}) {
      TestStream stream;
      TestEvent event;
      if (recorded_before) {
        EXPECT_HIP(hipEventRecord(event, stream));
        EXPECT_HIP(hipStreamSynchronize(stream));
      }
      ASSERT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
      if (!recorded_before) {
        EXPECT_HIP(hipEventRecord(event, stream));
      }
      EXPECT_EQ(hipErrorCapturedEvent, call(event));
      EXPECT_EQ(hipStreamCaptureStatusInvalidated, status(stream));
      end_invalid(stream);
      EXPECT_HIP(call(event));
    }
  }
}

TEST_F(CaptureTest, SynchronizingAnUnrelatedEventInvalidatesGlobalCapturesButQueryingDoesNot) {
  TestStream stream, other;
  TestEvent event, on_null;
  EXPECT_HIP(hipEventRecord(event, other));
  EXPECT_HIP(hipEventRecord(on_null, nullptr));
  EXPECT_HIP(hipEventSynchronize(event));
  ASSERT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  EXPECT_HIP(hipEventQuery(event));
  EXPECT_HIP(hipEventSynchronize(on_null));
  EXPECT_EQ(hipStreamCaptureStatusActive, status(stream));
  std::thread([&] { EXPECT_EQ(hipErrorStreamCaptureUnsupported, hipEventSynchronize(event)); }).join();
  end_invalid(stream);
}

// --- Fork and join ---

TEST_F(CaptureTest, EventsForkAndJoin) {
  TestStream first, second;
  TestEvent fork, join;
  ASSERT_HIP(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
  EXPECT_HIP(fill(first));
  EXPECT_HIP(hipEventRecord(fork, first));
  EXPECT_HIP(hipStreamWaitEvent(second, fork, 0));
  EXPECT_EQ(hipStreamCaptureStatusActive, status(second));
  EXPECT_HIP(fill(first, 64));
  EXPECT_HIP(fill(second, 128));
  EXPECT_HIP(hipEventRecord(join, second));
  EXPECT_HIP(hipStreamWaitEvent(first, join, 0));
  EXPECT_HIP(fill(first, 192));
  hipGraph_t graph = nullptr;
  ASSERT_HIP(hipStreamEndCapture(first, &graph));
  EXPECT_EQ(hipStreamCaptureStatusNone, status(second));
  EXPECT_EQ(4u, nodes_of(graph).size());  // events make no nodes
  EXPECT_EQ(4u, edge_count(graph));
  EXPECT_HIP(fill(second));
  EXPECT_HIP(hipStreamSynchronize(second));
  EXPECT_HIP(hipGraphDestroy(graph));
}

TEST_F(CaptureTest, ForkedStreamsForkAgainAndJoinEachOther) {
  TestStream origin, second, third;
  TestEvent events[4];
  ASSERT_HIP(hipStreamBeginCapture(origin, hipStreamCaptureModeGlobal));
  EXPECT_HIP(fill(origin));
  EXPECT_HIP(hipEventRecord(events[0], origin));
  EXPECT_HIP(hipStreamWaitEvent(second, events[0], 0));
  EXPECT_HIP(fill(second, 64));
  EXPECT_HIP(hipEventRecord(events[1], second));
  EXPECT_HIP(hipStreamWaitEvent(third, events[1], 0));
  EXPECT_HIP(fill(third, 128));
  EXPECT_HIP(fill(second, 192));
  EXPECT_HIP(hipEventRecord(events[2], third));
  EXPECT_HIP(hipStreamWaitEvent(second, events[2], 0));
  EXPECT_HIP(fill(second, 256));
  EXPECT_HIP(hipStreamWaitEvent(second, events[2], 0));  // known already
  EXPECT_HIP(hipEventRecord(events[3], second));
  EXPECT_HIP(hipStreamWaitEvent(second, events[3], 0));  // its own
  EXPECT_HIP(hipStreamWaitEvent(origin, events[3], 0));
  EXPECT_HIP(hipStreamWaitEvent(origin, events[2], 0));
  end(origin, 5);
  EXPECT_EQ(hipStreamCaptureStatusNone, status(second));
  EXPECT_EQ(hipStreamCaptureStatusNone, status(third));
}

TEST_F(CaptureTest, AForkThatDidNothingNeedsNoJoin) {
  TestStream first, second;
  TestEvent fork;
  ASSERT_HIP(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
  EXPECT_HIP(fill(first));
  EXPECT_HIP(hipEventRecord(fork, first));
  EXPECT_HIP(hipStreamWaitEvent(second, fork, 0));
  end(first, 1);
  EXPECT_EQ(hipStreamCaptureStatusNone, status(second));
}

TEST_F(CaptureTest, UnjoinedBranchesLeaveTheStreamsCapturing) {
  TestStream second;
  hipStream_t first = TestStream().release();
  TestEvent fork;
  ASSERT_HIP(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
  EXPECT_HIP(fill(first));
  EXPECT_HIP(hipEventRecord(fork, first));
  EXPECT_HIP(hipStreamWaitEvent(second, fork, 0));
  EXPECT_HIP(fill(second, 64));
  hipGraph_t graph = nullptr;
  EXPECT_EQ(hipErrorStreamCaptureUnjoined, hipStreamEndCapture(first, &graph));
  EXPECT_EQ(nullptr, graph);
  EXPECT_EQ(hipStreamCaptureStatusActive, status(first));
  EXPECT_EQ(hipStreamCaptureStatusActive, status(second));
  EXPECT_EQ(hipErrorStreamCaptureWrongThread, hipStreamEndCapture(first, &graph));
  EXPECT_HIP(hipDeviceSynchronize());  // in no list any more
  EXPECT_HIP(hipStreamDestroy(first));
  EXPECT_EQ(hipStreamCaptureStatusNone, status(second));
}

/// With CPUHIP_GONE=looked_up.
TEST_F(CaptureTest, QuirkGoneStreamsAndEvents) {
  hipStream_t stream = nullptr;
  hipEvent_t event = nullptr;
  EXPECT_HIP(hipStreamCreate(&stream));
  EXPECT_HIP(hipEventCreate(&event));
  EXPECT_HIP(hipStreamDestroy(stream));
  EXPECT_HIP(hipEventDestroy(event));
  EXPECT_EQ(hipErrorContextIsDestroyed, hipStreamDestroy(stream));
  EXPECT_EQ(hipErrorContextIsDestroyed, hipStreamQuery(stream));
  EXPECT_EQ(hipErrorContextIsDestroyed, hipEventDestroy(event));
  EXPECT_EQ(hipErrorContextIsDestroyed, hipEventDestroy(reinterpret_cast<hipEvent_t>(&event)));
  EXPECT_EQ(hipErrorInvalidHandle, hipEventDestroy(nullptr));
}

/// With the quirk unjoined_ends.
TEST_F(CaptureTest, QuirkUnjoinedEnds) {
  TestStream first, second;
  TestEvent fork;
  ASSERT_HIP(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
  EXPECT_HIP(fill(first));
  EXPECT_HIP(hipEventRecord(fork, first));
  EXPECT_HIP(hipStreamWaitEvent(second, fork, 0));
  EXPECT_HIP(fill(second, 64));
  hipGraph_t graph = nullptr;
  EXPECT_EQ(hipErrorStreamCaptureUnjoined, hipStreamEndCapture(first, &graph));
  EXPECT_EQ(nullptr, graph);
  EXPECT_EQ(hipStreamCaptureStatusNone, status(first));
  EXPECT_EQ(hipStreamCaptureStatusNone, status(second));
  EXPECT_EQ(hipErrorIllegalState, hipStreamEndCapture(first, &graph));
}

/// With the quirk destroyed_streams_events.
TEST_F(CaptureTest, QuirkDestroyedStreamsEvents) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto use = [](const char* function, auto call) {
    EXPECT_DEATH(
        {
          const TestEvent event;
          hipStream_t stream = nullptr;
          (void)hipStreamCreate(&stream);
          (void)hipEventRecord(event, stream);
          (void)hipStreamDestroy(stream);
          (void)call(event);
        },
        std::string(function) + ": the stream that event 0x.* was last recorded on was destroyed");
  };
  use("hipEventQuery", [](hipEvent_t event) { return hipEventQuery(event); });
  use("hipEventSynchronize", [](hipEvent_t event) { return hipEventSynchronize(event); });
  use("hipStreamWaitEvent", [](hipEvent_t event) { return hipStreamWaitEvent(nullptr, event, 0); });
  EXPECT_DEATH(
      {
        const TestEvent event;
        std::thread([&] { (void)hipEventRecord(event, hipStreamPerThread); }).join();
        (void)hipEventQuery(event);
      },
      "hipEventQuery: the stream that");

  TestEvent event;
  TestStream stays;
  {
    TestStream goes;
    EXPECT_HIP(hipEventRecord(event, goes));
  }
  EXPECT_HIP(hipEventRecord(event, stays));
  EXPECT_HIP(hipEventSynchronize(event));
}

/// With the quirk event_keeps_nodes, an event recorded before its stream has a node stands for its last nodes.
TEST_F(CaptureTest, EventsRecordedBeforeAnyNode) {
  const char* const quirks = std::getenv("CPUHIP_QUIRKS");
  const bool keeps = quirks != nullptr && std::strstr(quirks, "event_keeps_nodes") != nullptr;
  TestStream first, second;
  TestEvent fork;
  ASSERT_HIP(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
  EXPECT_HIP(fill(first));
  EXPECT_HIP(hipEventRecord(fork, first));
  end(first, 1);
  ASSERT_HIP(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
  EXPECT_HIP(hipEventRecord(fork, first));
  EXPECT_HIP(hipStreamWaitEvent(second, fork, 0));
  EXPECT_EQ(keeps ? hipErrorInvalidValue : hipSuccess, fill(second));
  if (keeps) {
    EXPECT_HIP(hipStreamUpdateCaptureDependencies(second, nullptr, 0, hipStreamSetCaptureDependencies));
    EXPECT_HIP(fill(second));
  }
  EXPECT_HIP(hipEventRecord(fork, second));
  EXPECT_HIP(hipStreamWaitEvent(first, fork, 0));
  EXPECT_HIP(fill(first));
  hipGraph_t graph = nullptr;
  // The node of the refused operation is in the graph, and nothing comes behind it.
  EXPECT_EQ(keeps ? hipErrorStreamCaptureUnjoined : hipSuccess, hipStreamEndCapture(first, &graph));
  if (!keeps) {
    EXPECT_HIP(hipGraphDestroy(graph));
  }
}

/// With the quirk event_keeps_nodes, a stream that comes behind a node twice is refused the next operation before 6.1.
TEST_F(CaptureTest, NodesNotedTwice) {
  const char* const quirks = std::getenv("CPUHIP_QUIRKS");
  const bool twice = quirks != nullptr && std::strstr(quirks, "event_keeps_nodes") != nullptr &&
                     std::getenv("CPUHIP_VERSION") == nullptr;
  TestStream first, second;
  TestEvent fork;
  ASSERT_HIP(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
  EXPECT_HIP(fill(first));
  EXPECT_HIP(hipEventRecord(fork, first));
  EXPECT_HIP(hipStreamWaitEvent(second, fork, 0));
  EXPECT_HIP(hipStreamWaitEvent(second, fork, 0));
  EXPECT_EQ(twice ? hipErrorInvalidValue : hipSuccess, fill(second));
}

/// Nodes replaced in a stream's dependencies need no join; later nodes do, whatever their addresses.
TEST_F(CaptureTest, ReplacedDependenciesStayKnown) {
  for (const bool replaced : {false, true}) {
    TestStream second;
    hipStream_t first = TestStream().release();
    TestEvent fork;
    if (replaced) {
      for (int i = 0; i < 2; ++i) {
        ASSERT_HIP(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
        for (int k = 0; k < 4; ++k) {
          EXPECT_HIP(fill(first));
          EXPECT_HIP(hipStreamUpdateCaptureDependencies(first, nullptr, 0, hipStreamSetCaptureDependencies));
        }
        hipGraph_t graph = nullptr;
        EXPECT_HIP(hipStreamEndCapture(first, &graph));
        EXPECT_HIP(hipGraphDestroy(graph));
      }
    }
    ASSERT_HIP(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
    EXPECT_HIP(hipEventRecord(fork, first));
    EXPECT_HIP(hipStreamWaitEvent(second, fork, 0));
    EXPECT_HIP(fill(second));
    EXPECT_HIP(fill(first, 64));
    hipGraph_t graph = nullptr;
    EXPECT_EQ(hipErrorStreamCaptureUnjoined, hipStreamEndCapture(first, &graph));
    EXPECT_HIP(hipStreamDestroy(first));
  }
}

TEST_F(CaptureTest, OnlyTheOriginEnds) {
  TestStream first, second;
  TestEvent fork, join;
  ASSERT_HIP(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
  EXPECT_HIP(hipEventRecord(fork, first));
  EXPECT_HIP(hipStreamWaitEvent(second, fork, 0));
  hipGraph_t graph = nullptr;
  EXPECT_EQ(hipErrorStreamCaptureUnmatched, hipStreamEndCapture(second, &graph));
  EXPECT_HIP(fill(second));
  EXPECT_HIP(hipEventRecord(join, second));
  EXPECT_HIP(hipStreamWaitEvent(first, join, 0));
  end(first, 1);
}

TEST_F(CaptureTest, InvalidationIsPerStream) {
  TestStream first, second;
  TestEvent fork, join;
  ASSERT_HIP(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
  EXPECT_HIP(hipEventRecord(fork, first));
  EXPECT_HIP(hipStreamWaitEvent(second, fork, 0));
  EXPECT_HIP(fill(second));
  EXPECT_HIP(hipEventRecord(join, second));
  EXPECT_HIP(hipStreamWaitEvent(first, join, 0));
  EXPECT_EQ(hipErrorStreamCaptureUnsupported, hipStreamQuery(second));
  EXPECT_EQ(hipStreamCaptureStatusInvalidated, status(second));
  EXPECT_EQ(hipStreamCaptureStatusActive, status(first));
  EXPECT_EQ(hipErrorStreamCaptureInvalidated, fill(second));
  end(first, 1);

  ASSERT_HIP(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
  EXPECT_HIP(hipEventRecord(fork, first));
  EXPECT_HIP(hipStreamWaitEvent(second, fork, 0));
  EXPECT_EQ(hipErrorStreamCaptureUnsupported, hipDeviceSynchronize());
  EXPECT_EQ(hipStreamCaptureStatusActive, status(second));
  EXPECT_HIP(fill(second));
  end_invalid(first);
  EXPECT_EQ(hipStreamCaptureStatusNone, status(second));
}

TEST_F(CaptureTest, WaitingAcrossTheBeginIsIsolation) {
  TestStream first, second;
  TestEvent event;
  EXPECT_HIP(hipEventRecord(event, first));
  ASSERT_HIP(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
  EXPECT_EQ(hipErrorStreamCaptureIsolation, hipStreamWaitEvent(second, event, 0));
  EXPECT_EQ(hipStreamCaptureStatusActive, status(first));
  EXPECT_EQ(hipStreamCaptureStatusNone, status(second));
  end(first, 0);
}

TEST_F(CaptureTest, ExternalWaitsArePerformedAtOnce) {
  TestStream capturing, other;
  TestEvent event;
  Gate gate;
  EXPECT_HIP(hipLaunchHostFunc(other, Gate::wait, &gate));
  EXPECT_HIP(hipEventRecord(event, other));
  ASSERT_HIP(hipStreamBeginCapture(capturing, hipStreamCaptureModeRelaxed));
  EXPECT_HIP(hipStreamWaitEvent(capturing, event, 0));
  EXPECT_HIP(fill(capturing));
  end(capturing, 1);
  EXPECT_EQ(hipErrorNotReady, hipStreamQuery(capturing));  // the stream itself waits
  gate.open = true;
  EXPECT_HIP(hipStreamSynchronize(capturing));
  EXPECT_HIP(hipStreamSynchronize(other));
}

TEST_F(CaptureTest, TwoCapturesDoNotMerge) {
  TestStream first, second;
  TestEvent event;
  ASSERT_HIP(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
  ASSERT_HIP(hipStreamBeginCapture(second, hipStreamCaptureModeGlobal));
  EXPECT_HIP(fill(first));
  EXPECT_HIP(hipEventRecord(event, first));
  EXPECT_EQ(hipErrorStreamCaptureMerge, hipStreamWaitEvent(second, event, 0));
  end_invalid(first);
  end_invalid(second);
}

TEST_F(CaptureTest, TheNullStreamCannotJoin) {
  TestStream stream;
  TestEvent event;
  ASSERT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  EXPECT_HIP(hipEventRecord(event, stream));
  EXPECT_EQ(hipErrorInvalidHandle, hipStreamWaitEvent(nullptr, event, 0));
  EXPECT_EQ(hipStreamCaptureStatusActive, status(stream));
  end(stream, 0);
}

TEST_F(CaptureTest, RecordingOnAnInvalidatedStreamRecords) {
  TestStream stream;
  TestEvent event;
  ASSERT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  EXPECT_EQ(hipErrorStreamCaptureUnsupported, hipStreamQuery(stream));
  EXPECT_HIP(hipEventRecord(event, stream));
  end_invalid(stream);
  EXPECT_HIP(hipEventSynchronize(event));
}

TEST_F(CaptureTest, BeginAgainAfterInvalidation) {
  TestStream stream;
  ASSERT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  EXPECT_HIP(fill(stream));
  EXPECT_EQ(hipErrorStreamCaptureUnsupported, hipStreamQuery(stream));
  ASSERT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  EXPECT_HIP(fill(stream));
  end(stream, 1);
}

TEST_F(CaptureTest, DestroyingTheOriginEndsTheCapture) {
  hipStream_t first = TestStream().release();
  TestStream second;
  TestEvent event;
  ASSERT_HIP(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
  EXPECT_HIP(fill(first));
  EXPECT_HIP(hipEventRecord(event, first));
  EXPECT_HIP(hipStreamWaitEvent(second, event, 0));
  EXPECT_HIP(hipStreamDestroy(first));
  EXPECT_EQ(hipStreamCaptureStatusNone, status(second));
  EXPECT_HIP(hipDeviceSynchronize());
}

TEST_F(CaptureTest, DestroyingAForkedStreamOrAnEventLeavesTheCapture) {
  TestStream first;
  hipStream_t second = TestStream().release();
  {
    TestEvent fork, join;
    ASSERT_HIP(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
    EXPECT_HIP(hipEventRecord(fork, first));
    EXPECT_HIP(hipStreamWaitEvent(second, fork, 0));
    EXPECT_HIP(fill(second));
    EXPECT_HIP(hipEventRecord(join, second));
    EXPECT_HIP(hipStreamWaitEvent(first, join, 0));
    EXPECT_HIP(hipStreamDestroy(second));
  }
  EXPECT_HIP(fill(first, 64));
  end(first, 2);
}

// --- Dependencies by hand, graphs given ---

TEST_F(CaptureTest, UpdateDependenciesAddsAndReplaces) {
  TestStream stream;
  EXPECT_EQ(hipErrorIllegalState,
            hipStreamUpdateCaptureDependencies(stream, nullptr, 0, hipStreamAddCaptureDependencies));
  ASSERT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  hipStreamCaptureStatus found;
  hipGraph_t graph = nullptr;
  const hipGraphNode_t* last = nullptr;
  std::size_t count = 0;
  const auto tail = [&] {
    EXPECT_HIP(hipStreamGetCaptureInfo_v2(stream, &found, nullptr, &graph, &last, &count));
    return std::vector<hipGraphNode_t>(last, last + count);
  };
  EXPECT_HIP(fill(stream));
  hipGraphNode_t first = tail().at(0);
  hipGraphNode_t by_hand = nullptr, foreign = nullptr;
  ASSERT_HIP(hipGraphAddEmptyNode(&by_hand, graph, nullptr, 0));
  EXPECT_HIP(hipStreamUpdateCaptureDependencies(stream, &by_hand, 1, hipStreamAddCaptureDependencies));
  EXPECT_EQ((std::vector{first, by_hand}), tail());
  EXPECT_HIP(hipStreamUpdateCaptureDependencies(stream, &by_hand, 1, hipStreamSetCaptureDependencies));
  EXPECT_EQ(std::vector{by_hand}, tail());

  hipGraph_t other = nullptr;
  ASSERT_HIP(hipGraphCreate(&other, 0));
  ASSERT_HIP(hipGraphAddEmptyNode(&foreign, other, nullptr, 0));
  EXPECT_EQ(hipErrorInvalidValue, hipStreamUpdateCaptureDependencies(stream, &foreign, 1, 0));
  EXPECT_EQ(hipErrorInvalidValue, hipStreamUpdateCaptureDependencies(stream, nullptr, 1, 0));
  EXPECT_EQ(hipErrorInvalidValue, hipStreamUpdateCaptureDependencies(stream, &first, 1, 2));
  hipGraphNode_t many[] = {first, by_hand, first};
  EXPECT_EQ(hipErrorInvalidValue, hipStreamUpdateCaptureDependencies(stream, many, 3, 0));
  EXPECT_HIP(hipGraphDestroy(other));
  end(stream, 2);  // `first` was taken from the dependencies: it needs no join
}

TEST_F(CaptureTest, NodesAddedByHandNeedNoJoin) {
  TestStream stream;
  ASSERT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  hipStreamCaptureStatus found;
  hipGraph_t graph = nullptr;
  EXPECT_HIP(hipStreamGetCaptureInfo_v2(stream, &found, nullptr, &graph, nullptr, nullptr));
  hipGraphNode_t node = nullptr;
  ASSERT_HIP(hipGraphAddEmptyNode(&node, graph, nullptr, 0));
  EXPECT_HIP(fill(stream));
  end(stream, 2);
}

TEST_F(CaptureTest, CaptureToGraph) {
  TestStream stream;
  hipGraph_t graph = nullptr, ended = nullptr;
  hipGraphNode_t root = nullptr;
  ASSERT_HIP(hipGraphCreate(&graph, 0));
  ASSERT_HIP(hipGraphAddEmptyNode(&root, graph, nullptr, 0));
  const auto mode = hipStreamCaptureModeGlobal;
  int data = 0;
  EXPECT_EQ(hipErrorNotSupported, hipStreamBeginCaptureToGraph(stream, graph, nullptr, &data, 0, mode));
  EXPECT_EQ(hipErrorInvalidValue, hipStreamBeginCaptureToGraph(stream, nullptr, nullptr, nullptr, 0, mode));
  EXPECT_EQ(hipErrorInvalidValue, hipStreamBeginCaptureToGraph(stream, graph, &root, nullptr, 0, mode));
  EXPECT_EQ(hipErrorInvalidValue, hipStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 1, mode));
  ASSERT_HIP(hipStreamBeginCaptureToGraph(stream, graph, &root, nullptr, 1, mode));
  EXPECT_HIP(fill(stream));
  ASSERT_HIP(hipStreamEndCapture(stream, &ended));
  EXPECT_EQ(graph, ended);
  EXPECT_EQ(2u, nodes_of(graph).size());
  EXPECT_EQ(1u, edge_count(graph));

  ASSERT_HIP(hipStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0, mode));
  EXPECT_EQ(hipErrorStreamCaptureUnsupported, hipStreamQuery(stream));
  end_invalid(stream);
  EXPECT_EQ(hipErrorIllegalState, hipGraphDestroy(graph));  // went with the capture
}

TEST_F(CaptureTest, ValuesAreWrittenAtOnce) {
  TestStream stream;
  ASSERT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
  EXPECT_HIP(hipStreamWriteValue32(stream, data_, 77, 0));
  end(stream, 0);
  EXPECT_HIP(hipStreamSynchronize(stream));
  unsigned value = 0;
  EXPECT_HIP(hipMemcpy(&value, data_, 4, hipMemcpyDeviceToHost));
  EXPECT_EQ(77u, value);
}

TEST_F(CaptureTest, BadOperationsAreRefusedAndInvalidateNothing) {
  TestStream stream;
  ASSERT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  EXPECT_EQ(hipErrorInvalidValue, hipLaunchHostFunc(stream, nullptr, nullptr));
  EXPECT_EQ(hipErrorInvalidValue, hipMemcpyAsync(nullptr, data_, 16, hipMemcpyDeviceToDevice, stream));
  EXPECT_EQ(hipErrorInvalidValue, hipMemsetAsync(data_, 0, 8192, stream));
  EXPECT_EQ(hipStreamCaptureStatusActive, status(stream));
  end(stream, 0);
}

TEST_F(CaptureTest, ThreadsCaptureAtTheSameTime) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      TestStream stream, side;
      TestEvent fork, join;
      for (int round = 0; round < 50; ++round) {
        ASSERT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
        EXPECT_HIP(fill(stream));
        EXPECT_HIP(hipEventRecord(fork, stream));
        EXPECT_HIP(hipStreamWaitEvent(side, fork, 0));
        EXPECT_HIP(fill(side, 64));
        EXPECT_HIP(hipEventRecord(join, side));
        EXPECT_HIP(hipStreamWaitEvent(stream, join, 0));
        EXPECT_HIP(fill(stream, 128));
        end(stream, 3);
      }
      set_mode(hipStreamCaptureModeRelaxed);  // other threads still capture while the streams are destroyed
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Processor time of this thread, which other work on the machine takes nothing of.
double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

TEST_F(CaptureTest, ManyNodesAreNotQuadratic) {
  TestStream stream;
  const auto took = [&](int nodes) {
    const double start = thread_seconds();
    EXPECT_HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    for (int i = 0; i < nodes; ++i) EXPECT_HIP(fill(stream));
    hipGraph_t graph = nullptr;
    EXPECT_HIP(hipStreamEndCapture(stream, &graph));
    hipGraphExec_t exec = nullptr;
    EXPECT_HIP(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    EXPECT_HIP(hipGraphExecDestroy(exec));
    EXPECT_HIP(hipGraphDestroy(graph));
    return thread_seconds() - start;
  };
  took(1000);
  const double small = took(2000), large = took(32000);
  EXPECT_LT(large, 16 * small * 5 + 0.5);  // quadratic would be 256 times
}

}  // namespace
}  // namespace graph_test
