#include <gtest/gtest.h>

#include <deque>

#include "shim/execs/exec_uses.h"

namespace graphpool {
namespace {

/// So many execs, which nothing looks into.
class Execs {
 public:
  explicit Execs(std::size_t count, int device = 0) {
    for (std::size_t i = 0; i < count; ++i) {
      entries_.emplace_back(at(i), device);
      use(i);
      uses_.enlist(entries_.back());
    }
  }
  void use(std::size_t i) {
    begin(i);
    ExecUses::end(entries_[i]);
  }
  void begin(std::size_t i) { uses_.begin(entries_[i], ++now_); }
  void end(std::size_t i) { ExecUses::end(entries_[i]); }
  void leave(std::size_t i) { uses_.leave(entries_[i]); }
  void enlist(std::size_t i) { uses_.enlist(entries_[i]); }

  /// Its place, or -1.
  template <typename Judge>
  int oldest(int device, Judge&& judge) {
    last_ = uses_.oldest(device, [&](ProgramExec& exec) { return judge(place(exec)); });
    return last_.entry == nullptr ? -1 : static_cast<int>(place(*last_.entry->exec));
  }
  int oldest(int device = 0) {
    return oldest(device, [](std::size_t) { return ExecUses::Verdict::kGoes; });
  }
  bool some_run() const { return last_.some_run; }

 private:
  ProgramExec& at(std::size_t i) { return reinterpret_cast<ProgramExec&>(storage_[i]); }
  std::size_t place(const ProgramExec& exec) const {
    return static_cast<std::size_t>(reinterpret_cast<const char*>(&exec) - storage_);
  }

  char storage_[100] = {};
  std::deque<ExecUses::Entry> entries_;
  ExecUses uses_;
  std::uint64_t now_ = 0;
  ExecUses::Oldest last_;
};

TEST(ExecUses, TheOneThatWasNotUsedForLongestGoes) {
  Execs execs(4);
  EXPECT_EQ(0, execs.oldest());
  execs.use(0);
  execs.use(1);
  EXPECT_EQ(2, execs.oldest());
  EXPECT_EQ(2, execs.oldest(-1)) << "of any device";
  EXPECT_EQ(-1, execs.oldest(1)) << "there is none on that device";
}

TEST(ExecUses, WhatIsInUseStays) {
  Execs execs(2);
  execs.begin(0);
  execs.begin(0);
  execs.use(1);
  EXPECT_EQ(1, execs.oldest());
  execs.end(0);
  execs.begin(1);
  EXPECT_EQ(-1, execs.oldest());
  EXPECT_TRUE(execs.some_run());
  execs.end(0);
  EXPECT_EQ(0, execs.oldest());
}

TEST(ExecUses, WhatMayNotGoIsPassedOver) {
  Execs execs(4);
  EXPECT_EQ(
      2, execs.oldest(0, [](std::size_t i) { return i < 2 ? ExecUses::Verdict::kStays : ExecUses::Verdict::kGoes; }));
  EXPECT_FALSE(execs.some_run());
  EXPECT_EQ(
      1, execs.oldest(0, [](std::size_t i) { return i == 0 ? ExecUses::Verdict::kRuns : ExecUses::Verdict::kGoes; }));
}

TEST(ExecUses, TheSearchEndsBehindManyThatRun) {
  Execs execs(ExecUses::kMostRunning + 10);
  std::size_t looks = 0;
  EXPECT_EQ(-1, execs.oldest(0, [&](std::size_t) {
    ++looks;
    return ExecUses::Verdict::kRuns;
  }));
  EXPECT_EQ(ExecUses::kMostRunning, looks);
  EXPECT_TRUE(execs.some_run());
}

TEST(ExecUses, WhatHoldsNoneIsNotFoundUntilItDoes) {
  Execs execs(2);
  execs.leave(0);
  execs.leave(0);
  execs.use(0);
  EXPECT_EQ(1, execs.oldest());
  execs.leave(1);
  EXPECT_EQ(-1, execs.oldest());
  execs.enlist(0);
  execs.enlist(0);
  execs.enlist(1);
  EXPECT_EQ(0, execs.oldest());
}

}  // namespace
}  // namespace graphpool
