// Tests of shim/streams/work_counts.h.
#include <thread>
#include <vector>

#include "tests/unit/stream_work_fixture.h"

namespace graphpool {
namespace {

class WorkCountsTest : public StreamWorkTest {};

TEST_F(WorkCountsTest, IdleAtFirst) {
  make_stream();
  EXPECT_TRUE(work.counts.is_idle(0));
  EXPECT_TRUE(wait(0));
  EXPECT_EQ(fake.hip->count["hipEventRecord"], 0);
  EXPECT_EQ(fake.hip->count["hipEventSynchronize"], 0);
}

TEST_F(WorkCountsTest, WorkNobodyKnowsWhere) {
  work.counts.note_work_anywhere();
  EXPECT_EQ(work.fences.make(0), nullptr);
  EXPECT_EQ(work.fences.make(1), nullptr);
  work.counts.idle(work.counts.before_device_sync(0));
  EXPECT_TRUE(wait(0));
  EXPECT_EQ(work.fences.make(1), nullptr);
}

TEST_F(WorkCountsTest, StreamsMadeBeforeWeLooked) {
  hipStream_t unknown = nullptr;
  ASSERT_EQ(next().hipStreamCreateWithFlags(&unknown, hipStreamNonBlocking), hipSuccess);
  enqueue(unknown);
  EXPECT_TRUE(wait(0));
  EXPECT_TRUE(fake::idle(unknown));
}

TEST_F(WorkCountsTest, rule_16_WorkOfAStreamThatWasDestroyedPastUsStaysKnown) {
  const hipStream_t stream = make_stream();
  enqueue(stream);
  work.counts.created(stream, 1);  // another stream, at its address
  EXPECT_FALSE(work.counts.is_idle(0));
  EXPECT_TRUE(work.counts.is_idle(1));
  work.counts.idle(work.counts.before_device_sync(0));
  EXPECT_TRUE(work.counts.is_idle(0));
  enqueue(stream);
  EXPECT_FALSE(work.counts.is_idle(1));
}

TEST_F(WorkCountsTest, WorkEnqueuedDuringAWaitStaysKnown) {
  hipStream_t stream = make_stream();
  enqueue(stream);
  Fence* fence = work.fences.make(0);
  enqueue(stream);
  EXPECT_TRUE(work.fences.wait(fence));
  EXPECT_FALSE(work.counts.is_idle(0));
  work.fences.release(fence);
}

TEST_F(WorkCountsTest, TheProgramsOwnSynchronisationCounts) {
  hipStream_t stream = make_stream();
  enqueue(stream);
  const auto snapshot = work.counts.before_stream_sync(stream);
  enqueue(stream);
  work.counts.idle(snapshot);
  EXPECT_FALSE(work.fences.make(0) == nullptr);
  fake::finish(stream);
  work.counts.idle(work.counts.before_stream_sync(stream));
  EXPECT_TRUE(wait(0));
  enqueue(nullptr);
  work.counts.idle(work.counts.before_stream_sync(nullptr));
  EXPECT_TRUE(work.counts.is_idle(0));
}

TEST_F(WorkCountsTest, rule_16_AThreadWaitsForNoOwnStreamOfAThreadThatHasEnded) {
  // The later thread may have the stack of the former one, and its thread-local variables at the same addresses.
  std::thread([&] { enqueue(hipStreamPerThread); }).join();
  std::thread([&] {
    work.counts.idle(work.counts.before_stream_sync(hipStreamPerThread));
    EXPECT_EQ(nullptr, work.fences.make(0)) << "nothing can wait for the work that is left";
  }).join();
  EXPECT_FALSE(work.counts.is_idle(0));
  work.counts.idle(work.counts.before_device_sync(0));
  EXPECT_TRUE(work.counts.is_idle(0));
}

TEST_F(WorkCountsTest, ManyStreamsAndThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        hipStream_t stream = make_stream();
        enqueue(stream);
        EXPECT_TRUE(wait(0));
        EXPECT_TRUE(fake::idle(stream)) << "what was enqueued before a wait is complete after it";
        work.before_destroy(stream);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(wait(0));
  EXPECT_TRUE(work.counts.is_idle(0));
}

}  // namespace
}  // namespace graphpool
