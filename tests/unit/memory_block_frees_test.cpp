// Tests of shim/memory/block_frees.h.
#include <functional>

#include "shim/memory/slot_set.h"
#include "tests/unit/device_memory_fixture.h"

namespace graphpool {
namespace {

class BlockFreesTest : public DeviceMemoryTest {};

TEST_F(BlockFreesTest, rule_24_FreesOfWhatIsNoAllocationGetHipsError) {
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

TEST_F(BlockFreesTest, AFreeThatFailsChangesNothing) {
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

TEST_F(BlockFreesTest, rule_16_AFreeWaitsForTheDevice) {
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

TEST_F(BlockFreesTest, AFreeWaitsForTheOwnerNotTheCurrentDevice) {
  char* ptr = get(100);
  fake::t_device = 1;
  hipStream_t other = busy_stream();
  EXPECT_EQ(free(ptr), hipSuccess);
  EXPECT_FALSE(fake::idle(other));
  EXPECT_EQ(fake::t_device, 1);
}

TEST_F(BlockFreesTest, WhereNoFenceCanBeMadeARealFreeOfAPageWaits) {
  hipStream_t stream = busy_stream();
  char* ptr = get(100);
  fake.hip->fail["hipEventRecord"] = hipErrorUnknown;
  EXPECT_EQ(free(ptr), hipSuccess);
  EXPECT_EQ(count("hipFree"), 1);
  EXPECT_TRUE(fake::idle(stream));
  EXPECT_TRUE(work_counts().is_idle(0));
  EXPECT_EQ(get(100), ptr);
  EXPECT_EQ(fake::t_last_error, hipSuccess);
}

TEST_F(BlockFreesTest, WhereNothingOfOursCanWaitTheFreeIsTheRuntimes) {
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

TEST_F(BlockFreesTest, rule_17_AFreeInACaptureWaitsByARealOneOfAPage) {
  char* ptr = get(100);
  hipStream_t stream = busy_stream();
  open_relaxed_capture();
  EXPECT_EQ(free(ptr), hipSuccess);
  EXPECT_TRUE(fake::idle(stream));
  EXPECT_TRUE(work_counts().is_idle(0));
  EXPECT_EQ(count("hipFree"), 1);
  EXPECT_EQ(count("hipEventRecord"), 0);
  EXPECT_EQ(get(100), ptr);
  capture_closed();
  fake.hip->captures = 0;
}

TEST_F(BlockFreesTest, AFreeAfterABusyStreamWasDestroyedInACaptureKeepsTheMemory) {
  char* ptr = get(100);
  hipStream_t stream = busy_stream();
  capture_opened();
  stream_work().before_destroy(stream);
  capture_closed();
  EXPECT_EQ(free(ptr), hipSuccess);
  EXPECT_TRUE(fake::idle(stream));
  EXPECT_TRUE(work_counts().is_idle(0));
  EXPECT_EQ(get(100), ptr);
}

TEST_F(BlockFreesTest, DeferredFreesOfAnIdleDeviceAreReusedAtOnce) {
  settings.deferred_free = true;
  configure();
  char* ptr = get(100);
  drop(ptr);
  EXPECT_EQ(get(100), ptr);
  EXPECT_EQ(count("hipEventRecord"), 0);
}

TEST_F(BlockFreesTest, rule_24_FreeAsyncOfMallocMemoryIsForwarded) {
  char* ptr = get(100);
  EXPECT_EQ(memory.frees.free_async(ptr, nullptr), hipSuccess);
  EXPECT_EQ(count("hipFreeAsync"), 1);
  EXPECT_EQ(table.find(ptr), nullptr);
  char* kept = get(100);
  drop(kept);
  EXPECT_EQ(memory.frees.free_async(kept, nullptr), hipErrorInvalidValue);
  char* live = get(200);
  fake.hip->fail["hipFreeAsync"] = hipErrorUnknown;
  EXPECT_EQ(memory.frees.free_async(live, nullptr), hipErrorUnknown);
  EXPECT_TRUE(table.find(live)->live());
}

TEST_F(BlockFreesTest, VmmBlocksAreKeptAndFreedLikeOthers) {
  use_vmm();
  char* ptr = get(100);
  EXPECT_EQ(free(ptr + 100), hipErrorInvalidValue);
  hipStream_t stream = busy_stream();
  EXPECT_EQ(free(ptr), hipSuccess);
  EXPECT_TRUE(fake::idle(stream));
  EXPECT_EQ(free(ptr), hipErrorInvalidValue);
  EXPECT_EQ(memory.frees.free(ptr, next().hipHostFree), hipErrorInvalidValue);
  EXPECT_EQ(get(100), ptr);
  stream = busy_stream();
  EXPECT_EQ(memory.frees.free(ptr, next().hipHostFree), hipSuccess) << "as that of a separate allocation";
  EXPECT_TRUE(fake::idle(stream));
  EXPECT_EQ(memory.frees.free(ptr, next().hipHostFree), hipErrorInvalidValue);
}

TEST_F(BlockFreesTest, WhetherAnAddressInsideFreesABlockIsTheRuntimesToSay) {
  for (const auto backing : {BlockBacking::kClassic, BlockBacking::kVmm}) {
    g_decision.backing = backing;
    for (const bool frees_inside : {true, false}) {
      fake.hip->frees_inside = frees_inside;
      const hipError_t expected = frees_inside ? hipSuccess : hipErrorInvalidValue;
      const hipError_t again = frees_inside ? hipErrorInvalidValue : hipSuccess;
      const auto free_in_order = [&](void* ptr) { return memory.frees.free_async(ptr, nullptr); };
      const auto free_as_host = [&](void* ptr) { return memory.frees.free(ptr, next().hipHostFree); };
      const auto free_it = [&](void* ptr) { return free(ptr); };
      for (const std::function<hipError_t(void*)>& way :
           {std::function<hipError_t(void*)>(free_it), std::function<hipError_t(void*)>(free_as_host),
            std::function<hipError_t(void*)>(free_in_order)}) {
        char* const ptr = get(5000);
        EXPECT_EQ(way(ptr + 4999), expected);
        EXPECT_EQ(way(ptr), again);
        EXPECT_EQ(way(ptr + 1), hipErrorInvalidValue);
        EXPECT_TRUE(memory.is_valid());
      }
    }
  }
}

TEST_F(BlockFreesTest, VmmFreeInACapture) {
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

TEST_F(BlockFreesTest, rule_11_APartThatACaptureFreesStaysWhereItsGraphFindsIt) {
  use_vmm();
  test_set_runtime_version(kCapturesFrees);
  char* ptr = get(100);
  const hipStream_t stream = busy_stream(), other = busy_stream();
  static hipStream_t capturing;
  capturing = stream;
  test_next().hipStreamIsCapturing = [](hipStream_t asked, hipStreamCaptureStatus* status) {
    *status = asked == capturing ? hipStreamCaptureStatusActive : hipStreamCaptureStatusNone;
    return hipSuccess;
  };
  capture_opened(hipStreamCaptureModeRelaxed);
  EXPECT_EQ(memory.frees.free_async(ptr, stream), hipSuccess);
  char* const beside = get(200);
  EXPECT_EQ(memory.frees.free_async(beside, other), hipSuccess);
  capture_closed(hipStreamCaptureModeRelaxed);
  fake::finish(stream);
  fake::finish(other);
  EXPECT_NE(get(100), ptr);
  EXPECT_TRUE(table.find(ptr)->live()) << "a launch of the graph may use it";
  EXPECT_EQ(get(200), beside);
  test_set_runtime_version(-1);
}

TEST_F(BlockFreesTest, rule_17_AFreeUnmapsNoSlotsWhileACaptureIsOpen) {
  char *kept = get(100), *other = get(200);
  settings.large_bytes = 1;
  configure();
  char* const large = get(300);
  std::unique_ptr<SlotSet> set;
  ASSERT_EQ(SlotSet::create(std::vector<SlotRequest>{{100, 0}}, &set), hipSuccess);
  ASSERT_TRUE(set->is_vmm(0));
  set.reset();
  fake::t_mode = hipStreamCaptureModeRelaxed;
  capture_opened(hipStreamCaptureModeRelaxed);
  drop(kept);
  drop(large);
  EXPECT_GT(retired_slot_bytes(0), 0u);
  capture_closed(hipStreamCaptureModeRelaxed);
  drop(other);
  EXPECT_EQ(retired_slot_bytes(0), 0u);
}

TEST_F(BlockFreesTest, rule_16_AFreeInAStreamsOrderDoesNotWaitWhereNothingIsKeptAnyMore) {
  char* const kept = get(100);
  use_vmm();
  char* const part = get(200);
  drop(kept);
  const hipStream_t stream = busy_stream();
  memory.stop_keeping();
  EXPECT_EQ(memory.frees.free_async(part, stream), hipSuccess);
  EXPECT_NE(table.find(kept), nullptr);
  EXPECT_FALSE(fake::idle(stream));
  EXPECT_EQ(fake.hip->waits, 0);
}

TEST_F(BlockFreesTest, VmmFreeWhereNoFenceCanBeMade) {
  use_vmm();
  char* ptr = get(100);
  hipStream_t stream = busy_stream();
  work_counts().note_work_anywhere();
  EXPECT_EQ(free(ptr), hipSuccess);
  EXPECT_TRUE(fake::idle(stream)) << "by a real hipFree of a page";
  EXPECT_TRUE(fake.hip->allocations.empty());
  EXPECT_EQ(get(100), ptr);
}

}  // namespace
}  // namespace graphpool
