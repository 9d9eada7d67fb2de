#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "shim/graphs/handle_table.h"
#include "tests/support/counting_new.h"
#include "tests/support/never_destroyed.h"

namespace graphpool {
namespace {

using Table = HandleTable<int>;

TEST(HandleTable, finds_what_was_added) {
  Table* const table = &never_destroyed<Table>();
  int first = 1, second = 2;
  void* const a = table->add(&first);
  void* const b = table->add(&second);
  EXPECT_NE(a, b);
  EXPECT_EQ(table->find(a), &first);
  EXPECT_EQ(table->find(b), &second);
  EXPECT_TRUE(table->owns(a));
}

TEST(HandleTable, knows_nothing_of_others) {
  Table* const table = &never_destroyed<Table>();
  int object = 0;
  EXPECT_FALSE(table->owns(&object)) << "before the first handle";
  EXPECT_FALSE(table->used());
  EXPECT_FALSE(table->owns(nullptr));
  void* const handle = table->add(&object);
  EXPECT_TRUE(table->used());
  EXPECT_FALSE(table->owns(&object));
  EXPECT_FALSE(table->owns(nullptr));
  EXPECT_EQ(table->find(&object), nullptr);
  EXPECT_EQ(table->find(nullptr), nullptr);
  EXPECT_EQ(table->find(static_cast<char*>(handle) + 100 * 4096), nullptr) << "ours, but never given out";
}

TEST(HandleTable, a_removed_handle_is_ours_but_finds_nothing) {
  Table* const table = &never_destroyed<Table>();
  int object = 0;
  void* const handle = table->add(&object);
  table->remove(handle);
  EXPECT_TRUE(table->owns(handle));
  EXPECT_EQ(table->find(handle), nullptr);
}

TEST(HandleTable, a_handle_is_removed_without_host_memory) {
  Table* const table = &never_destroyed<Table>();
  int object = 0;
  std::vector<void*> handles;
  for (int i = 0; i < 1000; ++i) handles.push_back(table->add(&object));
  let_allocations_work(0);
  for (void* const handle : handles) table->remove(handle);
  let_allocations_work(-1);
  for (void* const handle : handles) EXPECT_EQ(table->find(handle), nullptr);
  EXPECT_EQ(table->find(table->add(&object)), &object);
}

TEST(HandleTable, a_handle_comes_back_only_after_many_others) {
  Table* const table = &never_destroyed<Table>();
  int object = 0;
  void* const first = table->add(&object);
  table->remove(first);
  std::set<void*> seen;
  for (std::size_t i = 0; i < Table::kReuseAfter; ++i) {
    void* const handle = table->add(&object);
    EXPECT_NE(handle, first);
    EXPECT_TRUE(seen.insert(handle).second) << "given out twice within " << i;
    table->remove(handle);
  }
  EXPECT_EQ(table->add(&object), first) << "then the oldest, so that the table stays small";
}

TEST(HandleTable, a_full_table_says_so) {
  Table* const table = &never_destroyed<Table>();
  int object = 0;
  void* last = nullptr;
  for (std::size_t i = 0; i < Table::kMost; ++i) last = table->add(&object);
  EXPECT_NE(last, nullptr);
  EXPECT_EQ(table->add(&object), nullptr);
  table->remove(last);
  EXPECT_EQ(table->add(&object), last);
}

TEST(HandleTable, threads_add_find_and_remove) {
  Table* const table = &never_destroyed<Table>();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&table] {
      int object = 0;
      for (int step = 0; step < 2000; ++step) {
        void* const handle = table->add(&object);
        EXPECT_EQ(table->find(handle), &object);
        table->remove(handle);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace graphpool
