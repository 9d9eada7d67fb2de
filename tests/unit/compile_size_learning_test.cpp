// compile_size_learning_test.cpp: what a compilation is expected to need.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <string>

#include "tests/unit/permits_fixture.h"

namespace graphpool {
namespace {

using Sizes = Permits;

TEST_F(Sizes, CallsLearnAddressSpaceToo) {
  request_.kind = HolderKind::kCall;
  request_.before = {500 * kMiB, kMiB, kMiB, 500 * kMiB};
  table_.give_back(taken(), {600 * kMiB, 10 * kMiB, 10 * kMiB, 800 * kMiB});
  EXPECT_EQ(expected_bytes(request_.size_class), 9 * kMiB);
  static_cast<void>(taken());
  facts_ = {kGiB, kGiB, 0};
  FakeMachine::memory_of(getpid(), 500 << 10, 1, 1);
  FakeMachine::address_space = 1099 * kMiB;
  Permit second;
  EXPECT_EQ(take(second), Admission::kNoMemory) << "599 MiB left, two grow by 300 each";
  FakeMachine::address_space = 1100 * kMiB;
  EXPECT_EQ(take(second), Admission::kGranted);
}

TEST_F(Sizes, SizesGoUpAtOnceAndDownSlowly) {
  finish(taken(), 400 * kMiB);
  finish(taken(), 80 * kMiB);
  EXPECT_EQ(expected_bytes(request_.size_class), 380 * kMiB);
  finish(taken(), 500 * kMiB);
  EXPECT_EQ(expected_bytes(request_.size_class), 500 * kMiB);
  EXPECT_EQ(expected_bytes("another"), kUnknownSizeBytes);
}

TEST_F(Sizes, ALargerInputIsExpectedToNeedMoreInProportion) {
  request_.input_bytes = 100 * kKiB;
  finish(taken(), 100 * kMiB);
  const auto expected = [this](std::uint64_t input_bytes) {
    return expected_bytes(request_.size_class, input_bytes) / kMiB;
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

TEST_F(Sizes, SmallInputsAreAlike) {
  request_.input_bytes = 100;
  finish(taken(), 100 * kMiB);
  EXPECT_EQ(expected_bytes(request_.size_class, kLeastInputBytes), 100 * kMiB);
  EXPECT_EQ(expected_bytes(request_.size_class, 2 * kLeastInputBytes), 200 * kMiB);
}

TEST_F(Sizes, ACallIsLearntByGrowthAndOnlyAlone) {
  request_.kind = HolderKind::kCall;
  request_.before = {0, 100 * kMiB, 150 * kMiB};
  Permit permit = taken();
  table_.give_back(permit, {0, 120 * kMiB, 350 * kMiB});
  EXPECT_EQ(expected_bytes(request_.size_class), 250 * kMiB) << "the new peak less what was there";
  permit = taken();
  const Permit beside = taken();
  table_.give_back(permit, {0, 900 * kMiB, 900 * kMiB});
  table_.give_back(beside, {0, 900 * kMiB, 900 * kMiB});
  EXPECT_EQ(expected_bytes(request_.size_class), 250 * kMiB) << "two at once: nobody knows whose it was";
}

TEST_F(Sizes, APoolThreadIsLearntByItsPartOfANewPeak) {
  request_.kind = HolderKind::kPoolThread;
  request_.before = {0, 100 * kMiB, 150 * kMiB};
  const Permit first = taken(), second = taken();
  table_.give_back(first, {0, 110 * kMiB, 150 * kMiB});
  EXPECT_EQ(expected_bytes(request_.size_class), kUnknownSizeBytes) << "nothing is known of the time between";
  const Permit third = taken();
  table_.give_back(second, {0, 110 * kMiB, 300 * kMiB});
  EXPECT_EQ(expected_bytes(request_.size_class), 100 * kMiB);
  table_.sleep(third);
  table_.give_back(third, {0, 110 * kMiB, 900 * kMiB});
  EXPECT_EQ(expected_bytes(request_.size_class), 100 * kMiB) << "others grew while it slept";
}

TEST_F(Sizes, SizesOfMoreKindsThanThereIsRoomForAreUnknown) {
  for (std::uint32_t i = 0; i < kMostClasses + 5; ++i) expected_bytes("class " + std::to_string(i));
  EXPECT_EQ(expected_bytes("one more"), kUnknownSizeBytes);
  request_.size_class = "one more";
  finish(taken(), kMiB);
  EXPECT_EQ(expected_bytes("one more"), kUnknownSizeBytes);
}

TEST_F(Sizes, ARidersSizeIsThereBesideItsHolders) {
  const Permit holder = taken();
  FakeMachine::memory_of(getpid(), 0, 20 << 10, 20 << 10);
  const pid_t child = fork();
  if (child == 0) {
    FakeMachine::process(getpid(), 300, 0);
    const Permit permit = table_.ride({getppid(), 100}, 0);
    if (!permit.held()) _exit(1);
    table_.give_back(permit, {0, 1, 80 * kMiB});
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  finish(holder, 20 * kMiB);
  EXPECT_EQ(expected_bytes(request_.size_class), 100 * kMiB);
}

}  // namespace
}  // namespace graphpool
