// How launches of a ring that are in order come behind each other, on events that the test completes by hand.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "shim/hip/next.h"
#include "shim/staging/last_launch.h"
#include "shim/staging/staging.h"
#include "shim/streams/open_captures.h"

namespace graphpool {
namespace {

struct Fake {
  int made = 0, live = 0, records = 0, queries = 0;
  bool complete = false;
  hipError_t record_result = hipSuccess, wait_result = hipSuccess, last_error = hipSuccess;
  std::vector<hipStream_t> waits;
};
Fake* g_fake = nullptr;

class LastLaunchTest : public ::testing::Test {
 protected:
  LastLaunchTest() : saved_(test_next()) {
    g_fake = &fake_;
    Next& next = test_next();
    next.hipEventCreateWithFlags = [](hipEvent_t* event, unsigned) {
      ++g_fake->live;
      *event = reinterpret_cast<hipEvent_t>(std::uintptr_t{16} * static_cast<unsigned>(++g_fake->made));
      return hipSuccess;
    };
    next.hipEventDestroy = [](hipEvent_t) {
      --g_fake->live;
      return hipSuccess;
    };
    next.hipEventRecord = [](hipEvent_t, hipStream_t) {
      ++g_fake->records;
      return g_fake->record_result;
    };
    next.hipEventQuery = [](hipEvent_t) {
      ++g_fake->queries;
      return g_fake->complete ? hipSuccess : hipErrorNotReady;
    };
    next.hipStreamWaitEvent = [](hipStream_t stream, hipEvent_t, unsigned) {
      if (g_fake->wait_result == hipSuccess) g_fake->waits.push_back(stream);
      return g_fake->wait_result;
    };
    next.hipStreamIsCapturing = [](hipStream_t, hipStreamCaptureStatus* status) {
      *status = hipStreamCaptureStatusNone;
      return hipSuccess;
    };
    next.hipGetDevice = [](int* device) {
      *device = 0;
      return hipSuccess;
    };
    next.hipSetDevice = [](int) { return hipSuccess; };
    next.hipPeekAtLastError = [] { return g_fake->last_error; };
    next.hipGetLastError = [] { return std::exchange(g_fake->last_error, hipSuccess); };
  }
  ~LastLaunchTest() override {
    test_next() = saved_;
    g_fake = nullptr;
  }

  /// Streams of their own in each test: what was waited for is the process's.
  static hipStream_t stream() { return reinterpret_cast<hipStream_t>(next_stream_ += 16); }
  static StreamKey key(hipStream_t stream) { return reinterpret_cast<StreamKey>(stream); }
  static LastLaunch::Turn turn_of(LastLaunch& last, hipStream_t stream,
                                  LastLaunch::IfRunning if_running = LastLaunch::IfRunning::kAsPlanned) {
    return last.order(key(stream), stream, if_running);
  }

  Fake fake_;

 private:
  static inline std::uintptr_t next_stream_ = 0x10000;
  Next saved_;
};

TEST_F(LastLaunchTest, nobody_waits_where_there_was_no_launch) {
  {
    LastLaunch last;
    EXPECT_FALSE(last.made());
    ASSERT_EQ(hipSuccess, last.make(StagePlan()));
    EXPECT_TRUE(last.made());
    EXPECT_TRUE(last.needs_event());
    EXPECT_TRUE(last.complete());
    const LastLaunch::Turn turn = turn_of(last, stream());
    EXPECT_FALSE(turn.busy || turn.waits);
  }
  EXPECT_EQ(0, fake_.live);
}

TEST_F(LastLaunchTest, its_own_stream_orders_and_another_waits_for_the_event) {
  LastLaunch last;
  ASSERT_EQ(hipSuccess, last.make(StagePlan()));
  const hipStream_t here = stream(), there = stream();
  EXPECT_EQ(0u, last.launched(key(here), here, true)) << "the exec records the event";
  EXPECT_FALSE(turn_of(last, here).waits);
  EXPECT_TRUE(turn_of(last, there).waits);
  EXPECT_EQ(std::vector<hipStream_t>{there}, fake_.waits);
  fake_.complete = true;
  EXPECT_FALSE(turn_of(last, there).waits);
  EXPECT_EQ(0, fake_.records);
}

TEST_F(LastLaunchTest, the_event_is_recorded_behind_an_exec_that_does_not) {
  LastLaunch last;
  ASSERT_EQ(hipSuccess, last.make(StagePlan()));
  const hipStream_t here = stream();
  EXPECT_EQ(1u, last.launched(key(here), here, false));
  EXPECT_EQ(1, fake_.records);
  fake_.record_result = hipErrorUnknown;
  EXPECT_EQ(1u, last.launched(key(here), here, false));
  const LastLaunch::Turn turn = turn_of(last, stream());
  EXPECT_TRUE(turn.busy) << "only time can tell";
  EXPECT_FALSE(turn_of(last, stream(), LastLaunch::IfRunning::kOnDevice).busy);
  EXPECT_TRUE(fake_.waits.empty());
}

TEST_F(LastLaunchTest, an_event_that_was_recorded_late_stands_for_the_launch) {
  LastLaunch last;
  ASSERT_EQ(hipSuccess, last.make(StagePlan()));
  const hipStream_t here = stream();
  fake_.record_result = hipErrorUnknown;
  last.launched(key(here), here, false);
  fake_.record_result = hipSuccess;
  fake_.records = 0;
  EXPECT_TRUE(turn_of(last, stream()).waits);
  EXPECT_TRUE(turn_of(last, stream()).waits);
  EXPECT_EQ(1, fake_.records);
  fake_.complete = true;
  EXPECT_TRUE(last.complete());
}

TEST_F(LastLaunchTest, a_stream_that_captures_cannot_be_waited_for) {
  LastLaunch last;
  ASSERT_EQ(hipSuccess, last.make(StagePlan()));
  const hipStream_t here = stream();
  last.launched(key(here), here, true);
  fake_.wait_result = hipErrorStreamCaptureIsolation;
  const LastLaunch::Turn turn = turn_of(last, stream());
  EXPECT_TRUE(turn.busy);
  EXPECT_EQ(hipSuccess, turn.result);
  fake_.wait_result = hipErrorInvalidHandle;
  EXPECT_EQ(hipErrorInvalidHandle, turn_of(last, stream()).result);
}

TEST_F(LastLaunchTest, what_a_destroyed_stream_has_completed_is_complete) {
  LastLaunch last;
  ASSERT_EQ(hipSuccess, last.make(StagePlan()));
  const hipStream_t here = stream();
  last.launched(key(here), here, true);
  last.before_destroy(key(here) + 16, 1);
  EXPECT_FALSE(last.complete()) << "another stream's end";
  fake_.complete = true;
  last.before_destroy(key(here), 1);
  fake_.complete = false;
  const int asked = fake_.queries;
  EXPECT_TRUE(last.complete());
  EXPECT_EQ(asked, fake_.queries) << "the event is not asked any more";
}

TEST_F(LastLaunchTest, a_reset_takes_the_event) {
  {
    LastLaunch last;
    ASSERT_EQ(hipSuccess, last.make(StagePlan()));
    const hipStream_t here = stream();
    last.launched(key(here), here, true);
    last.forget();
    EXPECT_TRUE(last.complete());
  }
  EXPECT_EQ(1, fake_.live) << "nothing of the device is destroyed";
}

}  // namespace
}  // namespace graphpool
