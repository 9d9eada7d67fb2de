// Which threads feed a capture, by the numbers that signatures have.
#include <gtest/gtest.h>

#include <thread>

#include "shim/capture/capture_feeders.h"

namespace graphpool {
namespace {

constexpr StreamKey kHere = 0x1000, kThere = 0x2000;

TEST(CaptureFeeders, threads_have_numbers_in_the_order_in_which_they_come) {
  CaptureFeeders feeders;
  feeders.start();
  EXPECT_TRUE(feeders.feed(kHere));
  EXPECT_EQ(0u, feeders.number());
  std::thread([&] {
    EXPECT_FALSE(feeders.caller_is_present());
    EXPECT_TRUE(feeders.another_fed(kHere));
    EXPECT_FALSE(feeders.another_fed(kThere));
    EXPECT_FALSE(feeders.feed(kHere));
    EXPECT_EQ(1u, feeders.number());
    EXPECT_TRUE(feeders.feed(kThere));
  }).join();
  EXPECT_FALSE(feeders.feed(kHere)) << "another thread was last";
  EXPECT_EQ(0u, feeders.number());
  EXPECT_EQ(2u, feeders.count());
}

TEST(CaptureFeeders, the_device_is_known_until_it_may_have_changed) {
  CaptureFeeders feeders;
  feeders.start();
  EXPECT_FALSE(feeders.device_known());
  feeders.know_device(1, g_device_changes.load());
  EXPECT_TRUE(feeders.device_known());
  EXPECT_EQ(1, feeders.device());
  g_device_changes.fetch_add(1);
  EXPECT_FALSE(feeders.device_known());
  feeders.know_device(1, g_device_changes.load());
  std::thread([&] { feeders.feed(kHere); }).join();
  EXPECT_FALSE(feeders.device_known()) << "each thread has a device of its own";
}

}  // namespace
}  // namespace graphpool
