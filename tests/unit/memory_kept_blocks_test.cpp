// Blocks in address order, whatever order they come and go in.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "shim/memory/kept_blocks.h"

namespace graphpool {
namespace {

void expect_same(const std::set<std::uintptr_t>& wanted, const KeptBlocks& blocks) {
  ASSERT_EQ(wanted.size(), blocks.size());
  std::size_t i = 0;
  for (const std::uintptr_t address : wanted) {
    EXPECT_EQ(address, blocks[i].address);
    EXPECT_EQ(reinterpret_cast<Block*>(address), blocks[i].block);
    ++i;
  }
  if (!wanted.empty()) {
    EXPECT_EQ(reinterpret_cast<Block*>(*wanted.begin()), blocks.lowest());
  }
}

TEST(KeptBlocks, are_in_address_order_whatever_order_they_come_and_go_in) {
  std::minstd_rand random(7);
  constexpr std::size_t kMost = 37;
  for (const int order : {0, 1, 2}) {
    KeptBlocks blocks;
    std::set<std::uintptr_t> wanted;
    blocks.reserve(kMost);
    EXPECT_GE(blocks.capacity(), kMost);
    for (int turn = 0; turn < 400; ++turn) {
      const std::uintptr_t next = order == 0   ? 4096u + static_cast<std::uintptr_t>(turn)
                                  : order == 1 ? 4096u - static_cast<std::uintptr_t>(turn)
                                               : 1 + random() % 4096;
      if (wanted.size() < kMost && wanted.insert(next).second) blocks.add(next, reinterpret_cast<Block*>(next));
      if (turn % 3 == 0 || wanted.size() == kMost) {
        auto gone = wanted.begin();
        if (turn % 2 == 0) {
          std::advance(gone, static_cast<std::ptrdiff_t>(random() % wanted.size()));
          blocks.remove(*gone);
        } else {
          blocks.remove_lowest();
        }
        wanted.erase(gone);
      }
      expect_same(wanted, blocks);
    }
  }
}

TEST(KeptBlocks, more_room_keeps_what_is_there) {
  KeptBlocks blocks;
  std::set<std::uintptr_t> wanted;
  for (std::uintptr_t address = 1; address < 100; ++address) {
    blocks.reserve(address);
    blocks.add(address, reinterpret_cast<Block*>(address));
    wanted.insert(address);
    if (address % 4 == 0) {
      blocks.remove_lowest();
      wanted.erase(wanted.begin());
    }
  }
  expect_same(wanted, blocks);
}

}  // namespace
}  // namespace graphpool
