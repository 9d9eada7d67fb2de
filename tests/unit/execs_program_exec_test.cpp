// The states of the exec that a program holds.
#include <gtest/gtest.h>

#include "shim/execs/program_exec.h"
#include "shim/recording/reason_counts.h"

namespace graphpool {
namespace {

TEST(LaunchesUnderWay, an_exec_without_launches_goes_when_it_is_destroyed) {
  LaunchesUnderWay launches;
  launches.begin();
  EXPECT_FALSE(launches.end()) << "the program still has it";
  EXPECT_TRUE(launches.destroy());
}

TEST(LaunchesUnderWay, a_destroyed_exec_goes_with_the_last_launch_under_way) {
  LaunchesUnderWay launches;
  launches.begin();
  launches.begin();
  EXPECT_FALSE(launches.destroy());
  EXPECT_FALSE(launches.end());
  EXPECT_TRUE(launches.end());
}

TEST(ProgramExec, becomes_the_programs_own) {
  Recording recording;
  Variant variant;
  ProgramExec exec;
  exec.recording = &recording;
  exec.variant = &variant;
  EXPECT_EQ(ExecState::kServed, exec.state());
  const LockGuard exec_guard(exec.lock);
  const LockGuard guard(g_recordings_lock);
  recording.users = 1;
  auto own = std::make_unique<Variant>();
  Variant* const serving = own.get();
  exec.become_own(std::move(own));
  EXPECT_EQ(ExecState::kOwn, exec.state());
  EXPECT_EQ(serving, exec.variant);
  EXPECT_EQ(0u, recording.users);
}

TEST(ProgramExec, that_was_reached_otherwise_is_left_once) {
  const std::uint64_t before = g_left_to_runtime.sum();
  ProgramExec exec;
  EXPECT_EQ(ExecState::kOwn, exec.state());
  EXPECT_TRUE(exec.followed());
  exec.leave("a test");
  exec.leave("another one");
  EXPECT_EQ(ExecState::kLeft, exec.state());
  EXPECT_FALSE(exec.followed());
  EXPECT_EQ(before + 1, g_left_to_runtime.sum());
}

TEST(ProgramExec, a_binding_that_it_gets_says_how_it_is_served) {
  ProgramExec exec;
  const LockGuard guard(exec.lock);
  exec.bind(Binding(), Way::kUpdate);
  EXPECT_TRUE(exec.set_by_program());
  exec.bind(Binding(), Way::kSame);
  EXPECT_FALSE(exec.set_by_program());
}

}  // namespace
}  // namespace graphpool
