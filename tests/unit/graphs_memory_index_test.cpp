// Which bindings may name memory of a range.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <new>
#include <random>
#include <vector>

#include "shim/graphs/memory_index.h"
#include "tests/support/counting_new.h"

namespace graphpool {
namespace {

constexpr std::uint64_t kBase = 0x7f12'3400'0000;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kPages = 512;  ///< on which the test's memory lies

/// Bindings in an index, and beside it.
class MemoryIndexTest : public testing::Test {
 protected:
  struct Owner {
    std::uint64_t number = 0;
  };
  std::array<Owner, 400> owners_{};
  std::map<void*, Binding> held_;
  MemoryIndex index_;
  std::mt19937_64 random_{7};

  std::uint64_t anywhere() { return kBase + random_() % (kPages * kPage); }
  Binding some_binding() {
    Binding binding(random_() % 200 * sizeof(std::uint64_t));
    for (std::uint32_t at = 0; at < binding.size(); at += sizeof(std::uint64_t))
      payload_at<std::uint64_t>(binding, at) = random_() % 4 == 0 ? random_() : anywhere();
    return binding;
  }
  void add(std::size_t owner, const Binding& binding) {
    owners_[owner].number = index_.add(&owners_[owner], MemoryIndex::pages_of(binding));
    held_.emplace(&owners_[owner], binding);
  }
  void remove(std::size_t owner) {
    index_.remove(owners_[owner].number);
    held_.erase(&owners_[owner]);
  }
  /// All that name the range are found, and nothing that names none of its pages.
  void check(std::uint64_t first, std::uint64_t bytes) {
    std::vector<void*> found = index_.find(reinterpret_cast<const void*>(first), bytes), expected;
    const std::uint64_t from = first / kPage * kPage, end = (first + bytes - 1) / kPage * kPage + kPage;
    for (const auto& [owner, binding] : held_)
      if (names_memory(binding, reinterpret_cast<const void*>(from), end - from)) expected.push_back(owner);
    EXPECT_EQ(expected, found) << std::hex << first << ", bytes: " << bytes;
  }
};

TEST_F(MemoryIndexTest, WhatNamesARangeIsFoundWhateverCameAndWent) {
  for (std::size_t owner = 0; owner < owners_.size(); ++owner) {
    add(owner, some_binding());
    if (owner % 3 == 2) remove(owner - random_() % 3);
    for (int i = 0; i < 5; ++i) check(anywhere(), 1 + random_() % (random_() % 2 == 0 ? 64 : 64 * kPage));
  }
  check(kBase, kPages * kPage);
  for (std::size_t owner = 0; owner < owners_.size(); owner += 2) remove(owner);
  for (int i = 0; i < 100; ++i) check(anywhere(), 1 + random_() % kPage);
}

TEST_F(MemoryIndexTest, WhatIsLeftBehindIsBounded) {
  std::size_t most = 0;
  for (int round = 0; round < 50; ++round) {
    for (std::size_t owner = 0; owner < 20; ++owner) {
      if (round > 0) remove(owner);
      add(owner, some_binding());
    }
    std::size_t held = 0;
    for (const auto& [owner, binding] : held_) held += MemoryIndex::pages_of(binding).size();
    most = std::max(most, held);
    static_cast<void>(index_.find(reinterpret_cast<const void*>(anywhere()), 1));
    EXPECT_LE(index_.size(), 3 * most);
  }
  for (std::size_t owner = 0; owner < 20; ++owner) remove(owner);
  EXPECT_EQ(0u, index_.size());
  remove(0);  // nothing is held by it
  EXPECT_EQ(0u, index_.size());
}

TEST_F(MemoryIndexTest, ARangeThatNoMemoryHasFindsTooMany) {
  add(0, some_binding());
  EXPECT_TRUE(index_.find(reinterpret_cast<const void*>(kBase), 0).empty());
  EXPECT_EQ(1u, index_.find(reinterpret_cast<const void*>(kBase), ~std::size_t{0}).size());
}

TEST_F(MemoryIndexTest, WhereNoMemoryIsLeftNothingIsLost) {
  for (std::size_t owner = 0; owner < 100; ++owner) {
    const Binding binding = some_binding();
    bool added = false;
    for (int works = 0; !added; ++works) {
      let_allocations_work(works);
      try {
        owners_[owner].number = index_.add(&owners_[owner], MemoryIndex::pages_of(binding));
        added = true;
      } catch (const std::bad_alloc&) {
      }
      let_allocations_work(-1);
    }
    held_.emplace(&owners_[owner], binding);
    if (owner % 4 == 3) {
      remove(owner - 1);
      remove(owner - 2);
      remove(owner - 3);
    }
    const std::uint64_t first = anywhere();
    for (int works = 0; works < 4; ++works) {
      let_allocations_work(works);
      try {
        static_cast<void>(index_.find(reinterpret_cast<const void*>(first), kPage));
      } catch (const std::bad_alloc&) {
      }
      let_allocations_work(-1);
    }
    check(first, 8 * kPage);
  }
}

TEST_F(MemoryIndexTest, TheWordsOfABindingAreKeptOnce) {
  Binding binding(1000 * sizeof(std::uint64_t));
  for (std::uint32_t at = 0; at < binding.size(); at += sizeof(std::uint64_t))
    payload_at<std::uint64_t>(binding, at) = kBase + at % (3 * kPage);
  EXPECT_EQ((std::vector<std::uint64_t>{kBase / kPage, kBase / kPage + 1}), MemoryIndex::pages_of(binding));
  EXPECT_TRUE(MemoryIndex::pages_of({}).empty());
}

}  // namespace
}  // namespace graphpool
