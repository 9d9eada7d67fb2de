// When a place's captures are left alone, and for how long.
#include <gtest/gtest.h>

#include "shim/costs/hit_rate.h"

namespace graphpool {
namespace {

constexpr auto kWindow = HitRates::kWindow, kFewest = HitRates::kFewestHits;
const char g_places[2] = {};

/// So many followed captures, of which the first `hits` matched.
void window(HitRates& rates, const void* place, std::uint32_t hits) {
  for (std::uint32_t i = 0; i < kWindow; ++i) {
    ASSERT_TRUE(rates.follow(place)) << i;
    rates.ended(place, i < hits);
  }
}

std::uint32_t pause(HitRates& rates, const void* place) {
  std::uint32_t left_alone = 0;
  while (!rates.follow(place)) ++left_alone;
  return left_alone;
}

TEST(HitRates, rule_30_a_place_with_few_hits_is_left_alone_longer_each_time) {
  HitRates rates;
  for (std::uint32_t expected = HitRates::kFirstPause; expected < HitRates::kLongestPause; expected *= 2) {
    window(rates, g_places, kFewest - 1);
    EXPECT_EQ(expected, pause(rates, g_places));
  }
  for (int i = 0; i < 2; ++i) {
    window(rates, g_places, 0);
    EXPECT_EQ(HitRates::kLongestPause, pause(rates, g_places));
  }
  window(rates, g_places, kFewest);
  EXPECT_EQ(0u, pause(rates, g_places));
  window(rates, g_places, 0);
  EXPECT_EQ(HitRates::kFirstPause, pause(rates, g_places));  // it has been worth it since
}

TEST(HitRates, what_stays_away_for_long_is_given_the_time_to_come_back) {
  constexpr std::uint32_t kCycle = 500, kKept = 40;
  HitRates rates;
  rates.came_back(g_places, kCycle);
  for (std::uint32_t i = 0; i < 10 * kCycle; ++i) {
    ASSERT_TRUE(rates.follow(g_places)) << i;
    const bool kept = i % kCycle < kKept;
    if (kept) rates.came_back(g_places, kCycle);
    rates.ended(g_places, kept);
  }
  // Nothing comes back any more: it takes what it took before, once, and then no longer than usual.
  std::uint32_t followed = 0;
  for (; rates.follow(g_places); ++followed) rates.ended(g_places, false);
  EXPECT_LE(followed, 4 * kCycle);
  while (!rates.follow(g_places)) continue;
  rates.ended(g_places, false);  // the one that was asked about
  for (followed = 1; rates.follow(g_places); ++followed) rates.ended(g_places, false);
  EXPECT_EQ(kWindow, followed);
}

TEST(HitRates, what_was_away_for_very_long_is_not_waited_for_so_long) {
  HitRates rates;
  rates.came_back(g_places, std::uint64_t{1} << 40);
  std::uint32_t followed = 0;
  for (; rates.follow(g_places); ++followed) rates.ended(g_places, false);
  EXPECT_EQ(HitRates::kLongestWindow, followed);
}

TEST(HitRates, places_are_judged_apart) {
  HitRates rates;
  window(rates, &g_places[0], 0);
  EXPECT_FALSE(rates.follow(&g_places[0]));
  EXPECT_TRUE(rates.follow(&g_places[1]));
}

}  // namespace
}  // namespace graphpool
