// policy_glob_test.cpp: what a pattern matches.
#include <gtest/gtest.h>

#include "policy/glob.h"

namespace graphpool {
namespace {

struct Case {
  const char* pattern;
  const char* name;
  bool matches;
};

TEST(Glob, Matches) {
  const Case cases[] = {
      {"", "", true},
      {"", "a", false},
      {"abc", "abc", true},
      {"abc", "abcd", false},
      {"abc", "ab", false},
      {"*", "", true},
      {"*", "anything!at all", true},
      {"a*", "a", true},
      {"a*", "ba", false},
      {"*a", "bca", true},
      {"*a", "ab", false},
      {"a*c", "abbc", true},
      {"a*c", "abbd", false},
      {"a**c", "ac", true},
      {"a?c", "abc", true},
      {"a?c", "ac", false},
      {"?", "", false},
      {"*?", "", false},
      {"*?", "x", true},
      {"*ab*ab", "abab", true},
      {"*ab*ab", "ab", false},
      {"*ab*cd*", "xxabyyabzzcdww", true},
      {"*ab?d", "abxabyd", true},
      {"libtorch*!*", "libtorch_hip.so!at::native::empty(long)", true},
      {"*!operator[]", "app!operator[]", true},
      {"*!f[abi:cxx11]()", "app!f[abi:cxx11]()", true},
      {"*!f[abi:cxx11]()", "app!fa()", false},
      {"A", "a", false},
      {"\xc3\xa9*", "\xc3\xa9t\xc3\xa9", true},
  };
  for (const Case& c : cases) EXPECT_EQ(Glob(c.pattern).matches(c.name), c.matches) << c.pattern << " on " << c.name;
}

TEST(Glob, ManyStarsStayCheap) {
  std::string pattern;
  for (int i = 0; i < 40; ++i) pattern += "*a";
  pattern += "b";
  EXPECT_FALSE(Glob(pattern).matches(std::string(5000, 'a')));
}

TEST(Glob, EmptyAndPattern) {
  EXPECT_TRUE(Glob().empty());
  EXPECT_FALSE(Glob("*").empty());
  EXPECT_EQ(Glob("a***b").pattern(), "a*b");
  EXPECT_EQ(Glob("a**b"), Glob("a*b"));
}

}  // namespace
}  // namespace graphpool
