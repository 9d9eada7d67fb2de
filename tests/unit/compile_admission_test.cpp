// compile_admission_test.cpp: who is admitted beside those that run.
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/permits_fixture.h"

namespace graphpool {
namespace {

using Admissions = Permits;

TEST_F(Admissions, AtMostAsManyAsTheLimit) {
  Permit permits[4];
  for (int i = 0; i < 3; ++i) EXPECT_EQ(take(permits[i]), Admission::kGranted);
  EXPECT_EQ(take(permits[3]), Admission::kFull);
  EXPECT_EQ(table_.in_flight(), 3u);
  table_.give_back(permits[1], kNothing);
  EXPECT_EQ(take(permits[3]), Admission::kGranted);
  EXPECT_EQ(table_.figures().peak_in_flight(), 3u);
}

TEST_F(Admissions, OneMayAlwaysRun) {
  FakeMachine::clock_ns += kBurst;
  facts_ = {kGiB, 0, 99};
  const Permit first = taken();
  Permit second;
  EXPECT_EQ(take(second), Admission::kNoMemory);
  table_.give_back(first, kNothing);
  EXPECT_EQ(take(second), Admission::kGranted);
}

TEST_F(Admissions, MemoryIsAskedForOnlyBesideOthers) {
  finish(taken(), kMiB);
  Permit first, second;
  EXPECT_EQ(table_.try_take(request_, limits_, nullptr, first), Admission::kGranted);
  EXPECT_EQ(table_.try_take(request_, limits_, nullptr, second), Admission::kAskMemory);
}

TEST_F(Admissions, UnknownSizesAreTakenToBeLarge) {
  facts_ = {16 * kGiB, 2 * kUnknownSizeBytes - 1, 0};
  FakeMachine::clock_ns += kBurst;
  Permit second;
  static_cast<void>(taken());
  EXPECT_EQ(take(second), Admission::kNoMemory);
  facts_.available_bytes = 2 * kUnknownSizeBytes;
  EXPECT_EQ(take(second), Admission::kGranted);
}

TEST_F(Admissions, ABurstIsNotAdmittedBecauseNothingHasGrownYet) {
  finish(taken(), 300 * kMiB);  // learnt
  EXPECT_EQ(expected_bytes(request_.size_class), 300 * kMiB);
  facts_ = {kGiB, 700 * kMiB, 0};
  static_cast<void>(taken());
  Permit second, third;
  EXPECT_EQ(take(second), Admission::kGranted);
  EXPECT_EQ(table_.outstanding_bytes(), 600 * kMiB);
  EXPECT_EQ(take(third), Admission::kNoMemory) << "100 MiB are left once both have grown";
  // Grown: what they have taken is no longer available, nor outstanding.
  FakeMachine::memory_of(getpid(), 700 << 10, 300 << 10, 300 << 10);
  facts_.available_bytes = 100 * kMiB;
  table_.look_at_holders(kIdleNs);
  EXPECT_EQ(table_.outstanding_bytes(), 0u);
  EXPECT_EQ(take(third), Admission::kNoMemory);
  facts_.available_bytes = 300 * kMiB;
  EXPECT_EQ(take(third), Admission::kGranted);
}

TEST_F(Admissions, WhatAProcessHasAlreadyIsNotNeededAgain) {
  finish(taken(), 100 * kMiB);
  request_.before.own_bytes = 30 * kMiB;
  static_cast<void>(taken());
  EXPECT_EQ(table_.outstanding_bytes(), 70 * kMiB);
  FakeMachine::clock_ns += 1'000'000'000;
  facts_ = {kGiB, 139 * kMiB, 0};
  Permit second;
  EXPECT_EQ(take(second), Admission::kNoMemory);
  facts_.available_bytes = 140 * kMiB;
  request_.kind = HolderKind::kCall;
  EXPECT_EQ(take(second), Admission::kNoMemory) << "a call adds to what is there";
  request_.kind = HolderKind::kProcess;
  EXPECT_EQ(take(second), Admission::kGranted);
}

TEST_F(Admissions, WhereLittleWouldBeLeftProcessesThatAreJustStartingAreWaitedFor) {
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

TEST_F(Admissions, WhereMemoryWasTooLittleAMomentAgoItIsNotReadAgain) {
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

TEST_F(Admissions, TheReserveIsLeftFree) {
  finish(taken(), 100 * kMiB);
  static_cast<void>(taken());
  limits_.reserve_bytes = 50 * kMiB;
  facts_ = {kGiB, 249 * kMiB, 0};
  Permit second;
  EXPECT_EQ(take(second), Admission::kNoMemory);
  facts_.available_bytes = 250 * kMiB;
  EXPECT_EQ(take(second), Admission::kGranted);
}

TEST_F(Admissions, PressureHoldsNewOnesBack) {
  finish(taken(), kMiB);
  static_cast<void>(taken());
  facts_ = {kGiB, kGiB, kMostPressurePercent};
  Permit second;
  EXPECT_EQ(take(second), Admission::kNoMemory);
  facts_.pressure_percent = kMostPressurePercent - 1;
  EXPECT_EQ(take(second), Admission::kGranted);
}

TEST_F(Admissions, TheLimitOfAddressSpaceCountsForCalls) {
  finish(taken(), 100 * kMiB);
  static_cast<void>(taken());
  facts_ = {kGiB, kGiB, 0};
  FakeMachine::memory_of(getpid(), 500 << 10, 1, 1);
  FakeMachine::address_space = 650 * kMiB;
  Permit second;
  request_.kind = HolderKind::kCall;
  EXPECT_EQ(take(second), Admission::kNoMemory) << "150 MiB left, two grow by 100 each";
  FakeMachine::address_space = 700 * kMiB;
  EXPECT_EQ(take(second), Admission::kGranted);
}

TEST_F(Admissions, WhereNoSizeIsKnownAutoStopsAtEight) {
  limits_.most = 100;
  std::vector<Permit> permits(kUnknownSizeLimit + 1);
  for (std::uint32_t i = 0; i < kUnknownSizeLimit; ++i) EXPECT_EQ(take(permits[i]), Admission::kGranted);
  EXPECT_EQ(take(permits.back()), Admission::kFull);
  limits_.is_auto = false;
  EXPECT_EQ(take(permits.back()), Admission::kGranted) << "a number is the user's word";
}

TEST_F(Admissions, WhatRunsOnOtherProcessorsLeavesTheseToThisProcess) {
  limits_.most = 100;
  limits_.most_here = 1;
  std::vector<Permit> permits(3);
  EXPECT_EQ(take(permits[0]), Admission::kGranted);
  EXPECT_EQ(take(permits[1]), Admission::kFull);
  memory_->slots[permits[0].index].holder.process = 4711;
  EXPECT_EQ(take(permits[1]), Admission::kFull) << "it may run on the same processors";
  FakeMachine::elsewhere = {4711};
  EXPECT_EQ(take(permits[1]), Admission::kGranted);
  EXPECT_EQ(take(permits[2]), Admission::kFull);
  memory_->slots[permits[1].index].holder = {4711, 100, 7};
  EXPECT_EQ(take(permits[2]), Admission::kFull) << "the number is of another namespace";
  limits_.most = 2;
  memory_->slots[permits[1].index].holder = {4711, 100, 0};
  EXPECT_EQ(take(permits[2]), Admission::kFull) << "that limit is for all";
  limits_.most = 3;
  EXPECT_EQ(take(permits[2]), Admission::kGranted);
}

TEST_F(Admissions, WhereTwoOfUnknownSizeDoNotFitTheSmallestGoesFirst) {
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

TEST_F(Admissions, ABurstIsWaitedForOnceAndNotForThoseThatAreHardlySmaller) {
  facts_ = {3 * kGiB, 3 * kGiB, 0};
  const auto ask = [this](std::uint64_t input_bytes, std::uint64_t since_ns, Permit& permit) {
    request_.input_bytes = input_bytes;
    request_.since_ns = since_ns;
    return take(permit);
  };
  Permit permit;
  const std::uint64_t first_ns = FakeMachine::clock_ns;
  EXPECT_EQ(ask(1000, first_ns, permit), Admission::kOthersTurn);
  FakeMachine::clock_ns += kBurst;
  const std::uint64_t last_ns = FakeMachine::clock_ns;
  EXPECT_EQ(ask(800, last_ns, permit), Admission::kGranted) << "the burst began with the first one";
  table_.give_back(permit, kNothing);
  FakeMachine::clock_ns += kBurst;
  EXPECT_EQ(ask(900, last_ns, permit), Admission::kGranted) << "nobody is known to wait any more";
  table_.give_back(permit, kNothing);
  EXPECT_EQ(ask(800, FakeMachine::clock_ns, permit), Admission::kOthersTurn);
  EXPECT_EQ(ask(1000, first_ns, permit), Admission::kOthersTurn) << "one with four fifths of its input waits";
  EXPECT_EQ(ask(900, first_ns, permit), Admission::kGranted) << "one with eight ninths does, too";
}

TEST_F(Admissions, TheSmallestGoesFirstAlsoBehindThoseOfAnotherClass) {
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

TEST_F(Admissions, AnUnknownSizeIsWaitedForOnlyForAMomentAndWhereItMatters) {
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
  request_.kind = HolderKind::kCall;
  EXPECT_EQ(ask(200, nullptr), Admission::kGranted) << "a call";
  request_.kind = HolderKind::kProcess;
  request_.size_class = "another";
  finish(taken(), kMiB);
  EXPECT_EQ(ask(200, nullptr), Admission::kGranted) << "of a known size";
}

TEST_F(Admissions, TheLongestWaiterGoesFirst) {
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

}  // namespace
}  // namespace graphpool
