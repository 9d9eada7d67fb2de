// Tests of shim/streams/launch_event.h.
#include <thread>

#include "tests/unit/launches_fixture.h"

namespace graphpool {
namespace {

class LaunchEventTest : public LaunchesTest {};

TEST_F(LaunchEventTest, an_event_is_passed_on_before_its_stream_is_destroyed) {
  fake_.stream_result = hipSuccess;
  LaunchMarks marks;
  const hipStream_t here = stream();
  launch(marks, here);
  marks.seal();
  EXPECT_FALSE(marks.complete());
  launches_stream_destroyed(key(here));
  ASSERT_EQ(fake_.events.size(), 2u);
  fake_.events[0].complete = true;
  EXPECT_FALSE(marks.complete()) << "it is the other that is asked";
  fake_.events[1].complete = true;
  EXPECT_TRUE(marks.complete());
}

TEST_F(LaunchEventTest, an_event_that_its_stream_had_passed_is_not_asked_again) {
  LaunchMarks marks;
  const hipStream_t here = stream();
  launch(marks, here);
  marks.seal();
  fake_.events[0].complete = true;
  launches_stream_destroyed(key(here));
  const int before = fake_.queries;
  EXPECT_TRUE(marks.complete());
  EXPECT_EQ(before, fake_.queries);
}

TEST_F(LaunchEventTest, an_event_that_cannot_be_passed_on_is_not_asked_again) {
  LaunchMarks marks;
  const hipStream_t here = stream(), there = stream();
  launch(marks, here);
  marks.seal();
  launches_stream_destroyed(key(here));
  EXPECT_EQ(hipSuccess, fake_.last_error);
  const int before = fake_.queries;
  EXPECT_FALSE(marks.complete());
  EXPECT_TRUE(marks.order_before(key(there), there)) << "HIP finishes what it destroys";
  EXPECT_EQ(before, fake_.queries);
  EXPECT_TRUE(fake_.waits.empty());
  device_waited(device(), launch_clock());
  EXPECT_TRUE(marks.complete());
}

TEST_F(LaunchEventTest, events_of_a_threads_own_stream_are_passed_on_before_it_ends) {
  fake_.stream_result = hipSuccess;
  LaunchMarks marks;
  std::thread([&] { marks.add(stream_key({hipStreamPerThread, false}), hipStreamPerThread, next_launch()); }).join();
  ASSERT_EQ(fake_.events.size(), 2u);
  EXPECT_EQ(fake_.events[0].stream, hipStreamPerThread);
  fake_.events[0].complete = true;
  EXPECT_FALSE(marks.complete()) << "it is the other that is asked";
  fake_.events[1].complete = true;
  EXPECT_TRUE(marks.complete());
}

TEST_F(LaunchEventTest, rule_30_events_that_are_gone_are_forgotten) {
  const hipStream_t here = stream();
  for (int i = 0; i < 1000; ++i) {
    LaunchMarks marks;
    launch(marks, here);
    marks.seal();
  }
  const int before = fake_.queries;
  launches_stream_destroyed(key(here));
  EXPECT_EQ(before, fake_.queries);
}

}  // namespace
}  // namespace graphpool
