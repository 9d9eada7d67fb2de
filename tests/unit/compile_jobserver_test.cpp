// compile_jobserver_test.cpp: what MAKEFLAGS says, and what files hold. Real pipes: tests/compile.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "shim/compile/jobserver.h"
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

/// Offers a jobserver of `jobs` twice, as a process does before and after an exec; a child has taken `taken` bytes and
/// keeps the fifo open meanwhile, or nobody does (`kept` false). Returns how many bytes the fifo has then; -1: it was
/// not offered. In a process of its own, because the offer changes MAKEFLAGS.
int bytes_after_second_offer(std::uint32_t jobs, int taken, bool kept) {
  char folder[] = "/tmp/offers-XXXXXX";
  EXPECT_NE(mkdtemp(folder), nullptr);
  const pid_t child = fork();
  if (child == 0) {
    setenv("XDG_RUNTIME_DIR", folder, 1);
    unsetenv("MAKEFLAGS");
    FakeMachine::reset();
    if (!offer_jobserver(FakeMachine::machine(), jobs)) _exit(255);
    const std::string fifo(parse_make_flags(std::getenv("MAKEFLAGS")).fifo);
    const int file = open(fifo.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    for (char byte = 0; taken > 0; --taken)
      if (read(file, &byte, 1) != 1) _exit(255);
    if (!kept) {
      close(file);
      close_range(200, 1000, 0);  // what the first offer kept open
    }
    if (!offer_jobserver(FakeMachine::machine(), jobs)) _exit(255);
    const int again = open(fifo.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    int there = 0;
    _exit(ioctl(again, FIONREAD, &there) == 0 ? there : 255);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  std::filesystem::remove_all(folder);
  return WIFEXITED(status) && WEXITSTATUS(status) != 255 ? WEXITSTATUS(status) : -1;
}

TEST(OfferedJobserver, AfterAnExecNoByteIsMadeTwice) {
  EXPECT_EQ(bytes_after_second_offer(4, 1, true), 2) << "a child has one";
  EXPECT_EQ(bytes_after_second_offer(4, 3, true), 0) << "children have all";
  EXPECT_EQ(bytes_after_second_offer(4, 0, false), 3) << "they were lost when nobody had the fifo open";
}

/// In a process of its own, because it changes MAKEFLAGS.
TEST(JobTokens, WithoutAServerNoFileIsWrittenTo) {
  char folder[] = "/tmp/tokens-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string path = std::string(folder) + "/fifo";
  const pid_t child = fork();
  if (child == 0) {
    FakeMachine::reset();
    setenv("MAKEFLAGS", (" -j4 --jobserver-auth=fifo:" + path).c_str(), 1);
    JobTokens tokens;
    if (mkfifo(path.c_str(), 0600) != 0 || !tokens.open(FakeMachine::machine())) _exit(1);
    unlink(path.c_str());
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 || write(file, "text", 4) != 4 || tokens.put('+')) _exit(2);
    if (tokens.open(FakeMachine::machine()) || tokens.take().has_value() || tokens.put('+')) _exit(3);
    char text[8];
    _exit(pread(file, text, sizeof text, 0) == 4 && text[0] == 't' ? 0 : 4);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace graphpool
