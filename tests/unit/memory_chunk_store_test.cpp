// Tests of shim/memory/chunk_store.h.
#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "tests/unit/device_memory_fixture.h"

namespace graphpool {
namespace {

class ChunkStoreTest : public DeviceMemoryTest {};

TEST(ChunkState, AChunkComesAndGoesOnlyInTheseWays) {
  using enum ChunkState;
  const std::pair<ChunkState, ChunkState> ways[] = {
      {kResident, kParking}, {kParking, kParked}, {kParked, kLoading}, {kLoading, kResident}, {kLoading, kParked}};
  for (const ChunkState now : {kResident, kParking, kParked, kLoading})
    for (const ChunkState next : {kResident, kParking, kParked, kLoading})
      EXPECT_EQ(may_become(now, next),
                std::find(std::begin(ways), std::end(ways), std::pair{now, next}) != std::end(ways))
          << static_cast<int>(now) << " to " << static_cast<int>(next);
}

TEST_F(ChunkStoreTest, ANewChunkIsFreeAsAWhole) {
  std::unique_ptr<Chunk> chunk;
  ASSERT_EQ(make_chunk(0, 3 * kMiB, &chunk), hipSuccess);
  const PooledChunk pooled(std::move(chunk));
  const LockGuard guard(g_blocks_lock);
  EXPECT_EQ(pooled.free_ranges.free_bytes(), pooled.bytes());
  EXPECT_EQ(pooled.state, ChunkState::kResident);
}

TEST_F(ChunkStoreTest, rule_22_PartsOfChunksAreWholePages) {
  use_vmm();
  char* a = get(100);
  char* b = get(5000);
  char* c = get(3 * kMiB);
  EXPECT_EQ(count("hipMalloc"), 0);
  EXPECT_EQ(fake.hip->mappings.size(), 1u);
  for (char* ptr : {a, b}) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(ptr) % kPageBytes, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c) % kLargePageBytes, 0u);
  EXPECT_TRUE(memory.chunks.any_parts());
  EXPECT_EQ(memory.addresses.operand(b, 5000), b);
  EXPECT_EQ(memory.addresses.operand(b + 4000, 1000), b + 4000);
  const auto visible = [&] {
    return fake.hip->total_bytes - fake.hip->used_bytes[0] + memory.room.hidden_free_bytes(0);
  };
  const std::size_t before = visible();
  EXPECT_EQ(memory.addresses.operand(b, 5001), too_small_memory(0));
  EXPECT_EQ(memory.addresses.operand(b + 4999, 2), too_small_memory(0));
  EXPECT_EQ(fake.hip->allocations.at(reinterpret_cast<std::uintptr_t>(too_small_memory(0))).bytes, 1u);
  EXPECT_EQ(visible(), before) << "it counts as free";
  EXPECT_EQ(memory.addresses.value_operand(b, 5001), never_mapped_address());
  EXPECT_EQ(memory.addresses.operand(&memory, kGiB), &memory);
  EXPECT_EQ(memory.addresses.outside_chunks(b + 7), never_allocated_address());
  EXPECT_EQ(memory.addresses.outside_chunks(&memory), &memory);
}

TEST_F(ChunkStoreTest, WhatIsInAChunkButInNoBlockNeverReachesTheRuntime) {
  use_vmm();
  char* const ptr = get(5000);
  for (char* const nobodys : {ptr + 5000, ptr + 8191, ptr + 8192, ptr + kMiB}) {
    EXPECT_EQ(free(nobodys), hipErrorInvalidValue);
    EXPECT_EQ(memory.frees.free_async(nobodys, nullptr), hipErrorInvalidValue);
    EXPECT_EQ(fake.hip->last_freed, never_allocated_address());
  }
  drop(ptr);
}

TEST_F(ChunkStoreTest, VmmMemInfoIsThatOfSeparateAllocations) {
  use_vmm();
  get(100);
  char* b = get(2 * kMiB);
  const auto visible = [&] {
    return fake.hip->total_bytes - fake.hip->used_bytes[0] + memory.room.hidden_free_bytes(0);
  };
  EXPECT_EQ(visible(), fake.hip->total_bytes - kPageBytes - 2 * kMiB);
  drop(b);
  EXPECT_EQ(visible(), fake.hip->total_bytes - kPageBytes);
  get(2 * kMiB);
  EXPECT_EQ(visible(), fake.hip->total_bytes - kPageBytes - 2 * kMiB);
}

TEST_F(ChunkStoreTest, ChunksGrowAndPreallocate) {
  settings.chunk_bytes = 4 * kMiB;
  settings.preallocate_bytes = 10 * kMiB;
  configure();
  use_vmm();
  get(100);
  EXPECT_EQ(fake.hip->used_bytes[0], 10 * kMiB);
  get(9 * kMiB);
  EXPECT_EQ(fake.hip->mappings.size(), 2u);
  EXPECT_EQ(fake.hip->used_bytes[0], 19 * kMiB) << "no place behind the first page: a chunk of its own";
}

TEST_F(ChunkStoreTest, UnderPressureAddressesStay) {
  use_vmm();
  settings.chunk_bytes = 100 * kMiB;
  settings.limit_percent = 100;
  configure();
  char* a = get(kMiB);
  char* b = get(2 * kMiB);
  drop(a);
  drop(b);
  EXPECT_TRUE(memory.room.release_all(0));
  EXPECT_EQ(fake.hip->used_bytes[0], 0u) << "the physical memory is gone";
  EXPECT_EQ(memory.room.hidden_free_bytes(0), 0u);
  EXPECT_EQ(memory.addresses.seen_by_hip(a), never_allocated_address());
  EXPECT_TRUE(memory.is_valid());
  EXPECT_EQ(get(2 * kMiB), b);
  EXPECT_EQ(fake.hip->used_bytes[0], 100 * kMiB);
  EXPECT_TRUE(memory.is_valid());
  EXPECT_EQ(get(kMiB), a);
  drop(a);
  EXPECT_TRUE(memory.room.release_all(0)) << "forgotten, its chunk is in use";
  EXPECT_EQ(fake.hip->used_bytes[0], 100 * kMiB);
}

TEST_F(ChunkStoreTest, AddressesAreNotHeldWithoutEnd) {
  use_vmm();
  settings.chunk_bytes = kPageBytes;
  settings.limit_percent = 100;
  configure();
  for (std::size_t i = 0; i < 1100; ++i) {
    drop(get(kMiB + i * kPageBytes));
    memory.room.release_all(0);
  }
  EXPECT_EQ(fake.hip->used_bytes[0], 0u);
  EXPECT_EQ(fake.hip->reservations.size(), 1024u);
}

}  // namespace
}  // namespace graphpool
