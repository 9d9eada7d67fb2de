// Tests of shim/memory/free_lists.h.
#include "shim/memory/free_lists.h"
#include "tests/support/counting_new.h"
#include "tests/unit/device_memory_fixture.h"

namespace graphpool {
namespace {

class FreeListsTest : public DeviceMemoryTest {};

TEST_F(FreeListsTest, WhatWasThereBeforeAPeerWasEnabledIsNotHandedOutAgain) {
  char *kept = get(4096), *live = get(4096);
  drop(kept);
  memory.peers_enabled(1);
  EXPECT_EQ(get(4096), kept) << "it is of another device";
  drop(kept);
  for (const int device : {0, -1}) {
    memory.peers_enabled(device);
    drop(live);
    char* const after = get(4096);
    EXPECT_NE(after, kept);
    EXPECT_NE(after, live);
    drop(after);
    EXPECT_EQ(live = get(4096), after) << "what came later serves as ever";
    EXPECT_TRUE(memory.is_valid());
  }
  const int freed = count("hipFree");
  EXPECT_TRUE(memory.room.trim(0, ~std::size_t{0}));
  EXPECT_EQ(count("hipFree"), freed + 3) << "all that is kept is given back";
  drop(live);
  EXPECT_TRUE(memory.is_valid());
}

TEST(FreeLists, WhereNoMemoryIsLeftAListWithoutMembersDoesNotExist) {
  FreeLists lists;
  const BlockKey key{.bytes = 4096};
  const LockGuard guard(g_blocks_lock);
  const auto count = [&] {
    int lists_there = 0;
    lists.for_each([&](FreeList& list) {
      assume_held(g_blocks_lock);
      EXPECT_NE(0u, list.members);
      ++lists_there;
    });
    return lists_there;
  };
  FreeList* list = nullptr;
  int works = 0;
  for (; list == nullptr; ++works) {
    let_allocations_work(works);
    try {
      list = lists.join(key);
    } catch (const std::bad_alloc&) {
    }
    let_allocations_work(-1);
    EXPECT_EQ(list != nullptr ? 1 : 0, count()) << works;
  }
  EXPECT_LT(3, works) << "the table, its entry, the list and its room";
  EXPECT_EQ(list, lists.find(key));
  while (list->members < list->kept.capacity()) lists.join(key);
  const std::size_t members = list->members;
  let_allocations_work(0);
  EXPECT_THROW(lists.join(key), std::bad_alloc);
  let_allocations_work(-1);
  EXPECT_EQ(members, list->members);
  EXPECT_EQ(list, lists.find(key));
  for (std::size_t i = 0; i < members; ++i) lists.leave(list);
  EXPECT_EQ(0, count());
}

}  // namespace
}  // namespace graphpool
