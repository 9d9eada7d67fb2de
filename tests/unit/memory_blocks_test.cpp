// Tests of shim/memory/blocks.h.
#include "tests/support/counting_new.h"
#include "tests/unit/device_memory_fixture.h"

namespace graphpool {
namespace {

class BlocksTest : public DeviceMemoryTest {};

TEST_F(BlocksTest, MemoryFreedPastUsIsReplaced) {
  char* kept = get(4096);
  drop(kept);
  char* live = get(100);
  // Somebody frees both past us, and the runtime hands the addresses out again.
  fake.hip->reuse_addresses = true;
  EXPECT_EQ(next().hipFree(kept), hipSuccess);
  EXPECT_EQ(next().hipFree(live), hipSuccess);
  char* again = get(200);
  EXPECT_EQ(again, live);
  EXPECT_EQ(table.find(again)->bytes(), 200u);
  EXPECT_EQ(get(4090), kept);
  EXPECT_TRUE(memory.is_valid());
}

TEST_F(BlocksTest, rule_21_ExportedMemoryIsReallyFreed) {
  char* ptr = get(100);
  EXPECT_TRUE(memory.blocks.mark_exported(ptr + 5));
  EXPECT_EQ(free(ptr), hipSuccess);
  EXPECT_EQ(count("hipFree"), 1);
  EXPECT_EQ(table.find(ptr), nullptr);
  char* kept = get(100);
  drop(kept);
  EXPECT_FALSE(memory.blocks.mark_exported(kept));
  EXPECT_FALSE(memory.blocks.mark_exported(&memory));
}

TEST_F(BlocksTest, HostAndManagedMemoryIsKnown) {
  void* ptr = nullptr;
  ASSERT_EQ(next().hipMalloc(&ptr, 100), hipSuccess);
  memory.blocks.note_native(ptr, {.bytes = 100, .flags = 2, .function = AllocationFunction::kHostMalloc},
                            MemoryKind::kHost);
  EXPECT_EQ(table.find(ptr)->kind, MemoryKind::kHost);
  EXPECT_EQ(memory.frees.free(ptr, next().hipHostFree), hipSuccess);
  EXPECT_EQ(table.find(ptr), nullptr);
  // The wrong free of pooled memory is the runtime's own business, and works here.
  char* block = get(100);
  EXPECT_EQ(memory.frees.free(block, next().hipHostFree), hipSuccess);
  EXPECT_EQ(table.find(block), nullptr);
  EXPECT_EQ(count("hipHostFree"), 2);
}

TEST_F(BlocksTest, rule_21_WhatIsSharedIsMarkedAlsoWithoutMemory) {
  char *const first = get(4096), *const second = get(4096);
  EXPECT_TRUE(memory.blocks.mark_shared(first, 1));
  let_allocations_work(0);
  const bool all = memory.blocks.mark_shared(second, 1);
  let_allocations_work(-1);
  EXPECT_FALSE(all) << "so the memory is noted apart, too";
  EXPECT_TRUE(table.find(second)->shared.load());
  EXPECT_TRUE(table.find(second)->exported.load());
}

TEST_F(BlocksTest, ExportedPartsOfChunksAreNeverHandedOutAgain) {
  use_vmm();
  char* ptr = get(100);
  memory.blocks.mark_exported(ptr);
  EXPECT_EQ(free(ptr), hipSuccess);
  EXPECT_NE(get(100), ptr);
  EXPECT_EQ(table.find(ptr), nullptr);
}

}  // namespace
}  // namespace graphpool
