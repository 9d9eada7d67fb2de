// compile_permit_slots_test.cpp: permits come back from the dead; the deaths are those of real processes. Their states.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <thread>

#include "tests/unit/permits_fixture.h"

namespace graphpool {
namespace {

using Slots = Permits;

/// A process that takes a permit, says so and stays. with_child: it forks a child that lives on.
class Holder {
 public:
  Holder(PermitTable& table, const PermitRequest& request, bool with_child = false) {
    int ready[2];
    if (pipe(ready) != 0) return;
    process_ = fork();
    if (process_ == 0) {
      FakeMachine::process(getpid(), 200, 0);
      Permit permit;
      PermitLimits limits;
      const MemoryFacts unknown;
      char result = table.try_take(request, limits, &unknown, permit) == Admission::kGranted ? 'y' : 'n';
      pid_t child = 0;
      if (with_child && (child = fork()) == 0)
        for (;;) pause();
      static_cast<void>(!write(ready[1], &result, 1));
      static_cast<void>(!write(ready[1], &child, sizeof child));
      for (;;) pause();
    }
    static_cast<void>(!read(ready[0], &got_, 1));
    static_cast<void>(!read(ready[0], &child_, sizeof child_));
    close(ready[0]);
    close(ready[1]);
  }
  ~Holder() {
    if (child_ > 0) kill(child_, SIGKILL);
    end();
  }
  bool holds() const { return got_ == 'y'; }
  pid_t child() const { return child_; }
  void end() {
    if (process_ > 0) kill(process_, SIGKILL), waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  pid_t process_ = 0, child_ = 0;
  char got_ = 'n';
};

TEST_F(Slots, rule_34_APermitDiesWithItsHolder) {
  limits_.most = 1;
  Holder holder(table_, request_);
  ASSERT_TRUE(holder.holds());
  Permit permit;
  EXPECT_EQ(take(permit), Admission::kFull);
  holder.end();
  EXPECT_EQ(take(permit), Admission::kGranted);
}

TEST_F(Slots, rule_34_AlsoWhenAForkedChildLivesOn) {
  limits_.most = 1;
  Holder holder(table_, request_, true);
  ASSERT_TRUE(holder.holds());
  Permit permit;
  EXPECT_EQ(take(permit), Admission::kFull);
  holder.end();
  ASSERT_EQ(kill(holder.child(), 0), 0) << "the child lives";
  EXPECT_EQ(take(permit), Admission::kGranted);
}

TEST_F(Slots, rule_34_AForkedChildHoldsNothing) {
  const Permit permit = taken();
  const pid_t child = fork();
  if (child == 0) {
    table_.give_back(permit, kNothing);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(table_.in_flight(), 1u);
}

TEST_F(Slots, rule_34_ExecGivesBack) {
  int gate[2];
  ASSERT_EQ(pipe(gate), 0);
  const pid_t child = fork();
  if (child == 0) {
    FakeMachine::process(getpid(), 200, 0);
    Permit permit;
    static_cast<void>(take(permit));
    dup2(gate[0], 0);
    close(gate[1]);
    execl("/bin/cat", "cat", nullptr);
    _exit(1);
  }
  close(gate[0]);
  for (int i = 0; i < 500 && (table_.in_flight() != 0 || memory_->figures.counts().granted == 0); ++i) usleep(10'000);
  EXPECT_EQ(memory_->figures.counts().granted, 1u);
  EXPECT_EQ(table_.in_flight(), 0u) << "the program after exec is no compilation";
  EXPECT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "and runs";
  close(gate[1]);
  waitpid(child, nullptr, 0);
}

TEST_F(Slots, AThreadThatEndsGivesItsPermitBack) {
  limits_.most = 1;
  std::thread([&] { static_cast<void>(taken()); }).join();
  EXPECT_EQ(table_.in_flight(), 0u);
}

TEST_F(Slots, AStateIsLeftOnlyForOneThatMayFollow) {
  SharedPermit slot{};
  slot.kind = HolderKind::kPoolThread;
  EXPECT_TRUE(slot.change_state(HolderState::kLent));
  EXPECT_FALSE(slot.change_state(HolderState::kLent)) << "it is lent already";
  EXPECT_TRUE(slot.change_state(HolderState::kSleeps));
  EXPECT_FALSE(slot.change_state(HolderState::kLent)) << "it is not looked at while it sleeps";
  EXPECT_EQ(slot.state, HolderState::kSleeps);
  EXPECT_TRUE(slot.change_state(HolderState::kRuns));
  slot.kind = HolderKind::kProcess;
  EXPECT_FALSE(slot.change_state(HolderState::kSleeps)) << "only threads of a pool wait for work";
  EXPECT_EQ(slot.state, HolderState::kRuns);
  slot.state = static_cast<HolderState>(77);  // whatever others have written
  EXPECT_FALSE(slot.change_state(HolderState::kLent));
  EXPECT_TRUE(slot.change_state(HolderState::kRuns));
}

TEST_F(Slots, AThreadThatDiesWhileItFillsOneLeavesItFree) {
  std::thread([&] { EXPECT_EQ(memory_->slots.lock_free_one(), 0u); }).join();
  EXPECT_EQ(table_.in_flight(), 0u);
  const Permit permit = taken();
  EXPECT_EQ(permit.index, 0u);
  EXPECT_EQ(permit.generation, 2u) << "what it had begun is another one";
}

}  // namespace
}  // namespace graphpool
