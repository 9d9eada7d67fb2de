// Tests of shim/streams/passed_event.h.
#include "shim/hip/private_handles.h"
#include "shim/streams/passed_event.h"
#include "tests/support/counting_new.h"
#include "tests/unit/launches_fixture.h"

namespace graphpool {
namespace {

/// An own stream that could not get its event is destroyed.
int g_streams_destroyed = 0;

class PassedEventTest : public LaunchesTest {
 protected:
  PassedEventTest() {
    fake_.stream_result = hipSuccess;
    g_streams_destroyed = 0;
    test_next().hipStreamDestroy = [](hipStream_t) {
      ++g_streams_destroyed;
      return hipSuccess;
    };
  }
  ~PassedEventTest() override { passed_events_device_reset(device() + 1); }

  hipEvent_t recorded_on(hipStream_t stream) {
    hipEvent_t event = nullptr;
    EXPECT_EQ(hipSuccess, next().hipEventCreateWithFlags(&event, hipEventDisableTiming));
    EXPECT_EQ(hipSuccess, next().hipEventRecord(event, stream));
    return event;
  }
  FakeEvent& state_of(const std::shared_ptr<PassedEvent>& passed) { return fake_.events[number_of(passed->get())]; }
};

TEST_F(PassedEventTest, it_is_complete_when_a_stream_of_ours_has_passed_the_event) {
  const hipEvent_t event = recorded_on(stream());
  const auto passed = PassedEvent::make(event, device());
  ASSERT_NE(nullptr, passed);
  EXPECT_EQ((std::vector{std::pair{fake_.own_stream(0), number_of(event)}}), fake_.waits);
  EXPECT_EQ(fake_.own_stream(0), state_of(passed).stream) << "recorded behind the wait";
  EXPECT_EQ(device(), fake_.devices_of_records.back());
  EXPECT_EQ(0, fake_.device) << "the current device is as it was";
  EXPECT_FALSE(passed->complete());
  fake_.events[number_of(event)].complete = true;
  EXPECT_FALSE(passed->complete()) << "the program's event is not asked";
  state_of(passed).complete = true;
  EXPECT_TRUE(passed->complete());
  EXPECT_TRUE(g_private_handles.has(fake_.own_stream(0)));
}

TEST_F(PassedEventTest, rule_19_a_stream_of_ours_is_used_again_once_it_is_idle) {
  const hipEvent_t event = recorded_on(stream());
  auto first = PassedEvent::make(event, device());
  auto second = PassedEvent::make(event, device());
  EXPECT_EQ(2u, fake_.streams) << "the first is in use";
  const hipEvent_t of_first = first->get();
  first.reset();
  auto third = PassedEvent::make(event, device());
  EXPECT_EQ(3u, fake_.streams) << "nobody has the first, but it has work";
  fake_.events[number_of(of_first)].complete = true;
  auto fourth = PassedEvent::make(event, device());
  EXPECT_EQ(3u, fake_.streams);
  EXPECT_EQ(of_first, fourth->get());
  fourth.reset();
  auto elsewhere = PassedEvent::make(event, device() + 1);
  EXPECT_EQ(4u, fake_.streams) << "each device has streams of its own";
}

TEST_F(PassedEventTest, a_reset_of_the_device_completes_it_and_takes_its_stream) {
  const hipEvent_t event = recorded_on(stream());
  auto lost = PassedEvent::make(event, device()), kept = PassedEvent::make(event, device() + 1);
  passed_events_device_reset(device());
  EXPECT_EQ(nullptr, lost->get());
  EXPECT_TRUE(lost->complete());
  EXPECT_FALSE(kept->complete());
  lost.reset();
  const auto again = PassedEvent::make(event, device());
  EXPECT_EQ(3u, fake_.streams) << "the other is gone";
}

TEST_F(PassedEventTest, what_cannot_be_made_is_not_there_and_leaves_no_error) {
  const hipEvent_t event = recorded_on(stream());
  fake_.stream_result = hipErrorOutOfMemory;
  EXPECT_EQ(nullptr, PassedEvent::make(event, device()));
  fake_.stream_result = hipSuccess;
  fake_.create_result = hipErrorOutOfMemory;
  EXPECT_EQ(nullptr, PassedEvent::make(event, device()));
  EXPECT_EQ(1, g_streams_destroyed);
  EXPECT_EQ(hipSuccess, fake_.last_error);
}

TEST_F(PassedEventTest, without_memory_no_stream_stays_taken) {
  const hipEvent_t event = recorded_on(stream());
  fake_.events.reserve(100), fake_.waits.reserve(100), fake_.devices_of_records.reserve(100);
  for (int works = 0; works < 20; ++works) {
    std::shared_ptr<PassedEvent> passed;
    let_allocations_work(works);
    try {
      passed = PassedEvent::make(event, device());
    } catch (const std::bad_alloc&) {
    }
    let_allocations_work(-1);
    for (FakeEvent& each : fake_.events) each.complete = true;
  }
  EXPECT_EQ(1u, fake_.streams - static_cast<std::size_t>(g_streams_destroyed));
}

TEST_F(PassedEventTest, where_the_wait_is_refused_the_stream_serves_the_next) {
  const hipEvent_t event = recorded_on(stream());
  const auto wait = next().hipStreamWaitEvent;
  test_next().hipStreamWaitEvent = [](hipStream_t, hipEvent_t, unsigned) {
    return g_fake->last_error = hipErrorStreamCaptureIsolation;
  };
  EXPECT_EQ(nullptr, PassedEvent::make(event, device()));
  EXPECT_EQ(hipSuccess, fake_.last_error);
  test_next().hipStreamWaitEvent = wait;
  fake_.events.back().complete = true;  // nothing was recorded
  EXPECT_NE(nullptr, PassedEvent::make(event, device()));
  EXPECT_EQ(1u, fake_.streams);
}

}  // namespace
}  // namespace graphpool
