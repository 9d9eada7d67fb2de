// compile_jobserver_test.cpp: what MAKEFLAGS says, and what files hold. Real pipes: tests/compile.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/compile/jobserver.h"

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

}  // namespace
}  // namespace graphpool
