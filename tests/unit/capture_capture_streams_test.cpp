// The streams and events of a capture: numbers, events that stand for operations, streams that leave.
#include <gtest/gtest.h>

#include "shim/capture/capture_streams.h"

namespace graphpool {
namespace {

constexpr StreamKey kOrigin = 0x1000, kFork = 0x2000, kLater = 0x3000;
hipEvent_t event(std::uintptr_t number) { return reinterpret_cast<hipEvent_t>(number * 16); }

CapturedStream stream(StreamKey key, int device = 0) { return {key, reinterpret_cast<hipStream_t>(key), device, {}}; }

class CaptureStreamsTest : public ::testing::Test {
 protected:
  CaptureStreamsTest() {
    streams_.add(stream(kOrigin));
    CapturedStream fork = stream(kFork);
    fork.joined_from = kOrigin;
    streams_.add(std::move(fork));
  }
  CaptureStreams streams_;
};

TEST_F(CaptureStreamsTest, a_streams_number_is_its_position) {
  EXPECT_TRUE(streams_.is_origin(kOrigin));
  EXPECT_FALSE(streams_.is_origin(kFork));
  EXPECT_EQ(0u, streams_.number(streams_.origin()));
  EXPECT_EQ(1u, streams_.number(*streams_.find(kFork)));
  EXPECT_EQ(nullptr, streams_.find(kLater));
}

TEST_F(CaptureStreamsTest, an_event_stands_for_what_its_stream_had_come_behind) {
  streams_.origin().follow(1);
  EXPECT_EQ(0u, streams_.record(event(1), streams_.origin(), true));
  streams_.origin().follow(2);
  EXPECT_EQ(1u, streams_.record(event(2), streams_.origin(), false));
  EXPECT_EQ(OperationTail{1}, streams_.find_event(event(1))->tail);
  EXPECT_TRUE(streams_.find_event(event(1))->recorded_in_shell);
  EXPECT_EQ(OperationTail{2}, streams_.find_event(event(2))->tail);
  EXPECT_EQ(0u, streams_.record(event(1), streams_.origin(), false)) << "it keeps its number";
  EXPECT_EQ(OperationTail{2}, streams_.find_event(event(1))->tail);
}

TEST_F(CaptureStreamsTest, an_event_that_was_recorded_elsewhere_is_remembered_and_stands_for_nothing) {
  streams_.record(event(1), streams_.origin(), false);
  streams_.event_recorded_elsewhere(event(1));
  streams_.event_recorded_elsewhere(event(2));
  EXPECT_EQ(nullptr, streams_.find_event(event(1)));
  EXPECT_TRUE(streams_.has_noted(event(1)));
  EXPECT_FALSE(streams_.has_noted(event(2)));
  streams_.event_destroyed(event(1));
  EXPECT_FALSE(streams_.has_noted(event(1)));
}

TEST_F(CaptureStreamsTest, a_stream_that_leaves_takes_its_events_along) {
  EXPECT_TRUE(streams_.joined_others(kOrigin));
  streams_.record(event(1), *streams_.find(kFork), false);
  streams_.record(event(2), streams_.origin(), false);
  streams_.forget(kFork);
  EXPECT_EQ(nullptr, streams_.find(kFork));
  EXPECT_EQ(nullptr, streams_.find_event(event(1)));
  EXPECT_NE(nullptr, streams_.find_event(event(2)));
  EXPECT_FALSE(streams_.joined_others(kOrigin));
}

TEST_F(CaptureStreamsTest, a_stream_takes_the_place_of_a_destroyed_one_of_its_device) {
  streams_.find(kFork)->destroyed = true;
  streams_.forget(kFork);
  EXPECT_EQ(2u, streams_.number(streams_.add(stream(kLater, 1)))) << "of another device";
  EXPECT_EQ(1u, streams_.number(streams_.add(stream(kFork))));
  EXPECT_EQ(3u, streams_.size());
}

TEST_F(CaptureStreamsTest, tails_are_merged_each_operation_once) {
  OperationTail tail{3, 1};
  merge_tail(tail, {1, 2, 3, 4});
  EXPECT_EQ((OperationTail{3, 1, 2, 4}), tail);
}

}  // namespace
}  // namespace graphpool
