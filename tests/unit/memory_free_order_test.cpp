// Tests of shim/memory/free_order.h.
#include <gtest/gtest.h>

#include "shim/memory/free_order.h"

namespace graphpool {
namespace {

class FreeOrderTest : public testing::Test {
 protected:
  FreeOrderTest() {
    for (std::size_t i = 0; i < 3; ++i) {
      blocks[i].base = (i + 1) << 20;
      blocks[i].end = blocks[i].base + 5000;
    }
  }
  FreeOrder order;
  Block blocks[3];
};

TEST_F(FreeOrderTest, TheOldestComesFirstWhicheverLeaves) {
  const LockGuard guard(g_blocks_lock);
  for (std::uint32_t i = 0; i < 3; ++i) order.enter(&blocks[i], i);
  EXPECT_EQ(order.oldest(0), &blocks[0]);
  EXPECT_EQ(order.oldest(0)->newer, &blocks[1]);
  EXPECT_EQ(blocks[2].freed_ms, 2u);
  order.leave(&blocks[1]);
  EXPECT_EQ(order.oldest(0)->newer, &blocks[2]);
  order.leave(&blocks[0]);
  EXPECT_EQ(order.oldest(0), &blocks[2]);
  order.leave(&blocks[2]);
  order.leave(&blocks[2]);  // it is not in the order any more
  EXPECT_EQ(order.oldest(0), nullptr);
  EXPECT_EQ(order.kept_bytes(0), 0u);
}

TEST_F(FreeOrderTest, BytesAreCountedInPagesAndByDevice) {
  const LockGuard guard(g_blocks_lock);
  blocks[2].device = 1;
  for (Block& block : blocks) order.enter(&block, 0);
  EXPECT_EQ(order.kept_bytes(0), 4 * kPageBytes);
  EXPECT_EQ(order.classic_bytes(0), 4 * kPageBytes);
  EXPECT_EQ(order.kept_bytes(1), 2 * kPageBytes);
  order.leave(&blocks[0]);
  EXPECT_EQ(order.kept_bytes(0), 2 * kPageBytes);
  EXPECT_EQ(order.peak_bytes(0), 4 * kPageBytes);
}

}  // namespace
}  // namespace graphpool
