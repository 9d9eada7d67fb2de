// compile_compiler_process_test.cpp: which processes are compilers, of what, and how a permit is named to children.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "policy/policy.h"
#include "shim/compile/compiler_process.h"
#include "shim/compile/permits.h"

namespace graphpool {
namespace {

bool asks(std::initializer_list<const char*> words) {
  std::vector<const char*> arguments(words);
  arguments.push_back(nullptr);
  return only_asks(arguments.data());
}

TEST(CompilerProcess, Names) {
  const std::vector<Glob> tools = Policy{}.compile.tools;
  for (const char* name : {"clang", "clang++-15", "clang-cl", "hipcc", "hipcc.bin", "cc1plus", "ld.lld-14", "lld",
                           "lld-15", "ptxas", "cicc", "nvcc", "amdclang++"})
    EXPECT_TRUE(is_compiler(name, tools)) << name;
  for (const char* name : {"clangd", "clangd-15", "clang-format", "clang-tidy-14", "clang-offload-bundler", "lldb",
                           "ld", "python3", "make", "", "cc"})
    EXPECT_FALSE(is_compiler(name, tools)) << name;
  EXPECT_TRUE(is_compiler("mycc", {Glob("my*")}));
  EXPECT_FALSE(is_compiler("clangd", {Glob("*")}));
}

TEST(CompilerProcess, Questions) {
  EXPECT_TRUE(asks({}));
  EXPECT_TRUE(asks({"clang"}));
  EXPECT_TRUE(asks({"clang", "-v"}));
  EXPECT_FALSE(asks({"clang", "-v", "a.c"}));
  EXPECT_FALSE(asks({"clang", "-c", "a.c"}));
  for (const char* word :
       {"--version", "--help", "-help", "-###", "-print-search-dirs", "--print-targets", "-dumpversion", "-E", "-V"})
    EXPECT_TRUE(asks({"clang", "-c", word})) << word;
}

TEST(CompilerProcess, TheLargestInputIsItsKind) {
  char folder[] = "/tmp/permits-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string small = std::string(folder) + "/a.h", large = std::string(folder) + "/k.hip";
  std::ofstream(small) << "x";
  std::ofstream(large) << std::string(1000, 'x');
  const char* words[] = {"clang", "-o", small.c_str(), "-c", large.c_str(), small.c_str(), "none.c", nullptr};
  const CompilerInput input = compiler_input(words);
  EXPECT_EQ(input.kind, "hip");
  EXPECT_EQ(input.bytes, 1000u);
  const char* none[] = {"lld", "-shared", nullptr};
  EXPECT_EQ(compiler_input(none).kind, "link");
  EXPECT_EQ(system(("rm -r " + std::string(folder)).c_str()), 0);
}

TEST(CompilerProcess, PermitsAreNamed) {
  char text[80];
  const std::size_t length = permit_text({{123, 456, 9}, 7}, text, sizeof text);
  EXPECT_EQ(std::string(text, length), "123.456.9.7");
  const ParentPermit parent = parse_permit("123.456.9.7");
  EXPECT_EQ(parent.holder, (ProcessName{123, 456, 9}));
  EXPECT_EQ(parent.generation, 7u);
  for (const char* bad :
       {"", "1", "1.2", "1.2.3", "1.2.3.", "a.b.c.d", "1.2.3.4x", "-5.2.3.4", "0.2.3.4", "1.2.3.99999999999", "1..2.3"})
    EXPECT_EQ(parse_permit(bad).holder.process, 0) << bad;
}

TEST(CompilerProcess, ClassesGrowByEight) {
  char text[kClassNameBytes];
  const auto name = [&text](std::uint64_t bytes) {
    return std::string(text, class_name({"clang", "hip", bytes}, text, sizeof text));
  };
  EXPECT_EQ(name(0), "clang hip 0K");
  EXPECT_EQ(name(5000), "clang hip 4K");
  EXPECT_EQ(name(32767), "clang hip 4K");
  EXPECT_EQ(name(32768), "clang hip 32K");
  EXPECT_EQ(name(300'000), "clang hip 256K");
  const std::string longest(200, 'x');
  EXPECT_LT(class_name({longest, longest, 1}, text, sizeof text), sizeof text);
}

}  // namespace
}  // namespace graphpool
