// compile_permit_table_test.cpp: who gets a permit, and that permits come back. The deaths are those of real processes.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "shim/compile/permit_table.h"
#include "shim/compile/shared_memory.h"
#include "tests/unit/fake_machine.h"

namespace graphpool {
namespace {

constexpr ProcessMemory kNothing{};
/// Of a compiler that starts at once.
constexpr std::uint64_t kBurst = 25'000'000;

class Permits : public testing::Test {
 protected:
  Permits() {
    FakeMachine::reset();
    memory_ = static_cast<SharedPermits*>(
        mmap(nullptr, sizeof(SharedPermits), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    make_permits(*memory_, true);
    table_ = PermitTable(*memory_, FakeMachine::machine());
    limits_.most = 3;
    request_.size_class = "cc c 0K";
    request_.since_ns = FakeMachine::clock_ns;
  }

  Admission take(Permit& permit) { return table_.try_take(request_, limits_, &facts_, permit); }
  Permit taken() {
    Permit permit;
    EXPECT_EQ(take(permit), Admission::kGranted);
    return permit;
  }
  void finish(const Permit& permit, std::uint64_t peak_bytes) {
    table_.give_back(permit, {peak_bytes * 2, peak_bytes / 2 + 1, peak_bytes});
  }

  /// Never unmapped: permits that a test still holds are on the list of mutexes that the kernel and the C library walk.
  SharedPermits* memory_ = nullptr;
  PermitTable table_;
  PermitLimits limits_;
  PermitRequest request_;
  MemoryFacts facts_;  // unknown
};

TEST_F(Permits, AtMostAsManyAsTheLimit) {
  Permit permits[4];
  for (int i = 0; i < 3; ++i) EXPECT_EQ(take(permits[i]), Admission::kGranted);
  EXPECT_EQ(take(permits[3]), Admission::kFull);
  EXPECT_EQ(table_.in_flight(), 3u);
  table_.give_back(permits[1], kNothing);
  EXPECT_EQ(take(permits[3]), Admission::kGranted);
  EXPECT_EQ(table_.peak_in_flight(), 3u);
}

TEST_F(Permits, WhoHoldsThem) {
  PermitHolder holders[2];
  EXPECT_EQ(table_.holders(holders, 2), 0u);
  Permit permits[3];
  permits[0] = taken();
  ASSERT_EQ(table_.holders(holders, 2), 1u);
  EXPECT_EQ(holders[0].process, FakeMachine::machine().process());
  EXPECT_STREQ(holders[0].size_class, "cc c 0K");
  EXPECT_FALSE(holders[0].lent || holders[0].asleep);
  request_.size_class = "ld link 0K";
  permits[1] = taken();
  memory_->permits[permits[1].index].idle = 1;
  memory_->permits[permits[0].index].asleep_ns = 1;
  ASSERT_EQ(table_.holders(holders, 2), 2u);
  EXPECT_TRUE(holders[0].asleep && !holders[0].lent);
  EXPECT_TRUE(holders[1].lent && !holders[1].asleep);
  EXPECT_STREQ(holders[1].size_class, "ld link 0K");
  permits[2] = taken();
  EXPECT_EQ(table_.holders(holders, 2), 2u) << "as many as there is room for";
  memory_->permits[permits[0].index].class_index = kMostClasses;  // whatever others have written
  ASSERT_EQ(table_.holders(holders, 2), 2u);
  EXPECT_STREQ(holders[0].size_class, "");
  table_.give_back(permits[1], kNothing);
  table_.give_back(permits[2], kNothing);
  EXPECT_EQ(table_.holders(holders, 2), 1u);
}

TEST_F(Permits, TheMostInFlightSinceATime) {
  Permit permits[3];
  const std::uint64_t first_ns = FakeMachine::clock_ns;
  for (Permit& permit : permits) permit = taken();
  const std::uint64_t second_ns = ++FakeMachine::clock_ns;
  EXPECT_EQ(table_.peak_in_flight(), 3u);
  EXPECT_EQ(table_.peak_in_flight(first_ns), 3u);
  table_.give_back(permits[0], kNothing);
  EXPECT_EQ(table_.peak_in_flight(second_ns), 3u) << "they were there until then";
  const std::uint64_t third_ns = ++FakeMachine::clock_ns;
  EXPECT_EQ(table_.peak_in_flight(third_ns), 0u);
  table_.give_back(permits[1], kNothing);
  static_cast<void>(taken());
  EXPECT_EQ(table_.peak_in_flight(third_ns), 2u);
  EXPECT_EQ(table_.peak_in_flight(second_ns), 3u);
  EXPECT_EQ(table_.peak_in_flight(++FakeMachine::clock_ns), 0u);
  EXPECT_EQ(table_.counts().granted, 4u);
}

TEST_F(Permits, WhatAllHeldSinceATime) {
  finish(taken(), 300 * kMiB);
  EXPECT_EQ(table_.most_held_bytes(0), 300 * kMiB);
  const std::uint64_t later_ns = ++FakeMachine::clock_ns;
  EXPECT_EQ(table_.most_held_bytes(later_ns), 0u);
  const Permit first = taken(), second = taken();
  FakeMachine::memory_of(getpid(), 700 << 10, 20 << 10, 20 << 10);
  table_.look_at_holders(limits_.idle_ns);
  EXPECT_EQ(table_.most_held_bytes(later_ns), 40 * kMiB) << "as they were last seen";
  finish(first, 50 * kMiB);
  EXPECT_EQ(table_.most_held_bytes(later_ns), 70 * kMiB) << "one at its peak, and the other";
  finish(second, 10 * kMiB);
  EXPECT_EQ(table_.most_held_bytes(later_ns), 70 * kMiB);
  EXPECT_EQ(table_.most_held_bytes(0), 300 * kMiB);
}

TEST_F(Permits, FiguresAreAnEighthOffAtMost) {
  const std::uint64_t none = table_.least_headroom_bytes(0);
  EXPECT_EQ(none, std::numeric_limits<std::uint64_t>::max());
  for (const std::uint64_t bytes :
       {none, none / 3, 123'456'789'012ul, 9ul * kMiB, 1000ul, 17ul, 16ul, 15ul, 1ul, 0ul}) {
    table_.saw_headroom(bytes);
    EXPECT_EQ(table_.least_headroom_bytes(0), bytes);
    table_.saw_headroom(bytes + std::min(none - bytes, bytes / 7 + 1));
    EXPECT_EQ(table_.least_headroom_bytes(0), bytes) << "another step";
  }
  const std::uint64_t later_ns = ++FakeMachine::clock_ns;
  table_.saw_headroom(160);
  table_.saw_headroom(175);  // of the same step: the last one of it is told
  EXPECT_EQ(table_.least_headroom_bytes(later_ns), 175u);
}

TEST_F(Permits, CountsOfAKilledProcessStay) {
  const pid_t child = fork();
  if (child == 0) {
    Permit permit;
    static_cast<void>(take(permit));
    table_.add(&ScopeCounts::waited_ns, 5);
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(table_.in_flight(), 0u);
  table_.add(&ScopeCounts::waited_ns, 2);
  const ScopeCounts counts = table_.counts();
  EXPECT_EQ(counts.granted, 1u);
  EXPECT_EQ(counts.waited_ns, 7u);
  EXPECT_EQ(counts.waited + counts.ridden + counts.went_on + counts.without, 0u);
  EXPECT_EQ(table_.peak_in_flight(), 1u);
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

TEST_F(Permits, OneMayAlwaysRun) {
  FakeMachine::clock_ns += kBurst;
  facts_ = {kGiB, 0, 99};
  const Permit first = taken();
  Permit second;
  EXPECT_EQ(take(second), Admission::kNoMemory);
  table_.give_back(first, kNothing);
  EXPECT_EQ(take(second), Admission::kGranted);
}

TEST_F(Permits, MemoryIsAskedForOnlyBesideOthers) {
  finish(taken(), kMiB);
  Permit first, second;
  EXPECT_EQ(table_.try_take(request_, limits_, nullptr, first), Admission::kGranted);
  EXPECT_EQ(table_.try_take(request_, limits_, nullptr, second), Admission::kAskMemory);
}

TEST_F(Permits, UnknownSizesAreTakenToBeLarge) {
  facts_ = {16 * kGiB, 2 * kUnknownSizeBytes - 1, 0};
  FakeMachine::clock_ns += kBurst;
  Permit second;
  static_cast<void>(taken());
  EXPECT_EQ(take(second), Admission::kNoMemory);
  facts_.available_bytes = 2 * kUnknownSizeBytes;
  EXPECT_EQ(take(second), Admission::kGranted);
}

TEST_F(Permits, ABurstIsNotAdmittedBecauseNothingHasGrownYet) {
  finish(taken(), 300 * kMiB);  // learnt
  EXPECT_EQ(table_.expected_bytes(request_.size_class), 300 * kMiB);
  facts_ = {kGiB, 700 * kMiB, 0};
  static_cast<void>(taken());
  Permit second, third;
  EXPECT_EQ(take(second), Admission::kGranted);
  EXPECT_EQ(table_.outstanding_bytes(), 600 * kMiB);
  EXPECT_EQ(take(third), Admission::kNoMemory) << "100 MiB are left once both have grown";
  // Grown: what they have taken is no longer available, nor outstanding.
  FakeMachine::memory_of(getpid(), 700 << 10, 300 << 10, 300 << 10);
  facts_.available_bytes = 100 * kMiB;
  table_.look_at_holders(limits_.idle_ns);
  EXPECT_EQ(table_.outstanding_bytes(), 0u);
  EXPECT_EQ(take(third), Admission::kNoMemory);
  facts_.available_bytes = 300 * kMiB;
  EXPECT_EQ(take(third), Admission::kGranted);
}

TEST_F(Permits, WhatAProcessHasAlreadyIsNotNeededAgain) {
  finish(taken(), 100 * kMiB);
  request_.before.own_bytes = 30 * kMiB;
  static_cast<void>(taken());
  EXPECT_EQ(table_.outstanding_bytes(), 70 * kMiB);
  FakeMachine::clock_ns += 1'000'000'000;
  facts_ = {kGiB, 139 * kMiB, 0};
  Permit second;
  EXPECT_EQ(take(second), Admission::kNoMemory);
  facts_.available_bytes = 140 * kMiB;
  request_.in_process = true;
  EXPECT_EQ(take(second), Admission::kNoMemory) << "a call adds to what is there";
  request_.in_process = false;
  EXPECT_EQ(take(second), Admission::kGranted);
}

TEST_F(Permits, WhereLittleWouldBeLeftProcessesThatAreJustStartingAreWaitedFor) {
  finish(taken(), 100 * kMiB);
  request_.before.own_bytes = 10 * kMiB;
  static_cast<void>(taken());
  facts_ = {kGiB, 300 * kMiB, 0};  // 120 are left when both have grown: 12 more processes
  Permit second;
  EXPECT_EQ(take(second), Admission::kNoMemory);
  FakeMachine::clock_ns += 150'000'000;
  request_.starting_ns = 50'000'000;
  PermitRequest newcomer = request_;
  newcomer.since_ns = FakeMachine::clock_ns;
  EXPECT_EQ(table_.try_take(newcomer, limits_, &facts_, second), Admission::kNoMemory);
  FakeMachine::clock_ns += 150'000'000;
  EXPECT_EQ(take(second), Admission::kNoMemory) << "another has just come";
  FakeMachine::clock_ns += 50'000'000;
  EXPECT_EQ(take(second), Admission::kGranted);
  table_.give_back(second, kNothing);
  newcomer.since_ns = FakeMachine::clock_ns;
  EXPECT_EQ(table_.try_take(newcomer, limits_, &facts_, second), Admission::kNoMemory);
  FakeMachine::clock_ns += 150'000'000;
  EXPECT_EQ(table_.try_take(newcomer, limits_, &facts_, second), Admission::kNoMemory);
  newcomer.starting_ns = 30'000'000;
  EXPECT_EQ(table_.try_take(newcomer, limits_, &facts_, second), Admission::kGranted) << "processes start faster";
  table_.give_back(second, kNothing);
  newcomer.since_ns = FakeMachine::clock_ns;
  facts_.available_bytes = 340 * kMiB;
  EXPECT_EQ(table_.try_take(newcomer, limits_, &facts_, second), Admission::kGranted) << "room for sixteen";
}

TEST_F(Permits, WhereMemoryWasTooLittleAMomentAgoItIsNotReadAgain) {
  finish(taken(), 100 * kMiB);
  const Permit first = taken();
  facts_ = {kGiB, 150 * kMiB, 0};
  Permit permit;
  const auto asks = [&](std::uint64_t has_bytes) {
    request_.before.own_bytes = has_bytes;
    return table_.try_take(request_, limits_, nullptr, permit) == Admission::kAskMemory;
  };
  EXPECT_TRUE(asks(0));
  EXPECT_EQ(take(permit), Admission::kNoMemory);
  EXPECT_FALSE(asks(0));
  EXPECT_TRUE(asks(kMiB)) << "it needs less";
  FakeMachine::clock_ns += 5'000'000;
  EXPECT_TRUE(asks(0));
  EXPECT_EQ(take(permit), Admission::kNoMemory);
  const Permit more = [&] {
    facts_.available_bytes = kGiB;
    return taken();
  }();
  facts_.available_bytes = 0;
  EXPECT_EQ(take(permit), Admission::kNoMemory);
  EXPECT_FALSE(asks(0));
  table_.give_back(more, kNothing);
  EXPECT_TRUE(asks(0)) << "a permit came back";
  table_.give_back(first, kNothing);
}

TEST_F(Permits, TheReserveIsLeftFree) {
  finish(taken(), 100 * kMiB);
  static_cast<void>(taken());
  limits_.reserve_bytes = 50 * kMiB;
  facts_ = {kGiB, 249 * kMiB, 0};
  Permit second;
  EXPECT_EQ(take(second), Admission::kNoMemory);
  facts_.available_bytes = 250 * kMiB;
  EXPECT_EQ(take(second), Admission::kGranted);
}

TEST_F(Permits, PressureHoldsNewOnesBack) {
  finish(taken(), kMiB);
  static_cast<void>(taken());
  facts_ = {kGiB, kGiB, kMostPressurePercent};
  Permit second;
  EXPECT_EQ(take(second), Admission::kNoMemory);
  facts_.pressure_percent = kMostPressurePercent - 1;
  EXPECT_EQ(take(second), Admission::kGranted);
}

TEST_F(Permits, TheLimitOfAddressSpaceCountsForCalls) {
  finish(taken(), 100 * kMiB);
  static_cast<void>(taken());
  facts_ = {kGiB, kGiB, 0};
  FakeMachine::memory_of(getpid(), 500 << 10, 1, 1);
  FakeMachine::address_space = 650 * kMiB;
  Permit second;
  request_.in_process = true;
  EXPECT_EQ(take(second), Admission::kNoMemory) << "150 MiB left, two grow by 100 each";
  FakeMachine::address_space = 700 * kMiB;
  EXPECT_EQ(take(second), Admission::kGranted);
}

TEST_F(Permits, CallsLearnAddressSpaceToo) {
  request_.in_process = true;
  request_.before = {500 * kMiB, kMiB, kMiB, 500 * kMiB};
  table_.give_back(taken(), {600 * kMiB, 10 * kMiB, 10 * kMiB, 800 * kMiB});
  EXPECT_EQ(table_.expected_bytes(request_.size_class), 9 * kMiB);
  static_cast<void>(taken());
  facts_ = {kGiB, kGiB, 0};
  FakeMachine::memory_of(getpid(), 500 << 10, 1, 1);
  FakeMachine::address_space = 1099 * kMiB;
  Permit second;
  EXPECT_EQ(take(second), Admission::kNoMemory) << "599 MiB left, two grow by 300 each";
  FakeMachine::address_space = 1100 * kMiB;
  EXPECT_EQ(take(second), Admission::kGranted);
}

TEST_F(Permits, WhereNoSizeIsKnownAutoStopsAtEight) {
  limits_.most = 100;
  std::vector<Permit> permits(kUnknownSizeLimit + 1);
  for (std::uint32_t i = 0; i < kUnknownSizeLimit; ++i) EXPECT_EQ(take(permits[i]), Admission::kGranted);
  EXPECT_EQ(take(permits.back()), Admission::kFull);
  limits_.is_auto = false;
  EXPECT_EQ(take(permits.back()), Admission::kGranted) << "a number is the user's word";
}

TEST_F(Permits, SizesGoUpAtOnceAndDownSlowly) {
  finish(taken(), 400 * kMiB);
  finish(taken(), 80 * kMiB);
  EXPECT_EQ(table_.expected_bytes(request_.size_class), 380 * kMiB);
  finish(taken(), 500 * kMiB);
  EXPECT_EQ(table_.expected_bytes(request_.size_class), 500 * kMiB);
  EXPECT_EQ(table_.expected_bytes("another"), kUnknownSizeBytes);
}

TEST_F(Permits, ALargerInputIsExpectedToNeedMoreInProportion) {
  request_.input_bytes = 100 * kKiB;
  finish(taken(), 100 * kMiB);
  const auto expected = [this](std::uint64_t input_bytes) {
    return table_.expected_bytes(request_.size_class, input_bytes) / kMiB;
  };
  EXPECT_EQ(expected(400 * kKiB), 400u);
  EXPECT_EQ(expected(10), 100u) << "headers may be most of it";
  request_.input_bytes = 800 * kKiB;
  const Permit permit = taken();
  EXPECT_EQ(table_.outstanding_bytes(), 800 * kMiB);
  finish(permit, 600 * kMiB);
  EXPECT_EQ(expected(400 * kKiB), 600u);
  EXPECT_EQ(expected(1600 * kKiB), 1200u);
  request_.input_bytes = 80 * kKiB;
  finish(taken(), 60 * kMiB);
  EXPECT_EQ(expected(800 * kKiB), 600u) << "a tenth of the input, a tenth of the size";
  finish(taken(), 28 * kMiB);
  EXPECT_EQ(expected(800 * kKiB), 580u) << "less than a tenth: 280 as large";
}

TEST_F(Permits, SmallInputsAreAlike) {
  request_.input_bytes = 100;
  finish(taken(), 100 * kMiB);
  EXPECT_EQ(table_.expected_bytes(request_.size_class, kLeastInputBytes), 100 * kMiB);
  EXPECT_EQ(table_.expected_bytes(request_.size_class, 2 * kLeastInputBytes), 200 * kMiB);
}

TEST_F(Permits, WhereTwoOfUnknownSizeDoNotFitTheSmallestGoesFirst) {
  facts_ = {3 * kGiB, 3 * kGiB, 0};
  const auto ask = [this](std::uint64_t input_bytes, Permit& permit) {
    request_.input_bytes = input_bytes;
    return take(permit);
  };
  Permit permit;
  EXPECT_EQ(ask(300, permit), Admission::kOthersTurn) << "smaller ones may be about to come";
  FakeMachine::clock_ns += kBurst - 1;
  EXPECT_EQ(ask(300, permit), Admission::kOthersTurn);
  EXPECT_EQ(ask(200, permit), Admission::kOthersTurn);
  FakeMachine::clock_ns += 1;
  EXPECT_EQ(ask(300, permit), Admission::kOthersTurn) << "one has come";
  EXPECT_EQ(ask(200, permit), Admission::kGranted);
  EXPECT_EQ(ask(300, permit), Admission::kNoMemory);
}

TEST_F(Permits, TheSmallestGoesFirstAlsoBehindThoseOfAnotherClass) {
  facts_ = {3 * kGiB, 3 * kGiB, 0};
  PermitRequest other = request_;
  other.size_class = "cc s 0K";
  FakeMachine::clock_ns += kBurst;
  Permit running, permit;
  ASSERT_EQ(table_.try_take(other, limits_, &facts_, running), Admission::kGranted);
  const auto ask = [&](std::uint64_t input_bytes) {
    request_.input_bytes = input_bytes;
    return take(permit);
  };
  for (int i = 0; i < 20; ++i) {  // as waiters do
    EXPECT_EQ(ask(100), Admission::kNoMemory);
    EXPECT_EQ(ask(300), Admission::kNoMemory);
    FakeMachine::clock_ns += 100'000'000;
  }
  finish(running, kMiB);
  EXPECT_EQ(ask(300), Admission::kOthersTurn) << "it has waited long, but the other waits too";
  EXPECT_EQ(ask(100), Admission::kGranted);
}

TEST_F(Permits, AnUnknownSizeIsWaitedForOnlyForAMomentAndWhereItMatters) {
  facts_ = {3 * kGiB, 3 * kGiB, 0};
  FakeMachine::clock_ns += kBurst;
  const auto ask = [this](std::uint64_t input_bytes, const MemoryFacts* facts) {
    request_.input_bytes = input_bytes;
    Permit permit;
    const Admission admission = table_.try_take(request_, limits_, facts, permit);
    table_.give_back(permit, kNothing);
    return admission;
  };
  EXPECT_EQ(ask(200, nullptr), Admission::kAskMemory);
  request_.since_ns = FakeMachine::clock_ns;
  EXPECT_EQ(ask(100, &facts_), Admission::kOthersTurn) << "and is killed while it waits";
  request_.since_ns = 0;
  EXPECT_EQ(ask(200, &facts_), Admission::kOthersTurn);
  FakeMachine::clock_ns += 500'000'000;
  EXPECT_EQ(ask(200, &facts_), Admission::kGranted);
  request_.since_ns = FakeMachine::clock_ns;
  EXPECT_EQ(ask(100, &facts_), Admission::kOthersTurn);
  facts_.available_bytes = 2 * kUnknownSizeBytes;
  EXPECT_EQ(ask(200, &facts_), Admission::kGranted) << "there is room for both";
  facts_ = {};
  EXPECT_EQ(ask(200, &facts_), Admission::kGranted) << "no limit is known";
  request_.in_process = true;
  EXPECT_EQ(ask(200, nullptr), Admission::kGranted) << "a call";
  request_.in_process = false;
  request_.size_class = "another";
  finish(taken(), kMiB);
  EXPECT_EQ(ask(200, nullptr), Admission::kGranted) << "of a known size";
}

TEST_F(Permits, ACallIsLearntByGrowthAndOnlyAlone) {
  request_.in_process = true;
  request_.before = {0, 100 * kMiB, 150 * kMiB};
  Permit permit = taken();
  table_.give_back(permit, {0, 120 * kMiB, 350 * kMiB});
  EXPECT_EQ(table_.expected_bytes(request_.size_class), 250 * kMiB) << "the new peak less what was there";
  permit = taken();
  const Permit beside = taken();
  table_.give_back(permit, {0, 900 * kMiB, 900 * kMiB});
  table_.give_back(beside, {0, 900 * kMiB, 900 * kMiB});
  EXPECT_EQ(table_.expected_bytes(request_.size_class), 250 * kMiB) << "two at once: nobody knows whose it was";
}

TEST_F(Permits, rule_33_APoolThreadThatWaitsForWorkDoesNotCount) {
  limits_.most = 1;
  facts_ = {16 * kGiB, 16 * kGiB, 0};
  request_.in_process = request_.pool_thread = true;
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

TEST_F(Permits, APoolThreadIsLearntByItsPartOfANewPeak) {
  request_.in_process = request_.pool_thread = true;
  request_.before = {0, 100 * kMiB, 150 * kMiB};
  const Permit first = taken(), second = taken();
  table_.give_back(first, {0, 110 * kMiB, 150 * kMiB});
  EXPECT_EQ(table_.expected_bytes(request_.size_class), kUnknownSizeBytes) << "nothing is known of the time between";
  const Permit third = taken();
  table_.give_back(second, {0, 110 * kMiB, 300 * kMiB});
  EXPECT_EQ(table_.expected_bytes(request_.size_class), 100 * kMiB);
  table_.sleep(third);
  table_.give_back(third, {0, 110 * kMiB, 900 * kMiB});
  EXPECT_EQ(table_.expected_bytes(request_.size_class), 100 * kMiB) << "others grew while it slept";
}

TEST_F(Permits, rule_33_WhoeverMayServeACallThatSleepsRides) {
  Permit served;
  request_.in_process = request_.pool_thread = true;
  const Permit pool = taken();
  FakeMachine::process(getpid(), 100, 0, 1, 'S');
  EXPECT_FALSE(table_.serve(served)) << "a pool thread is no call";
  table_.give_back(pool, kNothing);
  request_.pool_thread = false;
  const Permit call = taken();
  FakeMachine::process(getpid(), 100, 0, 1, 'R');
  EXPECT_FALSE(table_.serve(served)) << "it compiles by itself";
  FakeMachine::process(getpid(), 100, 0, 1, 'S');
  ASSERT_TRUE(table_.serve(served));
  EXPECT_TRUE(table_.lasts(served));
  table_.give_back(call, kNothing);
  EXPECT_FALSE(table_.lasts(served));
}

TEST_F(Permits, TheLongestWaiterGoesFirst) {
  finish(taken(), 100 * kMiB);
  const Permit first = taken();
  facts_ = {kGiB, 500 * kMiB, 0};
  PermitRequest large = request_;
  large.size_class = "large";
  large.since_ns = FakeMachine::clock_ns;
  FakeMachine::clock_ns += 11'000'000'000;
  Permit permit;
  EXPECT_EQ(table_.try_take(large, limits_, &facts_, permit), Admission::kNoMemory);
  request_.since_ns = FakeMachine::clock_ns;
  EXPECT_EQ(take(permit), Admission::kOthersTurn) << "it would fit, and the large one would wait for ever";
  table_.give_back(first, kNothing);
  EXPECT_EQ(table_.try_take(large, limits_, &facts_, permit), Admission::kGranted);
  FakeMachine::clock_ns += 2'000'000'000;
  request_.since_ns = FakeMachine::clock_ns;
  Permit another;
  facts_.available_bytes = 8 * kGiB;
  EXPECT_EQ(take(another), Admission::kGranted) << "an elder that is not heard of any more holds nobody back";
}

TEST_F(Permits, rule_34_AHolderWithoutProcessorTimeLendsItsPermitOn) {
  limits_.most = 1;
  static_cast<void>(taken());
  Permit second;
  for (int second_s = 0; second_s < 9; ++second_s) {
    table_.look_at_holders(limits_.idle_ns);
    EXPECT_EQ(take(second), Admission::kFull) << second_s;
    FakeMachine::clock_ns += 1'000'000'000;
  }
  FakeMachine::clock_ns += 2'000'000'000;
  table_.look_at_holders(limits_.idle_ns);
  EXPECT_EQ(table_.in_flight(), 0u);
  EXPECT_EQ(take(second), Admission::kGranted);
  // It moves again: counted again.
  FakeMachine::process(getpid(), 100, 500);
  FakeMachine::clock_ns += 1'000'000'000;
  table_.look_at_holders(limits_.idle_ns);
  EXPECT_EQ(table_.in_flight(), 2u);
}

TEST_F(Permits, rule_34_AHolderThatRunsAgainCountsAgain) {
  finish(taken(), kMiB);
  limits_.most = 1;
  static_cast<void>(taken());
  table_.look_at_holders(limits_.idle_ns);
  FakeMachine::clock_ns += 11'000'000'000;
  table_.look_at_holders(limits_.idle_ns);
  EXPECT_EQ(table_.in_flight(), 0u);
  Permit second;
  EXPECT_EQ(table_.try_take(request_, limits_, nullptr, second), Admission::kAskMemory) << "the holders are looked at";
  FakeMachine::process(getpid(), 100, 1, 1, 'R');
  FakeMachine::clock_ns += 60'000'000;
  table_.look_at_holders(limits_.idle_ns);
  EXPECT_EQ(take(second), Admission::kFull);
  FakeMachine::process(getpid(), 100, 1, 1, 'S');
  FakeMachine::clock_ns += 11'000'000'000;
  table_.look_at_holders(limits_.idle_ns);
  EXPECT_EQ(take(second), Admission::kGranted);
}

TEST_F(Permits, rule_34_AHolderThatWaitsForAProcessorLendsNothing) {
  limits_.most = 1;
  static_cast<void>(taken());
  FakeMachine::process(getpid(), 100, 0, 1, 'R');
  for (int i = 0; i < 3; ++i) {
    table_.look_at_holders(limits_.idle_ns);
    EXPECT_EQ(table_.in_flight(), 1u) << "others have the processors";
    FakeMachine::clock_ns += 11'000'000'000;
  }
}

TEST_F(Permits, rule_34_AHolderThatCannotBeLookedAtIsTakenToRun) {
  limits_.most = 1;
  const Permit holder = taken();
  const auto is_counted = [this] {
    for (int i = 0; i < 3; ++i) {
      table_.look_at_holders(limits_.idle_ns);
      FakeMachine::clock_ns += 11'000'000'000;
    }
    return table_.in_flight() == 1;
  };
  memory_->permits[holder.index].holder.space = 7;
  EXPECT_TRUE(is_counted()) << "another container has a process of this number";
  memory_->permits[holder.index].holder.space = 0;
  const std::string stat = std::exchange(FakeMachine::files["/proc/" + std::to_string(getpid()) + "/stat"], "");
  EXPECT_TRUE(is_counted()) << "processes are hidden";
  FakeMachine::files["/proc/" + std::to_string(getpid()) + "/stat"] = stat;
  EXPECT_FALSE(is_counted()) << "it stands still";
}

TEST_F(Permits, rule_34_ATickNowAndThenIsNotMoving) {
  static_cast<void>(taken());
  for (std::uint64_t i = 0; i < 220; ++i) {
    FakeMachine::process(getpid(), 100, i / 4);  // one of twenty of a processor
    table_.look_at_holders(limits_.idle_ns);
    FakeMachine::clock_ns += 50'000'000;
  }
  EXPECT_EQ(table_.in_flight(), 0u);
}

TEST_F(Permits, MemoryIsLookedAtMoreOftenThanProcessorTime) {
  finish(taken(), 100 * kMiB);
  static_cast<void>(taken());
  for (std::uint64_t grown = 0; grown <= 100; grown += 20) {
    FakeMachine::memory_of(getpid(), 0, grown << 10, grown << 10);
    table_.look_at_holders(limits_.idle_ns);
    EXPECT_EQ(table_.outstanding_bytes(), (100 - grown) * kMiB);
    FakeMachine::clock_ns += 50'000'000;
  }
}

TEST_F(Permits, SizesOfMoreKindsThanThereIsRoomForAreUnknown) {
  for (std::uint32_t i = 0; i < kMostClasses + 5; ++i) table_.expected_bytes("class " + std::to_string(i));
  EXPECT_EQ(table_.expected_bytes("one more"), kUnknownSizeBytes);
  request_.size_class = "one more";
  finish(taken(), kMiB);
  EXPECT_EQ(table_.expected_bytes("one more"), kUnknownSizeBytes);
}

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

TEST_F(Permits, rule_34_APermitDiesWithItsHolder) {
  limits_.most = 1;
  Holder holder(table_, request_);
  ASSERT_TRUE(holder.holds());
  Permit permit;
  EXPECT_EQ(take(permit), Admission::kFull);
  holder.end();
  EXPECT_EQ(take(permit), Admission::kGranted);
}

TEST_F(Permits, rule_34_AlsoWhenAForkedChildLivesOn) {
  limits_.most = 1;
  Holder holder(table_, request_, true);
  ASSERT_TRUE(holder.holds());
  Permit permit;
  EXPECT_EQ(take(permit), Admission::kFull);
  holder.end();
  ASSERT_EQ(kill(holder.child(), 0), 0) << "the child lives";
  EXPECT_EQ(take(permit), Admission::kGranted);
}

TEST_F(Permits, rule_34_AForkedChildHoldsNothing) {
  const Permit permit = taken();
  const pid_t child = fork();
  if (child == 0) {
    table_.give_back(permit, kNothing);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(table_.in_flight(), 1u);
}

TEST_F(Permits, rule_34_ExecGivesBack) {
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
  for (int i = 0; i < 500 && (table_.in_flight() != 0 || memory_->counts.granted == 0); ++i) usleep(10'000);
  EXPECT_EQ(memory_->counts.granted, 1u);
  EXPECT_EQ(table_.in_flight(), 0u) << "the program after exec is no compilation";
  EXPECT_EQ(waitpid(child, nullptr, WNOHANG), 0) << "and runs";
  close(gate[1]);
  waitpid(child, nullptr, 0);
}

TEST_F(Permits, AProcessKilledInsideTheTableLeavesItUsable) {
  const pid_t child = fork();
  if (child == 0) {
    pthread_mutex_lock(&memory_->lock);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(table_.in_flight(), 0u);
  static_cast<void>(taken());
}

TEST_F(Permits, AProcessStoppedInsideTheTableHoldsNobodyUp) {
  std::atomic<bool> locked{false}, go{false};
  std::thread holder([&] {
    pthread_mutex_lock(&memory_->lock);
    locked = true;
    while (!go) usleep(1000);
    pthread_mutex_unlock(&memory_->lock);
  });
  while (!locked) usleep(1000);
  Permit permit;
  EXPECT_EQ(take(permit), Admission::kUnusable);
  go = true;
  holder.join();
  EXPECT_EQ(take(permit), Admission::kGranted);
}

TEST_F(Permits, AThreadThatEndsGivesItsPermitBack) {
  limits_.most = 1;
  std::thread([&] { static_cast<void>(taken()); }).join();
  EXPECT_EQ(table_.in_flight(), 0u);
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
      Permit permit;
      const char rides = table_.ride(parent, generation, permit) && permit.riding() ? 'y' : 'n';
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

TEST_F(Permits, ARidersSizeIsThereBesideItsHolders) {
  const Permit holder = taken();
  FakeMachine::memory_of(getpid(), 0, 20 << 10, 20 << 10);
  const pid_t child = fork();
  if (child == 0) {
    FakeMachine::process(getpid(), 300, 0);
    Permit permit;
    if (!table_.ride({getppid(), 100}, 0, permit)) _exit(1);
    table_.give_back(permit, {0, 1, 80 * kMiB});
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  finish(holder, 20 * kMiB);
  EXPECT_EQ(table_.expected_bytes(request_.size_class), 100 * kMiB);
}

TEST_F(Permits, rule_35_ACallIsRiddenOnOnlyWhileItsThreadSleeps) {
  request_.in_process = true;
  static_cast<void>(taken());
  const auto rides = [&] {
    const pid_t child = fork();
    if (child == 0) {
      FakeMachine::process(getpid(), 300, 0);
      Permit permit;
      _exit(table_.ride({getppid(), 100}, 0, permit) ? 1 : 0);
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

TEST(SharedPermits, ProcessesOfAScopeSeeTheSame) {
  char folder[] = "/tmp/permits-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  for (const Scope scope : {Scope::kUser, Scope::kNode}) {
    SharedPermits* const first = open_permits(scope, folder);
    SharedPermits* const second = open_permits(scope, folder);
    ASSERT_NE(first, nullptr);
    ASSERT_NE(second, nullptr);
    PermitTable one(*first, machine()), two(*second, machine());
    Permit permit;
    const MemoryFacts unknown;
    EXPECT_EQ(one.try_take({"x"}, {}, &unknown, permit), Admission::kGranted);
    EXPECT_EQ(two.in_flight(), 1u);
  }
  std::string remove = "rm -r " + std::string(folder);
  EXPECT_EQ(system(remove.c_str()), 0);
}

TEST(SharedPermits, WhatOthersCouldHaveWrittenIsNotTrusted) {
  char folder[] = "/tmp/permits-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  ASSERT_NE(open_permits(Scope::kUser, folder), nullptr);
  std::string change = "chmod 666 " + std::string(folder) + "/*";
  EXPECT_EQ(system(change.c_str()), 0);
  EXPECT_EQ(open_permits(Scope::kUser, folder), nullptr);
  change = "cd " + std::string(folder) + " && for f in *; do mv $f real; chmod 600 real; ln -s real $f; done";
  EXPECT_EQ(system(change.c_str()), 0);
  EXPECT_EQ(open_permits(Scope::kUser, folder), nullptr) << "a link";
  change = "cd " + std::string(folder) + " && for f in lib*; do rm $f; : > $f; chmod 600 $f; done";
  EXPECT_EQ(system(change.c_str()), 0);
  EXPECT_EQ(open_permits(Scope::kUser, folder), nullptr) << "another size";
  EXPECT_EQ(open_permits(Scope::kUser, "/nowhere"), nullptr);
  change = "rm -r " + std::string(folder);
  EXPECT_EQ(system(change.c_str()), 0);
}

TEST(SharedPermits, ATableOfAnotherLayoutIsLeftAlone) {
  char folder[] = "/tmp/permits-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  SharedPermits* const mine = open_permits(Scope::kUser, folder);
  ASSERT_NE(mine, nullptr);
  const std::uint32_t older = kReady - 1;
  mine->ready = older;
  EXPECT_EQ(find_permits(Scope::kUser, folder), nullptr);
  EXPECT_EQ(open_permits(Scope::kUser, folder), nullptr);
  PermitTable table(*mine, machine());
  Permit permit;
  EXPECT_EQ(table.try_take({"x"}, {}, nullptr, permit), Admission::kUnusable);
  EXPECT_EQ(mine->ready, older);
  EXPECT_EQ(mine->counts.granted, 0u);
  const std::string remove = "rm -r " + std::string(folder);
  EXPECT_EQ(system(remove.c_str()), 0);
}

TEST(SharedPermits, LookingForATableMakesNone) {
  char folder[] = "/tmp/permits-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  EXPECT_EQ(find_permits(Scope::kProcess, folder), nullptr);
  EXPECT_EQ(find_permits(Scope::kUser, folder), nullptr);
  EXPECT_EQ(rmdir(folder), 0) << "nothing is there";
  ASSERT_EQ(mkdir(folder, 0700), 0);
  SharedPermits* const made = open_permits(Scope::kUser, folder);
  ASSERT_NE(made, nullptr);
  made->counts.granted = 3;
  SharedPermits* const found = find_permits(Scope::kUser, folder);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(PermitTable(*found, machine()).counts().granted, 3u);
  close_permits(found);
  EXPECT_EQ(find_permits(Scope::kNode, folder), nullptr);
  const std::string remove = "rm -r " + std::string(folder);
  EXPECT_EQ(system(remove.c_str()), 0);
}

TEST(SharedPermits, ALimitOfFileSizesIsNotReached) {
  char folder[] = "/tmp/permits-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{100, 100};
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(open_permits(Scope::kUser, folder) == nullptr ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << "the kernel kills who writes more";
  EXPECT_EQ(rmdir(folder), 0) << "nothing is left there";
}

TEST(SharedPermits, AForkedChildHasPrivatePermitsOfItsOwn) {
  SharedPermits* const memory = open_permits(Scope::kProcess);
  ASSERT_NE(memory, nullptr);
  const pid_t child = fork();
  if (child == 0) _exit(memory->ready == 0 ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace graphpool
