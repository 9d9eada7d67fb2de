// Tests of shim/memory/ranges.h.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "shim/base/units.h"
#include "shim/memory/ranges.h"

namespace graphpool {
namespace {

using List = std::vector<Ranges::Range>;

TEST(RangesTest, LowestPlaceFirst) {
  Ranges ranges;
  ranges.reset(64 * kKiB);
  EXPECT_EQ(ranges.take(0, 4096, 4096), 0u);
  EXPECT_EQ(ranges.take(0, 8192, 4096), 4096u);
  EXPECT_EQ(ranges.take(0, 4096, 4096), 12288u);
  ranges.give(4096, 8192);
  EXPECT_EQ(ranges.take(0, 4096, 4096), 4096u);
  EXPECT_EQ(ranges.free(), (List{{8192, 4096}, {16384, 49152}}));
}

TEST(RangesTest, AlignsTheAddressNotTheOffset) {
  Ranges ranges;
  ranges.reset(8 * kMiB);
  const std::size_t base = 5 * kPageBytes;
  const auto offset = ranges.take(base, 2 * kMiB, 2 * kMiB);
  ASSERT_TRUE(offset);
  EXPECT_EQ((base + *offset) % (2 * kMiB), 0u);
  EXPECT_EQ(ranges.take(base, kPageBytes, kPageBytes), 0u) << "what was skipped is still free";
}

TEST(RangesTest, NoPlace) {
  Ranges ranges;
  ranges.reset(8192);
  EXPECT_EQ(ranges.take(0, 8193, 1), std::nullopt);
  EXPECT_EQ(ranges.take(4096, 8192, 8192), std::nullopt);
  EXPECT_EQ(ranges.free_bytes(), 8192u);
}

TEST(RangesTest, NeighboursJoinWhateverTheOrder) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    Ranges ranges;
    ranges.reset(64 * kPageBytes);
    List taken;
    while (const auto offset = ranges.take(0, kPageBytes * (1 + random() % 5), kPageBytes)) {
      const std::size_t next = ranges.free().empty() ? 64 * kPageBytes : ranges.free().front().offset;
      taken.push_back({*offset, next - *offset});
    }
    std::shuffle(taken.begin(), taken.end(), random);
    for (const auto& range : taken) ranges.give(range.offset, range.bytes);
    EXPECT_EQ(ranges.free(), (List{{0, 64 * kPageBytes}}));
  }
}

}  // namespace
}  // namespace graphpool
