// compile_scope_figures_test.cpp: what a scope did, and since when.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <limits>

#include "tests/unit/permits_fixture.h"

namespace graphpool {
namespace {

using Figures = Permits;

TEST_F(Figures, TheMostInFlightSinceATime) {
  Permit permits[3];
  const std::uint64_t first_ns = FakeMachine::clock_ns;
  for (Permit& permit : permits) permit = taken();
  const std::uint64_t second_ns = ++FakeMachine::clock_ns;
  EXPECT_EQ(table_.figures().peak_in_flight(), 3u);
  EXPECT_EQ(table_.figures().peak_in_flight(first_ns), 3u);
  table_.give_back(permits[0], kNothing);
  EXPECT_EQ(table_.figures().peak_in_flight(second_ns), 3u) << "they were there until then";
  const std::uint64_t third_ns = ++FakeMachine::clock_ns;
  EXPECT_EQ(table_.figures().peak_in_flight(third_ns), 0u);
  table_.give_back(permits[1], kNothing);
  static_cast<void>(taken());
  EXPECT_EQ(table_.figures().peak_in_flight(third_ns), 2u);
  EXPECT_EQ(table_.figures().peak_in_flight(second_ns), 3u);
  EXPECT_EQ(table_.figures().peak_in_flight(++FakeMachine::clock_ns), 0u);
  EXPECT_EQ(table_.figures().counts().granted, 4u);
}

TEST_F(Figures, WhatAllHeldSinceATime) {
  finish(taken(), 300 * kMiB);
  EXPECT_EQ(table_.figures().most_held_bytes(0), 300 * kMiB);
  const std::uint64_t later_ns = ++FakeMachine::clock_ns;
  EXPECT_EQ(table_.figures().most_held_bytes(later_ns), 0u);
  const Permit first = taken(), second = taken();
  FakeMachine::memory_of(getpid(), 700 << 10, 20 << 10, 20 << 10);
  table_.look_at_holders(kIdleNs);
  EXPECT_EQ(table_.figures().most_held_bytes(later_ns), 40 * kMiB) << "as they were last seen";
  finish(first, 50 * kMiB);
  EXPECT_EQ(table_.figures().most_held_bytes(later_ns), 70 * kMiB) << "one at its peak, and the other";
  finish(second, 10 * kMiB);
  EXPECT_EQ(table_.figures().most_held_bytes(later_ns), 70 * kMiB);
  EXPECT_EQ(table_.figures().most_held_bytes(0), 300 * kMiB);
}

TEST_F(Figures, FiguresAreAnEighthOffAtMost) {
  const std::uint64_t none = table_.figures().least_headroom_bytes(0);
  EXPECT_EQ(none, std::numeric_limits<std::uint64_t>::max());
  for (const std::uint64_t bytes :
       {none, none / 3, 123'456'789'012ul, 9ul * kMiB, 1000ul, 17ul, 16ul, 15ul, 1ul, 0ul}) {
    table_.figures().seen_headroom(bytes, FakeMachine::clock_ns);
    EXPECT_EQ(table_.figures().least_headroom_bytes(0), bytes);
    table_.figures().seen_headroom(bytes + std::min(none - bytes, bytes / 7 + 1), FakeMachine::clock_ns);
    EXPECT_EQ(table_.figures().least_headroom_bytes(0), bytes) << "another step";
  }
  const std::uint64_t later_ns = ++FakeMachine::clock_ns;
  table_.figures().seen_headroom(160, FakeMachine::clock_ns);
  table_.figures().seen_headroom(175, FakeMachine::clock_ns);  // of the same step: the last one of it is told
  EXPECT_EQ(table_.figures().least_headroom_bytes(later_ns), 175u);
}

TEST_F(Figures, CountsOfAKilledProcessStay) {
  const pid_t child = fork();
  if (child == 0) {
    Permit permit;
    static_cast<void>(take(permit));
    table_.figures().add(&ScopeCounts::waited_ns, 5);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(table_.in_flight(), 0u);
  table_.figures().add(&ScopeCounts::waited_ns, 2);
  const ScopeCounts counts = table_.figures().counts();
  EXPECT_EQ(counts.granted, 1u);
  EXPECT_EQ(counts.waited_ns, 7u);
  EXPECT_EQ(counts.waited + counts.ridden + counts.went_on + counts.without, 0u);
  EXPECT_EQ(table_.figures().peak_in_flight(), 1u);
}

}  // namespace
}  // namespace graphpool
