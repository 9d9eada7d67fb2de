// What is remembered of the places of a program that begin captures.
#include <gtest/gtest.h>

#include <set>

#include "shim/costs/place_table.h"

namespace graphpool {
namespace {

using Table = PlaceTable<int>;

TEST(PlaceTable, as_many_places_as_there_is_room_for_are_told_apart) {
  for (const std::size_t distance : {1u, 16u, 32u, 4096u}) {
    static const char code[Table::kPlaces * 4096] = {};
    Table table;
    std::set<const int*> entries;
    for (std::size_t i = 0; i < Table::kPlaces; ++i) entries.insert(&table.entry(code + i * distance));
    EXPECT_EQ(Table::kPlaces, entries.size()) << distance;
    for (std::size_t i = 0; i < Table::kPlaces; ++i) table.entry(code + i * distance) = static_cast<int>(i);
    for (std::size_t i = 0; i < Table::kPlaces; ++i) EXPECT_EQ(static_cast<int>(i), table.entry(code + i * distance));
  }
}

TEST(PlaceTable, one_too_many_shares_an_entry_and_keeps_to_it) {
  static const char code[Table::kPlaces + 1] = {};
  Table table;
  std::set<const int*> entries;
  for (std::size_t i = 0; i < Table::kPlaces; ++i) entries.insert(&table.entry(code + i));
  const int* const shared = &table.entry(code + Table::kPlaces);
  EXPECT_EQ(1u, entries.count(shared));
  EXPECT_EQ(shared, &table.entry(code + Table::kPlaces));
}

}  // namespace
}  // namespace graphpool
