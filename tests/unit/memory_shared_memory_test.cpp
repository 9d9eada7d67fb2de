#include <gtest/gtest.h>

#include "shim/memory/shared_memory.h"
#include "tests/unit/fake_hip.h"

namespace graphpool {
namespace {

const void* at(std::uint64_t address) { return reinterpret_cast<const void*>(address); }

TEST(SharedMemory, what_was_opened_is_shared_until_it_is_closed) {
  SharedMemory memory;
  EXPECT_FALSE(memory.holds(0x1000));
  EXPECT_FALSE(memory.knows(0x1000));
  const std::uint64_t before = memory.version();
  memory.add(at(0x1000), 0x100);
  EXPECT_NE(before, memory.version());
  EXPECT_TRUE(memory.holds(0x1000));
  EXPECT_TRUE(memory.holds(0x10ff));
  EXPECT_FALSE(memory.holds(0x1100));
  EXPECT_FALSE(memory.holds(0xfff));
  memory.remove(at(0x1080));
  EXPECT_FALSE(memory.holds(0x1000));
}

TEST(SharedMemory, mappings_are_shared_once_their_handle_is) {
  SharedMemory memory;
  memory.map(at(0x1000), 0x1000, 7);
  memory.map(at(0x2000), 0x1000, 8);
  EXPECT_FALSE(memory.holds(0x1000));
  EXPECT_TRUE(memory.knows(0x1000));
  const std::uint64_t before = memory.version();
  memory.share(7);
  EXPECT_NE(before, memory.version());
  EXPECT_TRUE(memory.holds(0x1fff));
  EXPECT_FALSE(memory.holds(0x2000));
  memory.map(at(0x4000), 0x1000, 7);
  EXPECT_TRUE(memory.holds(0x4000));
  memory.unmap(at(0x1000), 0x2000);
  EXPECT_FALSE(memory.holds(0x1000));
  EXPECT_FALSE(memory.knows(0x2000));
  EXPECT_TRUE(memory.holds(0x4000));
}

TEST(SharedMemory, a_handle_that_is_new_is_not_what_had_its_value_before) {
  SharedMemory memory;
  memory.share(7);
  memory.map(at(0x1000), 0x1000, 7);
  memory.made(7);
  EXPECT_TRUE(memory.holds(0x1000));  // still mapped
  memory.map(at(0x2000), 0x1000, 7);
  EXPECT_FALSE(memory.holds(0x2000));
  memory.share(7);
  EXPECT_TRUE(memory.holds(0x2000));
}

TEST(SharedMemory, another_handle_of_what_is_mapped_stands_for_it) {
  SharedMemory memory;
  memory.map(at(0x1000), 0x1000, 7);
  memory.also(9, at(0x1800));
  memory.share(9);
  EXPECT_TRUE(memory.holds(0x1000));
  memory.also(10, at(0x9000));  // not known
  memory.also(11, at(0x1000));
  memory.map(at(0x3000), 0x1000, 11);
  EXPECT_TRUE(memory.holds(0x3000));
}

TEST(SharedMemory, all_mappings_that_an_export_covers_are_shared) {
  fake::Install fake;
  test_next().hipMemGetAddressRange = [](hipDeviceptr_t* base, std::size_t* bytes, hipDeviceptr_t asked) {
    const auto address = reinterpret_cast<std::uint64_t>(asked);
    if (address >= 0x5500'0000'4000) return hipErrorNotFound;
    *base = reinterpret_cast<void*>(address & ~std::uint64_t{0xfff});
    *bytes = 0x1000;
    return hipSuccess;
  };
  memory_exported(at(0x5500'0000'0800), 0x2000);
  EXPECT_TRUE(is_shared(0x5500'0000'0000));
  EXPECT_TRUE(is_shared(0x5500'0000'1fff));
  EXPECT_TRUE(is_shared(0x5500'0000'2fff));
  EXPECT_FALSE(is_shared(0x5500'0000'3000));
  memory_exported(at(0x5500'0000'3000), 0);
  EXPECT_TRUE(is_shared(0x5500'0000'3fff));
  memory_exported(at(0x5500'0000'4000), 0x1000);
  EXPECT_TRUE(is_shared(0x5500'0000'4fff)) << "the runtime does not say what is there";
  EXPECT_FALSE(is_shared(0x5500'0000'5000));
}

}  // namespace
}  // namespace graphpool
