// Tests of shim/memory/memory_room.h.
#include <algorithm>
#include <vector>

#include "tests/unit/device_memory_fixture.h"

namespace graphpool {
namespace {

class MemoryRoomTest : public DeviceMemoryTest {};

TEST_F(MemoryRoomTest, rule_25_KeptMemoryIsCappedLeastRecentlyFreedFirst) {
  settings.limit_bytes = 3 * kMiB;
  configure();
  std::vector<char*> blocks;
  for (std::size_t i = 0; i < 5; ++i) blocks.push_back(get(kMiB + i * kPageBytes));
  for (char* ptr : blocks) drop(ptr);
  EXPECT_LE(memory.room.hidden_free_bytes(0), 3 * kMiB);
  EXPECT_EQ(fake.hip->allocations.size(), 2u);
  EXPECT_EQ(table.find(blocks[0]), nullptr);
  EXPECT_NE(table.find(blocks[4]), nullptr);
  EXPECT_EQ(memory.blocks.counted().evicted, 3u);
}

TEST_F(MemoryRoomTest, rule_25_KeptMemoryCountsAsFree) {
  char* a = get(5000);
  get(100);
  EXPECT_EQ(memory.room.hidden_free_bytes(0), 0u);
  drop(a);
  EXPECT_EQ(memory.room.hidden_free_bytes(0), 8192u) << "whole pages, as the runtime counts";
  EXPECT_EQ(memory.room.hidden_free_bytes(1), 0u);
  EXPECT_EQ(fake.hip->total_bytes - fake.hip->used_bytes[0] + memory.room.hidden_free_bytes(0),
            fake.hip->total_bytes - kPageBytes);
}

TEST_F(MemoryRoomTest, rule_25_KeptMemoryIsGivenBackBeforeACallFails) {
  settings.limit_percent = 100;
  configure();
  char* ptr = get(200 * kMiB);
  drop(ptr);
  get(100 * kMiB);
  EXPECT_EQ(memory.blocks.counted().trimmed, 1u);
  EXPECT_EQ(fake::t_last_error, hipSuccess);
  void* out = nullptr;
  EXPECT_EQ(malloc(&out, 200 * kMiB), hipErrorOutOfMemory);
  EXPECT_EQ(fake::t_last_error, hipErrorOutOfMemory);
  int calls = 0;
  const hipError_t error = memory.room.retry_after_trim(0, [&] {
    ++calls;
    return fake::t_last_error = hipErrorOutOfMemory;
  });
  EXPECT_EQ(error, hipErrorOutOfMemory);
  EXPECT_EQ(calls, 1) << "nothing was there to give back";
}

TEST_F(MemoryRoomTest, a_call_that_fails_for_memory_leaves_its_own_last_error) {
  memory.room.set_reclaim([](int) {
    fake::t_last_error = hipErrorNotReady;
    return false;
  });
  EXPECT_EQ(memory.room.retry_after_trim(0, [] { return fake::t_last_error = hipErrorOutOfMemory; }),
            hipErrorOutOfMemory);
  EXPECT_EQ(fake::t_last_error, hipErrorOutOfMemory);
}

TEST_F(MemoryRoomTest, a_call_that_finds_memory_given_back_leaves_no_error) {
  memory.room.set_reclaim([](int) {
    const LastErrorScope last_error;
    fake::t_last_error = hipErrorInvalidValue;
    return true;
  });
  int calls = 0;
  const auto call = [&] { return ++calls == 1 ? fake::t_last_error = hipErrorOutOfMemory : hipSuccess; };
  EXPECT_EQ(memory.room.retry_after_trim(0, call), hipSuccess);
  EXPECT_EQ(last_error_of_program(fake::t_last_error, true), hipSuccess);
}

TEST_F(MemoryRoomTest, others_give_memory_back_before_a_call_fails_for_it) {
  static int asked_for;
  asked_for = -2;
  memory.room.set_reclaim([](int device) {
    asked_for = device;
    return true;
  });
  int calls = 0;
  const hipError_t error =
      memory.room.retry_after_trim(1, [&] { return ++calls == 1 ? hipErrorOutOfMemory : hipSuccess; });
  EXPECT_EQ(error, hipSuccess);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(asked_for, 1);
}

TEST_F(MemoryRoomTest, TrimByBytes) {
  char* a = get(kMiB);
  char* b = get(2 * kMiB);
  drop(a);
  drop(b);
  EXPECT_TRUE(memory.room.trim(0, kMiB / 2));
  EXPECT_EQ(table.find(a), nullptr);
  EXPECT_NE(table.find(b), nullptr);
  EXPECT_FALSE(memory.room.trim(1, 1));
  EXPECT_FALSE(memory.room.trim(-1, 1));
}

TEST_F(MemoryRoomTest, KeptPartsOfAChunkInUseStayWhereRoomIsNeeded) {
  use_vmm();
  settings.limit_percent = 100;
  configure();
  char* const used = get(kMiB);
  char* const beside = get(kMiB);
  drop(beside);
  EXPECT_FALSE(memory.room.trim(0, ~std::size_t{0})) << "no physical memory can go";
  EXPECT_EQ(get(kMiB), beside);
  drop(beside);
  drop(used);
  EXPECT_TRUE(memory.room.trim(0, 1));
  EXPECT_EQ(fake.hip->used_bytes[0], 0u);
}

TEST_F(MemoryRoomTest, rule_17_WhatIsPastTheLimitGoesWhenNoCaptureIsOpen) {
  use_vmm();
  settings.limit_bytes = 1;
  configure();
  char* const ptr = get(kMiB);
  const int before = count("hipMemUnmap");
  open_relaxed_capture();
  drop(ptr);
  EXPECT_EQ(count("hipMemUnmap"), before);
  capture_closed();
  fake.hip->captures = 0;
  memory.room.waited();
  EXPECT_EQ(count("hipMemUnmap"), before + 1);
}

constinit std::uint32_t g_now_ms = 0;

class IdleTest : public MemoryRoomTest {
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
    ASSERT_TRUE(memory.room.release_all(0) || call[0] == 'm');
    const int freed = count("hipFree");
    const std::uint64_t idle = memory.blocks.counted().idle;
    char *used = get(100), *unused = get(200), *live = get(300);
    drop(unused);
    pass(9'999);
    drop(used);
    EXPECT_EQ(get(100), used);
    drop(used);
    memory.room.waited();
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
        memory.room.waited();
    }
    EXPECT_EQ(count("hipFree"), freed + 1);
    EXPECT_EQ(table.find(unused), nullptr);
    EXPECT_EQ(memory.blocks.counted().idle, idle + 1);
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
  memory.room.waited();
  EXPECT_EQ(get(100), ptr);
}

TEST_F(IdleTest, NothingGoesBackWithoutALimitOfTime) {
  settings.idle = std::chrono::seconds(0);
  configure();
  char* ptr = get(100);
  drop(ptr);
  pass(0x7fffffff);
  memory.room.waited();
  EXPECT_EQ(memory.frees.free_async(get(200), nullptr), hipSuccess);
  memory.room.waited();
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
  const WorkCounts::Snapshot work = work_counts().before_stream_sync(stream);
  fake::finish(stream);
  work_counts().idle(work);
  memory.room.waited();
  EXPECT_EQ(count("hipFree"), 1);
  EXPECT_EQ(table.find(ptr), nullptr);
}

TEST_F(IdleTest, rule_17_NothingGoesBackInACapture) {
  char* ptr = get(100);
  drop(ptr);
  fake::t_mode = hipStreamCaptureModeRelaxed;
  capture_opened(hipStreamCaptureModeRelaxed);
  pass(60'000);
  memory.room.waited();
  static_cast<void>(get(200));
  EXPECT_EQ(count("hipFree"), 0);
  capture_closed(hipStreamCaptureModeRelaxed);
  memory.room.waited();
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
  memory.room.waited();
  EXPECT_EQ(fake.hip->used_bytes[0], whole);
  drop(second);
  pass(9'999);
  memory.room.waited();
  EXPECT_EQ(fake.hip->used_bytes[0], whole);
  pass(1);
  memory.room.waited();
  EXPECT_EQ(fake.hip->used_bytes[0], 0u);
  EXPECT_EQ(get(200), second);
  EXPECT_EQ(get(100), first);
  EXPECT_EQ(fake.hip->used_bytes[0], whole);
  EXPECT_EQ(memory.blocks.counted().reused, 2u);
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

}  // namespace
}  // namespace graphpool
