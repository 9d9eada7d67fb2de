// When a place's captures are left alone, and for how long.
#include <gtest/gtest.h>

#include "shim/costs/hit_rate.h"

namespace graphpool {
namespace {

constexpr auto kWindow = HitRates::kWindow, kFewest = HitRates::kFewestHits;
const char g_places[2] = {};

/// A capture of no operations has ended that was followed whatever it is.
void ended(HitRates& rates, const void* place, bool matched) { rates.ended(place, Follow::kAll, matched, 0); }
bool all_followed(HitRates& rates, const void* place) { return rates.follow(place) == Follow::kAll; }

/// So many followed captures, of which the first `hits` matched.
void window(HitRates& rates, const void* place, std::uint32_t hits) {
  for (std::uint32_t i = 0; i < kWindow; ++i) {
    ASSERT_EQ(Follow::kAll, rates.follow(place)) << i;
    ended(rates, place, i < hits);
  }
}

std::uint32_t pause(HitRates& rates, const void* place) {
  std::uint32_t left_alone = 0;
  while (rates.follow(place) == Follow::kNone) ++left_alone;
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
    ASSERT_TRUE(all_followed(rates, g_places)) << i;
    const bool kept = i % kCycle < kKept;
    if (kept) rates.came_back(g_places, kCycle);
    ended(rates, g_places, kept);
  }
  // Nothing comes back any more: it takes what it took before, once, and then no longer than usual.
  std::uint32_t followed = 0;
  for (; all_followed(rates, g_places); ++followed) ended(rates, g_places, false);
  EXPECT_LE(followed, 4 * kCycle);
  while (!all_followed(rates, g_places)) continue;
  ended(rates, g_places, false);  // the one that was asked about
  for (followed = 1; all_followed(rates, g_places); ++followed) ended(rates, g_places, false);
  EXPECT_EQ(kWindow, followed);
}

TEST(HitRates, what_was_away_for_very_long_is_not_waited_for_so_long) {
  HitRates rates;
  rates.came_back(g_places, std::uint64_t{1} << 40);
  std::uint32_t followed = 0;
  for (; all_followed(rates, g_places); ++followed) ended(rates, g_places, false);
  EXPECT_EQ(HitRates::kLongestWindow, followed);
}

TEST(HitRates, places_are_judged_apart) {
  HitRates rates;
  window(rates, &g_places[0], 0);
  EXPECT_FALSE(all_followed(rates, &g_places[0]));
  EXPECT_TRUE(all_followed(rates, &g_places[1]));
}

/// Captures of a place where one in `cycle`, of so many operations, comes back, and the others differ from all that is
/// known at the operation behind `same`. Returns how many of those that came back were followed, of the last `last`.
std::uint32_t followed_of_mixed(HitRates& rates, std::uint32_t captures, std::uint32_t cycle, std::uint32_t operations,
                                std::uint32_t same, std::uint32_t last) {
  std::uint32_t followed = 0;
  for (std::uint32_t i = 0; i < captures; ++i) {
    const bool back = i % cycle == 0;
    if (back) rates.came_back(g_places, cycle);
    const Follow follow = rates.follow(g_places);
    if (follow == Follow::kNone) continue;
    rates.ended(g_places, follow, back, back ? operations : same);
    followed += back && captures - i <= last * cycle ? 1 : 0;
  }
  return followed;
}

TEST(HitRates, what_comes_back_is_followed_among_what_never_does) {
  HitRates rates;
  EXPECT_EQ(100u, followed_of_mixed(rates, 6400, 32, 40, 0, 100));
}

TEST(HitRates, not_where_the_others_cost_more_than_that_saves) {
  HitRates late, rare;
  EXPECT_GT(20u, followed_of_mixed(late, 6400, 32, 40, 8, 100));
  EXPECT_GT(4u, followed_of_mixed(rare, 12800, 128, 40, 0, 50));
}

TEST(HitRates, only_what_is_known_is_followed_until_it_comes_back_no_more) {
  HitRates rates;
  for (std::uint32_t i = 0; i < kWindow; ++i) {
    ASSERT_EQ(Follow::kAll, rates.follow(g_places));
    rates.ended(g_places, Follow::kAll, i % 32 == 0, i % 32 == 0 ? 40 : 0);
  }
  // Two captures have saved 2 * (40 + 16) operations, the others have cost 62: so many more may be lost.
  std::uint32_t known = 0;
  for (; rates.follow(g_places) == Follow::kKnown; ++known) rates.ended(g_places, Follow::kKnown, false, 0);
  EXPECT_EQ(2 * (40 + HitRates::kExecSaves) - 62 * HitRates::kMissCosts, known);
  std::uint32_t alone = 1;
  while (rates.follow(g_places) == Follow::kNone) ++alone;
  EXPECT_EQ(HitRates::kFirstPause, known + alone);
}

}  // namespace
}  // namespace graphpool
