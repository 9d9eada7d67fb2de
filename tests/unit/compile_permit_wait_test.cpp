// compile_permit_wait_test.cpp: waits end, and are what a guest may do.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "shim/base/log.h"
#include "shim/base/waits.h"
#include "shim/compile/permit_wait.h"
#include "shim/compile/shared_memory.h"
#include "tests/unit/fake_machine.h"

namespace graphpool {
namespace {

constexpr ProcessMemory kNothing{};

class PermitWait : public testing::Test {
 protected:
  PermitWait() {
    FakeMachine::reset();
    memory_ = open_permits(Scope::kProcess);
    table_ = PermitTable(*memory_, FakeMachine::machine());
    settings_.max.count = 1;
    request_.size_class = "x";
    open_log(LogLevel::kWarn, "");
  }
  bool take(Permit& permit) {
    return wait_for_permit(table_, FakeMachine::machine(), settings_, request_, {}, counters_, permit);
  }
  /// The holder compiles on: its processor time grows.
  static void busy() {
    static std::uint64_t ticks = 0;
    FakeMachine::process(getpid(), 100, ticks += 100);
  }

  /// Never unmapped: permits that a test still holds are on the list of mutexes that the kernel and the C library walk.
  SharedPermits* memory_ = nullptr;
  PermitTable table_;
  PermitSettings settings_;
  PermitRequest request_;
  PermitCounters counters_;
};

TEST_F(PermitWait, WithoutAnythingRunningNothingIsWaitedForNorRead) {
  FakeMachine::files.clear();
  FakeMachine::process(getpid(), 100, 0);
  Permit permit;
  EXPECT_TRUE(take(permit));
  EXPECT_EQ(FakeMachine::waits, 0);
  EXPECT_EQ(counters_.taken, 1u);
  EXPECT_EQ(counters_.most_in_flight, 1u);
}

TEST_F(PermitWait, ABurstOfUnknownSizeIsWaitedForOnlyForAMoment) {
  FakeMachine::meminfo(8 << 20, 3 << 20);
  Permit permit;
  const std::uint64_t before_ns = FakeMachine::clock_ns;
  EXPECT_TRUE(take(permit));
  EXPECT_GT(FakeMachine::waits, 0);
  EXPECT_LE(FakeMachine::clock_ns - before_ns, 2 * 25'000'000u);
  EXPECT_EQ(counters_.waited, 1u);
}

TEST_F(PermitWait, WaitsUntilOneComesBack) {
  Permit first, second;
  EXPECT_TRUE(take(first));
  FakeMachine::on_wait = [&] {
    busy();
    if (FakeMachine::waits == 5) table_.give_back(first, kNothing);
  };
  EXPECT_TRUE(take(second));
  EXPECT_EQ(FakeMachine::waits, 5);
  EXPECT_EQ(counters_.waited, 1u);
  EXPECT_EQ(counters_.waited_ns, 5 * kAskEvery);
  const ScopeCounts scope = table_.figures().counts();
  EXPECT_EQ(scope.granted, 2u);
  EXPECT_EQ(scope.waited, 1u);
  EXPECT_EQ(scope.waited_ns, 5 * kAskEvery);
  EXPECT_EQ(counters_.went_on, 0u);
}

TEST_F(PermitWait, WhatOthersGrewByWhileItWaitedIsNotItsOwn) {
  request_.kind = HolderKind::kCall;
  Permit first, second;
  FakeMachine::memory_of(getpid(), 9000, 1000, 1000);
  EXPECT_TRUE(take(first));
  FakeMachine::on_wait = [&] {
    busy();
    FakeMachine::memory_of(getpid(), 9000, 5000, 8000);
    if (FakeMachine::waits == 3) table_.give_back(first, kNothing);
  };
  EXPECT_TRUE(take(second));
  table_.give_back(second, {9000 * kKiB, 5100 * kKiB, 8000 * kKiB});
  EXPECT_EQ(memory_->sizes.expected_bytes(memory_->sizes.find("x"), 0), 100 * kKiB);
}

TEST_F(PermitWait, rule_36_AWaiterWhoseHolderStandsStillGoesOn) {
  Permit first, second;
  EXPECT_TRUE(take(first));
  testing::internal::CaptureStderr();
  EXPECT_TRUE(take(second)) << "the holder may wait for a lock of ours";
  const std::uint64_t waited_s = counters_.waited_ns / 1'000'000'000;
  EXPECT_GE(waited_s, 10u);
  EXPECT_LE(waited_s, 12u);
  testing::internal::GetCapturedStderr();
}

TEST_F(PermitWait, rule_36_EveryWaitIsBounded) {
  Permit first, second;
  EXPECT_TRUE(take(first));
  FakeMachine::on_wait = busy;
  testing::internal::CaptureStderr();
  EXPECT_TRUE(take(second));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(counters_.went_on, 1u);
  EXPECT_EQ(table_.figures().counts().went_on, 1u);
  EXPECT_EQ(counters_.waited_ns / 1'000'000'000, 100u);
  EXPECT_NE(said.find("no compilation has ended for 100 s: another one begins beside those that run"),
            std::string::npos)
      << said;
  EXPECT_EQ(table_.in_flight(), 2u) << "and is counted";
}

TEST_F(PermitWait, rule_36_WaitsAreBoundedWhateverTheTableHolds) {
  Permit first, second;
  EXPECT_TRUE(take(first));
  FakeMachine::on_wait = [&] {
    busy();
    memory_->changed_ns = FakeMachine::clock_ns + 3'600'000'000'000;
    if (FakeMachine::waits == 5000) table_.give_back(first, kNothing);  // 500 s
  };
  testing::internal::CaptureStderr();
  EXPECT_TRUE(take(second));
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(counters_.went_on, 1u);
  EXPECT_EQ(counters_.waited_ns / 1'000'000'000, 100u);
}

TEST_F(PermitWait, SaysThatItWaitsEveryTenSeconds) {
  Permit first, second;
  EXPECT_TRUE(take(first));
  FakeMachine::clock_ns += 100'000'000'000;  // other tests said something
  FakeMachine::on_wait = [&] {
    busy();
    if (FakeMachine::waits == 310) table_.give_back(first, kNothing);
  };
  testing::internal::CaptureStderr();
  EXPECT_TRUE(take(second));
  const std::string said = testing::internal::GetCapturedStderr();
  int lines = 0;
  for (std::size_t at = 0; (at = said.find("compile: waiting for ", at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, 3) << said;
  EXPECT_NE(said.find("1 compilations run, which is the limit"), std::string::npos) << said;
}

TEST_F(PermitWait, WhileItWaitsTheReportHasIt) {
  Permit first, second;
  EXPECT_TRUE(take(first));
  std::vector<WaitSeen> seen;
  FakeMachine::on_wait = [&] {
    busy();
    seen = waits_now();
    if (FakeMachine::waits == 3) table_.give_back(first, kNothing);
  };
  EXPECT_TRUE(take(second));
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_STREQ(seen[0].what, "a compile permit");
  EXPECT_STREQ(seen[0].reason, "as many run as may");
  EXPECT_EQ(seen[0].thread, static_cast<std::uint64_t>(gettid()));
  EXPECT_EQ(seen[0].graph, 0u);
  EXPECT_TRUE(waits_now().empty());
}

TEST_F(PermitWait, AtALowerLogLevelItSaysNothing) {
  open_log(LogLevel::kError, "");
  Permit first, second;
  EXPECT_TRUE(take(first));
  FakeMachine::clock_ns += 100'000'000'000;
  FakeMachine::on_wait = busy;
  testing::internal::CaptureStderr();
  EXPECT_TRUE(take(second));
  EXPECT_EQ(counters_.went_on, 1u);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(PermitWait, rule_36_CompilerProcessesSayNothing) {
  settings_.says = false;
  Permit first, second;
  EXPECT_TRUE(take(first));
  FakeMachine::clock_ns += 100'000'000'000;
  FakeMachine::on_wait = busy;
  testing::internal::CaptureStderr();
  EXPECT_TRUE(take(second));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(PermitWait, MemoryIsWaitedForAndTheHeadroomCounted) {
  settings_.max.count = 4;
  settings_.reserve = {0, 10, true};
  FakeMachine::meminfo(8 << 20, 6 << 20);
  Permit first, second;
  EXPECT_TRUE(take(first));
  FakeMachine::meminfo(8 << 20, 4 << 20);
  FakeMachine::on_wait = [&] {
    busy();
    if (FakeMachine::waits == 3) FakeMachine::meminfo(8 << 20, 5 << 20);
  };
  EXPECT_TRUE(take(second));
  EXPECT_EQ(FakeMachine::waits, 3);
  // 4 GiB available, 2 GiB outstanding, a tenth of 8 GiB to be left.
  EXPECT_NEAR(static_cast<double>(counters_.least_headroom_bytes), 1.2 * kGiB, 0.01 * kGiB);
}

TEST_F(PermitWait, MemoryThatComesFreeBehindAPermitIsSeenSoon) {
  settings_.max.count = 4;
  settings_.reserve = {};
  FakeMachine::meminfo(8 << 20, 3 << 20);
  Permit first, second;
  EXPECT_TRUE(take(first));
  // Sometime a permit comes back; its memory a little later.
  std::uint64_t given_back_ns = 0;
  FakeMachine::on_wait = [&] {
    busy();
    if (FakeMachine::waits == 20) {
      memory_->next_turn();
      given_back_ns = FakeMachine::clock_ns;
    }
    if (FakeMachine::waits == 22) FakeMachine::meminfo(8 << 20, 4 << 20);
  };
  EXPECT_TRUE(take(second));
  EXPECT_EQ(FakeMachine::waits, 22);
  EXPECT_EQ(FakeMachine::clock_ns - given_back_ns, 3 * kAskSoon);
}

TEST_F(PermitWait, AWaiterThatIsToEndGoesOn) {
  Permit first, second;
  EXPECT_TRUE(take(first));
  FakeMachine::on_wait = busy;
  request_.goes_on = [](PermitTable&) { return FakeMachine::waits == 3 ? GoesOn::kOverTheLimit : GoesOn::kNo; };
  EXPECT_TRUE(take(second));
  EXPECT_EQ(FakeMachine::waits, 3);
  EXPECT_EQ(counters_.went_on, 0u);
  EXPECT_EQ(table_.in_flight(), 2u);
  Permit third;
  request_.goes_on = [](PermitTable&) { return FakeMachine::waits == 6 ? GoesOn::kRiding : GoesOn::kNo; };
  EXPECT_TRUE(take(third));
  EXPECT_FALSE(third.held());
  EXPECT_EQ(counters_.ridden, 1u);
  EXPECT_EQ(table_.figures().counts().ridden, 1u);
  EXPECT_EQ(counters_.waited, 2u);
  EXPECT_EQ(table_.figures().counts().waited, 2u);
  EXPECT_EQ(table_.in_flight(), 2u);
}

TEST_F(PermitWait, AutoFollowsProcessorsAndTheProgramsOwnPool) {
  settings_.max = {};
  FakeMachine::processor_count = 6;
  EXPECT_EQ(permit_limits(settings_, FakeMachine::machine(), 0).own(), 6u);
  settings_.quota = 5;
  EXPECT_EQ(permit_limits(settings_, FakeMachine::machine(), 0).own(), 5u);
  settings_.pool_size = 4;
  EXPECT_EQ(permit_limits(settings_, FakeMachine::machine(), 0).own(), 4u);
  settings_.max.count = 60000;
  EXPECT_EQ(permit_limits(settings_, FakeMachine::machine(), 0).own(), kMostPermits);
  EXPECT_EQ(permit_limits(settings_, FakeMachine::machine(), 10 * kGiB).reserve_bytes, kGiB);
}

TEST_F(PermitWait, AnUnusableTableHoldsNobodyUp) {
  PermitTable none;
  Permit permit;
  EXPECT_FALSE(wait_for_permit(none, FakeMachine::machine(), settings_, request_, {}, counters_, permit));
  memory_->ready = 0;
  EXPECT_FALSE(take(permit));
  EXPECT_EQ(counters_.without, 2u);
  EXPECT_EQ(table_.figures().counts().without, 1u);
  EXPECT_FALSE(permit.held());
}

/// With the real clock and real threads.
TEST_F(PermitWait, TwoHundredWaiters) {
  table_ = PermitTable(*memory_, machine());
  settings_.max.count = 4;
  settings_.reserve = {};
  std::atomic<int> inside{0}, most{0};
  std::vector<std::thread> threads;
  Permit permit;
  ASSERT_TRUE(wait_for_permit(table_, machine(), settings_, request_, {}, counters_, permit));
  table_.give_back(permit, {1, 1, kMiB});  // a small class
  for (int i = 0; i < 200; ++i)
    threads.emplace_back([&] {
      Permit own;
      EXPECT_TRUE(wait_for_permit(table_, machine(), settings_, request_, {}, counters_, own));
      const int now = ++inside;
      for (int before = most; now > before && !most.compare_exchange_weak(before, now);) {
      }
      usleep(500);
      --inside;
      table_.give_back(own, kNothing);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most.load(), 4);
  EXPECT_EQ(counters_.taken, 201u);
  EXPECT_EQ(table_.in_flight(), 0u);
  EXPECT_LE(table_.figures().peak_in_flight(), 4u);
}

TEST_F(PermitWait, rule_36_SignalsAndCancellationDoNotEndAWait) {
  table_ = PermitTable(*memory_, machine());
  Permit first;
  ASSERT_TRUE(wait_for_permit(table_, machine(), settings_, request_, {}, counters_, first));
  signal(SIGUSR1, [](int) {});
  std::atomic<bool> got{false}, started{false};
  int state_after = -1, errno_after = 0;
  std::thread waiter([&] {
    Permit own;
    errno = 77;
    started = true;
    wait_for_permit(table_, machine(), settings_, request_, {}, counters_, own);
    errno_after = errno;
    got = own.held();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state_after);
    table_.give_back(own, kNothing);
  });
  while (!started) usleep(1000);
  for (int i = 0; i < 20; ++i) {
    usleep(5000);
    pthread_kill(waiter.native_handle(), SIGUSR1);
  }
  pthread_cancel(waiter.native_handle());
  usleep(50'000);
  EXPECT_FALSE(got);
  table_.give_back(first, kNothing);
  waiter.join();
  EXPECT_TRUE(got);
  EXPECT_EQ(state_after, PTHREAD_CANCEL_ENABLE) << "as it was";
  EXPECT_EQ(errno_after, 77);
}

}  // namespace
}  // namespace graphpool
