// How much host memory is registered at an address.
#include <gtest/gtest.h>

#include "shim/memory/registered_memory.h"

namespace graphpool {
namespace {

const void* address(std::size_t number) { return reinterpret_cast<const void*>(0x10000 + number * 0x1000); }

TEST(RegisteredMemory, is_known_from_its_registration_to_its_end) {
  RegisteredMemory memory;
  EXPECT_EQ(0u, memory.bytes_at(address(0)));
  memory.add(address(0), 100);
  memory.add(address(1), 200);
  EXPECT_EQ(100u, memory.bytes_at(address(0)));
  EXPECT_EQ(200u, memory.bytes_at(address(1)));
  memory.remove(address(0));
  EXPECT_EQ(0u, memory.bytes_at(address(0)));
  EXPECT_EQ(200u, memory.bytes_at(address(1)));
  memory.remove(address(0));
  EXPECT_EQ(200u, memory.bytes_at(address(1)));
}

TEST(RegisteredMemory, null_is_never_known) {
  RegisteredMemory memory;
  memory.add(address(0), 100);
  memory.remove(address(0));
  EXPECT_EQ(0u, memory.bytes_at(nullptr)) << "what is free has no address, but the bytes it had";
}

TEST(RegisteredMemory, what_finds_no_room_is_not_known) {
  RegisteredMemory memory;
  std::size_t known = 0;
  do memory.add(address(known), known + 1);
  while (memory.bytes_at(address(known)) != 0 && ++known < 100'000);
  ASSERT_GT(known, 0u);
  ASSERT_LT(known, 100'000u);
  for (std::size_t i = 0; i < known; ++i) EXPECT_EQ(i + 1, memory.bytes_at(address(i)));
  memory.remove(address(0));
  memory.add(address(known), 7);
  EXPECT_EQ(7u, memory.bytes_at(address(known))) << "in the place of what is gone";
}

}  // namespace
}  // namespace graphpool
