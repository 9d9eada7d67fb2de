// Copies measured by events of a fake runtime, whose times the test says.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "shim/costs/copy_timer.h"
#include "shim/costs/cost_model.h"
#include "shim/hip/next.h"
#include "shim/streams/launch_marks.h"
#include "shim/streams/open_captures.h"

namespace graphpool {
namespace {

struct Fake {
  int made = 0, destroyed = 0, queries = 0;
  int creates_left = 100;
  std::vector<std::pair<hipEvent_t, hipStream_t>> records;
  hipError_t record_result = hipSuccess, query_result = hipSuccess, elapsed_result = hipSuccess;
  float ms = 0;
};
Fake* g_fake = nullptr;

constexpr std::uint64_t kBytes = CopyTimer::kLeastBytes;
constexpr std::uint64_t kBytesKiB = kBytes / kKiB;

class CopyTimers : public ::testing::Test {
 protected:
  CopyTimers() : saved_(test_next()) {
    g_fake = &fake_;
    Next& next = test_next();
    next.hipEventCreate = [](hipEvent_t* event) {
      if (g_fake->creates_left-- <= 0) return hipErrorOutOfMemory;
      *event = reinterpret_cast<hipEvent_t>(static_cast<std::uintptr_t>(++g_fake->made));
      return hipSuccess;
    };
    next.hipEventDestroy = [](hipEvent_t) {
      ++g_fake->destroyed;
      return hipSuccess;
    };
    next.hipEventRecord = [](hipEvent_t event, hipStream_t stream) {
      g_fake->records.emplace_back(event, stream);
      return g_fake->record_result;
    };
    next.hipEventQuery = [](hipEvent_t) {
      ++g_fake->queries;
      return g_fake->query_result;
    };
    next.hipEventElapsedTime = [](float* ms, hipEvent_t, hipEvent_t) {
      *ms = g_fake->ms;
      return g_fake->elapsed_result;
    };
  }
  ~CopyTimers() override {
    test_next() = saved_;
    g_fake = nullptr;
  }

  static void enqueue(CopyTimer& timer) {
    ASSERT_TRUE(timer.begin(kStream));
    timer.end(kStream);
  }

  static constexpr hipStream_t kStream = nullptr;
  Fake fake_;

 private:
  const Next saved_;
};

TEST_F(CopyTimers, small_copies_are_not_measured) {
  EXPECT_EQ(nullptr, CopyTimer::make(kBytes - 1));
  EXPECT_EQ(0, fake_.made);
}

TEST_F(CopyTimers, without_events_nothing_is_measured_and_none_is_left) {
  for (const int left : {0, 1}) {
    fake_ = {};
    fake_.creates_left = left;
    EXPECT_EQ(nullptr, CopyTimer::make(kBytes));
    EXPECT_EQ(left, fake_.made);
    EXPECT_EQ(left, fake_.destroyed);
  }
}

TEST_F(CopyTimers, events_stand_around_the_copies_of_one_launch) {
  {
    const auto timer = CopyTimer::make(kBytes);
    ASSERT_NE(nullptr, timer);
    EXPECT_FALSE(timer->collect());
    EXPECT_EQ(0, fake_.queries);
    enqueue(*timer);
    ASSERT_EQ(2u, fake_.records.size());
    EXPECT_NE(fake_.records[0].first, fake_.records[1].first);
    EXPECT_FALSE(timer->begin(kStream)) << "measured twice";
    EXPECT_EQ(2u, fake_.records.size());
  }
  EXPECT_EQ(2, fake_.destroyed);
}

TEST_F(CopyTimers, what_cannot_be_recorded_is_not_waited_for) {
  const auto timer = CopyTimer::make(kBytes);
  fake_.record_result = hipErrorUnknown;
  EXPECT_FALSE(timer->begin(kStream));
  EXPECT_TRUE(timer->collect());
  EXPECT_EQ(0, fake_.queries);
}

TEST_F(CopyTimers, events_are_asked_about_outside_captures_only_and_not_waited_for) {
  const auto timer = CopyTimer::make(kBytes);
  enqueue(*timer);
  capture_opened();
  EXPECT_FALSE(timer->collect());
  EXPECT_EQ(0, fake_.queries);
  capture_closed();
  fake_.query_result = hipErrorNotReady;
  EXPECT_FALSE(timer->collect());
  EXPECT_EQ(1, fake_.queries);
  fake_.query_result = hipSuccess;
  fake_.elapsed_result = hipErrorUnknown;
  EXPECT_TRUE(timer->collect());
  EXPECT_FALSE(costs().measured(Cost::kCopyKiB));
}

TEST_F(CopyTimers, events_are_not_asked_about_when_their_stream_is_gone) {
  const auto timer = CopyTimer::make(kBytes);
  const auto stream = reinterpret_cast<hipStream_t>(std::uintptr_t{0x1000});
  ASSERT_TRUE(timer->begin(stream));
  timer->end(stream);
  fake_.query_result = hipErrorNotReady;
  EXPECT_FALSE(timer->collect());
  launches_stream_destroyed(stream_key({stream, false}));
  EXPECT_TRUE(timer->collect());
  EXPECT_EQ(1, fake_.queries);
}

TEST_F(CopyTimers, after_a_device_reset_nothing_is_destroyed) {
  const auto timer = CopyTimer::make(kBytes);
  enqueue(*timer);
  timer->forget();
  EXPECT_TRUE(timer->collect());
  EXPECT_EQ(0, fake_.queries);
}

// The last one: the cost is the process's.
TEST_F(CopyTimers, the_cost_of_a_kib_is_measured_a_few_times) {
  fake_.ms = static_cast<float>(kBytesKiB) * 5e-6F;  // 5 ns a KiB
  for (std::uint32_t i = 0; i < CopyTimer::kMeasurements; ++i) {
    const auto timer = CopyTimer::make(kBytes);
    ASSERT_NE(nullptr, timer);
    enqueue(*timer);
    EXPECT_TRUE(timer->collect());
    EXPECT_TRUE(timer->collect());
    EXPECT_TRUE(costs().measured(Cost::kCopyKiB));
    EXPECT_NEAR(5, costs().ns(Cost::kCopyKiB), 0.01);
  }
  EXPECT_EQ(nullptr, CopyTimer::make(kBytes));
}

}  // namespace
}  // namespace graphpool
