// Tests of shim/memory/address_guard.h.
#include "tests/unit/device_memory_fixture.h"

namespace graphpool {
namespace {

class AddressGuardTest : public DeviceMemoryTest {};

TEST_F(AddressGuardTest, rule_24_KeptMemoryIsUnknownToQueries) {
  char* ptr = get(100);
  EXPECT_EQ(memory.addresses.seen_by_hip(ptr + 50), ptr + 50);
  drop(ptr);
  EXPECT_EQ(memory.addresses.seen_by_hip(ptr + 50), never_allocated_address());
  EXPECT_EQ(memory.addresses.seen_by_hip(ptr + 100), ptr + 100);
  EXPECT_EQ(memory.addresses.operand(ptr, 1), never_mapped_address());
  EXPECT_EQ(memory.addresses.outside_chunks(ptr), never_allocated_address());
  EXPECT_EQ(get(100), ptr);
  EXPECT_EQ(memory.addresses.operand(ptr, 5000), ptr) << "bounds of classic memory are the runtime's to check";
  EXPECT_EQ(memory.addresses.seen_by_hip(ptr), ptr);
}

TEST_F(AddressGuardTest, rule_24_WhatIsLeftOfAChunkWhoseOnlyPartWasExportedStaysUnknown) {
  use_vmm();
  char* const ptr = get(100);
  memory.blocks.mark_exported(ptr);
  drop(ptr);
  EXPECT_EQ(memory.addresses.seen_by_hip(ptr), never_allocated_address());
  EXPECT_EQ(memory.addresses.outside_chunks(ptr), never_allocated_address());
  EXPECT_TRUE(memory.is_valid());
  memory.device_reset(0);
  EXPECT_EQ(memory.addresses.seen_by_hip(ptr), ptr) << "the chunk is gone";
  EXPECT_FALSE(memory.chunks.any_parts());
}

}  // namespace
}  // namespace graphpool
