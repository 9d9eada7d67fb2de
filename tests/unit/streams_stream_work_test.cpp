// Tests of shim/streams/stream_work.h.
#include "shim/hip/quirks.h"
#include "shim/streams/open_captures.h"
#include "tests/unit/stream_work_fixture.h"

namespace graphpool {
namespace {

TEST_F(StreamWorkTest, DestroyedWithWorkOutstanding) {
  hipStream_t stream = make_stream();
  enqueue(stream);
  work.before_destroy(stream);
  EXPECT_FALSE(work.counts.is_idle(0));
  EXPECT_TRUE(wait(0));
  EXPECT_TRUE(fake::idle(stream));
  EXPECT_TRUE(work.counts.is_idle(0));
}

TEST_F(StreamWorkTest, WhereExecsEndLateTheRuntimeWaitsForTheDevice) {
  test_next().hipGraphExecDestroy = [](hipGraphExec_t) { return hipSuccess; };
  test_set_runtime_version(60443483);
  EXPECT_EQ(hipSuccess, work.destroy_exec(nullptr, 0));
  EXPECT_FALSE(work.counts.execs_end(0));
  test_set_runtime_version(70253211);
  EXPECT_EQ(hipSuccess, work.destroy_exec(nullptr, 0));
  EXPECT_TRUE(work.counts.execs_end(0));
  EXPECT_FALSE(work.counts.execs_end(1));
  test_next().hipGraphExecDestroy = [](hipGraphExec_t) { return hipErrorInvalidValue; };
  EXPECT_EQ(hipErrorInvalidValue, work.destroy_exec(nullptr, 1));
  EXPECT_FALSE(work.counts.execs_end(1)) << "none was destroyed";
  EXPECT_TRUE(work.counts.is_idle(0));
  work.counts.idle(work.counts.before_device_sync(0));
  EXPECT_FALSE(work.counts.execs_end(0));
}

TEST_F(StreamWorkTest, DestroyedInACapture) {
  hipStream_t stream = make_stream();
  enqueue(stream);
  capture_opened();
  work.before_destroy(stream);
  capture_closed();
  EXPECT_EQ(work.fences.make(0), nullptr) << "nobody waits for its work: the free must be the runtime's";
  work.counts.idle(work.counts.before_device_sync(0));
  EXPECT_TRUE(work.counts.is_idle(0));
}

TEST_F(StreamWorkTest, DeviceReset) {
  hipStream_t stream = make_stream();
  enqueue(stream);
  enqueue(nullptr);
  Fence* fence = work.fences.make(0);
  work.device_reset(0);
  EXPECT_TRUE(work.counts.is_idle(0));
  EXPECT_TRUE(work.fences.passed(fence));
  EXPECT_TRUE(work.fences.wait(fence));
  work.fences.release(fence);
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
    fresh.counts.created(stream, 0);
    fresh.counts.note_work(stream);
    fresh.counts.note_work(nullptr);
    fake.hip->calls = 0;
    fake.hip->fail_at = n;
    fake.hip->failed.clear();
    PrivateCalls private_calls;
    Fence* fence = fresh.fences.make(0);
    const bool waited = fence != nullptr && fresh.fences.wait(fence);
    EXPECT_EQ(fake::t_last_error, hipSuccess);
    if (fence != nullptr) fresh.fences.release(fence);
    if (fake.hip->failed.empty()) {
      EXPECT_TRUE(waited);
      break;
    }
    ++injected;
    // Nothing is captured: the wait does not need it.
    if (fake.hip->failed == "hipThreadExchangeStreamCaptureMode") continue;
    EXPECT_FALSE(waited) << fake.hip->failed;
    EXPECT_FALSE(fresh.counts.is_idle(0)) << fake.hip->failed;
  }
  RecordProperty("injected", injected);
  EXPECT_GE(injected, 9);
}

}  // namespace
}  // namespace graphpool
