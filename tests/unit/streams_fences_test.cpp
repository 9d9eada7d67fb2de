// Tests of shim/streams/fences.h.
#include <thread>

#include "shim/streams/open_captures.h"
#include "tests/unit/stream_work_fixture.h"

namespace graphpool {
namespace {

class FencesTest : public StreamWorkTest {};

TEST_F(FencesTest, WaitsForEveryBusyStreamOfTheDevice) {
  hipStream_t a = make_stream(), b = make_stream(), idle = make_stream();
  enqueue(a);
  enqueue(b);
  EXPECT_FALSE(work.counts.is_idle(0));
  EXPECT_TRUE(work.counts.is_idle(1));
  EXPECT_TRUE(wait(0));
  EXPECT_TRUE(fake::idle(a));
  EXPECT_TRUE(fake::idle(b));
  EXPECT_TRUE(work.counts.is_idle(0));
  EXPECT_EQ(fake.hip->count["hipEventRecord"], 3) << "a, b and the fence; not the idle one";
  (void)idle;
}

TEST_F(FencesTest, AskingLeavesNoErrorBehind) {
  fake.hip->version = 60000000;
  hipStream_t stream = make_stream();
  enqueue(stream);
  PrivateCalls private_calls;
  Fence* fence = work.fences.make(0);
  ASSERT_NE(fence, nullptr);
  EXPECT_FALSE(work.fences.passed(fence));
  EXPECT_EQ(fake::t_last_error, hipSuccess);
  fake.hip->version = 70000000;
  fake::t_last_error = hipErrorInvalidValue;
  EXPECT_FALSE(work.fences.passed(fence));
  EXPECT_EQ(fake::t_last_error, hipErrorInvalidValue) << "the program's";
  work.fences.release(fence);
}

TEST_F(FencesTest, OtherDevicesAreLeftAlone) {
  hipStream_t here = make_stream();
  fake::t_device = 1;
  hipStream_t there = make_stream();
  enqueue(here);
  enqueue(there);
  EXPECT_TRUE(wait(1));
  EXPECT_FALSE(fake::idle(here));
  EXPECT_TRUE(fake::idle(there));
  EXPECT_EQ(fake::t_device, 1);
}

TEST_F(FencesTest, NullStreamAndOnesOwn) {
  enqueue(nullptr);
  EXPECT_TRUE(wait(0));
  EXPECT_TRUE(fake::idle(nullptr));
  enqueue(hipStreamPerThread);
  EXPECT_FALSE(work.counts.is_idle(0));
  EXPECT_TRUE(wait(0));
  EXPECT_TRUE(fake::idle(hipStreamPerThread));
  EXPECT_TRUE(work.counts.is_idle(0));
}

TEST_F(FencesTest, NothingIsPutIntoTheNullStream) {
  enqueue(nullptr);
  Fence* fence = work.fences.make(0);
  ASSERT_NE(fence, nullptr);
  EXPECT_EQ(fake.hip->streams.at(0x10).operations.size(), 1u) << "an event there would hold back all blocking streams";
  work.fences.release(fence);
}

TEST_F(FencesTest, AnotherThreadsOwnStreamCannotBeFenced) {
  std::thread([&] { enqueue(hipStreamPerThread); }).join();
  EXPECT_EQ(work.fences.make(0), nullptr);
  const auto snapshot = work.counts.before_device_sync(0);
  work.counts.idle(snapshot);  // the program's hipFree has waited
  EXPECT_TRUE(work.counts.is_idle(0));
  EXPECT_TRUE(wait(0));
}

TEST_F(FencesTest, NoFenceInACapture) {
  hipStream_t stream = make_stream();
  enqueue(stream);
  capture_opened();
  EXPECT_EQ(work.fences.make(0), nullptr);
  capture_closed();
  EXPECT_TRUE(wait(0));
}

// After a failed end AMD's runtimes keep streams that had joined in the capture, though none is open.

TEST_F(FencesTest, rule_17_StreamLeftInACaptureByAFailedEnd) {
  hipStream_t left = make_stream();
  enqueue(left);
  fake::finish(left);
  note_capture_end_failed();
  fake.hip->capturing_streams.insert(reinterpret_cast<std::uintptr_t>(left));
  const int before = fake.hip->count["hipEventRecord"];
  EXPECT_EQ(work.fences.make(0), nullptr);
  EXPECT_EQ(work.fences.make_behind(0, left), nullptr);
  EXPECT_FALSE(work.fences.is_complete(0, left));
  EXPECT_EQ(fake.hip->count["hipEventRecord"], before) << "it would become part of that capture";
  fake.hip->capturing_streams.clear();  // the next begin on it frees it
  EXPECT_TRUE(work.fences.is_complete(0, left));
  g_capture_end_failed.store(false);
}

// HIP 6.3 refuses to wait for an event whose stream has begun a capture since it was recorded.

TEST_F(FencesTest, rule_17_CaptureBegunAfterTheFence) {
  hipStream_t stream = make_stream();
  enqueue(stream);
  PrivateCalls private_calls;
  Fence* fence = work.fences.make(0);
  ASSERT_NE(fence, nullptr);
  fake.hip->capturing_streams.insert(reinterpret_cast<std::uintptr_t>(stream));
  EXPECT_FALSE(work.fences.passed(fence));
  EXPECT_TRUE(work.fences.wait(fence));
  EXPECT_FALSE(fake.hip->capture_invalidated);
  work.fences.release(fence);
}

TEST_F(FencesTest, NotReadyIsNoError) {
  hipStream_t stream = make_stream();
  enqueue(stream);
  Fence* fence = work.fences.make(0);
  fake::t_last_error = hipErrorInvalidValue;
  EXPECT_FALSE(work.fences.passed(fence));
  EXPECT_EQ(fake::t_last_error, hipErrorInvalidValue) << "the program's own";
  fake::finish(stream);
  EXPECT_TRUE(work.fences.passed(fence));
  EXPECT_TRUE(work.counts.is_idle(0));
  work.fences.release(fence);
}

TEST_F(FencesTest, FreesWithoutWorkBetweenThemShareAFence) {
  hipStream_t stream = make_stream();
  enqueue(stream);
  Fence* first = work.fences.make(0);
  Fence* second = work.fences.make(0);
  EXPECT_EQ(first, second);
  enqueue(stream);
  Fence* third = work.fences.make(0);
  EXPECT_NE(third, first);
  for (Fence* fence : {first, second, third}) work.fences.release(fence);
}

TEST_F(FencesTest, AskingOfADestroyedStreamDoesNotUseItsHandle) {
  hipStream_t stream = make_stream();
  enqueue(stream);
  EXPECT_FALSE(work.fences.is_complete(0, stream));
  fake::finish(stream);
  EXPECT_TRUE(work.fences.is_complete(0, stream));
  work.before_destroy(stream);
  const int before = fake.hip->count["hipEventRecord"];
  EXPECT_FALSE(work.fences.is_complete(0, stream));
  EXPECT_EQ(fake.hip->count["hipEventRecord"], before);
}

TEST_F(FencesTest, AHandleThatComesBackIsAnotherStream) {
  hipStream_t stream = make_stream();
  enqueue(stream);
  Fence* fence = work.fences.make_behind(0, stream);
  ASSERT_NE(fence, nullptr);
  EXPECT_TRUE(work.fences.same_stream(fence, 0, stream));
  EXPECT_FALSE(work.fences.same_stream(fence, 0, nullptr));
  work.before_destroy(stream);
  work.counts.created(stream, 0);
  EXPECT_FALSE(work.fences.same_stream(fence, 0, stream));
  work.fences.release(fence);
}

}  // namespace
}  // namespace graphpool
