// compile_jobserver_test.cpp: what MAKEFLAGS says, and who may run under a jobserver. Real pipes: tests/compile.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/compile/jobserver.h"
#include "shim/compile/shared_memory.h"
#include "tests/unit/fake_machine.h"

namespace graphpool {
namespace {

TEST(MakeFlags, PipesAndFifos) {
  const MakeFlags pipe = parse_make_flags("kw -j4 --jobserver-auth=3,14 -- CFLAGS=-j9");
  EXPECT_EQ(pipe.read_end, 3);
  EXPECT_EQ(pipe.write_end, 14);
  EXPECT_EQ(pipe.jobs, 4u);
  EXPECT_EQ(pipe.option, "--jobserver-auth=3,14");
  EXPECT_TRUE(pipe.fifo.empty());
  EXPECT_EQ(parse_make_flags(" -j --jobserver-fds=5,6").write_end, 6) << "before make 4.2";
  EXPECT_EQ(parse_make_flags(" --jobserver-auth=3,4 --jobserver-auth=fifo:/a").fifo, "/a") << "the last counts";
  EXPECT_EQ(parse_make_flags(" --jobserver-auth=fifo:/a --jobserver-auth=3,4").read_end, 3);
}

TEST(MakeFlags, WithoutAServer) {
  for (const char* const text : {"", "k", " -j4", " --jobserver-auth=", " --jobserver-auth=3", " --jobserver-auth=3,",
                                 " --jobserver-auth=-2,-2", " --jobserver-auth=3,4x", " --jobserver-auth=fifo:",
                                 " -- --jobserver-auth=3,4", " --jobserver-auth=99999999999,1"}) {
    const MakeFlags flags = parse_make_flags(text);
    EXPECT_TRUE(flags.auth.empty() && flags.option.empty()) << text;
    EXPECT_EQ(flags.read_end, -1) << text;
  }
  EXPECT_TRUE(parse_make_flags(nullptr).auth.empty());
  EXPECT_EQ(parse_make_flags(" -j7").jobs, 7u) << "a recipe that is no sub-make is told too";
}

TEST(FileHolds, TextAcrossTheEndOfAPiece) {
  char path[] = "/tmp/holds-XXXXXX";
  const int file = mkstemp(path);
  ASSERT_GE(file, 0);
  const std::string text = std::string(4096 - 3, 'x') + "needle" + std::string(5000, 'y');
  ASSERT_EQ(write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  EXPECT_TRUE(file_holds(path, "needle"));
  EXPECT_FALSE(file_holds(path, "needles"));
  EXPECT_TRUE(file_holds(path, "xn")) << "near the start of what is kept";
  close(file);
  unlink(path);
  EXPECT_FALSE(file_holds(path, "needle"));
}

TEST(FileHolds, WhatAPipeHasIsTheHosts) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "needle", 6), 6);
  close(ends[1]);
  EXPECT_FALSE(file_holds(("/proc/self/fd/" + std::to_string(ends[0])).c_str(), "needle"));
  char left[8];
  EXPECT_EQ(read(ends[0], left, sizeof left), 6);
  close(ends[0]);
}

class Tokens : public testing::Test {
 protected:
  Tokens() {
    FakeMachine::reset();
    memory_ = static_cast<SharedPermits*>(
        mmap(nullptr, sizeof(SharedPermits), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    make_permits(*memory_, true);
    table_ = PermitTable(*memory_, FakeMachine::machine());
    limits_.most = 8;
    request_.size_class = "cc c 0K";
    request_.since_ns = FakeMachine::clock_ns;
    request_.server = {1, 2};
    request_.job = {50, 5};
  }
  Admission take(Permit& permit) { return table_.try_take(request_, limits_, &facts_, permit); }
  Admission take_with(std::uint8_t byte, Permit& permit) {
    PermitRequest request = request_;
    request.has_byte = true;
    request.byte = byte;
    return table_.try_take(request, limits_, &facts_, permit);
  }

  /// Never unmapped: permits that a test still holds are on the list of mutexes that the kernel and the C library walk.
  SharedPermits* memory_ = nullptr;
  PermitTable table_;
  PermitLimits limits_;
  PermitRequest request_;
  MemoryFacts facts_;
};

TEST_F(Tokens, OneOfAJobRunsByItselfOthersNeedAByte) {
  Permit first, second, other_job;
  EXPECT_EQ(take(first), Admission::kGranted);
  EXPECT_FALSE(first.has_byte);
  EXPECT_EQ(take(second), Admission::kNoToken);
  EXPECT_EQ(take_with('q', second), Admission::kGranted);
  EXPECT_TRUE(second.has_byte);
  EXPECT_EQ(second.byte, 'q');
  request_.job = {51, 5};
  EXPECT_EQ(take(other_job), Admission::kGranted) << "each job has one";
  request_.job = {50, 5};
  table_.give_back(first, {});
  EXPECT_EQ(take(first), Admission::kGranted) << "it came back";
}

TEST_F(Tokens, TheLimitHoldsWithAByteToo) {
  limits_.most = 1;
  Permit first, second;
  EXPECT_EQ(take(first), Admission::kGranted);
  EXPECT_EQ(take(second), Admission::kFull) << "no byte is read for nothing";
  EXPECT_EQ(take_with('q', second), Admission::kFull);
}

TEST_F(Tokens, WithoutAServerNothingIsAsked) {
  request_.server = {};
  Permit permits[3];
  for (Permit& permit : permits) EXPECT_EQ(take(permit), Admission::kGranted);
}

TEST_F(Tokens, rule_34_TheByteOfADeadHolderIsKept) {
  Permit first;
  EXPECT_EQ(take(first), Admission::kGranted);
  const pid_t child = fork();
  if (child == 0) {
    FakeMachine::process(getpid(), 200, 0);
    Permit permit;
    _exit(take_with('q', permit) == Admission::kGranted ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  std::uint8_t byte = 0;
  EXPECT_FALSE(table_.take_owed_byte({1, 3}, byte)) << "of another server";
  EXPECT_TRUE(table_.take_owed_byte({1, 2}, byte));
  EXPECT_EQ(byte, 'q');
  EXPECT_FALSE(table_.take_owed_byte({1, 2}, byte)) << "once";
}

TEST_F(Tokens, AByteThatWasNotWrittenIsKept) {
  Permit first, second;
  EXPECT_EQ(take(first), Admission::kGranted);
  EXPECT_EQ(take_with('q', second), Admission::kGranted);
  std::uint8_t byte = 0;
  table_.give_back(second, {});
  EXPECT_TRUE(table_.take_owed_byte({1, 2}, byte));
  EXPECT_EQ(take_with('q', second), Admission::kGranted);
  table_.byte_written(second);
  EXPECT_FALSE(second.has_byte);
  table_.give_back(second, {});
  EXPECT_FALSE(table_.take_owed_byte({1, 2}, byte));
}

TEST_F(Tokens, AHolderThatStandsStillLendsItsTokenOn) {
  Permit first, second, third, fourth;
  EXPECT_EQ(take(first), Admission::kGranted);
  EXPECT_EQ(take_with('q', second), Admission::kGranted);
  EXPECT_EQ(take(third), Admission::kNoToken);
  table_.look_at_holders(1);
  FakeMachine::clock_ns += 1'000'000'000;
  table_.look_at_holders(1);
  EXPECT_EQ(take(third), Admission::kGranted) << "the job's own";
  EXPECT_EQ(take(fourth), Admission::kGranted) << "the byte's";
  EXPECT_FALSE(third.has_byte || fourth.has_byte) << "nobody gives it back twice";
  Permit fifth;
  EXPECT_EQ(take(fifth), Admission::kNoToken);
}

}  // namespace
}  // namespace graphpool
