// Reasons and how often each was given.
#include <gtest/gtest.h>

#include <thread>

#include "shim/recording/reason_counts.h"

namespace graphpool {
namespace {

const char g_reasons[ReasonCounts::kMost + 2] = {};

TEST(ReasonCounts, each_is_counted_by_its_address_and_told_in_the_order_of_its_first_time) {
  ReasonCounts counts;
  EXPECT_TRUE(counts.all().empty());
  for (const int which : {1, 0, 1}) counts.count(&g_reasons[which]);
  EXPECT_EQ(counts.all(), (Reasons{{&g_reasons[1], 2}, {&g_reasons[0], 1}}));
  EXPECT_EQ(counts.sum(), 3u);
}

TEST(ReasonCounts, threads_lose_none) {
  ReasonCounts counts;
  constexpr int kTimes = 10'000;
  const auto count = [&] {
    for (int i = 0; i < kTimes; ++i) counts.count(&g_reasons[i % 4]);
  };
  std::thread one(count), other(count);
  count();
  one.join();
  other.join();
  EXPECT_EQ(counts.sum(), 3u * kTimes);
  EXPECT_EQ(counts.all().size(), 4u);
}

TEST(ReasonCounts, more_than_there_is_room_for_are_counted_together) {
  ReasonCounts counts;
  for (const char& reason : g_reasons) counts.count(&reason);
  EXPECT_EQ(counts.sum(), ReasonCounts::kMost + 2);
  EXPECT_EQ(counts.all().size(), ReasonCounts::kMost + 1);
  EXPECT_EQ(counts.all().back(), (std::pair<const char*, std::uint64_t>(ReasonCounts::kOthers, 2)));
}

}  // namespace
}  // namespace graphpool
