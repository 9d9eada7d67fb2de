// Tests of shim/memory/memory_return.h.
#include <utility>
#include <vector>

#include "shim/memory/freed_memory.h"
#include "shim/memory/memory_return.h"
#include "tests/unit/device_memory_fixture.h"

namespace graphpool {
namespace {

using Cause = MemoryReturn::Cause;

std::vector<std::pair<const void*, std::size_t>> g_left;

class MemoryReturnTest : public DeviceMemoryTest {
 protected:
  MemoryReturnTest() {
    g_left.clear();
    settings.limit_percent = 100;
    settings.leaving = [](const void* address, std::size_t bytes) noexcept { g_left.emplace_back(address, bytes); };
    configure();
  }
};

TEST_F(MemoryReturnTest, WhatWasFreedFirstGoesFirst) {
  char *a = get(kMiB), *b = get(2 * kMiB);
  drop(b);
  drop(a);
  EXPECT_EQ(memory.returns.give_back_oldest(1, Cause::kLimit), 0u) << "another device";
  EXPECT_EQ(memory.returns.give_back_oldest(0, Cause::kRoom), 2 * kMiB);
  EXPECT_EQ(table.find(b), nullptr);
  EXPECT_NE(table.find(a), nullptr);
  EXPECT_EQ(memory.returns.give_back_oldest(0, Cause::kRoom), kMiB);
  EXPECT_EQ(memory.returns.give_back_oldest(0, Cause::kRoom), 0u) << "nothing is left";
}

TEST_F(MemoryReturnTest, WhoIsToHearOfItHearsBeforeMemoryGoes) {
  char* const ptr = get(5000);
  drop(ptr);
  EXPECT_TRUE(g_left.empty()) << "kept memory stays";
  const std::uint64_t freed = memory_freed();
  static_cast<void>(memory.returns.give_back_oldest(0, Cause::kLimit));
  EXPECT_EQ(g_left, (std::vector<std::pair<const void*, std::size_t>>{{ptr, 5000}}));
  EXPECT_GT(memory_freed(), freed);
}

TEST_F(MemoryReturnTest, WhatIsMadeWhileTheyHearOfItCountsAsMadeBefore) {
  static std::uint64_t meanwhile;
  settings.leaving = [](const void*, std::size_t) noexcept { meanwhile = memory_freed(); };
  configure();
  const std::uint64_t before = memory_freed();
  drop(get(5000));
  static_cast<void>(memory.returns.give_back_oldest(0, Cause::kLimit));
  EXPECT_GT(meanwhile, before) << "what was made before outlives the memory";
  EXPECT_LT(meanwhile, memory_freed());
}

TEST_F(MemoryReturnTest, OfAChunkInUseAKeptPartIsFreeForOthersPastTheLimitAndStaysWhereRoomIsNeeded) {
  use_vmm();
  char *const used = get(kMiB), *const kept = get(kMiB);
  drop(kept);
  const std::size_t physical = fake.hip->used_bytes[0];
  EXPECT_EQ(memory.returns.give_back_oldest(0, Cause::kRoom), 0u);
  EXPECT_NE(table.find(kept), nullptr);
  EXPECT_EQ(memory.returns.give_back_oldest(0, Cause::kLimit), kMiB);
  EXPECT_EQ(table.find(kept), nullptr);
  EXPECT_EQ(fake.hip->used_bytes[0], physical);
  EXPECT_TRUE(g_left.empty()) << "no physical memory has gone";
  drop(used);
  EXPECT_EQ(memory.returns.give_back_oldest(0, Cause::kRoom), kMiB);
  EXPECT_EQ(fake.hip->used_bytes[0], 0u);
  EXPECT_EQ(g_left.size(), 1u);
}

}  // namespace
}  // namespace graphpool
