// Tests of shim/memory/block_pool.h.
#include <algorithm>
#include <random>
#include <vector>

#include "tests/unit/device_memory_fixture.h"

namespace graphpool {
namespace {

class BlockPoolTest : public DeviceMemoryTest {};

TEST_F(BlockPoolTest, AStepThatRepeatsGetsTheSameAddresses) {
  std::vector<void*> first;
  for (int step = 0; step < 3; ++step) {
    std::vector<void*> now;
    for (std::size_t bytes : {1000, 4096, 1000, 70'000, 1000}) now.push_back(get(bytes));
    if (step == 0) first = now;
    EXPECT_EQ(now, first);
    for (void* ptr : {now[3], now[0], now[4], now[1], now[2]}) EXPECT_EQ(free(ptr), hipSuccess);
  }
  EXPECT_EQ(count("hipMalloc"), 5);
  EXPECT_EQ(count("hipFree"), 0);
  EXPECT_EQ(memory.blocks.counted().reused, 10u);
}

TEST_F(BlockPoolTest, OnlyTheExactSizeDeviceAndFunctionFit) {
  char* ptr = get(4096);
  drop(ptr);
  EXPECT_NE(get(4095), ptr);
  EXPECT_NE(get(4097), ptr);
  fake::t_device = 1;
  EXPECT_NE(get(4096), ptr);
  fake::t_device = 0;
  void* other = nullptr;
  EXPECT_EQ(malloc(&other, 4096, AllocationFunction::kExtMalloc), hipSuccess);
  EXPECT_NE(other, ptr);
  EXPECT_EQ(get(4096), ptr);
}

TEST_F(BlockPoolTest, ARuleAndItsCallSitesKeepApart) {
  g_decision = {.pool = true, .rule = 3, .call_site = 7, .by_call_site = true};
  char* ptr = get(4096);
  drop(ptr);
  g_decision.call_site = 8;
  EXPECT_NE(get(4096), ptr);
  g_decision.by_call_site = false;
  EXPECT_NE(get(4096), ptr);
  g_decision = {.pool = true, .rule = 3, .call_site = 7, .by_call_site = true};
  EXPECT_EQ(get(4096), ptr);
  const Block* block = table.find(ptr);
  EXPECT_EQ(block->rule, 3u);
  EXPECT_EQ(block->call_site, 7u);
}

TEST_F(BlockPoolTest, LowestAddressFirstWhateverTheOrderOfFrees) {
  std::vector<char*> blocks;
  for (int i = 0; i < 50; ++i) blocks.push_back(get(4096));
  std::vector<char*> sorted = blocks;
  std::sort(sorted.begin(), sorted.end());
  std::mt19937 random(5);
  for (int round = 0; round < 5; ++round) {
    std::shuffle(blocks.begin(), blocks.end(), random);
    for (char* ptr : blocks) drop(ptr);
    for (char* expected : sorted) ASSERT_EQ(get(4096), expected);
  }
}

TEST_F(BlockPoolTest, EachHandOutIsAnotherGeneration) {
  char* ptr = get(100);
  const std::uint64_t generation = table.find(ptr)->generation, order = table.find(ptr)->order;
  drop(ptr);
  EXPECT_FALSE(table.find(ptr)->live());
  EXPECT_EQ(get(100), ptr);
  EXPECT_NE(table.find(ptr)->generation, generation);
  EXPECT_GT(table.find(ptr)->order, order);
  EXPECT_EQ(table.find(ptr)->bytes(), 100u);
}

TEST_F(BlockPoolTest, WhatIsNotPooledIsForwarded) {
  void* ptr = nullptr;
  EXPECT_EQ(malloc(nullptr, 100), hipErrorInvalidValue);
  ptr = &ptr;
  EXPECT_EQ(malloc(&ptr, 0), hipSuccess);
  EXPECT_EQ(ptr, nullptr);
  EXPECT_EQ(free(nullptr), hipSuccess);
  EXPECT_EQ(count("hipMalloc"), 2);
  EXPECT_EQ(count("hipFree"), 1);
  g_decision.pool = false;
  char* passed = get(100);
  EXPECT_NE(table.find(passed), nullptr);
  EXPECT_EQ(free(passed), hipSuccess);
  EXPECT_EQ(count("hipFree"), 2);
  EXPECT_EQ(table.find(passed), nullptr);
  // Fine-grained memory.
  EXPECT_EQ(malloc(&ptr, 100, AllocationFunction::kExtMalloc, hipDeviceMallocFinegrained), hipSuccess);
  drop(ptr);
  EXPECT_EQ(count("hipFree"), 3);
  // Stream-ordered memory without a rule.
  EXPECT_EQ(malloc(&ptr, 100, AllocationFunction::kMallocAsync), hipSuccess);
  EXPECT_EQ(table.find(ptr)->kind, MemoryKind::kStreamOrdered);
  drop(ptr);
  EXPECT_EQ(count("hipFree"), 4);
}

TEST_F(BlockPoolTest, TheRuleOfUnpooledMemoryIsKnown) {
  g_decision = {.pool = false, .rule = 9};
  EXPECT_EQ(table.find(get(100))->rule, 9u);
  settings.large_bytes = kMiB;
  configure();
  g_decision = {.pool = true, .rule = 4};
  EXPECT_EQ(table.find(get(2 * kMiB))->rule, 4u);
}

TEST_F(BlockPoolTest, rule_25_LargeAllocationsAreReallyFreed) {
  settings.large_bytes = kMiB;
  configure();
  char* small = get(kMiB - 1);
  char* large = get(kMiB);
  drop(small);
  EXPECT_EQ(fake.hip->allocations.size(), 2u);
  drop(large);
  EXPECT_EQ(fake.hip->allocations.size(), 1u);
  EXPECT_NE(get(kMiB), large);
}

TEST_F(BlockPoolTest, rule_17_WhereACaptureForbidsThemMallocAndFreeAreTheRuntimes) {
  char* kept = get(100);
  char* live = get(100);
  drop(kept);
  capture_opened();
  ++fake.hip->captures;
  void* out = nullptr;
  EXPECT_EQ(malloc(&out, 100), hipErrorStreamCaptureUnsupported);
  EXPECT_TRUE(fake.hip->capture_invalidated);
  fake.hip->capture_invalidated = false;
  EXPECT_EQ(free(live), hipErrorStreamCaptureUnsupported);
  EXPECT_TRUE(fake.hip->capture_invalidated);
  EXPECT_TRUE(table.find(live)->live());
  fake.hip->capture_invalidated = false;
  fake::t_last_error = hipSuccess;
  // A thread that may: as outside of captures.
  fake::t_mode = hipStreamCaptureModeRelaxed;
  EXPECT_EQ(get(100), kept);
  EXPECT_EQ(free(live), hipSuccess);
  EXPECT_EQ(get(100), live);
  EXPECT_EQ(count("hipFree"), 1) << "the one that was refused";
  // Nobody knows whether it may: the runtime is asked by the call itself.
  drop(live);
  fake.hip->fail["hipThreadExchangeStreamCaptureMode"] = hipErrorUnknown;
  EXPECT_NE(get(100), live);
  fake.hip->fail.clear();
  EXPECT_FALSE(fake.hip->capture_invalidated);
  capture_closed();
  fake.hip->captures = 0;
}

TEST_F(BlockPoolTest, rule_08_KeptMemoryServesAMallocInACaptureWhereThePolicySaysSo) {
  settings.serve_captures = true;
  configure();
  char* kept = get(100);
  drop(kept);
  capture_opened();
  ++fake.hip->captures;
  const int before = count("hipMalloc");
  EXPECT_EQ(get(100), kept);
  EXPECT_EQ(count("hipMalloc"), before);
  EXPECT_FALSE(fake.hip->capture_invalidated);
  void* out = nullptr;
  EXPECT_EQ(malloc(&out, 100), hipErrorStreamCaptureUnsupported) << "none is kept any more";
  EXPECT_TRUE(fake.hip->capture_invalidated);
  capture_closed();
  fake.hip->captures = 0;
}

TEST_F(BlockPoolTest, rule_08_MemoryThatHadToBeMappedAgainServesNoMallocInACapture) {
  settings.serve_captures = true;
  settings.limit_bytes = 4096;
  settings.chunk_bytes = 2 * kMiB;
  use_vmm();
  configure();
  char* kept = get(100);
  drop(kept);
  ASSERT_TRUE(memory.room.release_all(0));
  const int before = count("hipMemMap");
  capture_opened();
  ++fake.hip->captures;
  void* out = nullptr;
  EXPECT_EQ(malloc(&out, 100), hipErrorStreamCaptureUnsupported);
  EXPECT_EQ(count("hipMemMap"), before);
  capture_closed();
  fake.hip->captures = 0;
}

TEST_F(BlockPoolTest, MallocAsyncIsPooledByRule) {
  g_decision.rule = 1;
  hipStream_t stream = busy_stream(), other = busy_stream();
  void *a = nullptr, *b = nullptr;
  ASSERT_EQ(malloc(&a, 100, AllocationFunction::kMallocAsync, 0, stream), hipSuccess);
  EXPECT_EQ(count("hipMallocAsync"), 0);
  EXPECT_EQ(memory.frees.free_async(a, stream), hipSuccess);
  ASSERT_EQ(malloc(&b, 100, AllocationFunction::kMallocAsync, 0, stream), hipSuccess);
  EXPECT_EQ(b, a) << "what the stream does next comes after the free";
  EXPECT_EQ(memory.frees.free_async(b, stream), hipSuccess);
  ASSERT_EQ(malloc(&b, 100, AllocationFunction::kMallocAsync, 0, other), hipSuccess);
  EXPECT_NE(b, a) << "another stream is not ordered behind it";
  fake::finish(stream);
  ASSERT_EQ(malloc(&b, 100, AllocationFunction::kMallocAsync, 0, other), hipSuccess);
  EXPECT_EQ(b, a);
  EXPECT_EQ(fake.hip->waits, 0);
}

TEST_F(BlockPoolTest, MallocAsyncInACaptureIsTheRuntimes) {
  g_decision.rule = 1;
  capture_opened();
  void* ptr = nullptr;
  ASSERT_EQ(malloc(&ptr, 100, AllocationFunction::kMallocAsync), hipSuccess);
  EXPECT_EQ(count("hipMallocAsync"), 1);
  EXPECT_EQ(table.find(ptr), nullptr) << "a graph's memory comes and goes without calls";
}

TEST_F(BlockPoolTest, ClassicWhereVmmIsNotToBeHad) {
  use_vmm();
  fake.hip->vmm = false;
  char* ptr = get(100);
  EXPECT_EQ(table.find(ptr)->backing, BlockBacking::kClassic);
  drop(ptr);
  EXPECT_EQ(get(100), ptr);
  EXPECT_EQ(fake::t_last_error, hipSuccess);
}

TEST_F(BlockPoolTest, rule_16_NothingIsMappedInAMallocThatWouldWait) {
  fake.hip->version = 60300000;
  fake.hip->finish_when_waited = false;
  use_vmm();
  busy_stream();
  char* ptr = get(100);
  EXPECT_EQ(table.find(ptr)->backing, BlockBacking::kClassic);
  EXPECT_FALSE(fake.hip->stuck);
  EXPECT_EQ(count("hipMemMap"), 0);
}

TEST_F(BlockPoolTest, AChunkThatCannotComeBack) {
  use_vmm();
  char* a = get(kMiB);
  drop(a);
  memory.room.release_all(0);
  fake.hip->fail["hipMemCreate"] = hipErrorOutOfMemory;
  char* other = get(kMiB);
  EXPECT_NE(other, a);
  EXPECT_EQ(table.find(other)->backing, BlockBacking::kClassic);
  EXPECT_EQ(fake::t_last_error, hipSuccess);
  EXPECT_TRUE(memory.is_valid());
  fake.hip->fail.clear();
  EXPECT_EQ(get(kMiB), a);
}

TEST_F(BlockPoolTest, AChunkComesBackInThePlaceOfOtherKeptMemory) {
  use_vmm();
  settings.limit_percent = 100;
  settings.chunk_bytes = 2 * kMiB;
  configure();
  char* const first = get(100 * kMiB);
  drop(first);
  char* const other = get(200 * kMiB);
  EXPECT_EQ(memory.blocks.counted().trimmed, 1u) << "the chunk went for it";
  drop(other);
  EXPECT_EQ(get(100 * kMiB), first);
  EXPECT_EQ(table.find(other), nullptr);
  EXPECT_EQ(memory.blocks.counted().trimmed, 2u);
  EXPECT_EQ(fake::t_last_error, hipSuccess);
}

TEST_F(BlockPoolTest, NothingGoesBackForAChunkThatCannotComeBackAnyway) {
  use_vmm();
  settings.limit_percent = 100;
  settings.chunk_bytes = 100 * kMiB;
  configure();
  char* const first = get(kMiB);
  drop(first);
  get(200 * kMiB);
  char* const kept = get(30 * kMiB);
  drop(kept);
  EXPECT_NE(get(kMiB), first) << "its chunk is larger than all there is";
  EXPECT_NE(table.find(kept), nullptr);
  EXPECT_EQ(get(30 * kMiB), kept);
}

TEST_F(BlockPoolTest, rule_25_KeptPartsOfChunksInUseCountAsFreeForOtherSizes) {
  use_vmm();
  settings.limit_percent = 100;
  settings.chunk_bytes = 2 * kMiB;
  configure();
  std::vector<char*> blocks;
  for (std::size_t i = 0; i < fake.hip->total_bytes / kMiB; ++i) blocks.push_back(get(kMiB));
  for (std::size_t i = 0; i < blocks.size(); i += 2) drop(blocks[i]);
  const std::size_t chunks = fake.hip->mappings.size();
  for (std::size_t i = 0; i < blocks.size(); ++i) EXPECT_EQ(table.find(get(kMiB / 2))->backing, BlockBacking::kVmm);
  EXPECT_EQ(fake.hip->mappings.size(), chunks);
  EXPECT_EQ(fake::t_last_error, hipSuccess);
  void* out = nullptr;
  EXPECT_EQ(malloc(&out, kMiB / 2), hipErrorOutOfMemory);
  EXPECT_EQ(fake::t_last_error, hipErrorOutOfMemory);
}

}  // namespace
}  // namespace graphpool
