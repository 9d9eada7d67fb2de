#include <gtest/gtest.h>

#include <memory>

#include "shim/base/function_ref.h"

namespace graphpool {
namespace {

int twice(FunctionRef<int(int)> function) { return function(function(3)); }

TEST(FunctionRef, calls_what_it_refers_to) {
  int calls = 0;
  EXPECT_EQ(twice([&calls](int value) {
              ++calls;
              return value * 10;
            }),
            300);
  EXPECT_EQ(calls, 2);
  const auto constant = [](int) { return 7; };
  EXPECT_EQ(twice(constant), 7);
}

TEST(FunctionRef, arguments_and_results_are_passed_on) {
  const auto take = [](FunctionRef<std::unique_ptr<int>(std::unique_ptr<int>, int&)> function) {
    int out = 0;
    const auto result = function(std::make_unique<int>(4), out);
    return *result + out;
  };
  EXPECT_EQ(take([](std::unique_ptr<int> value, int& out) {
              out = 30;
              return value;
            }),
            34);
}

TEST(FunctionRef, a_copy_refers_to_the_same) {
  int calls = 0;
  const auto count = [&calls] { ++calls; };
  const FunctionRef<void()> first(count);
  const FunctionRef<void()> second = first;  // NOLINT: the copy is the point
  first();
  second();
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace graphpool
