// What kind of memory is mapped where, and what was mapped there before.
#include <gtest/gtest.h>

#include "shim/memory/mapped_kinds.h"

namespace graphpool {
namespace {

const void* at(std::uint64_t address) { return reinterpret_cast<const void*>(address); }

hipMemAllocationProp of_device(int device) {
  hipMemAllocationProp properties{};
  properties.type = hipMemAllocationTypePinned;
  properties.location.type = hipMemLocationTypeDevice;
  properties.location.id = device;
  return properties;
}

constexpr std::size_t kBytes = 0x1000;

/// Something of device 0 was mapped at 0x1000 and unmapped as the fifth time that something was.
void unmapped(MappedKinds& kinds) {
  const hipMemAllocationProp properties = of_device(0);
  kinds.made(7, &properties);
  kinds.mapped(at(0x1000), kBytes, 0, 7);
  kinds.unmapped(at(0x1000), kBytes, 5);
}

TEST(MappedKinds, what_is_mapped_anew_is_of_the_kind_it_was) {
  MappedKinds kinds;
  unmapped(kinds);
  const hipMemAllocationProp same = of_device(0), other = of_device(1);
  kinds.made(8, &same);
  kinds.made(9, &other);
  EXPECT_EQ(5u, kinds.unmapped_when(at(0x1000), kBytes, 0, 8));
  EXPECT_EQ(0u, kinds.unmapped_when(at(0x1000), kBytes, 0, 9)) << "of another device";
  EXPECT_EQ(0u, kinds.unmapped_when(at(0x1000), kBytes / 2, 0, 8)) << "shorter";
  EXPECT_EQ(0u, kinds.unmapped_when(at(0x1000), kBytes, 64, 8)) << "another part of it";
  EXPECT_EQ(0u, kinds.unmapped_when(at(0x2000), kBytes, 0, 8)) << "elsewhere";
  kinds.mapped(at(0x1000), kBytes, 0, 8);
  EXPECT_EQ(0u, kinds.unmapped_when(at(0x1000), kBytes, 0, 8)) << "it is mapped";
}

TEST(MappedKinds, of_a_handle_from_elsewhere_nothing_is_known) {
  MappedKinds kinds;
  unmapped(kinds);
  kinds.made(7, nullptr);
  EXPECT_EQ(0u, kinds.unmapped_when(at(0x1000), kBytes, 0, 7));
  EXPECT_EQ(0u, kinds.unmapped_when(at(0x1000), kBytes, 0, 70));
}

TEST(MappedKinds, what_lies_over_a_part_of_it_ends_what_was_known) {
  MappedKinds kinds;
  unmapped(kinds);
  kinds.mapped(at(0x1800), kBytes, 0, 7);
  EXPECT_EQ(0u, kinds.unmapped_when(at(0x1000), kBytes, 0, 7));
}

TEST(MappedKinds, another_handle_of_what_is_mapped_is_of_its_kind) {
  MappedKinds kinds;
  unmapped(kinds);
  kinds.mapped(at(0x8000), kBytes, 0, 7);
  kinds.also(11, at(0x8800));
  EXPECT_EQ(5u, kinds.unmapped_when(at(0x1000), kBytes, 0, 11));
  kinds.also(11, at(0x1000));
  EXPECT_EQ(0u, kinds.unmapped_when(at(0x1000), kBytes, 0, 11)) << "nothing is mapped there";
}

}  // namespace
}  // namespace graphpool
