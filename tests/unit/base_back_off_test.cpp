#include <gtest/gtest.h>

#include "shim/base/back_off.h"

namespace graphpool {
namespace {

TEST(BackOff, waits_no_longer_than_its_limit_and_no_shorter) {
  BackOff wait(std::chrono::milliseconds(20));
  EXPECT_FALSE(wait.waited());
  const auto start = std::chrono::steady_clock::now();
  int rounds = 0;
  while (wait.again()) ++rounds;
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
  EXPECT_TRUE(wait.waited());
  EXPECT_GT(rounds, 0);
  EXPECT_FALSE(wait.again()) << "once over, it stays over";
}

TEST(BackOff, without_time_it_does_not_wait) {
  BackOff wait(std::chrono::nanoseconds(0));
  EXPECT_FALSE(wait.again());
}

TEST(BackOff, the_time_starts_with_the_first_round) {
  BackOff wait(std::chrono::milliseconds(10));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(wait.again());
}

}  // namespace
}  // namespace graphpool
