// Which captures are open and followed, and the sessions that serve them.
#include <gtest/gtest.h>

#include <thread>

#include "shim/capture/session_list.h"
#include "tests/support/never_destroyed.h"

namespace graphpool {
namespace {

constexpr StreamKey kOrigin = 0x1000, kFork = 0x2000, kOther = 0x3000;
hipEvent_t event(std::uintptr_t number) { return reinterpret_cast<hipEvent_t>(number * 16); }

class SessionListTest : public testing::Test {
 protected:
  using Session = OpenSessions::Session;

  ~SessionListTest() override {
    for (const Session& session : sessions_.all()) sessions_.close(session);
    EXPECT_EQ(0, g_open_captures.load());
    EXPECT_EQ(0u, g_followed_captures.load());
  }
  /// A capture that has begun on the stream.
  Session open(StreamKey origin) {
    const Session session = take_idle_session();
    {
      const LockGuard guard(session->lock);
      session->start({reinterpret_cast<hipStream_t>(origin), false}, Signature(), nullptr, CaptureMode::kRecord,
                     nullptr);
    }
    capture_opened(session->mode);
    sessions_.add(origin, session);
    return session;
  }
  static void record(const Session& session, hipEvent_t event) {
    const LockGuard guard(session->lock);
    session->streams.record(event, session->streams.origin(), false);
  }
  static bool knows(const Session& session, hipEvent_t event) {
    const LockGuard guard(session->lock);
    return session->streams.find_event(event) != nullptr;
  }

  OpenSessions& sessions_ = never_destroyed<OpenSessions>();
};

TEST_F(SessionListTest, streams_are_found_until_they_leave_or_the_capture_is_over) {
  const int watchers = g_fork_watchers.load();
  const Session first = open(kOrigin), second = open(kOther);
  sessions_.add(kFork, first);
  EXPECT_EQ(first, sessions_.find(kFork));
  EXPECT_EQ(second, sessions_.find(kOther));
  EXPECT_EQ(2u, sessions_.all().size()) << "a capture of two streams is one";
  EXPECT_EQ(2u, g_followed_captures.load());
  EXPECT_EQ(watchers + 1, g_fork_watchers.load());
  sessions_.leave(kFork, first, false);
  EXPECT_EQ(nullptr, sessions_.find(kFork));
  EXPECT_EQ(first, sessions_.find(kOrigin));
  sessions_.leave(kOrigin, first, true);
  EXPECT_EQ(nullptr, sessions_.find(kOrigin));
  EXPECT_EQ(1u, g_followed_captures.load());
  sessions_.close(second);
  EXPECT_EQ(watchers, g_fork_watchers.load());
}

TEST_F(SessionListTest, an_event_that_no_other_capture_has_noted_takes_no_lock_of_another) {
  const Session first = open(kOrigin), second = open(kOther);
  const auto event = reinterpret_cast<hipEvent_t>(0x5000), foreign = reinterpret_cast<hipEvent_t>(0x6000);
  record(first, event);
  EXPECT_TRUE(first->may_have_noted(event));
  EXPECT_FALSE(first->may_have_noted(foreign));
  {
    const LockGuard guard(second->lock);
    std::thread([&] {
      EXPECT_FALSE(sessions_.forget_event(event, first.get()));
      EXPECT_EQ(first, sessions_.find_event(event));
      EXPECT_EQ(nullptr, sessions_.find_event(foreign));
      sessions_.event_destroyed(foreign);
    }).join();
  }
  EXPECT_TRUE(sessions_.forget_event(event, second.get()));
  EXPECT_TRUE(first->may_have_noted(event)) << "the runtime has noted it there";
  sessions_.close(first);
  sessions_.close(second);
}

TEST_F(SessionListTest, a_capture_is_over_once) {
  const Session first = open(kOrigin), second = open(kOther);
  sessions_.add(kFork, first);
  {
    const LockGuard guard(first->lock);
    EXPECT_NE(0u, first->serial);
  }
  sessions_.close(first);
  sessions_.close(first);
  EXPECT_EQ(1, g_open_captures.load()) << "the other one";
  EXPECT_EQ(nullptr, sessions_.find(kFork));
  const LockGuard guard(first->lock);
  EXPECT_EQ(0u, first->serial) << "a thread that fed it finds that it is over";
}

TEST_F(SessionListTest, a_stream_joins_no_capture_that_is_over) {
  const Session session = open(kOrigin);
  sessions_.join(kFork, session);
  EXPECT_EQ(session, sessions_.find(kFork));
  sessions_.close(session);
  sessions_.join(kFork, session);
  EXPECT_EQ(nullptr, sessions_.find(kFork));
  EXPECT_EQ(0u, g_followed_captures.load());
}

TEST_F(SessionListTest, a_capture_that_is_left_alone_is_open_still) {
  const Session session = open(kOrigin);
  sessions_.leave_alone(session);
  EXPECT_EQ(nullptr, sessions_.find(kOrigin));
  EXPECT_EQ(0u, g_followed_captures.load());
  EXPECT_EQ(1, g_open_captures.load());
  capture_closed(session->mode, session->thread);
}

TEST_F(SessionListTest, an_event_is_of_the_capture_that_recorded_it_last) {
  const Session first = open(kOrigin), second = open(kOther);
  record(first, event(1));
  EXPECT_EQ(first, sessions_.find_event(event(1)));
  EXPECT_EQ(nullptr, sessions_.find_event(event(2)));
  record(second, event(1));
  EXPECT_TRUE(sessions_.forget_event(event(1), second.get()));
  EXPECT_EQ(second, sessions_.find_event(event(1)));
  EXPECT_FALSE(knows(first, event(1)));
  EXPECT_TRUE(sessions_.forget_event(event(1), second.get())) << "the runtime has noted it there still";
  EXPECT_FALSE(sessions_.forget_event(event(2), second.get()));
}

TEST_F(SessionListTest, a_capture_that_is_alone_keeps_what_it_records) {
  const Session only = open(kOrigin);
  record(only, event(1));
  EXPECT_FALSE(sessions_.forget_event(event(1), only.get()));
  EXPECT_EQ(only, sessions_.find_event(event(1)));
  EXPECT_EQ(nullptr, sessions_.find_event(event(2)));
}

TEST_F(SessionListTest, a_destroyed_event_is_of_no_capture) {
  for (const bool alone : {true, false}) {
    const Session session = open(kOrigin), other = alone ? nullptr : open(kOther);
    record(session, event(1));
    record(session, event(2));
    sessions_.event_destroyed(event(1));
    EXPECT_FALSE(knows(session, event(1)));
    EXPECT_TRUE(knows(session, event(2)));
    sessions_.close(session);
    if (other != nullptr) sessions_.close(other);
  }
}

TEST_F(SessionListTest, rule_30_sessions_are_used_again_by_the_thread_that_had_them) {
  Session session = take_idle_session();
  const CaptureSession* const first = session.get();
  EXPECT_NE(first, take_idle_session().get()) << "it serves a capture";
  {
    const LockGuard guard(session->lock);
    session->fate.reject("a test");
  }
  session.reset();
  session = take_idle_session();
  {
    const LockGuard guard(session->lock);
    EXPECT_EQ(nullptr, session->fate.rejected()) << "of the capture before";
  }
  if (session->lock.owned_by_nobody()) GTEST_SKIP() << "the kernel has no membarrier";
  const CaptureSession* const second = session.get();
  session.reset();
  std::thread([&] {
    const CaptureSession* const theirs = take_idle_session().get();
    EXPECT_NE(first, theirs);
    EXPECT_NE(second, theirs) << "this thread has never owned its lock";
  }).join();
}

}  // namespace
}  // namespace graphpool
