// compile_permit_table_test.cpp: who holds permits, who rides, and what sleeps.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <utility>

#include "tests/unit/permits_fixture.h"

namespace graphpool {
namespace {

TEST_F(Permits, WhoHoldsThem) {
  PermitHolder holders[2];
  EXPECT_EQ(table_.holders(holders, 2), 0u);
  Permit permits[3];
  permits[0] = taken();
  ASSERT_EQ(table_.holders(holders, 2), 1u);
  EXPECT_EQ(holders[0].process, FakeMachine::machine().process());
  EXPECT_STREQ(holders[0].size_class, "cc c 0K");
  EXPECT_EQ(holders[0].state, HolderState::kRuns);
  request_.size_class = "ld link 0K";
  permits[1] = taken();
  memory_->slots[permits[1].index].state = HolderState::kLent;
  memory_->slots[permits[0].index].state = HolderState::kSleeps;
  ASSERT_EQ(table_.holders(holders, 2), 2u);
  EXPECT_EQ(holders[0].state, HolderState::kSleeps);
  EXPECT_EQ(holders[1].state, HolderState::kLent);
  EXPECT_STREQ(holders[1].size_class, "ld link 0K");
  permits[2] = taken();
  EXPECT_EQ(table_.holders(holders, 2), 2u) << "as many as there is room for";
  memory_->slots[permits[0].index].class_index = kMostClasses;  // whatever others have written
  ASSERT_EQ(table_.holders(holders, 2), 2u);
  EXPECT_STREQ(holders[0].size_class, "");
  table_.give_back(permits[1], kNothing);
  table_.give_back(permits[2], kNothing);
  EXPECT_EQ(table_.holders(holders, 2), 1u);
}

TEST_F(Permits, GivenBackTwiceCountsOnce) {
  const Permit first = taken();
  table_.give_back(first, kNothing);
  const Permit second = taken();
  table_.give_back(first, kNothing);
  EXPECT_EQ(table_.in_flight(), 1u);
  table_.give_back(second, kNothing);
  EXPECT_EQ(table_.in_flight(), 0u);
}

TEST_F(Permits, rule_33_APoolThreadThatWaitsForWorkDoesNotCount) {
  limits_.most = 1;
  facts_ = {16 * kGiB, 16 * kGiB, 0};
  request_.kind = HolderKind::kPoolThread;
  const Permit pool = taken();
  const std::uint32_t turn = *table_.turn();
  table_.sleep(pool);
  EXPECT_NE(*table_.turn(), turn) << "others ask again";
  EXPECT_EQ(table_.in_flight(), 0u);
  EXPECT_EQ(table_.outstanding_bytes(), kUnknownSizeBytes) << "it may go on at once";
  EXPECT_TRUE(table_.wake_up(pool, limits_, false));
  EXPECT_EQ(table_.in_flight(), 1u);
  table_.sleep(pool);
  const Permit other = taken();
  EXPECT_FALSE(table_.wake_up(pool, limits_, false)) << "as many run as may";
  EXPECT_EQ(table_.in_flight(), 1u);
  EXPECT_TRUE(table_.wake_up(pool, limits_, true)) << "it cannot wait";
  EXPECT_EQ(table_.in_flight(), 2u);
  table_.give_back(other, kNothing);
  table_.sleep(pool);
  FakeMachine::clock_ns += 2 * kShortSleep;
  EXPECT_EQ(table_.outstanding_bytes(), 0u);
  EXPECT_FALSE(table_.wake_up(pool, limits_, false)) << "memory has to be looked at again";
  table_.give_back(pool, kNothing);
  EXPECT_FALSE(table_.wake_up(pool, limits_, true)) << "nothing is held";
}

TEST_F(Permits, rule_33_WhoeverMayServeACallThatSleepsRides) {
  request_.kind = HolderKind::kPoolThread;
  const Permit pool = taken();
  FakeMachine::process(getpid(), 100, 0, 1, 'S');
  EXPECT_FALSE(table_.permit_to_serve().held()) << "a pool thread is no call";
  table_.give_back(pool, kNothing);
  request_.kind = HolderKind::kCall;
  const Permit call = taken();
  FakeMachine::process(getpid(), 100, 0, 1, 'R');
  EXPECT_FALSE(table_.permit_to_serve().held()) << "it compiles by itself";
  FakeMachine::process(getpid(), 100, 0, 1, 'S');
  const Permit served = table_.permit_to_serve();
  ASSERT_TRUE(served.held());
  EXPECT_TRUE(table_.lasts(served));
  table_.give_back(call, kNothing);
  EXPECT_FALSE(table_.lasts(served));
}

TEST_F(Permits, rule_35_OneChildAtATimeRides) {
  const Permit holder = taken();
  FakeMachine::process(1000, 5, 0);
  const auto ride_as = [this](pid_t, const ProcessName& parent, std::uint32_t generation) {
    int result[2];
    EXPECT_EQ(pipe(result), 0);
    const pid_t child = fork();
    if (child == 0) {
      FakeMachine::process(getpid(), 300, 0);
      const char rides = table_.ride(parent, generation).riding() ? 'y' : 'n';
      static_cast<void>(!write(result[1], &rides, 1));
      for (;;) pause();
    }
    char rides = '?';
    EXPECT_EQ(read(result[0], &rides, 1), 1);
    close(result[0]);
    close(result[1]);
    FakeMachine::process(child, 300, 0);
    return std::pair(child, rides == 'y');
  };
  const auto end = [](pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    FakeMachine::files.erase("/proc/" + std::to_string(child) + "/stat");
  };
  const ProcessName self{getpid(), 100};
  const auto [stranger, strange] = ride_as(0, {getpid(), 99}, 0);
  EXPECT_FALSE(strange) << "an earlier process with this number";
  const auto [late, later] = ride_as(0, self, holder.generation + 1);
  EXPECT_FALSE(later) << "another generation";
  const auto [first, rides] = ride_as(0, self, holder.generation);
  EXPECT_TRUE(rides);
  const auto [second, also] = ride_as(0, self, holder.generation);
  EXPECT_FALSE(also) << "one child at a time";
  const auto [grandchild, nested] = ride_as(0, {first, 300}, holder.generation);
  EXPECT_TRUE(nested) << "a child of the rider";
  EXPECT_EQ(table_.in_flight(), 1u);
  end(first);
  const auto [third, next] = ride_as(0, self, holder.generation);
  EXPECT_TRUE(next) << "the first was killed";
  table_.give_back(holder, kNothing);
  const auto [fourth, gone] = ride_as(0, self, holder.generation);
  EXPECT_FALSE(gone) << "the permit was given back";
  for (const pid_t child : {stranger, late, second, grandchild, third, fourth}) end(child);
}

TEST_F(Permits, rule_35_ACallIsRiddenOnOnlyWhileItsThreadSleeps) {
  request_.kind = HolderKind::kCall;
  static_cast<void>(taken());
  const auto rides = [&] {
    const pid_t child = fork();
    if (child == 0) {
      FakeMachine::process(getpid(), 300, 0);
      _exit(table_.ride({getppid(), 100}, 0).held() ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status) == 1;
  };
  FakeMachine::process(getpid(), 100, 0, 1, 'R');
  EXPECT_FALSE(rides()) << "it compiles by itself";
  FakeMachine::process(getpid(), 100, 0, 1, 'S');
  EXPECT_TRUE(rides());
}

}  // namespace
}  // namespace graphpool
