#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "shim/base/trace.h"

namespace graphpool {
namespace {

constexpr const char* kText = "a detail";

/// Tests of one process: the trace is begun once. Each test looks at the events of threads of its own.
class Trace : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    { const TraceSpan before(TraceKind::kLaunch); }
    EXPECT_EQ(0u, trace_begins());
    EXPECT_TRUE(trace_seen().events.empty()) << "nothing is traced before";
    begin_trace(TraceUse::kFile);
  }
  static std::vector<TraceEvent> events_of(std::uint32_t thread) {
    std::vector<TraceEvent> found;
    for (const TraceEvent& event : trace_seen().events)
      if (event.thread == thread) found.push_back(event);
    return found;
  }
  /// Runs it in a thread; returns that thread's events.
  template <typename Work>
  static std::vector<TraceEvent> traced(Work&& work) {
    std::uint32_t id = 0;
    std::thread([&] {
      id = static_cast<std::uint32_t>(gettid());
      work();
    }).join();
    return events_of(id);
  }
};

TEST_F(Trace, SpansLieInsideOneAnotherAndSayWhatTheyAreAbout) {
  const std::vector<TraceEvent> events = traced([] {
    const TraceSpan outer(TraceKind::kInstantiate);
    tell_trace("outer", 7, 3);
    {
      const TraceSpan inner(TraceKind::kMadeReal);
      tell_trace("inner", 8);
    }
    tell_trace(nullptr, 9);
  });
  ASSERT_EQ(2u, events.size());
  const TraceEvent &inner = events[0], &outer = events[1];
  EXPECT_EQ(TraceKind::kMadeReal, inner.kind);
  EXPECT_EQ(TraceKind::kInstantiate, outer.kind);
  EXPECT_STREQ("inner", inner.detail);
  EXPECT_STREQ("outer", outer.detail) << "null says nothing";
  EXPECT_EQ(8u, inner.graph);
  EXPECT_EQ(9u, outer.graph);
  EXPECT_EQ(3u, outer.value) << "0 says nothing";
  EXPECT_LE(outer.begin, inner.begin);
  EXPECT_LE(inner.begin, inner.end);
  EXPECT_LE(inner.end, outer.end);
}

TEST_F(Trace, WhatIsSaidOutsideOfSpansIsNobodys) {
  EXPECT_TRUE(traced([] { tell_trace(kText, 1); }).empty());
}

TEST_F(Trace, ADroppedSpanIsNone) {
  EXPECT_TRUE(traced([] {
                TraceSpan span(TraceKind::kCopies);
                span.drop();
              }).empty());
}

TEST_F(Trace, TimesAreThoseOfTheMonotonicClock) {
  timespec before{}, after{};
  clock_gettime(CLOCK_MONOTONIC, &before);
  const std::vector<TraceEvent> events = traced([] {
    const TraceSpan span(TraceKind::kLaunch);
    usleep(20'000);
  });
  clock_gettime(CLOCK_MONOTONIC, &after);
  const auto ns = [](const timespec& at) {
    return static_cast<std::uint64_t>(at.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(at.tv_nsec);
  };
  ASSERT_EQ(1u, events.size());
  constexpr std::uint64_t kOff = 1'000'000;  // what the ratio of two clocks may be off by, far too much
  EXPECT_GT(events[0].begin + kOff, ns(before));
  EXPECT_LT(events[0].end, ns(after) + kOff);
  EXPECT_GT(events[0].end - events[0].begin, 19'000'000u);
}

TEST_F(Trace, ARingKeepsTheLastEventsAndCountsTheOthers) {
  constexpr std::uint64_t kMore = 1000;
  const TraceSeen before = trace_seen();
  std::vector<TraceEvent> events = traced([] {
    for (std::uint64_t i = 1; i <= kTraceRing + kMore; ++i) {
      const TraceSpan span(TraceKind::kLaunch);
      tell_trace(kText, i);
    }
  });
  ASSERT_EQ(kTraceRing, events.size());
  const TraceSeen after = trace_seen();
  EXPECT_GE(after.lost, before.lost + kMore);
  EXPECT_EQ(before.events.size() + before.lost + kTraceRing + kMore, after.events.size() + after.lost);
  for (std::size_t i = 0; i < events.size(); ++i) EXPECT_EQ(kMore + 1 + i, events[i].graph);
}

TEST_F(Trace, WhatIsReadMeanwhileIsWhole) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      for (std::uint64_t number = 1; !stop.load(); ++number) {
        const std::uint64_t now = trace_begins();
        trace({TraceKind::kGivenBack, 0, now, now, kText, number, ~number});
      }
    });
  for (int i = 0; i < 20; ++i) {
    for (const TraceEvent& event : trace_seen().events) {
      if (event.kind != TraceKind::kGivenBack) continue;
      ASSERT_EQ(event.graph, ~event.value);
      ASSERT_EQ(event.begin, event.end);
      ASSERT_EQ(kText, event.detail);
    }
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Trace, RingsOfEndedThreadsServeAgain) {
  constexpr std::size_t kThreads = kMostTraceRings + 20;
  std::vector<std::uint32_t> ids;
  for (std::size_t i = 0; i < kThreads; ++i)
    std::thread([&ids] {
      const TraceSpan span(TraceKind::kUpdate);
      ids.push_back(static_cast<std::uint32_t>(gettid()));
    }).join();
  const std::vector<TraceEvent> events = trace_seen().events;
  for (const std::uint32_t id : ids)
    EXPECT_TRUE(std::any_of(events.begin(), events.end(), [id](const TraceEvent& event) {
      return event.thread == id && event.kind == TraceKind::kUpdate;
    }));
}

TEST_F(Trace, KeptMemoryIsNotedNowAndThen) {
  const auto kept = [] {
    const std::vector<TraceEvent> events = trace_seen().events;
    return std::count_if(events.begin(), events.end(), [](const TraceEvent& e) { return e.kind == TraceKind::kKept; });
  };
  const auto before = kept();
  std::thread([] {
    for (int i = 0; i < 100; ++i) trace_kept(0, 4096);
  }).join();
  const auto after = kept();
  EXPECT_GT(after, before);
  EXPECT_LT(after, before + 50);
}

/// The last: it ends the trace.
TEST_F(Trace, XEndsInAForkedChildAndWhenToldSo) {
  ASSERT_TRUE(trace_on());
  EXPECT_EXIT(_exit(trace_on() ? 1 : 0), ::testing::ExitedWithCode(0), "");
  EXPECT_TRUE(trace_on());
  end_trace();
  EXPECT_TRUE(traced([] { const TraceSpan span(TraceKind::kUpdate); }).empty());
}

}  // namespace
}  // namespace graphpool
