// Whether an earlier launch is known to be complete, against events and streams that the test completes by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "shim/hip/next.h"
#include "shim/streams/completion.h"
#include "shim/streams/open_captures.h"

namespace graphpool {
namespace {

struct FakeEvent {
  hipStream_t stream = nullptr;
  bool complete = false;
};

struct Fake {
  std::vector<FakeEvent> events;
  std::vector<std::pair<hipStream_t, std::size_t>> waits;  // stream, event
  int live = 0, queries = 0, device = 0;
  std::vector<int> devices_of_records;
  hipError_t create_result = hipSuccess, stream_result = hipErrorOutOfMemory, last_error = hipSuccess;
  std::size_t streams = 0;  ///< of the library's own

  hipStream_t own_stream(std::size_t number) const { return reinterpret_cast<hipStream_t>(0x100000 + 16 * number); }
};
Fake* g_fake = nullptr;

std::size_t number_of(hipEvent_t event) { return reinterpret_cast<std::size_t>(event) - 1; }

class Completion : public ::testing::Test {
 protected:
  Completion() : saved_(test_next()) {
    g_fake = &fake_;
    Next& next = test_next();
    next.hipEventCreateWithFlags = [](hipEvent_t* event, unsigned flags) {
      EXPECT_EQ(flags, unsigned{hipEventDisableTiming});
      if (g_fake->create_result != hipSuccess) return g_fake->last_error = g_fake->create_result;
      g_fake->events.emplace_back();
      ++g_fake->live;
      *event = reinterpret_cast<hipEvent_t>(g_fake->events.size());
      return hipSuccess;
    };
    next.hipEventRecord = [](hipEvent_t event, hipStream_t stream) {
      g_fake->events[number_of(event)].stream = stream;
      g_fake->devices_of_records.push_back(g_fake->device);
      return hipSuccess;
    };
    next.hipEventQuery = [](hipEvent_t event) {
      ++g_fake->queries;
      if (g_fake->events[number_of(event)].complete) return hipSuccess;
      return g_fake->last_error = hipErrorNotReady;
    };
    next.hipEventDestroy = [](hipEvent_t) {
      --g_fake->live;
      return hipSuccess;
    };
    next.hipStreamWaitEvent = [](hipStream_t stream, hipEvent_t event, unsigned) {
      g_fake->waits.emplace_back(stream, number_of(event));
      return hipSuccess;
    };
    next.hipStreamGetDevice = [](hipStream_t, hipDevice_t* device_of_stream) {
      *device_of_stream = device();
      return hipSuccess;
    };
    next.hipStreamIsCapturing = [](hipStream_t, hipStreamCaptureStatus* status) {
      *status = hipStreamCaptureStatusNone;
      return hipSuccess;
    };
    next.hipGetDevice = [](int* device) {
      *device = g_fake->device;
      return hipSuccess;
    };
    next.hipSetDevice = [](int device) {
      g_fake->device = device;
      return hipSuccess;
    };
    next.hipStreamCreateWithFlags = [](hipStream_t* made, unsigned) {
      if (g_fake->stream_result != hipSuccess) return g_fake->last_error = g_fake->stream_result;
      *made = g_fake->own_stream(g_fake->streams++);
      return hipSuccess;
    };
    next.hipPeekAtLastError = [] { return g_fake->last_error; };
    next.hipGetLastError = [] { return std::exchange(g_fake->last_error, hipSuccess); };
  }
  ~Completion() override {
    launches_device_reset(device());  // streams of ours would be kept
    test_next() = saved_;
    g_fake = nullptr;
  }

  /// Streams of their own in each test: what was waited for is the process's.
  hipStream_t stream() { return reinterpret_cast<hipStream_t>(next_stream_ += 16); }
  static StreamKey key(hipStream_t stream) { return reinterpret_cast<StreamKey>(stream); }
  static int device() { return 100 + ::testing::UnitTest::GetInstance()->current_test_info()->line(); }

  void launch(LaunchMarks& marks, hipStream_t stream) { marks.add(key(stream), stream, next_launch()); }

  Fake fake_;

 private:
  static inline std::uintptr_t next_stream_ = 0x1000;
  Next saved_;
};

TEST_F(Completion, nothing_launched_is_complete) {
  LaunchMarks marks;
  EXPECT_TRUE(marks.complete());
  EXPECT_EQ(marks.copy(), nullptr);
}

TEST_F(Completion, a_launch_is_not_complete_until_something_says_so) {
  LaunchMarks marks;
  launch(marks, stream());
  EXPECT_FALSE(marks.complete());
  EXPECT_EQ(fake_.queries, 0) << "no event, so nothing to ask";
}

TEST_F(Completion, the_programs_own_wait_completes) {
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

TEST_F(Completion, a_wait_for_the_device_completes_all_its_streams) {
  LaunchMarks marks;
  launch(marks, stream());
  launch(marks, stream());
  device_waited(device() + 1, launch_clock());
  EXPECT_FALSE(marks.complete());
  device_waited(device(), launch_clock());
  EXPECT_TRUE(marks.complete());
}

TEST_F(Completion, a_null_stream_is_the_current_devices) {
  LaunchMarks marks;
  fake_.device = device() + 1;
  launch(marks, nullptr);
  device_waited(device(), launch_clock());
  EXPECT_FALSE(marks.complete());
  device_waited(device() + 1, launch_clock());
  EXPECT_TRUE(marks.complete());
}

TEST_F(Completion, on_a_threads_own_stream_an_event_comes_behind_the_launch_at_once) {
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

TEST_F(Completion, a_threads_own_stream_has_one_event_for_all_launches_that_nothing_else_waits_for) {
  LaunchMarks marks;
  const StreamKey own = key(stream());
  for (int i = 0; i < 3; ++i) marks.add(own, hipStreamPerThread, next_launch());
  EXPECT_EQ(fake_.events.size(), 1u);
  EXPECT_EQ(fake_.devices_of_records.size(), 3u) << "behind the last";
  const auto copied = marks.copy();
  marks.add(own, hipStreamPerThread, next_launch());
  EXPECT_EQ(fake_.events.size(), 2u) << "the copy's stays where it is";
}

TEST_F(Completion, an_older_wait_does_not_take_back_a_newer_one) {
  LaunchMarks marks;
  const hipStream_t here = stream();
  launch(marks, here);
  stream_waited(key(here), launch_clock());
  stream_waited(key(here), 1);
  EXPECT_TRUE(marks.complete());
}

TEST_F(Completion, of_several_launches_on_a_stream_the_last_counts) {
  LaunchMarks marks;
  const hipStream_t here = stream();
  launch(marks, here);
  const std::uint64_t between = launch_clock();
  launch(marks, here);
  stream_waited(key(here), between);
  EXPECT_FALSE(marks.complete());
}

TEST_F(Completion, sealed_marks_ask_their_events) {
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

TEST_F(Completion, the_programs_pending_error_stays) {
  fake_.last_error = hipErrorInvalidValue;
  LaunchMarks marks;
  launch(marks, stream());
  marks.seal();
  EXPECT_EQ(fake_.last_error, hipErrorInvalidValue);
}

TEST_F(Completion, a_failed_event_leaves_the_launch_unknown) {
  fake_.create_result = hipErrorOutOfMemory;
  LaunchMarks marks;
  launch(marks, stream());
  marks.seal();
  EXPECT_FALSE(marks.complete());
  EXPECT_EQ(fake_.last_error, hipSuccess);
}

TEST_F(Completion, rule_17_nothing_is_asked_while_a_capture_is_open) {
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

TEST_F(Completion, rule_17_no_capture_begins_while_an_event_is_asked_for) {
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

TEST_F(Completion, a_stream_that_is_capturing_is_neither_recorded_on_nor_waited_for) {
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

TEST_F(Completion, a_destroyed_streams_handle_is_not_used) {
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

TEST_F(Completion, a_new_stream_with_an_old_handle_is_another) {
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

TEST_F(Completion, a_wait_for_a_new_stream_says_nothing_of_an_old_one_with_its_handle) {
  LaunchMarks marks, others;
  const hipStream_t here = stream();
  launch(marks, here);
  launches_stream_destroyed(key(here));
  launch(others, here);
  stream_waited(key(here), launch_clock());
  EXPECT_TRUE(others.complete());
  EXPECT_FALSE(marks.complete());
}

TEST_F(Completion, rule_30_streams_that_come_and_go_leave_nothing) {
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

TEST_F(Completion, rule_30_an_exec_launched_on_streams_that_come_and_go_remembers_few_launches) {
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

TEST_F(Completion, rule_03_other_streams_wait_and_the_same_does_not) {
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

TEST_F(Completion, rule_03_a_new_stream_with_an_old_handle_waits) {
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

TEST_F(Completion, an_event_is_passed_on_before_its_stream_is_destroyed) {
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

TEST_F(Completion, an_event_that_its_stream_had_passed_is_not_asked_again) {
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

TEST_F(Completion, an_event_that_cannot_be_passed_on_is_not_asked_again) {
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

TEST_F(Completion, events_of_a_threads_own_stream_are_passed_on_before_it_ends) {
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

TEST_F(Completion, rule_30_events_that_are_gone_are_forgotten) {
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

TEST_F(Completion, rule_30_threads_own_streams_that_nobody_destroys_are_few) {
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

TEST_F(Completion, copies_share_the_events) {
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
