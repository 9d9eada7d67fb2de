// compile_holder_watch_test.cpp: who stands still lends its permit.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "shim/compile/holder_watch.h"
#include "tests/unit/permits_fixture.h"

namespace graphpool {
namespace {

using HolderWatch = Permits;

TEST_F(HolderWatch, rule_34_AHolderWithoutProcessorTimeLendsItsPermitOn) {
  limits_.most = 1;
  static_cast<void>(taken());
  Permit second;
  for (int second_s = 0; second_s < 9; ++second_s) {
    table_.look_at_holders(kIdleNs);
    EXPECT_EQ(take(second), Admission::kFull) << second_s;
    FakeMachine::clock_ns += 1'000'000'000;
  }
  FakeMachine::clock_ns += 2'000'000'000;
  table_.look_at_holders(kIdleNs);
  EXPECT_EQ(table_.in_flight(), 0u);
  EXPECT_EQ(take(second), Admission::kGranted);
  // It moves again: counted again.
  FakeMachine::process(getpid(), 100, 500);
  FakeMachine::clock_ns += 1'000'000'000;
  table_.look_at_holders(kIdleNs);
  EXPECT_EQ(table_.in_flight(), 2u);
}

TEST_F(HolderWatch, rule_34_AHolderThatRunsAgainCountsAgain) {
  finish(taken(), kMiB);
  limits_.most = 1;
  static_cast<void>(taken());
  table_.look_at_holders(kIdleNs);
  FakeMachine::clock_ns += 11'000'000'000;
  table_.look_at_holders(kIdleNs);
  EXPECT_EQ(table_.in_flight(), 0u);
  Permit second;
  EXPECT_EQ(table_.try_take(request_, limits_, nullptr, second), Admission::kAskMemory) << "the holders are looked at";
  FakeMachine::process(getpid(), 100, 1, 1, 'R');
  FakeMachine::clock_ns += 60'000'000;
  table_.look_at_holders(kIdleNs);
  EXPECT_EQ(take(second), Admission::kFull);
  FakeMachine::process(getpid(), 100, 1, 1, 'S');
  FakeMachine::clock_ns += 11'000'000'000;
  table_.look_at_holders(kIdleNs);
  EXPECT_EQ(take(second), Admission::kGranted);
}

TEST_F(HolderWatch, rule_34_AHolderThatWaitsForAProcessorLendsNothing) {
  limits_.most = 1;
  static_cast<void>(taken());
  FakeMachine::process(getpid(), 100, 0, 1, 'R');
  for (int i = 0; i < 3; ++i) {
    table_.look_at_holders(kIdleNs);
    EXPECT_EQ(table_.in_flight(), 1u) << "others have the processors";
    FakeMachine::clock_ns += 11'000'000'000;
  }
}

TEST_F(HolderWatch, rule_34_AHolderThatCannotBeLookedAtIsTakenToRun) {
  limits_.most = 1;
  const Permit holder = taken();
  const auto is_counted = [this] {
    for (int i = 0; i < 3; ++i) {
      table_.look_at_holders(kIdleNs);
      FakeMachine::clock_ns += 11'000'000'000;
    }
    return table_.in_flight() == 1;
  };
  memory_->slots[holder.index].holder.space = 7;
  EXPECT_TRUE(is_counted()) << "another container has a process of this number";
  memory_->slots[holder.index].holder.space = 0;
  const std::string stat = std::exchange(FakeMachine::files["/proc/" + std::to_string(getpid()) + "/stat"], "");
  EXPECT_TRUE(is_counted()) << "processes are hidden";
  FakeMachine::files["/proc/" + std::to_string(getpid()) + "/stat"] = stat;
  EXPECT_FALSE(is_counted()) << "it stands still";
}

TEST_F(HolderWatch, rule_34_APoolThreadWhoseChildCompilesLendsNothing) {
  constexpr pid_t kChild = 77;
  request_.kind = HolderKind::kPoolThread;
  const Permit holder = taken();
  memory_->slots[holder.index].riders[0] = {{kChild, 300, 0}, getpid()};
  for (std::uint64_t i = 0; i < 10; ++i) {
    FakeMachine::process(kChild, 300, i * 100, getpid());
    table_.look_at_holders(kIdleNs);
    EXPECT_EQ(table_.in_flight(), 1u) << i;
    FakeMachine::clock_ns += 1'000'000'000;
  }
  for (int i = 0; i < 2; ++i) {
    FakeMachine::clock_ns += 1'000'000'000;
    table_.look_at_holders(kIdleNs);
  }
  EXPECT_EQ(table_.in_flight(), 0u) << "the child stands still, too";
}

TEST_F(HolderWatch, rule_34_ATickNowAndThenIsNotMoving) {
  static_cast<void>(taken());
  for (std::uint64_t i = 0; i < 220; ++i) {
    FakeMachine::process(getpid(), 100, i / 4);  // one of twenty of a processor
    table_.look_at_holders(kIdleNs);
    FakeMachine::clock_ns += 50'000'000;
  }
  EXPECT_EQ(table_.in_flight(), 0u);
}

TEST_F(HolderWatch, MemoryIsLookedAtMoreOftenThanProcessorTime) {
  finish(taken(), 100 * kMiB);
  static_cast<void>(taken());
  for (std::uint64_t grown = 0; grown <= 100; grown += 20) {
    FakeMachine::memory_of(getpid(), 0, grown << 10, grown << 10);
    table_.look_at_holders(kIdleNs);
    EXPECT_EQ(table_.outstanding_bytes(), (100 - grown) * kMiB);
    FakeMachine::clock_ns += 50'000'000;
  }
}

}  // namespace
}  // namespace graphpool
