// What was last set of a kernel, and the numbers of the states that it had.
#include <gtest/gtest.h>

#include <cstdint>

#include "shim/kernel/kernel_settings.h"

namespace graphpool {
namespace {

constexpr KernelSetting kLimit{8, 0}, kLimitElsewhere{8, 1}, kCache{KernelSetting::kCacheConfig, 0};

TEST(KernelSettingsTest, the_same_values_have_the_same_number) {
  KernelSettings settings;
  EXPECT_EQ(0u, settings.number());
  EXPECT_FALSE(settings.has(kLimit, 0));
  ASSERT_TRUE(settings.set(kLimit, 64, true));
  const std::uint64_t first = settings.number();
  EXPECT_NE(0u, first);
  EXPECT_TRUE(settings.has(kLimit, 64));
  EXPECT_FALSE(settings.has(kLimit, 65));
  EXPECT_FALSE(settings.has(kLimitElsewhere, 64));
  ASSERT_TRUE(settings.set(kLimit, 65, true));
  EXPECT_NE(first, settings.number());
  ASSERT_TRUE(settings.set(kLimit, 64, true));
  EXPECT_EQ(first, settings.number());
}

TEST(KernelSettingsTest, rule_38_devices_and_kinds_have_values_of_their_own) {
  KernelSettings settings;
  ASSERT_TRUE(settings.set(kLimit, 1, true));
  const std::uint64_t one = settings.number();
  ASSERT_TRUE(settings.set(kCache, 1, true));
  const std::uint64_t two = settings.number();
  ASSERT_TRUE(settings.set(kLimitElsewhere, 1, true));
  EXPECT_NE(one, two);
  EXPECT_NE(two, settings.number());
  EXPECT_TRUE(settings.has(kLimit, 1) && settings.has(kCache, 1) && settings.has(kLimitElsewhere, 1));
}

TEST(KernelSettingsTest, what_nobody_knows_has_a_number_that_never_comes_back) {
  KernelSettings settings;
  ASSERT_TRUE(settings.set(kLimit, 64, true));
  const std::uint64_t known = settings.number();
  ASSERT_TRUE(settings.set(kLimit, 64, false));
  const std::uint64_t unknown = settings.number();
  EXPECT_NE(known, unknown);
  EXPECT_FALSE(settings.has(kLimit, 64));
  ASSERT_TRUE(settings.set(kLimit, 64, false));
  EXPECT_NE(unknown, settings.number());
  ASSERT_TRUE(settings.set(kCache, 1, true));
  EXPECT_NE(unknown, settings.number()) << "with another that is known";
  ASSERT_TRUE(settings.set(kLimit, 64, true));
  ASSERT_TRUE(settings.set(kCache, 1, true));
  const std::uint64_t both = settings.number();
  ASSERT_TRUE(settings.set(kCache, 2, true));
  ASSERT_TRUE(settings.set(kCache, 1, true));
  EXPECT_EQ(both, settings.number());
}

TEST(KernelSettingsTest, more_states_than_are_remembered_are_forgotten_not_confused) {
  KernelSettings settings;
  std::uint64_t last = 0;
  for (int round = 0; round < 2; ++round)
    for (std::uint64_t value = 0; value < 3 * KernelSettings::kMostStates; ++value) {
      ASSERT_TRUE(settings.set(kLimit, value, true));
      ASSERT_GT(settings.number(), last) << "so many states later";
      last = settings.number();
    }
}

}  // namespace
}  // namespace graphpool
