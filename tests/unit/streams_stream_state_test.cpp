// Tests of shim/streams/stream_state.h.
#include "tests/unit/launches_fixture.h"

namespace graphpool {
namespace {

class StreamStateTest : public LaunchesTest {};

TEST_F(StreamStateTest, the_programs_own_wait_completes) {
  LaunchMarks marks;
  const hipStream_t here = stream(), there = stream();
  launch(marks, here);
  stream_waited(key(there), launch_clock());
  EXPECT_FALSE(marks.complete()) << "another stream's wait";
  stream_waited(key(here), launch_clock() - 1);
  EXPECT_FALSE(marks.complete()) << "a wait from before the launch";
  stream_waited(key(here), launch_clock());
  EXPECT_TRUE(marks.complete());
}

TEST_F(StreamStateTest, a_wait_for_the_device_completes_all_its_streams) {
  LaunchMarks marks;
  launch(marks, stream());
  launch(marks, stream());
  device_waited(device() + 1, launch_clock());
  EXPECT_FALSE(marks.complete());
  device_waited(device(), launch_clock());
  EXPECT_TRUE(marks.complete());
}

TEST_F(StreamStateTest, a_null_stream_is_the_current_devices) {
  LaunchMarks marks;
  fake_.device = device() + 1;
  launch(marks, nullptr);
  device_waited(device(), launch_clock());
  EXPECT_FALSE(marks.complete());
  device_waited(device() + 1, launch_clock());
  EXPECT_TRUE(marks.complete());
}

TEST_F(StreamStateTest, an_older_wait_does_not_take_back_a_newer_one) {
  LaunchMarks marks;
  const hipStream_t here = stream();
  launch(marks, here);
  stream_waited(key(here), launch_clock());
  stream_waited(key(here), 1);
  EXPECT_TRUE(marks.complete());
}

TEST_F(StreamStateTest, a_wait_for_a_new_stream_says_nothing_of_an_old_one_with_its_handle) {
  LaunchMarks marks, others;
  const hipStream_t here = stream();
  launch(marks, here);
  launches_stream_destroyed(key(here));
  launch(others, here);
  stream_waited(key(here), launch_clock());
  EXPECT_TRUE(others.complete());
  EXPECT_FALSE(marks.complete());
}

TEST_F(StreamStateTest, rule_30_streams_that_come_and_go_leave_nothing) {
  const std::size_t before = streams_known();
  for (int i = 0; i < 1000; ++i) {
    LaunchMarks marks;
    const hipStream_t here = stream();
    launch(marks, here);
    stream_waited(key(here), launch_clock());
    EXPECT_TRUE(marks.complete());
    launches_stream_destroyed(key(here));
    stream_waited(key(stream()), launch_clock());
    launches_stream_destroyed(key(stream()));
  }
  EXPECT_EQ(streams_known(), before);
}

TEST_F(StreamStateTest, rule_30_threads_own_streams_that_nobody_destroys_are_few) {
  LaunchMarks kept;
  const StreamKey first = key(stream());
  kept.add(first, hipStreamPerThread, next_launch());
  const std::size_t before = streams_known();
  for (int i = 0; i < 1000; ++i) {
    LaunchMarks marks;
    marks.add(key(stream()), hipStreamPerThread, next_launch());
  }
  EXPECT_LT(streams_known(), 2 * before + 200);
  stream_waited(first, launch_clock());
  EXPECT_TRUE(kept.complete()) << "of those that are named nothing is lost";
}

}  // namespace
}  // namespace graphpool
