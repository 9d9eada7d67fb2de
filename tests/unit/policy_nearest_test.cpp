// policy_nearest_test.cpp: which name a misspelt one was meant to be.
#include <gtest/gtest.h>

#include <string>

#include "policy/nearest.h"

namespace graphpool {
namespace {

constexpr std::string_view kNames[] = {"enabled", "backing", "chunk", "limit", "large", "free"};

TEST(Nearest, OneEditOfEachKind) {
  EXPECT_EQ(nearest("chunks", kNames), "chunk");
  EXPECT_EQ(nearest("chnk", kNames), "chunk");
  EXPECT_EQ(nearest("chonk", kNames), "chunk");
  EXPECT_EQ(nearest("cuhnk", kNames), "chunk");
}

TEST(Nearest, SwapCountsOnce) {
  constexpr std::string_view kOne[] = {"abc"};
  EXPECT_EQ(nearest("acb", kOne), "abc");  // 1 edit of 3; 2 would be too many
  EXPECT_EQ(nearest("xcb", kOne), "");
}

TEST(Nearest, CaseIsIgnored) { EXPECT_EQ(nearest("BACKING", kNames), "backing"); }

TEST(Nearest, NothingNear) {
  EXPECT_EQ(nearest("preallocate", kNames), "");
  EXPECT_EQ(nearest("", kNames), "");
  EXPECT_EQ(nearest(std::string(65, 'c'), kNames), "");
  EXPECT_EQ(nearest("chunk", {}), "");
}

TEST(Nearest, BestOfSeveral) { EXPECT_EQ(nearest("lirge", kNames), "large"); }

TEST(Nearest, LongestNamesAreCompared) {
  std::string a(64, 'a');
  std::string b = a;
  b[63] = 'b';
  const std::string_view candidates[] = {std::string_view("x"), a};
  EXPECT_EQ(nearest(b, candidates), a);
}

}  // namespace
}  // namespace graphpool
