// Tests of shim/memory/pool.h.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "shim/memory/never_address.h"
#include "shim/memory/pool.h"
#include "shim/memory/slot_set.h"
#include "tests/support/never_destroyed.h"
#include "tests/unit/fake_hip.h"

namespace graphpool {
namespace {

Decision g_decision;
Decision fixed_decision(const AllocationRequest& request) {
  Decision decision = g_decision;
  if (request.function == AllocationFunction::kMallocAsync && decision.rule == 0) decision.pool = false;
  return decision;
}

class PoolTest : public testing::Test {
 protected:
  PoolTest() {
    g_decision = {};
    forget_too_small_memory(0);
    forget_too_small_memory(1);
    forget_vmm(0);
    forget_vmm(1);
    stream_work().device_reset(0);
    stream_work().device_reset(1);
    configure();
  }
  ~PoolTest() override {
    EXPECT_TRUE(pool.is_valid());
    forget_vmm(0);
    forget_vmm(1);
    stream_work().device_reset(0);
    stream_work().device_reset(1);
  }
  void configure() { pool.configure(settings, &fixed_decision); }

  hipError_t malloc(void** ptr, std::size_t bytes, AllocationFunction function = AllocationFunction::kMalloc,
                    unsigned flags = 0, hipStream_t stream = nullptr) {
    return pool.allocate({function, bytes, fake::t_device, flags, stream}, ptr);
  }
  char* get(std::size_t bytes) {
    void* ptr = nullptr;
    EXPECT_EQ(malloc(&ptr, bytes), hipSuccess);
    return static_cast<char*>(ptr);
  }
  hipError_t free(void* ptr) { return pool.free(ptr, next().hipFree); }
  void drop(void* ptr) { EXPECT_EQ(free(ptr), hipSuccess); }
  hipStream_t busy_stream() {
    hipStream_t stream = nullptr;
    EXPECT_EQ(next().hipStreamCreateWithFlags(&stream, hipStreamNonBlocking), hipSuccess);
    stream_work().created(stream, fake::t_device);
    enqueue(stream);
    return stream;
  }
  static void enqueue(hipStream_t stream) {
    fake::work(stream);
    stream_work().note_work(stream);
  }
  int count(const char* name) { return fake.hip->count[name]; }
  void use_vmm() { g_decision.backing = BlockBacking::kVmm; }

  fake::Install fake;
  PoolSettings settings;
  BlockTable& table = never_destroyed<BlockTable>();
  Pool& pool = never_destroyed<Pool>(table, stream_work());
};

// --- keeping and handing out again ---

TEST_F(PoolTest, AStepThatRepeatsGetsTheSameAddresses) {
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
  EXPECT_EQ(pool.counters().reused, 10u);
}

TEST_F(PoolTest, OnlyTheExactSizeDeviceAndFunctionFit) {
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

TEST_F(PoolTest, ARuleAndItsCallSitesKeepApart) {
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

TEST_F(PoolTest, WhatWasThereBeforeAPeerWasEnabledIsNotHandedOutAgain) {
  char *kept = get(4096), *live = get(4096);
  drop(kept);
  pool.peers_enabled(1);
  EXPECT_EQ(get(4096), kept) << "it is of another device";
  drop(kept);
  for (const int device : {0, -1}) {
    pool.peers_enabled(device);
    drop(live);
    char* const after = get(4096);
    EXPECT_NE(after, kept);
    EXPECT_NE(after, live);
    drop(after);
    EXPECT_EQ(live = get(4096), after) << "what came later serves as ever";
    EXPECT_TRUE(pool.is_valid());
  }
  const int freed = count("hipFree");
  EXPECT_TRUE(pool.trim(0, ~std::size_t{0}));
  EXPECT_EQ(count("hipFree"), freed + 3) << "all that is kept is given back";
  drop(live);
  EXPECT_TRUE(pool.is_valid());
}

TEST_F(PoolTest, LowestAddressFirstWhateverTheOrderOfFrees) {
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

TEST_F(PoolTest, EachHandOutIsAnotherGeneration) {
  char* ptr = get(100);
  const std::uint64_t generation = table.find(ptr)->generation, order = table.find(ptr)->order;
  drop(ptr);
  EXPECT_FALSE(table.find(ptr)->live());
  EXPECT_EQ(get(100), ptr);
  EXPECT_NE(table.find(ptr)->generation, generation);
  EXPECT_GT(table.find(ptr)->order, order);
  EXPECT_EQ(table.find(ptr)->bytes(), 100u);
}

TEST_F(PoolTest, WhatIsNotPooledIsForwarded) {
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

TEST_F(PoolTest, TheRuleOfUnpooledMemoryIsKnown) {
  g_decision = {.pool = false, .rule = 9};
  EXPECT_EQ(table.find(get(100))->rule, 9u);
  settings.large_bytes = kMiB;
  configure();
  g_decision = {.pool = true, .rule = 4};
  EXPECT_EQ(table.find(get(2 * kMiB))->rule, 4u);
}

TEST_F(PoolTest, rule_25_LargeAllocationsAreReallyFreed) {
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

// --- errors ---

TEST_F(PoolTest, rule_24_FreesOfWhatIsNoAllocationGetHipsError) {
  char* ptr = get(10'000);
  EXPECT_EQ(free(ptr + 10'000), hipErrorInvalidValue);
  EXPECT_TRUE(table.find(ptr)->live());
  EXPECT_EQ(free(ptr), hipSuccess);
  EXPECT_EQ(free(ptr), hipErrorInvalidValue);
  EXPECT_EQ(free(ptr + 16), hipErrorInvalidValue);
  EXPECT_EQ(fake.hip->allocations.size(), 1u) << "the kept block is still there";
  EXPECT_EQ(get(10'000), ptr);
  EXPECT_EQ(free(reinterpret_cast<void*>(0x1234'5000)), hipErrorInvalidValue);
}

TEST_F(PoolTest, rule_24_KeptMemoryIsUnknownToQueries) {
  char* ptr = get(100);
  EXPECT_EQ(pool.seen_by_hip(ptr + 50), ptr + 50);
  drop(ptr);
  EXPECT_EQ(pool.seen_by_hip(ptr + 50), never_allocated_address());
  EXPECT_EQ(pool.seen_by_hip(ptr + 100), ptr + 100);
  EXPECT_EQ(pool.operand(ptr, 1), never_mapped_address());
  EXPECT_EQ(pool.outside_chunks(ptr), never_allocated_address());
  EXPECT_EQ(get(100), ptr);
  EXPECT_EQ(pool.operand(ptr, 5000), ptr) << "bounds of classic memory are the runtime's to check";
  EXPECT_EQ(pool.seen_by_hip(ptr), ptr);
}

TEST_F(PoolTest, AFreeThatFailsChangesNothing) {
  settings.large_bytes = 1;
  configure();
  char* ptr = get(100);
  fake.hip->fail["hipFree"] = hipErrorUnknown;
  EXPECT_EQ(free(ptr), hipErrorUnknown);
  EXPECT_EQ(fake::t_last_error, hipErrorUnknown);
  EXPECT_TRUE(table.find(ptr)->live());
  fake.hip->fail.clear();
  EXPECT_EQ(free(ptr), hipSuccess);
}

TEST_F(PoolTest, MemoryFreedPastUsIsReplaced) {
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
  EXPECT_TRUE(pool.is_valid());
}

TEST_F(PoolTest, rule_21_ExportedMemoryIsReallyFreed) {
  char* ptr = get(100);
  EXPECT_TRUE(pool.mark_exported(ptr + 5));
  EXPECT_EQ(free(ptr), hipSuccess);
  EXPECT_EQ(count("hipFree"), 1);
  EXPECT_EQ(table.find(ptr), nullptr);
  char* kept = get(100);
  drop(kept);
  EXPECT_FALSE(pool.mark_exported(kept));
  EXPECT_FALSE(pool.mark_exported(&pool));
}

TEST_F(PoolTest, HostAndManagedMemoryIsKnown) {
  void* ptr = nullptr;
  ASSERT_EQ(next().hipMalloc(&ptr, 100), hipSuccess);
  pool.note_native(ptr, 100, 0, 2, MemoryKind::kHost, AllocationFunction::kHostMalloc);
  EXPECT_EQ(table.find(ptr)->kind, MemoryKind::kHost);
  EXPECT_EQ(pool.free(ptr, next().hipHostFree), hipSuccess);
  EXPECT_EQ(table.find(ptr), nullptr);
  // The wrong free of pooled memory is the runtime's own business, and works here.
  char* block = get(100);
  EXPECT_EQ(pool.free(block, next().hipHostFree), hipSuccess);
  EXPECT_EQ(table.find(block), nullptr);
  EXPECT_EQ(count("hipHostFree"), 2);
}

TEST_F(PoolTest, AfterADeviceErrorEverythingIsForwarded) {
  char* ptr = get(100);
  char* kept = get(200);
  drop(kept);
  testing::internal::CaptureStderr();
  pool.note_error(hipErrorInvalidValue);
  pool.note_error(hipErrorNotInitialized);  // of no device
  EXPECT_TRUE(pool.enabled());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  pool.note_error(hipErrorIllegalAddress);
  pool.note_error(hipErrorIllegalAddress);
  EXPECT_FALSE(pool.enabled());
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "graphpool[" + std::to_string(getpid()) +
                "]: warning: a call failed with error 700: no memory is kept until the device is reset\n");
  fake.hip->fail["hipMalloc"] = fake.hip->fail["hipFree"] = hipErrorIllegalAddress;
  void* out = nullptr;
  EXPECT_EQ(malloc(&out, 200), hipErrorIllegalAddress);
  EXPECT_EQ(free(ptr), hipErrorIllegalAddress);
  fake.hip->fail.clear();
  pool.device_reset(0);
  EXPECT_TRUE(pool.enabled());
}

// --- waiting ---

TEST_F(PoolTest, rule_16_AFreeWaitsForTheDevice) {
  hipStream_t stream = busy_stream();
  char* ptr = get(100);
  EXPECT_EQ(fake.hip->waits, 0) << "malloc does not wait";
  EXPECT_EQ(free(ptr), hipSuccess);
  EXPECT_TRUE(fake::idle(stream));
  EXPECT_EQ(fake.hip->waits, 1);
  EXPECT_EQ(count("hipFree"), 0);
  drop(get(100));
  EXPECT_EQ(fake.hip->waits, 1);
}

TEST_F(PoolTest, AFreeWaitsForTheOwnerNotTheCurrentDevice) {
  char* ptr = get(100);
  fake::t_device = 1;
  hipStream_t other = busy_stream();
  EXPECT_EQ(free(ptr), hipSuccess);
  EXPECT_FALSE(fake::idle(other));
  EXPECT_EQ(fake::t_device, 1);
}

TEST_F(PoolTest, WhereNoFenceCanBeMadeARealFreeOfAPageWaits) {
  hipStream_t stream = busy_stream();
  char* ptr = get(100);
  fake.hip->fail["hipEventRecord"] = hipErrorUnknown;
  EXPECT_EQ(free(ptr), hipSuccess);
  EXPECT_EQ(count("hipFree"), 1);
  EXPECT_TRUE(fake::idle(stream));
  EXPECT_TRUE(stream_work().is_idle(0));
  EXPECT_EQ(get(100), ptr);
  EXPECT_EQ(fake::t_last_error, hipSuccess);
}

TEST_F(PoolTest, WhereNothingOfOursCanWaitTheFreeIsTheRuntimes) {
  hipStream_t stream = busy_stream();
  char* ptr = get(100);
  fake.hip->fail["hipEventRecord"] = hipErrorUnknown;
  fake.hip->fail["hipMalloc"] = hipErrorOutOfMemory;
  EXPECT_EQ(free(ptr), hipSuccess);
  EXPECT_EQ(count("hipFree"), 1);
  EXPECT_TRUE(fake::idle(stream));
  EXPECT_EQ(table.find(ptr), nullptr);
  EXPECT_EQ(fake::t_last_error, hipSuccess);
}

TEST_F(PoolTest, rule_17_WhereACaptureForbidsThemMallocAndFreeAreTheRuntimes) {
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

TEST_F(PoolTest, rule_17_AFreeInACaptureWaitsByARealOneOfAPage) {
  char* ptr = get(100);
  hipStream_t stream = busy_stream();
  fake::t_mode = hipStreamCaptureModeRelaxed;
  capture_opened();
  ++fake.hip->captures;
  EXPECT_EQ(free(ptr), hipSuccess);
  EXPECT_TRUE(fake::idle(stream));
  EXPECT_TRUE(stream_work().is_idle(0));
  EXPECT_EQ(count("hipFree"), 1);
  EXPECT_EQ(count("hipEventRecord"), 0);
  EXPECT_EQ(get(100), ptr);
  capture_closed();
  fake.hip->captures = 0;
}

TEST_F(PoolTest, AFreeAfterABusyStreamWasDestroyedInACaptureKeepsTheMemory) {
  char* ptr = get(100);
  hipStream_t stream = busy_stream();
  capture_opened();
  stream_work().before_destroy(stream);
  capture_closed();
  EXPECT_EQ(free(ptr), hipSuccess);
  EXPECT_TRUE(fake::idle(stream));
  EXPECT_TRUE(stream_work().is_idle(0));
  EXPECT_EQ(get(100), ptr);
}

TEST_F(PoolTest, DeferredFreesInACaptureWaitForNothingAndComeBackAfterIt) {
  settings.deferred_free = true;
  configure();
  fake.hip->finish_when_waited = false;
  char* ptr = get(100);
  hipStream_t stream = busy_stream();
  fake::t_mode = hipStreamCaptureModeRelaxed;
  capture_opened();
  ++fake.hip->captures;
  EXPECT_EQ(free(ptr), hipSuccess);
  EXPECT_FALSE(fake::idle(stream));
  EXPECT_EQ(count("hipFree"), 0);
  EXPECT_NE(get(100), ptr);
  capture_closed();
  fake.hip->captures = 0;
  fake::finish(stream);
  EXPECT_EQ(get(100), ptr);
}

TEST_F(PoolTest, rule_08_KeptMemoryServesAMallocInACaptureWhereThePolicySaysSo) {
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

TEST_F(PoolTest, rule_08_MemoryThatHadToBeMappedAgainServesNoMallocInACapture) {
  settings.serve_captures = true;
  settings.limit_bytes = 4096;
  settings.chunk_bytes = 2 * kMiB;
  use_vmm();
  configure();
  char* kept = get(100);
  drop(kept);
  ASSERT_TRUE(pool.release_all(0));
  const int before = count("hipMemMap");
  capture_opened();
  ++fake.hip->captures;
  void* out = nullptr;
  EXPECT_EQ(malloc(&out, 100), hipErrorStreamCaptureUnsupported);
  EXPECT_EQ(count("hipMemMap"), before);
  capture_closed();
  fake.hip->captures = 0;
}

// --- deferred ---

TEST_F(PoolTest, DeferredFreesWaitForNothing) {
  settings.deferred_free = true;
  configure();
  fake.hip->finish_when_waited = false;
  char* ptr = get(100);
  hipStream_t stream = busy_stream();
  EXPECT_EQ(free(ptr), hipSuccess);
  EXPECT_FALSE(fake.hip->stuck);
  EXPECT_EQ(pool.seen_by_hip(ptr), never_allocated_address());
  char* other = get(100);
  EXPECT_NE(other, ptr) << "the device may still use it";
  fake::finish(stream);
  EXPECT_EQ(get(100), ptr);
  EXPECT_EQ(fake.hip->waits, 0);
  EXPECT_EQ(fake::t_last_error, hipSuccess);
  enqueue(stream);
  drop(ptr);
  EXPECT_EQ(free(ptr), hipErrorInvalidValue);
}

TEST_F(PoolTest, DeferredFreesOfAnIdleDeviceAreReusedAtOnce) {
  settings.deferred_free = true;
  configure();
  char* ptr = get(100);
  drop(ptr);
  EXPECT_EQ(get(100), ptr);
  EXPECT_EQ(count("hipEventRecord"), 0);
}

TEST_F(PoolTest, PendingMemoryCountsAndIsGivenBack) {
  settings.deferred_free = true;
  configure();
  char* ptr = get(3 * kMiB);
  busy_stream();
  drop(ptr);
  EXPECT_EQ(pool.hidden_free_bytes(0), 3 * kMiB);
  EXPECT_TRUE(pool.release_all(0));
  EXPECT_EQ(pool.hidden_free_bytes(0), 0u);
  EXPECT_FALSE(fake.hip->leaks());
  EXPECT_FALSE(pool.release_all(0));
}

// --- limit, trim, accounting ---

TEST_F(PoolTest, rule_25_KeptMemoryIsCappedLeastRecentlyFreedFirst) {
  settings.limit_bytes = 3 * kMiB;
  configure();
  std::vector<char*> blocks;
  for (std::size_t i = 0; i < 5; ++i) blocks.push_back(get(kMiB + i * kPageBytes));
  for (char* ptr : blocks) drop(ptr);
  EXPECT_LE(pool.hidden_free_bytes(0), 3 * kMiB);
  EXPECT_EQ(fake.hip->allocations.size(), 2u);
  EXPECT_EQ(table.find(blocks[0]), nullptr);
  EXPECT_NE(table.find(blocks[4]), nullptr);
  EXPECT_EQ(pool.counters().evicted, 3u);
}

TEST_F(PoolTest, TheLimitIsAPartOfTheDevice) {
  settings.limit_percent = 1;
  configure();
  drop(get(3 * kMiB));
  EXPECT_EQ(fake.hip->allocations.size(), 0u) << "1 % of 256 MiB";
  drop(get(2 * kMiB));
  EXPECT_EQ(fake.hip->allocations.size(), 1u);
}

TEST_F(PoolTest, ASizeOfTheDeviceThatIsNotSaidOnceIsAskedForAgain) {
  fake.hip->fail["hipDeviceTotalMem"] = hipErrorUnknown;
  drop(get(100));
  EXPECT_EQ(fake.hip->allocations.size(), 0u) << "nothing is kept without a limit";
  EXPECT_EQ(fake::t_last_error, hipSuccess);
  fake.hip->fail.clear();
  drop(get(100));
  EXPECT_EQ(fake.hip->allocations.size(), 1u);
}

TEST_F(PoolTest, rule_25_KeptMemoryCountsAsFree) {
  char* a = get(5000);
  get(100);
  EXPECT_EQ(pool.hidden_free_bytes(0), 0u);
  drop(a);
  EXPECT_EQ(pool.hidden_free_bytes(0), 8192u) << "whole pages, as the runtime counts";
  EXPECT_EQ(pool.hidden_free_bytes(1), 0u);
  EXPECT_EQ(fake.hip->total_bytes - fake.hip->used_bytes[0] + pool.hidden_free_bytes(0),
            fake.hip->total_bytes - kPageBytes);
}

TEST_F(PoolTest, rule_25_KeptMemoryIsGivenBackBeforeACallFails) {
  settings.limit_percent = 100;
  configure();
  char* ptr = get(200 * kMiB);
  drop(ptr);
  get(100 * kMiB);
  EXPECT_EQ(pool.counters().trimmed, 1u);
  EXPECT_EQ(fake::t_last_error, hipSuccess);
  void* out = nullptr;
  EXPECT_EQ(malloc(&out, 200 * kMiB), hipErrorOutOfMemory);
  EXPECT_EQ(fake::t_last_error, hipErrorOutOfMemory);
  int calls = 0;
  const hipError_t error = pool.retry_after_trim(0, [&] {
    ++calls;
    return fake::t_last_error = hipErrorOutOfMemory;
  });
  EXPECT_EQ(error, hipErrorOutOfMemory);
  EXPECT_EQ(calls, 1) << "nothing was there to give back";
}

TEST_F(PoolTest, a_call_that_fails_for_memory_leaves_its_own_last_error) {
  pool.set_reclaim([](int) {
    fake::t_last_error = hipErrorNotReady;
    return false;
  });
  EXPECT_EQ(pool.retry_after_trim(0, [] { return fake::t_last_error = hipErrorOutOfMemory; }), hipErrorOutOfMemory);
  EXPECT_EQ(fake::t_last_error, hipErrorOutOfMemory);
}

TEST_F(PoolTest, a_call_that_finds_memory_given_back_leaves_no_error) {
  pool.set_reclaim([](int) {
    const LastErrorScope last_error;
    fake::t_last_error = hipErrorInvalidValue;
    return true;
  });
  int calls = 0;
  const auto call = [&] { return ++calls == 1 ? fake::t_last_error = hipErrorOutOfMemory : hipSuccess; };
  EXPECT_EQ(pool.retry_after_trim(0, call), hipSuccess);
  EXPECT_EQ(last_error_of_program(fake::t_last_error, true), hipSuccess);
}

TEST_F(PoolTest, others_give_memory_back_before_a_call_fails_for_it) {
  static int asked_for;
  asked_for = -2;
  pool.set_reclaim([](int device) {
    asked_for = device;
    return true;
  });
  int calls = 0;
  const hipError_t error = pool.retry_after_trim(1, [&] { return ++calls == 1 ? hipErrorOutOfMemory : hipSuccess; });
  EXPECT_EQ(error, hipSuccess);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(asked_for, 1);
}

// --- what nobody reuses ---

constinit std::uint32_t g_now_ms = 0;

class IdleTest : public PoolTest {
 protected:
  IdleTest() {
    g_now_ms = 0xffffff00;  // the clock wraps
    settings.idle = std::chrono::seconds(10);
    settings.clock_ms = []() noexcept { return g_now_ms; };
    configure();
  }
  static void pass(std::uint32_t ms) { g_now_ms += ms; }
};

TEST_F(IdleTest, rule_25_WhatNobodyReusedForSoLongGoesBackInTheNextCall) {
  for (const char* const call : {"malloc", "free", "wait"}) {
    SCOPED_TRACE(call);
    ASSERT_TRUE(pool.release_all(0) || call[0] == 'm');
    const int freed = count("hipFree");
    const std::uint64_t idle = pool.counters().idle;
    char *used = get(100), *unused = get(200), *live = get(300);
    drop(unused);
    pass(9'999);
    drop(used);
    EXPECT_EQ(get(100), used);
    drop(used);
    pool.waited();
    EXPECT_EQ(count("hipFree"), freed);
    pass(1);
    switch (call[0]) {
      case 'm':
        static_cast<void>(get(400));
        break;
      case 'f':
        drop(live);
        break;
      default:
        pool.waited();
    }
    EXPECT_EQ(count("hipFree"), freed + 1);
    EXPECT_EQ(table.find(unused), nullptr);
    EXPECT_EQ(pool.counters().idle, idle + 1);
    EXPECT_EQ(get(100), used);
    drop(used);
  }
}

TEST_F(IdleTest, AMallocIsServedBeforeTheRestGoes) {
  char *first = get(100), *second = get(100);
  drop(first);
  drop(second);
  pass(60'000);
  EXPECT_EQ(get(100), std::min(first, second));
  EXPECT_EQ(count("hipFree"), 1);
}

TEST_F(IdleTest, ALongSilenceBeforeAFreeIsNotCounted) {
  char* ptr = get(100);
  pass(60'000);
  drop(ptr);
  pass(9'999);
  pool.waited();
  EXPECT_EQ(get(100), ptr);
}

TEST_F(IdleTest, NothingGoesBackWithoutALimitOfTime) {
  settings.idle = std::chrono::seconds(0);
  configure();
  char* ptr = get(100);
  drop(ptr);
  pass(0x7fffffff);
  pool.waited();
  EXPECT_EQ(pool.free_async(get(200), nullptr), hipSuccess);
  pool.waited();
  EXPECT_EQ(count("hipFree"), 0);
  EXPECT_EQ(get(100), ptr);
}

TEST_F(IdleTest, rule_16_NothingIsWaitedFor) {
  char* ptr = get(100);
  drop(ptr);
  hipStream_t stream = busy_stream();
  fake.hip->finish_when_waited = false;
  pass(60'000);
  static_cast<void>(get(200));
  EXPECT_FALSE(fake::idle(stream));
  EXPECT_EQ(count("hipFree"), 0);
  // The program waits: what was found too old before goes now.
  const StreamWork::Snapshot work = stream_work().before_stream_sync(stream);
  fake::finish(stream);
  stream_work().idle(work);
  pool.waited();
  EXPECT_EQ(count("hipFree"), 1);
  EXPECT_EQ(table.find(ptr), nullptr);
}

TEST_F(IdleTest, rule_17_NothingGoesBackInACapture) {
  char* ptr = get(100);
  drop(ptr);
  fake::t_mode = hipStreamCaptureModeRelaxed;
  capture_opened(hipStreamCaptureModeRelaxed);
  pass(60'000);
  pool.waited();
  static_cast<void>(get(200));
  EXPECT_EQ(count("hipFree"), 0);
  capture_closed(hipStreamCaptureModeRelaxed);
  pool.waited();
  EXPECT_EQ(count("hipFree"), 1);
  EXPECT_EQ(table.find(ptr), nullptr);
}

TEST_F(IdleTest, NothingGoesBackBehindACallThatFailed) {
  char *kept = get(100), *live = get(200);
  drop(kept);
  pass(60'000);
  fake.hip->fail["hipMalloc"] = hipErrorInvalidValue;
  void* out = nullptr;
  EXPECT_EQ(malloc(&out, 300), hipErrorInvalidValue);
  EXPECT_EQ(fake::t_last_error, hipErrorInvalidValue);
  EXPECT_EQ(count("hipFree"), 0);
  fake.hip->fail.clear();
  fake::t_last_error = hipSuccess;
  drop(live);
  EXPECT_EQ(count("hipFree"), 1);
  EXPECT_EQ(table.find(kept), nullptr);
}

TEST_F(IdleTest, AChunkGoesOnceNothingOfItIsUsedAndComesBackAtItsAddresses) {
  use_vmm();
  char *first = get(100), *second = get(200);
  drop(first);
  const std::size_t whole = fake.hip->used_bytes[0];
  pass(60'000);
  pool.waited();
  EXPECT_EQ(fake.hip->used_bytes[0], whole);
  drop(second);
  pass(9'999);
  pool.waited();
  EXPECT_EQ(fake.hip->used_bytes[0], whole);
  pass(1);
  pool.waited();
  EXPECT_EQ(fake.hip->used_bytes[0], 0u);
  EXPECT_EQ(get(200), second);
  EXPECT_EQ(get(100), first);
  EXPECT_EQ(fake.hip->used_bytes[0], whole);
  EXPECT_EQ(pool.counters().reused, 2u);
}

TEST_F(IdleTest, TheMachinesClockIsLookedAtOnceInAMoment) {
  settings.clock_ms = nullptr;
  configure();
  char* ptr = get(100);
  for (int i = 0; i < 1000; ++i) {
    drop(ptr);
    EXPECT_EQ(get(100), ptr);
  }
  drop(ptr);
  EXPECT_EQ(get(100), ptr) << "ten seconds have not passed";
}

// --- limits ---

TEST_F(PoolTest, TrimByBytes) {
  char* a = get(kMiB);
  char* b = get(2 * kMiB);
  drop(a);
  drop(b);
  EXPECT_TRUE(pool.trim(0, kMiB / 2));
  EXPECT_EQ(table.find(a), nullptr);
  EXPECT_NE(table.find(b), nullptr);
  EXPECT_FALSE(pool.trim(1, 1));
  EXPECT_FALSE(pool.trim(-1, 1));
}

TEST_F(PoolTest, rule_39_DisableGivesEverythingBack) {
  char* live = get(100);
  drop(get(200));
  pool.disable();
  EXPECT_EQ(fake.hip->allocations.size(), 1u);
  EXPECT_EQ(free(live), hipSuccess);
  EXPECT_FALSE(fake.hip->leaks());
  drop(get(100));
  EXPECT_FALSE(fake.hip->leaks());
}

TEST_F(PoolTest, rule_31_DeviceResetDropsTheDevice) {
  char* live = get(100);
  char* kept = get(200);
  drop(kept);
  fake::t_device = 1;
  char* other = get(100);
  fake::t_device = 0;
  use_vmm();
  get(300);
  hipStream_t stream = busy_stream();
  pool.device_reset(0);
  EXPECT_TRUE(fake::idle(stream));
  EXPECT_EQ(table.find(live), nullptr);
  EXPECT_EQ(table.find(kept), nullptr);
  EXPECT_NE(table.find(other), nullptr);
  EXPECT_TRUE(fake.hip->mappings.empty());
  EXPECT_EQ(pool.hidden_free_bytes(0), 0u);
  EXPECT_FALSE(pool.vmm_blocks());
  EXPECT_NE(get(200), kept);
}

// --- in stream order ---

TEST_F(PoolTest, rule_24_FreeAsyncOfMallocMemoryIsForwarded) {
  char* ptr = get(100);
  EXPECT_EQ(pool.free_async(ptr, nullptr), hipSuccess);
  EXPECT_EQ(count("hipFreeAsync"), 1);
  EXPECT_EQ(table.find(ptr), nullptr);
  char* kept = get(100);
  drop(kept);
  EXPECT_EQ(pool.free_async(kept, nullptr), hipErrorInvalidValue);
  char* live = get(200);
  fake.hip->fail["hipFreeAsync"] = hipErrorUnknown;
  EXPECT_EQ(pool.free_async(live, nullptr), hipErrorUnknown);
  EXPECT_TRUE(table.find(live)->live());
}

TEST_F(PoolTest, MallocAsyncIsPooledByRule) {
  g_decision.rule = 1;
  hipStream_t stream = busy_stream(), other = busy_stream();
  void *a = nullptr, *b = nullptr;
  ASSERT_EQ(malloc(&a, 100, AllocationFunction::kMallocAsync, 0, stream), hipSuccess);
  EXPECT_EQ(count("hipMallocAsync"), 0);
  EXPECT_EQ(pool.free_async(a, stream), hipSuccess);
  ASSERT_EQ(malloc(&b, 100, AllocationFunction::kMallocAsync, 0, stream), hipSuccess);
  EXPECT_EQ(b, a) << "what the stream does next comes after the free";
  EXPECT_EQ(pool.free_async(b, stream), hipSuccess);
  ASSERT_EQ(malloc(&b, 100, AllocationFunction::kMallocAsync, 0, other), hipSuccess);
  EXPECT_NE(b, a) << "another stream is not ordered behind it";
  fake::finish(stream);
  ASSERT_EQ(malloc(&b, 100, AllocationFunction::kMallocAsync, 0, other), hipSuccess);
  EXPECT_EQ(b, a);
  EXPECT_EQ(fake.hip->waits, 0);
}

TEST_F(PoolTest, MallocAsyncInACaptureIsTheRuntimes) {
  g_decision.rule = 1;
  capture_opened();
  void* ptr = nullptr;
  ASSERT_EQ(malloc(&ptr, 100, AllocationFunction::kMallocAsync), hipSuccess);
  EXPECT_EQ(count("hipMallocAsync"), 1);
  EXPECT_EQ(table.find(ptr), nullptr) << "a graph's memory comes and goes without calls";
}

// --- VMM ---

TEST_F(PoolTest, rule_22_PartsOfChunksAreWholePages) {
  use_vmm();
  char* a = get(100);
  char* b = get(5000);
  char* c = get(3 * kMiB);
  EXPECT_EQ(count("hipMalloc"), 0);
  EXPECT_EQ(fake.hip->mappings.size(), 1u);
  for (char* ptr : {a, b}) EXPECT_EQ(reinterpret_cast<std::uintptr_t>(ptr) % kPageBytes, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(c) % kLargePageBytes, 0u);
  EXPECT_TRUE(pool.vmm_blocks());
  EXPECT_EQ(pool.operand(b, 5000), b);
  EXPECT_EQ(pool.operand(b + 4000, 1000), b + 4000);
  const auto visible = [&] { return fake.hip->total_bytes - fake.hip->used_bytes[0] + pool.hidden_free_bytes(0); };
  const std::size_t before = visible();
  EXPECT_EQ(pool.operand(b, 5001), too_small_memory(0));
  EXPECT_EQ(pool.operand(b + 4999, 2), too_small_memory(0));
  EXPECT_EQ(fake.hip->allocations.at(reinterpret_cast<std::uintptr_t>(too_small_memory(0))).bytes, 1u);
  EXPECT_EQ(visible(), before) << "it counts as free";
  EXPECT_EQ(pool.value_operand(b, 5001), never_mapped_address());
  EXPECT_EQ(pool.operand(&pool, kGiB), &pool);
  EXPECT_EQ(pool.outside_chunks(b + 7), never_allocated_address());
  EXPECT_EQ(pool.outside_chunks(&pool), &pool);
}

TEST_F(PoolTest, VmmBlocksAreKeptAndFreedLikeOthers) {
  use_vmm();
  char* ptr = get(100);
  EXPECT_EQ(free(ptr + 100), hipErrorInvalidValue);
  hipStream_t stream = busy_stream();
  EXPECT_EQ(free(ptr), hipSuccess);
  EXPECT_TRUE(fake::idle(stream));
  EXPECT_EQ(free(ptr), hipErrorInvalidValue);
  EXPECT_EQ(pool.free(ptr, next().hipHostFree), hipErrorInvalidValue);
  EXPECT_EQ(get(100), ptr);
  stream = busy_stream();
  EXPECT_EQ(pool.free(ptr, next().hipHostFree), hipSuccess) << "as that of a separate allocation";
  EXPECT_TRUE(fake::idle(stream));
  EXPECT_EQ(pool.free(ptr, next().hipHostFree), hipErrorInvalidValue);
}

TEST_F(PoolTest, WhetherAnAddressInsideFreesABlockIsTheRuntimesToSay) {
  for (const auto backing : {BlockBacking::kClassic, BlockBacking::kVmm}) {
    g_decision.backing = backing;
    for (const bool frees_inside : {true, false}) {
      fake.hip->frees_inside = frees_inside;
      const hipError_t expected = frees_inside ? hipSuccess : hipErrorInvalidValue;
      const hipError_t again = frees_inside ? hipErrorInvalidValue : hipSuccess;
      const auto free_in_order = [&](void* ptr) { return pool.free_async(ptr, nullptr); };
      const auto free_as_host = [&](void* ptr) { return pool.free(ptr, next().hipHostFree); };
      const auto free_it = [&](void* ptr) { return free(ptr); };
      for (const std::function<hipError_t(void*)>& way :
           {std::function<hipError_t(void*)>(free_it), std::function<hipError_t(void*)>(free_as_host),
            std::function<hipError_t(void*)>(free_in_order)}) {
        char* const ptr = get(5000);
        EXPECT_EQ(way(ptr + 4999), expected);
        EXPECT_EQ(way(ptr), again);
        EXPECT_EQ(way(ptr + 1), hipErrorInvalidValue);
        EXPECT_TRUE(pool.is_valid());
      }
    }
  }
}

TEST_F(PoolTest, WhatIsInAChunkButInNoBlockNeverReachesTheRuntime) {
  use_vmm();
  char* const ptr = get(5000);
  for (char* const nobodys : {ptr + 5000, ptr + 8191, ptr + 8192, ptr + kMiB}) {
    EXPECT_EQ(free(nobodys), hipErrorInvalidValue);
    EXPECT_EQ(pool.free_async(nobodys, nullptr), hipErrorInvalidValue);
    EXPECT_EQ(fake.hip->last_freed, never_allocated_address());
  }
  drop(ptr);
}

TEST_F(PoolTest, VmmMemInfoIsThatOfSeparateAllocations) {
  use_vmm();
  get(100);
  char* b = get(2 * kMiB);
  const auto visible = [&] { return fake.hip->total_bytes - fake.hip->used_bytes[0] + pool.hidden_free_bytes(0); };
  EXPECT_EQ(visible(), fake.hip->total_bytes - kPageBytes - 2 * kMiB);
  drop(b);
  EXPECT_EQ(visible(), fake.hip->total_bytes - kPageBytes);
  get(2 * kMiB);
  EXPECT_EQ(visible(), fake.hip->total_bytes - kPageBytes - 2 * kMiB);
}

TEST_F(PoolTest, ChunksGrowAndPreallocate) {
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

TEST_F(PoolTest, ClassicWhereVmmIsNotToBeHad) {
  use_vmm();
  fake.hip->vmm = false;
  char* ptr = get(100);
  EXPECT_EQ(table.find(ptr)->backing, BlockBacking::kClassic);
  drop(ptr);
  EXPECT_EQ(get(100), ptr);
  EXPECT_EQ(fake::t_last_error, hipSuccess);
}

TEST_F(PoolTest, rule_16_NothingIsMappedInAMallocThatWouldWait) {
  fake.hip->version = 60300000;
  fake.hip->finish_when_waited = false;
  use_vmm();
  busy_stream();
  char* ptr = get(100);
  EXPECT_EQ(table.find(ptr)->backing, BlockBacking::kClassic);
  EXPECT_FALSE(fake.hip->stuck);
  EXPECT_EQ(count("hipMemMap"), 0);
}

TEST_F(PoolTest, UnderPressureAddressesStay) {
  use_vmm();
  settings.chunk_bytes = 100 * kMiB;
  settings.limit_percent = 100;
  configure();
  char* a = get(kMiB);
  char* b = get(2 * kMiB);
  drop(a);
  drop(b);
  EXPECT_TRUE(pool.release_all(0));
  EXPECT_EQ(fake.hip->used_bytes[0], 0u) << "the physical memory is gone";
  EXPECT_EQ(pool.hidden_free_bytes(0), 0u);
  EXPECT_EQ(pool.seen_by_hip(a), never_allocated_address());
  EXPECT_TRUE(pool.is_valid());
  EXPECT_EQ(get(2 * kMiB), b);
  EXPECT_EQ(fake.hip->used_bytes[0], 100 * kMiB);
  EXPECT_TRUE(pool.is_valid());
  EXPECT_EQ(get(kMiB), a);
  drop(a);
  EXPECT_TRUE(pool.release_all(0)) << "forgotten, its chunk is in use";
  EXPECT_EQ(fake.hip->used_bytes[0], 100 * kMiB);
}

TEST_F(PoolTest, AChunkThatCannotComeBack) {
  use_vmm();
  char* a = get(kMiB);
  drop(a);
  pool.release_all(0);
  fake.hip->fail["hipMemCreate"] = hipErrorOutOfMemory;
  char* other = get(kMiB);
  EXPECT_NE(other, a);
  EXPECT_EQ(table.find(other)->backing, BlockBacking::kClassic);
  EXPECT_EQ(fake::t_last_error, hipSuccess);
  EXPECT_TRUE(pool.is_valid());
  fake.hip->fail.clear();
  EXPECT_EQ(get(kMiB), a);
}

TEST_F(PoolTest, AddressesAreNotHeldWithoutEnd) {
  use_vmm();
  settings.chunk_bytes = kPageBytes;
  settings.limit_percent = 100;
  configure();
  for (std::size_t i = 0; i < 1100; ++i) {
    drop(get(kMiB + i * kPageBytes));
    pool.release_all(0);
  }
  EXPECT_EQ(fake.hip->used_bytes[0], 0u);
  EXPECT_EQ(fake.hip->reservations.size(), 1024u);
}

TEST_F(PoolTest, VmmFreeInACapture) {
  use_vmm();
  char* ptr = get(100);
  busy_stream();
  capture_opened();
  ++fake.hip->captures;
  EXPECT_EQ(free(ptr), hipErrorStreamCaptureUnsupported);
  EXPECT_TRUE(fake.hip->capture_invalidated);
  EXPECT_TRUE(table.find(ptr)->live());
  fake::t_mode = hipStreamCaptureModeRelaxed;
  EXPECT_EQ(free(ptr), hipSuccess);
  fake.hip->captures = 0;
  capture_closed();
  EXPECT_EQ(get(100), ptr);
}

TEST_F(PoolTest, VmmFreeWhereNoFenceCanBeMade) {
  use_vmm();
  char* ptr = get(100);
  hipStream_t stream = busy_stream();
  stream_work().note_work_anywhere();
  EXPECT_EQ(free(ptr), hipSuccess);
  EXPECT_TRUE(fake::idle(stream)) << "by a real hipFree of a page";
  EXPECT_TRUE(fake.hip->allocations.empty());
  EXPECT_EQ(get(100), ptr);
}

TEST_F(PoolTest, VmmFreeAsync) {
  use_vmm();
  hipStream_t stream = busy_stream();
  char* ptr = get(100);
  EXPECT_EQ(pool.free_async(ptr, stream), hipSuccess);
  EXPECT_EQ(pool.free_async(ptr, stream), hipErrorInvalidValue);
  EXPECT_NE(get(100), ptr);
  fake::finish(stream);
  EXPECT_EQ(get(100), ptr);
  EXPECT_EQ(fake.hip->waits, 0);
}

TEST_F(PoolTest, ExportedPartsOfChunksAreNeverHandedOutAgain) {
  use_vmm();
  char* ptr = get(100);
  pool.mark_exported(ptr);
  EXPECT_EQ(free(ptr), hipSuccess);
  EXPECT_NE(get(100), ptr);
  EXPECT_EQ(table.find(ptr), nullptr);
}

// --- everything failing ---

TEST_F(PoolTest, EveryCallFailedInTurn) {
  int injected = 0;
  for (const bool vmm : {false, true}) {
    for (const bool deferred : {false, true}) {
      for (int n = 1;; ++n) {
        stream_work().device_reset(0);
        forget_vmm(0);
        g_decision = {};
        if (vmm) use_vmm();
        BlockTable& fresh_table = never_destroyed<BlockTable>();
        Pool& fresh = never_destroyed<Pool>(fresh_table, stream_work());
        settings.deferred_free = deferred;
        fresh.configure(settings, &fixed_decision);
        fake.hip->calls = 0;
        fake.hip->fail_at = n;
        fake.hip->failed.clear();
        fake.hip->fail_code = hipErrorUnknown;
        fake::t_last_error = hipSuccess;
        for (int step = 0; step < 3; ++step) {
          void* ptr = nullptr;
          const hipError_t got = fresh.allocate({AllocationFunction::kMalloc, 5000, 0, 0, nullptr}, &ptr);
          if (got != hipSuccess) {
            EXPECT_EQ(fake.hip->failed, "hipMalloc");
            EXPECT_EQ(fake::t_last_error, hipErrorUnknown);
            fake::t_last_error = hipSuccess;
            continue;
          }
          fake::work(nullptr);
          stream_work().note_work(nullptr);
          hipError_t freed = fresh.free(ptr, next().hipFree);
          if (freed != hipSuccess) {
            EXPECT_EQ(fake.hip->failed, "hipFree");
            fake::t_last_error = hipSuccess;
            freed = fresh.free(ptr, next().hipFree);
          }
          EXPECT_EQ(freed, hipSuccess);
          EXPECT_EQ(fake::t_last_error, hipSuccess) << fake.hip->failed;
        }
        EXPECT_TRUE(fresh.is_valid());
        fake.hip->fail_at = 0;
        fresh.device_reset(0);
        const bool done = fake.hip->failed.empty();
        // What the runtime refused to take back is lost; nothing else may be.
        if (fake.hip->failed == "hipMemAddressFree") fake.hip->reservations.clear();
        if (fake.hip->failed == "hipMemUnmap") fake.hip->mappings.clear();
        if (fake.hip->failed == "hipMemRelease") fake.hip->physicals.clear();
        EXPECT_TRUE(fake.hip->mappings.empty() && fake.hip->physicals.empty()) << fake.hip->failed;
        fake.hip->mappings.clear();
        fake.hip->reservations.clear();
        fake.hip->physicals.clear();
        if (done) break;
        ++injected;
      }
    }
  }
  RecordProperty("injected", injected);
  EXPECT_GE(injected, 40);
}

TEST_F(PoolTest, ManyThreads) {
  settings.limit_bytes = 2 * kMiB;
  configure();
  fake.hip->total_bytes = 64 * kMiB;
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      std::vector<std::pair<char*, std::size_t>> mine;
      for (int step = 0; step < 1500; ++step) {
        if (mine.size() < 20 && random() % 2 == 0) {
          const std::size_t bytes = (1 + random() % 6) * 10'000;
          void* ptr = nullptr;
          if (malloc(&ptr, bytes) != hipSuccess) {
            ++failures;
            continue;
          }
          mine.emplace_back(static_cast<char*>(ptr), bytes);
        } else if (!mine.empty()) {
          const std::size_t index = random() % mine.size();
          const auto [ptr, bytes] = mine[index];
          const Block* block = table.find(ptr + bytes - 1);
          if (block == nullptr || !block->live() || block->pointer() != ptr || block->bytes() != bytes) ++failures;
          if (random() % 50 == 0) enqueue(nullptr);
          if (free(ptr) != hipSuccess) ++failures;
          mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(index));
        }
      }
      for (const auto& [ptr, bytes] : mine) drop(ptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_LE(pool.hidden_free_bytes(0), 2 * kMiB);
  EXPECT_EQ(fake.hip->used_bytes[0], pool.hidden_free_bytes(0));
}

}  // namespace
}  // namespace graphpool
