// Tests of shim/streams/launch_marks.h.
#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>

#include "tests/unit/launches_fixture.h"

namespace graphpool {
namespace {

class LaunchMarksTest : public LaunchesTest {};

TEST_F(LaunchMarksTest, nothing_launched_is_complete) {
  LaunchMarks marks;
  EXPECT_TRUE(marks.complete());
  EXPECT_EQ(marks.copy(), nullptr);
}

TEST_F(LaunchMarksTest, a_launch_is_not_complete_until_something_says_so) {
  LaunchMarks marks;
  launch(marks, stream());
  EXPECT_FALSE(marks.complete());
  EXPECT_EQ(fake_.queries, 0) << "no event, so nothing to ask";
}

TEST_F(LaunchMarksTest, on_a_threads_own_stream_an_event_comes_behind_the_launch_at_once) {
  LaunchMarks marks;
  for (int i = 0; i < 2; ++i) marks.add(key(stream()) + 1, hipStreamPerThread, next_launch());
  ASSERT_EQ(fake_.events.size(), 2u);
  EXPECT_EQ(fake_.events[0].stream, hipStreamPerThread);
  marks.seal();
  EXPECT_EQ(fake_.events.size(), 2u) << "by then it may be another thread's";
  fake_.events[0].complete = true;
  EXPECT_FALSE(marks.complete());
  fake_.events[1].complete = true;
  EXPECT_TRUE(marks.complete());
}

TEST_F(LaunchMarksTest, a_threads_own_stream_has_one_event_for_all_launches_that_nothing_else_waits_for) {
  LaunchMarks marks;
  const StreamKey own = key(stream());
  for (int i = 0; i < 3; ++i) marks.add(own, hipStreamPerThread, next_launch());
  EXPECT_EQ(fake_.events.size(), 1u);
  EXPECT_EQ(fake_.devices_of_records.size(), 3u) << "behind the last";
  const auto copied = marks.copy();
  marks.add(own, hipStreamPerThread, next_launch());
  EXPECT_EQ(fake_.events.size(), 2u) << "the copy's stays where it is";
}

TEST_F(LaunchMarksTest, of_several_launches_on_a_stream_the_last_counts) {
  LaunchMarks marks;
  const hipStream_t here = stream();
  launch(marks, here);
  const std::uint64_t between = launch_clock();
  launch(marks, here);
  stream_waited(key(here), between);
  EXPECT_FALSE(marks.complete());
}

TEST_F(LaunchMarksTest, sealed_marks_ask_their_events) {
  {
    LaunchMarks marks;
    const hipStream_t here = stream();
    launch(marks, here);
    marks.seal();
    ASSERT_EQ(fake_.events.size(), 1u);
    EXPECT_EQ(fake_.events[0].stream, here);
    EXPECT_EQ(fake_.devices_of_records, std::vector<int>{device()}) << "recorded with the launch's device set";
    EXPECT_EQ(fake_.device, 0) << "and the program's set again";
    EXPECT_FALSE(marks.complete());
    EXPECT_EQ(fake_.last_error, hipSuccess) << "our question left no error";
    marks.seal();
    EXPECT_EQ(fake_.events.size(), 1u) << "sealed once";
    fake_.events[0].complete = true;
    EXPECT_TRUE(marks.complete());
  }
  EXPECT_EQ(fake_.live, 0) << "no event is left over";
}

TEST_F(LaunchMarksTest, the_programs_pending_error_stays) {
  fake_.last_error = hipErrorInvalidValue;
  LaunchMarks marks;
  launch(marks, stream());
  marks.seal();
  EXPECT_EQ(fake_.last_error, hipErrorInvalidValue);
}

TEST_F(LaunchMarksTest, a_failed_event_leaves_the_launch_unknown) {
  fake_.create_result = hipErrorOutOfMemory;
  LaunchMarks marks;
  launch(marks, stream());
  marks.seal();
  EXPECT_FALSE(marks.complete());
  EXPECT_EQ(fake_.last_error, hipSuccess);
}

TEST_F(LaunchMarksTest, rule_17_nothing_is_asked_while_a_capture_is_open) {
  LaunchMarks marks;
  launch(marks, stream());
  marks.seal();
  fake_.events[0].complete = true;
  capture_opened();
  EXPECT_FALSE(marks.complete());
  EXPECT_EQ(fake_.queries, 0);
  capture_closed();
  EXPECT_TRUE(marks.complete());
}

TEST_F(LaunchMarksTest, rule_17_no_capture_begins_while_an_event_is_asked_for) {
  static std::atomic<bool> begun;
  static std::thread beginner;
  begun = false;
  test_next().hipEventQuery = [](hipEvent_t) {
    beginner = std::thread([] {
      capture_opened();
      begun = true;
    });
    for (int i = 0; i < 1000 && !begun; ++i) std::this_thread::yield();
    EXPECT_FALSE(begun);
    return hipSuccess;
  };
  LaunchMarks marks;
  launch(marks, stream());
  marks.seal();
  EXPECT_TRUE(marks.complete());
  beginner.join();
  EXPECT_TRUE(begun);
  capture_closed();
}

TEST_F(LaunchMarksTest, a_stream_that_is_capturing_is_neither_recorded_on_nor_waited_for) {
  static bool capturing;
  capturing = true;
  test_next().hipStreamIsCapturing = [](hipStream_t, hipStreamCaptureStatus* status) {
    *status = capturing ? hipStreamCaptureStatusActive : hipStreamCaptureStatusNone;
    return hipSuccess;
  };
  LaunchMarks marks;
  const hipStream_t here = stream(), there = stream();
  launch(marks, here);
  capture_opened();
  marks.seal();
  EXPECT_TRUE(fake_.events.empty());
  EXPECT_FALSE(marks.order_before(key(there), there));
  EXPECT_TRUE(fake_.waits.empty());
  capturing = false;
  EXPECT_TRUE(marks.order_before(key(there), there));
  EXPECT_EQ(fake_.waits.size(), 1u);
  capture_closed();
}

TEST_F(LaunchMarksTest, a_destroyed_streams_handle_is_not_used) {
  LaunchMarks marks;
  const hipStream_t here = stream();
  launch(marks, here);
  launches_stream_destroyed(key(here));
  marks.seal();
  EXPECT_TRUE(fake_.events.empty());
  EXPECT_FALSE(marks.complete());
  device_waited(device(), launch_clock());
  EXPECT_TRUE(marks.complete());
}

TEST_F(LaunchMarksTest, a_new_stream_with_an_old_handle_is_another) {
  LaunchMarks marks;
  const hipStream_t here = stream();
  launch(marks, here);
  launches_stream_destroyed(key(here));
  launch(marks, here);
  marks.seal();
  ASSERT_EQ(fake_.events.size(), 1u) << "the new stream's launch alone";
  fake_.events[0].complete = true;
  EXPECT_FALSE(marks.complete()) << "the old stream's launch is still unknown";
}

TEST_F(LaunchMarksTest, rule_30_an_exec_launched_on_streams_that_come_and_go_remembers_few_launches) {
  LaunchMarks waited_for, left;
  const hipStream_t lives = stream();
  launch(left, lives);
  std::size_t most = 0;
  for (int i = 0; i < 1000; ++i) {
    const hipStream_t s = stream();
    launch(waited_for, s);
    stream_waited(key(s), launch_clock());
    launch(left, s);
    launches_stream_destroyed(key(s));
    most = std::max({most, waited_for.size(), left.size()});
  }
  EXPECT_LE(most, 100u);
  EXPECT_TRUE(waited_for.complete());
  stream_waited(key(lives), launch_clock());
  EXPECT_FALSE(left.complete()) << "nobody has waited for the others";
  device_waited(device(), launch_clock() - 1);
  EXPECT_FALSE(left.complete()) << "but for the last";
  device_waited(device(), launch_clock());
  EXPECT_TRUE(left.complete());
}

TEST_F(LaunchMarksTest, rule_03_other_streams_wait_and_the_same_does_not) {
  LaunchMarks marks;
  const hipStream_t here = stream(), there = stream();
  launch(marks, here);
  EXPECT_TRUE(marks.order_before(key(here), here));
  EXPECT_TRUE(fake_.waits.empty()) << "a stream is in order with itself";
  EXPECT_TRUE(marks.order_before(key(there), there));
  ASSERT_EQ(fake_.waits.size(), 1u);
  EXPECT_EQ(fake_.waits[0].first, there);
  EXPECT_EQ(fake_.events[fake_.waits[0].second].stream, here);
}

TEST_F(LaunchMarksTest, rule_03_a_launch_without_an_event_on_a_stream_that_lives_is_not_ordered) {
  fake_.create_result = hipErrorOutOfMemory;
  LaunchMarks marks, of_own_stream;
  const hipStream_t here = stream(), there = stream();
  launch(marks, here);
  EXPECT_FALSE(marks.order_before(key(there), there));
  of_own_stream.add(key(stream()) + 1, hipStreamPerThread, next_launch());
  EXPECT_FALSE(of_own_stream.order_before(key(there), there));
  fake_.create_result = hipSuccess;
  EXPECT_TRUE(marks.order_before(key(there), there));
  EXPECT_FALSE(of_own_stream.order_before(key(there), there)) << "the handle names another thread's";
}

TEST_F(LaunchMarksTest, rule_20_the_event_of_an_earlier_launch_says_nothing_of_one_that_failed) {
  LaunchMarks marks;
  const StreamKey own = key(stream()) + 1;
  marks.add(own, hipStreamPerThread, next_launch());
  marks.add_failed(own, next_launch());
  fake_.events[0].complete = true;
  EXPECT_FALSE(marks.complete());
  EXPECT_EQ(fake_.live, 1) << "no call of HIP behind a launch that failed";
  marks.add_failed(own, next_launch());
  EXPECT_EQ(fake_.live, 1);
  marks.add(own, hipStreamPerThread, next_launch());
  EXPECT_EQ(fake_.live, 1) << "the earlier event is gone";
  fake_.events[1].complete = true;
  EXPECT_TRUE(marks.complete());
}

TEST_F(LaunchMarksTest, rule_03_a_new_stream_with_an_old_handle_waits) {
  fake_.stream_result = hipSuccess;
  LaunchMarks marks;
  const hipStream_t here = stream();
  launch(marks, here);
  marks.seal();
  launches_stream_destroyed(key(here));
  EXPECT_TRUE(marks.order_before(key(here), here));
  ASSERT_EQ(fake_.waits.size(), 2u);
  EXPECT_EQ(fake_.waits[0], (std::pair{fake_.own_stream(0), std::size_t{0}})) << "before the stream was destroyed";
  EXPECT_EQ(fake_.waits[1].first, here);
  EXPECT_EQ(fake_.events[fake_.waits[1].second].stream, fake_.own_stream(0));
}

TEST_F(LaunchMarksTest, copies_share_the_events) {
  std::unique_ptr<LaunchMarks> copied;
  {
    LaunchMarks marks;
    launch(marks, stream());
    marks.seal();
    copied = marks.copy();
  }
  ASSERT_NE(copied, nullptr);
  EXPECT_EQ(fake_.live, 1) << "still used by the copy";
  EXPECT_FALSE(copied->complete());
  fake_.events[0].complete = true;
  EXPECT_TRUE(copied->complete());
  EXPECT_EQ(fake_.live, 0);
}

}  // namespace
}  // namespace graphpool
