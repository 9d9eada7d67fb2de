// Bindings that come back, and words that never do.
#include <gtest/gtest.h>

#include "shim/costs/binding_history.h"

namespace graphpool {
namespace {

Binding binding(std::initializer_list<std::uint64_t> words) {
  Binding made(words.size() * 8);
  std::memcpy(made.data(), words.begin(), made.size());
  return made;
}

TEST(BindingHistory, a_binding_that_comes_back_is_known) {
  BindingHistory history;
  EXPECT_FALSE(history.note(binding({1, 2})).seen);
  EXPECT_FALSE(history.note(binding({1, 3})).seen);
  EXPECT_TRUE(history.note(binding({1, 2})).seen);
}

TEST(BindingHistory, it_says_how_long_ago_a_binding_was_there) {
  BindingHistory history;
  for (std::uint64_t i = 0; i < 30; ++i) {
    const auto noted = history.note(binding({i % 5}));
    EXPECT_EQ(i >= 5, noted.seen) << i;
    EXPECT_EQ(i < 5 ? 0u : 5u, noted.ago) << i;
  }
}

TEST(BindingHistory, rule_30_a_word_that_changes_every_time_is_volatile) {
  BindingHistory history;
  for (std::uint64_t i = 0; i < 20; ++i) {
    const auto noted = history.note(binding({7, i, i < 3 ? i : 3}));
    EXPECT_EQ(i >= BindingHistory::kVolatileAfter, noted.is_volatile) << i;
    EXPECT_FALSE(noted.seen);
  }
  EXPECT_EQ(1u, history.volatile_words());
}

TEST(BindingHistory, bindings_in_turn_are_not_volatile) {
  BindingHistory history;
  for (std::uint64_t i = 0; i < 60; ++i) EXPECT_FALSE(history.note(binding({i % 6})).is_volatile) << i;
  EXPECT_EQ(0u, history.volatile_words());
}

TEST(BindingHistory, rule_30_only_so_many_are_remembered) {
  BindingHistory history;
  history.note(binding({0}));
  const std::size_t bytes = history.bytes();
  for (std::uint64_t i = 1; i <= BindingHistory::kRemembered; ++i) history.note(binding({i}));
  EXPECT_FALSE(history.note(binding({0})).seen);
  EXPECT_TRUE(history.note(binding({BindingHistory::kRemembered})).seen);
  for (std::uint64_t i = 0; i < 10'000; ++i) history.note(binding({1000 + i}));
  EXPECT_EQ(bytes, history.bytes());
}

}  // namespace
}  // namespace graphpool
