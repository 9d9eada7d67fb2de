// Tests of shim/memory/free_lists.h.
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

}  // namespace
}  // namespace graphpool
