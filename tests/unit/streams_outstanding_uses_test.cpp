// Which streams may still write to a buffer, against streams whose work ends when the test says so.
#include <gtest/gtest.h>

#include <algorithm>

#include "shim/streams/launch_marks.h"
#include "shim/streams/outstanding_uses.h"
#include "shim/streams/stream_work.h"
#include "tests/support/counting_new.h"
#include "tests/unit/fake_hip.h"

namespace graphpool {
namespace {

constexpr char kBuffers[2] = {};
const OutstandingUses::Bases kOne{&kBuffers[0]}, kOther{&kBuffers[1]};

class Outstanding : public ::testing::Test {
 protected:
  Outstanding() {
    forget();
    test_next().hipStreamGetFlags = [](hipStream_t stream, unsigned* flags) {
      return fake::call("hipStreamGetFlags", [&](fake::Hip& hip) {
        *flags = hip.streams.at(fake::key_of(stream)).blocking ? hipStreamDefault : hipStreamNonBlocking;
        return hipSuccess;
      });
    };
  }
  ~Outstanding() override {
    for (const hipStream_t stream : streams_) launches_stream_destroyed(key(stream));
    forget();
  }
  static void forget() {
    for (int device = 0; device < fake::kDevices; ++device) stream_work().device_reset(device);
  }
  static StreamKey key(hipStream_t stream) { return stream_key({stream}); }

  hipStream_t stream(unsigned flags = hipStreamNonBlocking) {
    hipStream_t made = nullptr;
    EXPECT_EQ(hipSuccess, next().hipStreamCreateWithFlags(&made, flags));
    work_counts().created(made, fake::t_device);
    streams_.push_back(made);
    return made;
  }
  hipEvent_t event() { return reinterpret_cast<hipEvent_t>(next_event_ += 16); }

  /// The program enqueues what writes to buffers; without any, what nobody can see into.
  void work(hipStream_t on, const OutstandingUses::Bases& bases, const void* by = nullptr) {
    fake::work(on);
    work_counts().note_work(on);
    if (!uses.several({on})) return;
    bases.empty() ? uses.used_unseen({on}) : uses.used({on}, bases, by);
  }
  bool elsewhere(hipStream_t on, const void* by = nullptr) { return uses.elsewhere(kOne, {on}, by); }
  /// Two streams are known to be in use, and all that they have is complete.
  void use_both(hipStream_t a, hipStream_t b) {
    for (const hipStream_t on : {a, b, a}) {
      work(on, kOther);
      fake::finish(on);
      stream_waited(key(on), launch_clock());
    }
    ASSERT_FALSE(elsewhere(a));
    ASSERT_FALSE(elsewhere(b));
  }

  fake::Install fake;
  OutstandingUses uses;

 private:
  std::vector<hipStream_t> streams_;
  std::uintptr_t next_event_ = 0x100;
};

TEST_F(Outstanding, rule_04_one_stream_is_never_elsewhere) {
  const hipStream_t a = stream();
  for (int i = 0; i < 3; ++i) work(a, kOne);
  EXPECT_FALSE(elsewhere(a));
  EXPECT_EQ(0, fake.hip->count["hipEventRecord"]) << "and nothing is asked";
}

TEST_F(Outstanding, rule_04_what_the_first_stream_did_before_the_second_came_is_in_doubt) {
  const hipStream_t a = stream(), b = stream();
  work(a, kOther);
  EXPECT_TRUE(elsewhere(b)) << "nobody noted what it was";
  fake::finish(a);
  EXPECT_FALSE(elsewhere(b));
}

TEST_F(Outstanding, rule_04_only_work_on_the_same_buffers_counts) {
  const hipStream_t a = stream(), b = stream();
  use_both(a, b);
  work(a, kOther);
  EXPECT_FALSE(elsewhere(b));
  work(a, kOne);
  EXPECT_TRUE(elsewhere(b));
  EXPECT_FALSE(elsewhere(a)) << "its own";
  fake::finish(a);
  EXPECT_FALSE(elsewhere(b)) << "complete, as an event tells";
}

TEST_F(Outstanding, rule_04_work_that_nobody_can_see_into_counts_for_any_buffer) {
  const hipStream_t a = stream(), b = stream();
  use_both(a, b);
  work(a, {});
  EXPECT_TRUE(elsewhere(b));
}

TEST_F(Outstanding, launches_of_the_same_ring_have_an_order_of_their_own) {
  const hipStream_t a = stream(), b = stream();
  use_both(a, b);
  const int ring = 0, other_ring = 0;
  work(a, kOne, &ring);
  EXPECT_FALSE(elsewhere(b, &ring));
  EXPECT_TRUE(elsewhere(b, &other_ring));
  EXPECT_TRUE(elsewhere(b));
}

TEST_F(Outstanding, rule_04_what_the_program_has_waited_for_is_complete) {
  const hipStream_t a = stream(), b = stream();
  use_both(a, b);
  work(a, kOne);
  const int asked = fake.hip->count["hipEventRecord"];
  stream_waited(key(a), launch_clock());
  EXPECT_FALSE(elsewhere(b));
  EXPECT_EQ(asked, fake.hip->count["hipEventRecord"]) << "nothing is asked";
}

TEST_F(Outstanding, rule_04_an_event_orders_what_was_before_it) {
  const hipStream_t a = stream(), b = stream();
  use_both(a, b);
  const hipEvent_t done = event();
  work(a, kOne);
  uses.recorded(done, {a});
  EXPECT_TRUE(elsewhere(b)) << "recorded, not waited for";
  uses.waited({b}, done);
  EXPECT_FALSE(elsewhere(b));
  work(a, kOne);
  EXPECT_TRUE(elsewhere(b)) << "behind the event";
}

TEST_F(Outstanding, rule_04_order_goes_through_a_third_stream) {
  const hipStream_t a = stream(), b = stream(), c = stream();
  use_both(a, b);
  const hipEvent_t first = event(), second = event();
  work(a, kOne);
  uses.recorded(first, {a});
  uses.waited({c}, first);
  uses.recorded(second, {c});
  uses.waited({b}, second);
  EXPECT_FALSE(elsewhere(b));
}

TEST_F(Outstanding, a_destroyed_event_orders_nothing) {
  const hipStream_t a = stream(), b = stream();
  use_both(a, b);
  const hipEvent_t done = event();
  work(a, kOne);
  uses.recorded(done, {a});
  uses.event_destroyed(done);
  uses.waited({b}, done);
  EXPECT_TRUE(elsewhere(b)) << "another event has its handle";
}

TEST_F(Outstanding, rule_04_the_null_stream_and_blocking_streams_come_in_the_order_of_their_calls) {
  const hipStream_t blocking = stream(hipStreamDefault), other = stream();
  use_both(blocking, other);
  work(nullptr, kOne);
  EXPECT_FALSE(elsewhere(blocking));
  EXPECT_TRUE(elsewhere(other));
  fake::finish(nullptr);
  stream_waited(key(nullptr), launch_clock());
  work(blocking, kOne);
  EXPECT_FALSE(elsewhere(nullptr));
  EXPECT_TRUE(elsewhere(other));
}

/// A program enqueues with one device current what another device's stream does.
TEST_F(Outstanding, rule_04_waiting_for_one_device_says_nothing_of_the_stream_of_another) {
  fake::t_device = 1;
  const hipStream_t other = stream(), first = stream();
  fake::t_device = 0;
  const hipStream_t here = stream();
  work(first, kOne);
  work(here, kOther);
  fake::finish(here);
  device_waited(0, launch_clock());
  EXPECT_TRUE(elsewhere(here)) << "the first stream";
  fake::finish(first);
  EXPECT_FALSE(elsewhere(here)) << "the event that is asked is one of its device";
  work(other, kOne);
  device_waited(0, launch_clock());
  EXPECT_TRUE(elsewhere(here));
  device_waited(1, launch_clock());
  EXPECT_FALSE(elsewhere(here));
  work(other, kOne);
  uses.stream_destroyed(other);
  launches_stream_destroyed(key(other));
  device_waited(0, launch_clock());
  EXPECT_TRUE(elsewhere(here)) << "it was destroyed with its work outstanding";
  device_waited(1, launch_clock());
  EXPECT_FALSE(elsewhere(here));
}

TEST_F(Outstanding, rule_04_the_null_stream_of_a_device_orders_no_stream_of_another) {
  const hipStream_t blocking = stream(hipStreamDefault);
  fake::t_device = 1;
  const hipStream_t other = stream(hipStreamDefault);
  use_both(other, blocking);
  work(nullptr, kOne);
  EXPECT_FALSE(elsewhere(other));
  EXPECT_TRUE(elsewhere(blocking));
  fake::t_device = 0;
  work(other, kOne);
  EXPECT_TRUE(elsewhere(nullptr));
  fake::finish(other);
  fake::t_device = 1;
  fake::finish(nullptr);
  fake::t_device = 0;
}

TEST_F(Outstanding, a_stream_destroyed_idle_leaves_nothing_and_a_busy_one_doubt) {
  const hipStream_t idle = stream(), busy = stream(), here = stream();
  use_both(idle, here);
  work(idle, kOne);
  fake::finish(idle);
  work_counts().idle(work_counts().before_stream_sync(idle));
  uses.stream_destroyed(idle);
  launches_stream_destroyed(key(idle));
  EXPECT_FALSE(elsewhere(here));
  work(busy, kOne);
  uses.stream_destroyed(busy);
  launches_stream_destroyed(key(busy));
  fake::finish(busy);
  EXPECT_TRUE(elsewhere(here)) << "there is nothing left to ask";
  device_waited(0, launch_clock());
  EXPECT_FALSE(elsewhere(here));
}

TEST_F(Outstanding, more_uses_than_are_kept_are_in_doubt) {
  const hipStream_t a = stream(), b = stream();
  use_both(a, b);
  const std::vector<char> memory(10'000);
  for (const char& each : memory) work(a, {&each});
  EXPECT_TRUE(elsewhere(b)) << "none of them was this buffer, but nobody knows any more";
  fake::finish(a);
  EXPECT_FALSE(elsewhere(b));
}

TEST_F(Outstanding, rule_30_streams_destroyed_busy_leave_one_doubt_together) {
  const hipStream_t a = stream(), b = stream();
  use_both(a, b);
  std::size_t most = 0;
  for (int i = 0; i < 2000; ++i) {
    const hipStream_t c = stream();
    work(c, kOther);
    uses.stream_destroyed(c);
    launches_stream_destroyed(key(c));
    stream_work().before_destroy(c);
    most = std::max(most, uses.size());
  }
  EXPECT_LE(most, 300u);
  EXPECT_TRUE(elsewhere(a)) << "which buffers they used nobody knows any more";
  device_waited(0, launch_clock());
  EXPECT_FALSE(elsewhere(a));
}

TEST_F(Outstanding, asking_allocates_nothing) {
  const hipStream_t a = stream(), b = stream(), c = stream();
  use_both(a, b);
  work(b, kOne);
  work(c, kOne);
  ASSERT_TRUE(elsewhere(a));
  // A runtime that allocates nothing itself.
  Next& bare = test_next();
  bare.hipGetDevice = [](int* device) { return *device = 0, hipSuccess; };
  bare.hipSetDevice = [](int) { return hipSuccess; };
  bare.hipThreadExchangeStreamCaptureMode = [](hipStreamCaptureMode*) { return hipSuccess; };
  bare.hipPeekAtLastError = bare.hipGetLastError = [] { return hipSuccess; };
  bare.hipStreamGetFlags = [](hipStream_t, unsigned* flags) { return *flags = hipStreamNonBlocking, hipSuccess; };
  bare.hipStreamWaitEvent = [](hipStream_t, hipEvent_t, unsigned) { return hipSuccess; };
  bare.hipEventRecord = [](hipEvent_t, hipStream_t) { return hipSuccess; };
  bare.hipEventQuery = [](hipEvent_t) { return hipErrorNotReady; };
  const std::size_t before = allocations_of_this_thread();
  EXPECT_TRUE(elsewhere(a));
  EXPECT_EQ(before, allocations_of_this_thread());
}

TEST_F(Outstanding, rule_30_of_too_many_streams_the_order_is_in_doubt) {
  const hipStream_t a = stream(), b = stream();
  use_both(a, b);
  work(a, kOne);
  const hipEvent_t behind = event();
  uses.recorded(behind, {a});
  uses.waited({b}, behind);
  for (std::uintptr_t i = 1; i <= 100; ++i) uses.recorded(event(), {reinterpret_cast<hipStream_t>(i << 40)});
  EXPECT_FALSE(elsewhere(b));
  for (std::uintptr_t i = 1; i <= 1000; ++i) uses.recorded(event(), {reinterpret_cast<hipStream_t>(i << 40)});
  EXPECT_TRUE(elsewhere(b));
}

}  // namespace
}  // namespace graphpool
