// Timelines over fake signal memory whose values the test writes by hand.
#include <gtest/gtest.h>

#include <deque>
#include <utility>
#include <vector>

#include "shim/hip/next.h"
#include "shim/streams/timeline.h"

namespace graphpool {
namespace {

struct Fake {
  std::deque<std::uint64_t> words;
  std::vector<std::pair<std::uint64_t*, std::uint64_t>> writes;
  hipError_t allocate_result = hipSuccess, write_result = hipSuccess, last_error = hipSuccess;
  int device = 0;

  void arrive(std::size_t write) { __atomic_store_n(writes[write].first, writes[write].second, __ATOMIC_RELEASE); }
};
Fake* g_fake = nullptr;

class Timelines : public ::testing::Test {
 protected:
  Timelines() : saved_(test_next()) {
    g_fake = &fake_;
    Next& next = test_next();
    next.hipExtMallocWithFlags = [](void** memory, std::size_t bytes, unsigned flags) {
      EXPECT_EQ(bytes, 8u) << "HIP takes no other size of signal memory";
      EXPECT_EQ(flags, unsigned{hipMallocSignalMemory});
      if (g_fake->allocate_result != hipSuccess) return g_fake->last_error = g_fake->allocate_result;
      *memory = &g_fake->words.emplace_back(0xcdcdcdcdcdcdcdcd);
      return hipSuccess;
    };
    next.hipStreamWriteValue64 = [](hipStream_t, void* at, std::uint64_t value, unsigned) {
      if (g_fake->write_result != hipSuccess) return g_fake->last_error = g_fake->write_result;
      g_fake->writes.emplace_back(static_cast<std::uint64_t*>(at), value);
      return hipSuccess;
    };
    next.hipGetDevice = [](int* device) {
      *device = g_fake->device;
      return hipSuccess;
    };
    next.hipSetDevice = [](int device) {
      g_fake->device = device;
      return hipSuccess;
    };
    next.hipGetLastError = [] { return std::exchange(g_fake->last_error, hipSuccess); };
    next.hipThreadExchangeStreamCaptureMode = [](hipStreamCaptureMode*) { return hipSuccess; };
  }
  ~Timelines() override {
    timelines_device_reset(0);  // the words go with the fake
    timelines_device_reset(1);
    test_next() = saved_;
    g_fake = nullptr;
  }

  static constexpr hipStream_t kStream = nullptr;
  Fake fake_;

 private:
  Next saved_;
};

TEST_F(Timelines, a_new_one_is_reached_and_each_value_has_to_arrive) {
  const auto timeline = Timeline::make(0);
  ASSERT_NE(timeline, nullptr);
  EXPECT_TRUE(timeline->reached());
  EXPECT_TRUE(timeline->advance(kStream));
  EXPECT_TRUE(timeline->advance(kStream));
  EXPECT_FALSE(timeline->reached());
  fake_.arrive(0);
  EXPECT_FALSE(timeline->reached()) << "the second is on its way";
  fake_.arrive(1);
  EXPECT_TRUE(timeline->reached());
}

TEST_F(Timelines, a_refused_value_is_not_waited_for_and_leaves_no_error) {
  const auto timeline = Timeline::make(0);
  fake_.write_result = hipErrorNotSupported;
  EXPECT_FALSE(timeline->advance(kStream));
  EXPECT_TRUE(timeline->reached());
  EXPECT_EQ(fake_.last_error, hipSuccess);
}

TEST_F(Timelines, without_signal_memory_there_is_none_and_no_error_is_left) {
  fake_.allocate_result = hipErrorInvalidValue;
  EXPECT_EQ(Timeline::make(0), nullptr);
  EXPECT_EQ(fake_.last_error, hipSuccess);
  EXPECT_EQ(timeline_words(), 0u);
}

TEST_F(Timelines, a_word_serves_the_next_one_when_its_last_value_has_arrived_and_never_falls) {
  auto first = Timeline::make(0);
  EXPECT_TRUE(first->advance(kStream));
  first.reset();
  const auto second = Timeline::make(0);
  EXPECT_EQ(timeline_words(), 2u) << "the first word is still to be written";
  fake_.arrive(0);
  const auto third = Timeline::make(0);
  EXPECT_EQ(timeline_words(), 2u);
  EXPECT_TRUE(third->reached());
  EXPECT_TRUE(third->advance(kStream));
  EXPECT_EQ(fake_.writes.back(), std::pair(&fake_.words[0], std::uint64_t{2}));
  EXPECT_FALSE(third->reached());
}

TEST_F(Timelines, words_stay_with_their_device) {
  Timeline::make(0).reset();
  const auto other = Timeline::make(1);
  EXPECT_EQ(timeline_words(), 2u);
  EXPECT_EQ(fake_.device, 0) << "the current device is as it was";
}

TEST_F(Timelines, a_reset_of_the_device_ends_them) {
  const auto lost = Timeline::make(1), kept = Timeline::make(0);
  EXPECT_TRUE(lost->advance(kStream));
  EXPECT_TRUE(kept->advance(kStream));
  timelines_device_reset(1);
  EXPECT_TRUE(lost->reached()) << "nothing is to be waited for";
  EXPECT_FALSE(kept->reached());
  EXPECT_EQ(timeline_words(), 1u);
}

}  // namespace
}  // namespace graphpool
