// Tests of shim/streams/stream_work.h.
#include <gtest/gtest.h>

#include <thread>

#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"
#include "shim/streams/stream_work.h"
#include "tests/support/never_destroyed.h"
#include "tests/unit/fake_hip.h"

namespace graphpool {
namespace {

class StreamWorkTest : public testing::Test {
 protected:
  hipStream_t make_stream(unsigned flags = hipStreamNonBlocking) {
    hipStream_t stream = nullptr;
    EXPECT_EQ(next().hipStreamCreateWithFlags(&stream, flags), hipSuccess);
    work.created(stream, fake::t_device);
    return stream;
  }
  void enqueue(hipStream_t stream) {
    fake::work(stream);
    work.note_work(stream);
  }
  bool wait(int device) {
    PrivateCalls private_calls;
    Fence* fence = work.make_fence(device);
    if (fence == nullptr) return false;
    const bool waited = work.wait(fence);
    work.release(fence);
    return waited;
  }

  fake::Install fake;
  StreamWork& work = never_destroyed<StreamWork>();
};

TEST_F(StreamWorkTest, IdleAtFirst) {
  make_stream();
  EXPECT_TRUE(work.is_idle(0));
  EXPECT_TRUE(wait(0));
  EXPECT_EQ(fake.hip->count["hipEventRecord"], 0);
  EXPECT_EQ(fake.hip->count["hipEventSynchronize"], 0);
}

TEST_F(StreamWorkTest, WaitsForEveryBusyStreamOfTheDevice) {
  hipStream_t a = make_stream(), b = make_stream(), idle = make_stream();
  enqueue(a);
  enqueue(b);
  EXPECT_FALSE(work.is_idle(0));
  EXPECT_TRUE(work.is_idle(1));
  EXPECT_TRUE(wait(0));
  EXPECT_TRUE(fake::idle(a));
  EXPECT_TRUE(fake::idle(b));
  EXPECT_TRUE(work.is_idle(0));
  EXPECT_EQ(fake.hip->count["hipEventRecord"], 3) << "a, b and the fence; not the idle one";
  (void)idle;
}

TEST_F(StreamWorkTest, AskingLeavesNoErrorBehind) {
  fake.hip->version = 60000000;
  hipStream_t stream = make_stream();
  enqueue(stream);
  PrivateCalls private_calls;
  Fence* fence = work.make_fence(0);
  ASSERT_NE(fence, nullptr);
  EXPECT_FALSE(work.passed(fence));
  EXPECT_EQ(fake::t_last_error, hipSuccess);
  fake.hip->version = 70000000;
  fake::t_last_error = hipErrorInvalidValue;
  EXPECT_FALSE(work.passed(fence));
  EXPECT_EQ(fake::t_last_error, hipErrorInvalidValue) << "the program's";
  work.release(fence);
}

TEST_F(StreamWorkTest, OtherDevicesAreLeftAlone) {
  hipStream_t here = make_stream();
  fake::t_device = 1;
  hipStream_t there = make_stream();
  enqueue(here);
  enqueue(there);
  EXPECT_TRUE(wait(1));
  EXPECT_FALSE(fake::idle(here));
  EXPECT_TRUE(fake::idle(there));
  EXPECT_EQ(fake::t_device, 1);
}

TEST_F(StreamWorkTest, NullStreamAndOnesOwn) {
  enqueue(nullptr);
  EXPECT_TRUE(wait(0));
  EXPECT_TRUE(fake::idle(nullptr));
  enqueue(hipStreamPerThread);
  EXPECT_FALSE(work.is_idle(0));
  EXPECT_TRUE(wait(0));
  EXPECT_TRUE(fake::idle(hipStreamPerThread));
  EXPECT_TRUE(work.is_idle(0));
}

TEST_F(StreamWorkTest, NothingIsPutIntoTheNullStream) {
  enqueue(nullptr);
  Fence* fence = work.make_fence(0);
  ASSERT_NE(fence, nullptr);
  EXPECT_EQ(fake.hip->streams.at(0x10).operations.size(), 1u) << "an event there would hold back all blocking streams";
  work.release(fence);
}

TEST_F(StreamWorkTest, AnotherThreadsOwnStreamCannotBeFenced) {
  std::thread([&] { enqueue(hipStreamPerThread); }).join();
  EXPECT_EQ(work.make_fence(0), nullptr);
  const auto snapshot = work.before_device_sync(0);
  work.idle(snapshot);  // the program's hipFree has waited
  EXPECT_TRUE(work.is_idle(0));
  EXPECT_TRUE(wait(0));
}

TEST_F(StreamWorkTest, WorkNobodyKnowsWhere) {
  work.note_work_anywhere();
  EXPECT_EQ(work.make_fence(0), nullptr);
  EXPECT_EQ(work.make_fence(1), nullptr);
  work.idle(work.before_device_sync(0));
  EXPECT_TRUE(wait(0));
  EXPECT_EQ(work.make_fence(1), nullptr);
}

TEST_F(StreamWorkTest, StreamsMadeBeforeWeLooked) {
  hipStream_t unknown = nullptr;
  ASSERT_EQ(next().hipStreamCreateWithFlags(&unknown, hipStreamNonBlocking), hipSuccess);
  enqueue(unknown);
  EXPECT_TRUE(wait(0));
  EXPECT_TRUE(fake::idle(unknown));
}

TEST_F(StreamWorkTest, NoFenceInACapture) {
  hipStream_t stream = make_stream();
  enqueue(stream);
  capture_opened();
  EXPECT_EQ(work.make_fence(0), nullptr);
  capture_closed();
  EXPECT_TRUE(wait(0));
}

// HIP 6.3 refuses to wait for an event whose stream has begun a capture since it was recorded.
TEST_F(StreamWorkTest, rule_17_CaptureBegunAfterTheFence) {
  hipStream_t stream = make_stream();
  enqueue(stream);
  PrivateCalls private_calls;
  Fence* fence = work.make_fence(0);
  ASSERT_NE(fence, nullptr);
  fake.hip->capturing_streams.insert(reinterpret_cast<std::uintptr_t>(stream));
  EXPECT_FALSE(work.passed(fence));
  EXPECT_TRUE(work.wait(fence));
  EXPECT_FALSE(fake.hip->capture_invalidated);
  work.release(fence);
}

TEST_F(StreamWorkTest, NotReadyIsNoError) {
  hipStream_t stream = make_stream();
  enqueue(stream);
  Fence* fence = work.make_fence(0);
  fake::t_last_error = hipErrorInvalidValue;
  EXPECT_FALSE(work.passed(fence));
  EXPECT_EQ(fake::t_last_error, hipErrorInvalidValue) << "the program's own";
  fake::finish(stream);
  EXPECT_TRUE(work.passed(fence));
  EXPECT_TRUE(work.is_idle(0));
  work.release(fence);
}

TEST_F(StreamWorkTest, FreesWithoutWorkBetweenThemShareAFence) {
  hipStream_t stream = make_stream();
  enqueue(stream);
  Fence* first = work.make_fence(0);
  Fence* second = work.make_fence(0);
  EXPECT_EQ(first, second);
  enqueue(stream);
  Fence* third = work.make_fence(0);
  EXPECT_NE(third, first);
  for (Fence* fence : {first, second, third}) work.release(fence);
}

TEST_F(StreamWorkTest, WorkEnqueuedDuringAWaitStaysKnown) {
  hipStream_t stream = make_stream();
  enqueue(stream);
  Fence* fence = work.make_fence(0);
  enqueue(stream);
  EXPECT_TRUE(work.wait(fence));
  EXPECT_FALSE(work.is_idle(0));
  work.release(fence);
}

TEST_F(StreamWorkTest, TheProgramsOwnSynchronisationCounts) {
  hipStream_t stream = make_stream();
  enqueue(stream);
  const auto snapshot = work.before_stream_sync(stream);
  enqueue(stream);
  work.idle(snapshot);
  EXPECT_FALSE(work.make_fence(0) == nullptr);
  fake::finish(stream);
  work.idle(work.before_stream_sync(stream));
  EXPECT_TRUE(wait(0));
  enqueue(nullptr);
  work.idle(work.before_stream_sync(nullptr));
  EXPECT_TRUE(work.is_idle(0));
}

TEST_F(StreamWorkTest, DestroyedWithWorkOutstanding) {
  hipStream_t stream = make_stream();
  enqueue(stream);
  work.before_destroy(stream);
  EXPECT_FALSE(work.is_idle(0));
  EXPECT_TRUE(wait(0));
  EXPECT_TRUE(fake::idle(stream));
  EXPECT_TRUE(work.is_idle(0));
}

TEST_F(StreamWorkTest, WhereExecsEndLateTheRuntimeWaitsForTheDevice) {
  test_next().hipGraphExecDestroy = [](hipGraphExec_t) { return hipSuccess; };
  test_set_runtime_version(60443483);
  EXPECT_EQ(hipSuccess, work.destroy_exec(nullptr, 0));
  EXPECT_FALSE(work.execs_end(0));
  test_set_runtime_version(70253211);
  EXPECT_EQ(hipSuccess, work.destroy_exec(nullptr, 0));
  EXPECT_TRUE(work.execs_end(0));
  EXPECT_FALSE(work.execs_end(1));
  test_next().hipGraphExecDestroy = [](hipGraphExec_t) { return hipErrorInvalidValue; };
  EXPECT_EQ(hipErrorInvalidValue, work.destroy_exec(nullptr, 1));
  EXPECT_FALSE(work.execs_end(1)) << "none was destroyed";
  EXPECT_TRUE(work.is_idle(0));
  work.idle(work.before_device_sync(0));
  EXPECT_FALSE(work.execs_end(0));
}

TEST_F(StreamWorkTest, AskingOfADestroyedStreamDoesNotUseItsHandle) {
  hipStream_t stream = make_stream();
  enqueue(stream);
  EXPECT_FALSE(work.is_complete(0, stream));
  fake::finish(stream);
  EXPECT_TRUE(work.is_complete(0, stream));
  work.before_destroy(stream);
  const int before = fake.hip->count["hipEventRecord"];
  EXPECT_FALSE(work.is_complete(0, stream));
  EXPECT_EQ(fake.hip->count["hipEventRecord"], before);
}

TEST_F(StreamWorkTest, DestroyedInACapture) {
  hipStream_t stream = make_stream();
  enqueue(stream);
  capture_opened();
  work.before_destroy(stream);
  capture_closed();
  EXPECT_EQ(work.make_fence(0), nullptr) << "nobody waits for its work: the free must be the runtime's";
  work.idle(work.before_device_sync(0));
  EXPECT_TRUE(work.is_idle(0));
}

TEST_F(StreamWorkTest, AHandleThatComesBackIsAnotherStream) {
  hipStream_t stream = make_stream();
  enqueue(stream);
  Fence* fence = work.make_stream_fence(0, stream);
  ASSERT_NE(fence, nullptr);
  EXPECT_TRUE(work.same_stream(fence, 0, stream));
  EXPECT_FALSE(work.same_stream(fence, 0, nullptr));
  work.before_destroy(stream);
  work.created(stream, 0);
  EXPECT_FALSE(work.same_stream(fence, 0, stream));
  work.release(fence);
}

TEST_F(StreamWorkTest, DeviceReset) {
  hipStream_t stream = make_stream();
  enqueue(stream);
  enqueue(nullptr);
  Fence* fence = work.make_fence(0);
  work.device_reset(0);
  EXPECT_TRUE(work.is_idle(0));
  EXPECT_TRUE(work.passed(fence));
  EXPECT_TRUE(work.wait(fence));
  work.release(fence);
  fake.hip->streams.clear();
  fake.hip->events.clear();
  hipStream_t again = make_stream();
  enqueue(again);
  EXPECT_TRUE(wait(0));
}

TEST_F(StreamWorkTest, EveryCallFailedInTurn) {
  hipStream_t stream = make_stream();
  int injected = 0;
  for (int n = 1;; ++n) {
    StreamWork& fresh = never_destroyed<StreamWork>();
    fresh.created(stream, 0);
    fresh.note_work(stream);
    fresh.note_work(nullptr);
    fake.hip->calls = 0;
    fake.hip->fail_at = n;
    fake.hip->failed.clear();
    PrivateCalls private_calls;
    Fence* fence = fresh.make_fence(0);
    const bool waited = fence != nullptr && fresh.wait(fence);
    EXPECT_EQ(fake::t_last_error, hipSuccess);
    if (fence != nullptr) fresh.release(fence);
    if (fake.hip->failed.empty()) {
      EXPECT_TRUE(waited);
      break;
    }
    ++injected;
    // Nothing is captured: the wait does not need it.
    if (fake.hip->failed == "hipThreadExchangeStreamCaptureMode") continue;
    EXPECT_FALSE(waited) << fake.hip->failed;
    EXPECT_FALSE(fresh.is_idle(0)) << fake.hip->failed;
  }
  RecordProperty("injected", injected);
  EXPECT_GE(injected, 9);
}

TEST_F(StreamWorkTest, ManyStreamsAndThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        hipStream_t stream = make_stream();
        enqueue(stream);
        EXPECT_TRUE(wait(0));
        EXPECT_TRUE(fake::idle(stream)) << "what was enqueued before a wait is complete after it";
        work.before_destroy(stream);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(wait(0));
  EXPECT_TRUE(work.is_idle(0));
}

}  // namespace
}  // namespace graphpool
