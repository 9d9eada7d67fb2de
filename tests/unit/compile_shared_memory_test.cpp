// compile_shared_memory_test.cpp: processes of a scope see one table, and trust no other.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cstdlib>
#include <string>

#include "shim/compile/permit_table.h"
#include "shim/compile/shared_memory.h"

namespace graphpool {
namespace {

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
  EXPECT_EQ(mine->figures.counts().granted, 0u);
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
  made->figures.add(&ScopeCounts::granted, 3);
  SharedPermits* const found = find_permits(Scope::kUser, folder);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->figures.counts().granted, 3u);
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
