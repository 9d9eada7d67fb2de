// Entries found by their keys, few and many.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "shim/costs/keyed_row.h"

namespace graphpool {
namespace {

struct Entry {
  std::uintptr_t key;
  std::size_t number;
};
using Row = KeyedRow<Entry, &Entry::key>;

/// Keys as handles are: addresses some bytes apart.
std::uintptr_t key(std::size_t i) { return 0x7f0000000000 + 48 * i; }

/// Around the number from which on there is an index, and far beyond.
class KeyedRowOf : public testing::TestWithParam<std::size_t> {
 protected:
  void fill(Row& row) const {
    for (std::size_t i = 0; i < GetParam(); ++i) EXPECT_EQ(i, row.add({key(i), i}).number);
  }
};

TEST_P(KeyedRowOf, entries_are_found_where_they_are) {
  Row row;
  fill(row);
  ASSERT_EQ(GetParam(), row.size());
  for (std::size_t i = 0; i < GetParam(); ++i) {
    EXPECT_EQ(row.data() + i, row.find(key(i)));
    EXPECT_EQ(i, row[i].number);
  }
  EXPECT_EQ(nullptr, row.find(key(GetParam())));
  EXPECT_EQ(nullptr, row.find(key(0) + 1));
  EXPECT_EQ(nullptr, row.find(0));
}

TEST_P(KeyedRowOf, a_forgotten_key_finds_nobody_until_it_is_added_again) {
  Row row;
  fill(row);
  for (std::size_t i = 0; i < GetParam(); i += 3) row.forget(row[i]);
  for (std::size_t i = 0; i < GetParam(); ++i) EXPECT_EQ(i % 3 == 0 ? nullptr : &row[i], row.find(key(i)));
  EXPECT_EQ(nullptr, row.find(0));
  for (std::size_t i = 0; i < GetParam(); i += 3) row.add({key(i), GetParam() + i});
  for (std::size_t i = 0; i < GetParam(); ++i) {
    ASSERT_NE(nullptr, row.find(key(i)));
    EXPECT_EQ(i % 3 == 0 ? GetParam() + i : i, row.find(key(i))->number);
  }
}

TEST_P(KeyedRowOf, what_is_erased_is_gone_and_the_others_stay) {
  Row row;
  fill(row);
  const std::size_t gone = row.erase_if([](const Entry& entry) { return entry.number % 2 == 0; });
  EXPECT_EQ((GetParam() + 1) / 2, gone);
  for (std::size_t i = 0; i < GetParam(); ++i) {
    const Entry* const found = row.find(key(i));
    ASSERT_EQ(i % 2 == 1, found != nullptr) << i;
    if (found != nullptr) {
      EXPECT_EQ(i, found->number);
    }
  }
  EXPECT_EQ(GetParam() / 2, row.erase_if([](const Entry&) { return true; }));
  EXPECT_EQ(nullptr, row.find(key(1)));
  fill(row);
  for (std::size_t i = 0; i < GetParam(); ++i) EXPECT_EQ(&row[i], row.find(key(i)));
}

TEST_P(KeyedRowOf, cleared_it_is_as_new) {
  Row row;
  fill(row);
  row.clear();
  EXPECT_EQ(0u, row.size());
  for (std::size_t i = 0; i < GetParam(); ++i) EXPECT_EQ(nullptr, row.find(key(i)));
  for (std::size_t i = 0; i < GetParam(); ++i) row.add({key(GetParam() - i), i});
  for (std::size_t i = 0; i < GetParam(); ++i) EXPECT_EQ(&row[i], row.find(key(GetParam() - i)));
}

INSTANTIATE_TEST_SUITE_P(Sizes, KeyedRowOf, testing::Values(1, 2, 15, 16, 17, 18, 31, 33, 100, 5000));

}  // namespace
}  // namespace graphpool
