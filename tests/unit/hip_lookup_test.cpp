#include <gtest/gtest.h>

#include <string>

#include "shim/hip/early_lookup.h"
#include "shim/hip/lookup.h"

namespace graphpool {
namespace {

TEST(Lookup, every_entry_is_found_by_its_name) {
  for (std::size_t i = 0; i < kEntryCount; ++i) {
    const auto id = static_cast<EntryId>(i);
    EXPECT_EQ(find_entry(entry_name(id)), id) << entry_name(id);
    EXPECT_TRUE(may_be_entry(entry_name(id).data())) << entry_name(id);
  }
}

TEST(Lookup, aliases_lead_to_the_same_entry) {
#define HIP_ALIAS(name, exported)                  \
  EXPECT_EQ(find_entry(#exported), EntryId::name); \
  EXPECT_TRUE(may_be_entry(#exported));
#include "shim/hip/hip_aliases.def"
#undef HIP_ALIAS
}

TEST(Lookup, other_names_are_not_found) {
  for (const char* name : {"", "hip", "hipMallo", "hipMallocX", "HipMalloc", "hipmalloc", "zzz", "_Z9hipMallocPPvm"})
    EXPECT_EQ(find_entry(name), EntryId::kCount) << name;
}

TEST(Lookup, what_cannot_be_an_entry_is_seen_at_once) {
  for (const char* name : {"", "malloc", "cudaMalloc", "hi", "_Z", "_Z12", "_Z9something", "__hi", "chip"})
    EXPECT_FALSE(may_be_entry(name)) << name;
}

TEST(Lookup, an_address_nobody_gave_out_is_no_entry) {
  int local = 0;
  EXPECT_EQ(entry_for_next(&local), nullptr);
}

}  // namespace
}  // namespace graphpool
