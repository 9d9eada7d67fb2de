// How long recordings stay away until they come back.
#include <gtest/gtest.h>

#include "shim/costs/returns.h"

namespace graphpool {
namespace {

std::vector<Operation> recording(std::uint64_t object, std::uint32_t after = 0) {
  std::vector<Operation> operations(2);
  operations[0].signature.object = object;
  operations[1].after = {after};
  return operations;
}

void capture(Returns& returns, std::uint64_t captures) {
  for (std::uint64_t i = 0; i < captures; ++i) returns.captured(0);
}

TEST(Returns, one_that_is_not_kept_any_more_is_known_when_it_comes_back) {
  Returns returns;
  EXPECT_EQ(0u, returns.away_for(recording(1)));
  capture(returns, 3);
  returns.let_go(recording(1), returns.now());
  capture(returns, 4);
  EXPECT_EQ(5u, returns.away_for(recording(1)));  // the next capture is the fifth since
  EXPECT_EQ(0u, returns.away_for(recording(2)));
  EXPECT_EQ(0u, returns.away_for(recording(1, 1)));
}

TEST(Returns, captures_that_are_left_alone_count) {
  Returns returns;
  EXPECT_EQ(1u, returns.captured(0));
  EXPECT_EQ(102u, returns.captured(100));
  EXPECT_EQ(103u, returns.captured(100));
  EXPECT_EQ(103u, returns.captured(90));  // read before another thread's
}

TEST(Returns, how_long_they_stay_away_is_told_by_the_last_that_came_back) {
  Returns returns;
  EXPECT_FALSE(returns.often_after(1));
  for (std::size_t i = 0; i + 1 < Returns::kOften; ++i) returns.came_back(100);
  EXPECT_FALSE(returns.often_after(100));
  returns.came_back(0);
  EXPECT_FALSE(returns.often_after(100));
  returns.came_back(101);
  EXPECT_TRUE(returns.often_after(100));
  EXPECT_FALSE(returns.often_after(101));
  EXPECT_FALSE(returns.often_after(0));
  for (std::size_t i = 0; i < Returns::kJudged; ++i) returns.came_back(2);
  EXPECT_FALSE(returns.often_after(100));
  EXPECT_TRUE(returns.often_after(2));
}

TEST(Returns, rule_30_so_many_are_remembered) {
  Returns returns;
  returns.captured(0);
  for (std::uint64_t i = 0; i < 4 * Returns::kRemembered; ++i) returns.let_go(recording(i), returns.now());
  std::size_t known = 0;
  for (std::uint64_t i = 0; i < 4 * Returns::kRemembered; ++i) known += returns.away_for(recording(i)) != 0 ? 1 : 0;
  EXPECT_LE(known, Returns::kRemembered);
  EXPECT_GE(known, Returns::kRemembered / 2);
}

}  // namespace
}  // namespace graphpool
