// Tests of shim/memory/pending_frees.h.
#include "tests/unit/device_memory_fixture.h"

namespace graphpool {
namespace {

class PendingFreesTest : public DeviceMemoryTest {};

TEST_F(PendingFreesTest, DeferredFreesInACaptureWaitForNothingAndComeBackAfterIt) {
  settings.deferred_free = true;
  configure();
  fake.hip->finish_when_waited = false;
  char* ptr = get(100);
  hipStream_t stream = busy_stream();
  open_relaxed_capture();
  EXPECT_EQ(free(ptr), hipSuccess);
  EXPECT_FALSE(fake::idle(stream));
  EXPECT_EQ(count("hipFree"), 0);
  EXPECT_NE(get(100), ptr);
  capture_closed();
  fake.hip->captures = 0;
  fake::finish(stream);
  EXPECT_EQ(get(100), ptr);
}

TEST_F(PendingFreesTest, DeferredFreesWaitForNothing) {
  settings.deferred_free = true;
  configure();
  fake.hip->finish_when_waited = false;
  char* ptr = get(100);
  hipStream_t stream = busy_stream();
  EXPECT_EQ(free(ptr), hipSuccess);
  EXPECT_FALSE(fake.hip->stuck);
  EXPECT_EQ(memory.addresses.seen_by_hip(ptr), never_allocated_address());
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

TEST_F(PendingFreesTest, PendingMemoryCountsAndIsGivenBack) {
  settings.deferred_free = true;
  configure();
  char* ptr = get(3 * kMiB);
  busy_stream();
  drop(ptr);
  EXPECT_EQ(memory.room.hidden_free_bytes(0), 3 * kMiB);
  EXPECT_TRUE(memory.room.release_all(0));
  EXPECT_EQ(memory.room.hidden_free_bytes(0), 0u);
  EXPECT_FALSE(fake.hip->leaks());
  EXPECT_FALSE(memory.room.release_all(0));
}

TEST_F(PendingFreesTest, VmmFreeAsync) {
  use_vmm();
  hipStream_t stream = busy_stream();
  char* ptr = get(100);
  EXPECT_EQ(memory.frees.free_async(ptr, stream), hipSuccess);
  EXPECT_EQ(memory.frees.free_async(ptr, stream), hipErrorInvalidValue);
  EXPECT_NE(get(100), ptr);
  fake::finish(stream);
  EXPECT_EQ(get(100), ptr);
  EXPECT_EQ(fake.hip->waits, 0);
}

}  // namespace
}  // namespace graphpool
