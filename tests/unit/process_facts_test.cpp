// Tests of shim/process/facts.h.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include "policy/parse.h"
#include "policy/policy.h"
#include "shim/hip/quirks.h"
#include "shim/process/facts.h"
#include "shim/recording/patch_table.h"

namespace graphpool {
namespace {

const Fact* fact_of(std::string_view probe) {
  for (const Fact& fact : facts())
    if (fact.probe == probe) return &fact;
  return nullptr;
}

constexpr int kVersions[] = {0,        50221153, 50731921, 60032830, 60140093, 60241133,
                             60342131, 60443484, 70051831, 70253211, 71400000, 80000000};

TEST(Facts, each_is_there_once) {
  std::set<std::string_view> seen;
  for (const Fact& fact : facts()) EXPECT_TRUE(seen.insert(fact.probe).second) << fact.probe;
}

TEST(Facts, what_is_relied_on_can_be_done_without) {
  for (const Fact& fact : facts()) {
    bool relied_on = false;
    for (const int version : kVersions) relied_on = relied_on || fact.relied_on(version);
    if (std::string_view(fact.otherwise).empty()) {
      EXPECT_FALSE(relied_on) << fact.probe;
    }
    Policy policy;
    EXPECT_TRUE(parse_policy(fact.otherwise, "p.toml", policy).empty()) << fact.probe;
  }
}

TEST(Facts, rows_of_the_patch_table_name_theirs) {
  for (const PatchRow& row : patch_table()) {
    const Fact* const fact = fact_of(row.probe);
    ASSERT_NE(nullptr, fact) << row.probe;
    EXPECT_EQ(row.exact, fact->relied_on(row.first_version)) << row.probe << " from " << row.first_version;
  }
}

TEST(Facts, defects_name_theirs) {
  for (const Quirk& quirk : quirks()) {
    if (std::string_view(quirk.probe).empty()) continue;
    const Fact* const fact = fact_of(quirk.probe);
    ASSERT_NE(nullptr, fact) << quirk.probe;
    EXPECT_FALSE(fact->relied_on(quirk.first_version)) << quirk.probe;
  }
}

TEST(Facts, of_an_unknown_runtime_no_defect_is_ruled_out) {
  for (const char* probe : {"set_kernel_reaches_launch", "mapping_waits_for_nothing", "parts_are_mapped",
                            "module_launch_is_captured", "capture_takes_frees"})
    EXPECT_FALSE(fact_of(probe)->relied_on(0)) << probe;
}

}  // namespace
}  // namespace graphpool
