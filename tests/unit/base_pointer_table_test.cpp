#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>
#include <vector>

#include "shim/base/pointer_table.h"

namespace graphpool {
namespace {

const void* key(std::uint64_t value) { return reinterpret_cast<const void*>(value); }

TEST(PointerTable, BehavesAsAMap) {
  static constinit PointerTable table;
  std::map<std::uint64_t, PointerTable::Value> model;
  std::mt19937_64 random(7);
  for (int i = 0; i < 200000; ++i) {
    const std::uint64_t k = 16 + random() % 3000 * 16;
    switch (random() % 4) {
      case 0:
        table.erase(key(k));
        model.erase(k);
        break;
      case 1: {
        const PointerTable::Value value{random(), random(), random()};
        ASSERT_TRUE(table.put(key(k), value));
        model[k] = value;
        break;
      }
      default: {
        PointerTable::Value value;
        const bool found = table.find(key(k), &value);
        const auto expected = model.find(k);
        ASSERT_EQ(found, expected != model.end());
        ASSERT_TRUE(!found || value == expected->second);
      }
    }
    ASSERT_EQ(table.size(), model.size());
  }
}

TEST(PointerTable, NullIsNoKeyAndAnEmptyTableHasNone) {
  static constinit PointerTable table;
  PointerTable::Value value;
  EXPECT_FALSE(table.find(key(16), &value));
  table.erase(key(16));
  EXPECT_FALSE(table.put(nullptr, {}));
  EXPECT_FALSE(table.find(nullptr, &value));
  ASSERT_TRUE(table.put(key(16), {1, 2, 3}));
  EXPECT_FALSE(table.find(nullptr, &value));
}

TEST(PointerTable, ReadersNeverSeeHalfAnEntryNorMissOneThatStays) {
  static constinit PointerTable table;
  constexpr std::uint64_t kStays = 64;
  for (std::uint64_t i = 1; i <= kStays; ++i) ASSERT_TRUE(table.put(key(i << 4), {i, i, i}));
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  for (int r = 0; r < 3; ++r) {
    readers.emplace_back([&done, r] {
      std::mt19937_64 random(static_cast<unsigned>(r));
      while (!done.load(std::memory_order_relaxed)) {
        PointerTable::Value value;
        const std::uint64_t stays = 1 + random() % kStays;
        EXPECT_TRUE(table.find(key(stays << 4), &value));
        EXPECT_EQ(value, (PointerTable::Value{stays, stays, stays}));
        const std::uint64_t comes_and_goes = 1000 + random() % 2000;
        if (table.find(key(comes_and_goes << 4), &value)) {
          EXPECT_EQ(value[0], value[1]);
          EXPECT_EQ(value[0], value[2]);
          EXPECT_EQ(value[0] % 10000, comes_and_goes);
        }
      }
    });
  }
  std::mt19937_64 random(99);
  for (std::uint64_t i = 0; i < 60000; ++i) {  // grows over several sizes while it is read
    const std::uint64_t k = 1000 + random() % 2000, word = k + 10000 * i;
    if (random() % 2 == 0) {
      ASSERT_TRUE(table.put(key(k << 4), {word, word, word}));
    } else {
      table.erase(key(k << 4));
    }
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
}

}  // namespace
}  // namespace graphpool
