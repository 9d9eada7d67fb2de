// Tests of shim/memory/block_table.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "shim/base/units.h"
#include "shim/memory/block_table.h"
#include "tests/support/never_destroyed.h"

namespace graphpool {
namespace {

constexpr std::uintptr_t kBase = 0x7f12'3400'0000;

const void* at(std::uintptr_t address) { return reinterpret_cast<const void*>(address); }

class BlockTableTest : public testing::Test {
 protected:
  BlockTable& table = never_destroyed<BlockTable>();
};

TEST(BlockState, ABlockChangesHandsOnlyInTheseWays) {
  using enum BlockState;
  const std::pair<BlockState, BlockState> ways[] = {
      {kFree, kLive},    {kLive, kLeaving}, {kLive, kKept},    {kLeaving, kLive}, {kLeaving, kPending},
      {kLeaving, kKept}, {kPending, kKept}, {kPending, kLive}, {kKept, kLive},    {kKept, kLeaving}};
  for (const BlockState now : {kFree, kLive, kLeaving, kPending, kKept})
    for (const BlockState next : {kFree, kLive, kLeaving, kPending, kKept})
      EXPECT_EQ(may_become(now, next),
                std::find(std::begin(ways), std::end(ways), std::pair{now, next}) != std::end(ways))
          << static_cast<int>(now) << " to " << static_cast<int>(next);
}

TEST_F(BlockTableTest, FindsEveryByteAndNothingElse) {
  Block* block = table.insert(kBase, 10'000);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(table.find(at(kBase)), block);
  EXPECT_EQ(table.find(at(kBase + 5'000)), block);
  EXPECT_EQ(table.find(at(kBase + 9'999)), block);
  EXPECT_EQ(table.find(at(kBase + 10'000)), nullptr) << "padding of the last page is not the program's";
  EXPECT_EQ(table.find(at(kBase - 1)), nullptr);
  EXPECT_EQ(table.find(nullptr), nullptr);
  EXPECT_EQ(block->bytes(), 10'000u);
  EXPECT_FALSE(block->live()) << "whoever enters it has not said yet what it is";
  EXPECT_TRUE(table.is_valid());
}

TEST_F(BlockTableTest, SeveralBlocksShareAPage) {
  std::vector<Block*> blocks;
  for (std::uintptr_t i = 0; i < 16; ++i) blocks.push_back(table.insert(kBase + 256 * i, 256));
  for (std::uintptr_t i = 0; i < 16; ++i) EXPECT_EQ(table.find(at(kBase + 256 * i + 255)), blocks[i]);
  Block* across = table.insert(kBase + kPageBytes, 2 * kPageBytes);
  EXPECT_EQ(table.find(at(kBase + kPageBytes - 1)), blocks[15]);
  EXPECT_EQ(table.find(at(kBase + kPageBytes)), across);
  table.remove(blocks[7]);
  EXPECT_EQ(table.find(at(kBase + 256 * 7)), nullptr);
  EXPECT_EQ(table.find(at(kBase + 256 * 8)), blocks[8]);
  EXPECT_TRUE(table.is_valid());
}

TEST_F(BlockTableTest, LargeBlocksAcrossRegions) {
  const std::size_t bytes = 3 * kGiB + 12'345;
  Block* block = table.insert(kBase + 0x5000, bytes);
  ASSERT_NE(block, nullptr);
  for (std::size_t offset = 0; offset < bytes; offset += 7 * kMiB + 13)
    ASSERT_EQ(table.find(at(kBase + 0x5000 + offset)), block) << offset;
  EXPECT_EQ(table.find(at(kBase + 0x5000 + bytes - 1)), block);
  EXPECT_EQ(table.find(at(kBase + 0x5000 + bytes)), nullptr);
  EXPECT_TRUE(table.is_valid());
  table.remove(block);
  EXPECT_EQ(table.find(at(kBase + kGiB)), nullptr);
  EXPECT_EQ(table.size(), 0u);
  // A small block where the large one covered a whole region.
  Block* small = table.insert(kBase + kGiB, 64);
  EXPECT_EQ(table.find(at(kBase + kGiB + 63)), small);
}

TEST_F(BlockTableTest, RefusesWhatItCannotKnow) {
  EXPECT_EQ(table.insert(0, 100), nullptr);
  EXPECT_EQ(table.insert(kBase, 0), nullptr);
  EXPECT_EQ(table.insert((std::uintptr_t{1} << 47) - 16, 32), nullptr);
  EXPECT_EQ(table.find(at(std::uintptr_t{1} << 50)), nullptr);
}

TEST_F(BlockTableTest, OverlapsAreFound) {
  Block* low = table.insert(kBase, kPageBytes);
  Block* high = table.insert(kBase + 40 * kMiB, 64 * kMiB);
  std::vector<Block*> found;
  table.overlaps(kBase + 100, 10, &found);
  EXPECT_EQ(found, std::vector<Block*>{low});
  found.clear();
  table.overlaps(kBase + kPageBytes, 40 * kMiB, &found);
  EXPECT_EQ(found, std::vector<Block*>{high});
  found.clear();
  table.overlaps(kBase - kMiB, kGiB, &found);
  EXPECT_EQ(found, (std::vector<Block*>{low, high}));
  found.clear();
  table.overlaps(kBase + kPageBytes, 30 * kMiB, &found);
  EXPECT_TRUE(found.empty());
}

TEST_F(BlockTableTest, AgreesWithAMap) {
  std::mt19937_64 random(7);
  std::map<std::uintptr_t, Block*> known;
  for (int step = 0; step < 4000; ++step) {
    const std::uintptr_t base = kBase + random() % (64 * kMiB) / 64 * 64;
    const std::size_t bytes = 1 + random() % (random() % 8 == 0 ? 40 * kMiB : 20'000);
    std::vector<Block*> found;
    table.overlaps(base, bytes, &found);
    for (Block* block : found) {
      known.erase(block->address());
      table.remove(block);
    }
    Block* block = table.insert(base, bytes);
    ASSERT_NE(block, nullptr);
    known[base] = block;
    const std::uintptr_t probe = kBase + random() % (128 * kMiB);
    auto after = known.upper_bound(probe);
    Block* expected = nullptr;
    if (after != known.begin()) {
      Block* before = std::prev(after)->second;
      if (probe < before->address() + before->bytes()) expected = before;
    }
    ASSERT_EQ(table.find(at(probe)), expected);
  }
  EXPECT_EQ(table.size(), known.size());
  EXPECT_TRUE(table.is_valid());
}

TEST_F(BlockTableTest, ReadersNeedNoLock) {
  Block* stable = table.insert(kBase + 512, 256);
  std::atomic<bool> stop{false};
  std::vector<std::thread> readers;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!stop.load())
        if (table.find(at(kBase + 600)) != stable) ++wrong;
    });
  }
  for (int step = 0; step < 20'000; ++step) {
    Block* left = table.insert(kBase + 256, 256);
    Block* right = table.insert(kBase + 768, 128 + static_cast<std::size_t>(step) % 4096);
    table.remove(left);
    table.remove(right);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace graphpool
