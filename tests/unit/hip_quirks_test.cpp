// Tests of shim/hip/quirks.h.
#include <gtest/gtest.h>

#include "shim/hip/quirks.h"
#include "tests/unit/fake_hip.h"

namespace graphpool {
namespace {

TEST(QuirksTest, VersionsDecide) {
  EXPECT_TRUE(has_defect(Defect::kMapWaits, 60300000));
  EXPECT_FALSE(has_defect(Defect::kMapWaits, 71400000));
  EXPECT_TRUE(has_defect(Defect::kMapWholeReservation, 60140091));
  EXPECT_FALSE(has_defect(Defect::kMapWholeReservation, 60241133));
  EXPECT_TRUE(has_defect(Defect::kOldAllocationProperties, 50221153));
  EXPECT_FALSE(has_defect(Defect::kOldAllocationProperties, 50600000));
  EXPECT_TRUE(has_defect(Defect::kMapErrorsHidden, 80000000));
}

TEST(QuirksTest, EveryRowSaysWhatIsDone) {
  for (const Quirk& quirk : quirks()) {
    EXPECT_LT(quirk.first_version, quirk.fixed_version) << quirk.what;
    EXPECT_STRNE(quirk.what, "");
    EXPECT_STRNE(quirk.counter_measure, "");
  }
  EXPECT_EQ(quirks().size(), static_cast<std::size_t>(Defect::kExecsEndLate) + 1);
}

TEST(QuirksTest, TheRuntimeIsAskedOnce) {
  fake::Install fake;
  fake.hip->version = 60241133;
  EXPECT_EQ(runtime_version(), 60241133);
  fake.hip->version = 70200000;
  EXPECT_EQ(runtime_version(), 60241133);
  EXPECT_TRUE(has_defect(Defect::kMapWaits));
}

TEST(QuirksTest, WithoutAVersionEveryDefectIsAssumed) {
  fake::Install fake;
  test_next().hipRuntimeGetVersion = [](int*) { return hipErrorUnknown; };
  EXPECT_EQ(runtime_version(), 0);
  EXPECT_TRUE(has_defect(Defect::kMapWaits));
}

}  // namespace
}  // namespace graphpool
