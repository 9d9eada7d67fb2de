// compile_shared_permits_test.cpp: the lock of a table outlives who dies, or stops, with it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "tests/unit/permits_fixture.h"

namespace graphpool {
namespace {

using TableLocks = Permits;

TEST_F(TableLocks, AProcessKilledInsideTheTableLeavesItUsable) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(memory_->lock_table() ? 0 : 1);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(table_.in_flight(), 0u);
  static_cast<void>(taken());
}

TEST_F(TableLocks, AProcessStoppedInsideTheTableHoldsNobodyUp) {
  std::atomic<bool> locked{false}, go{false};
  std::thread holder([&] {
    locked = memory_->lock_table();
    while (!go) usleep(1000);
    memory_->lock.unlock();
  });
  while (!locked) usleep(1000);
  Permit permit;
  EXPECT_EQ(take(permit), Admission::kUnusable);
  go = true;
  holder.join();
  EXPECT_EQ(take(permit), Admission::kGranted);
}

}  // namespace
}  // namespace graphpool
