// Which settings begin an epoch.
#include <gtest/gtest.h>

#include <cstdint>

#include "shim/recording/settings.h"
#include "tests/unit/fake_hip.h"

namespace graphpool {
namespace {

constexpr EntryId kLimit = EntryId::hipDeviceSetLimit;

bool differs(EntryId function, std::uint64_t attribute, std::uint64_t value) {
  return SettingCall(function, attribute, value).differs();
}

/// Whether the call, having succeeded, began an epoch.
bool set(EntryId function, std::uint64_t attribute, std::uint64_t value) {
  const std::uint64_t before = settings_epoch();
  SettingCall(function, attribute, value).set();
  return settings_epoch() != before;
}

class Settings : public ::testing::Test {
 protected:
  Settings() { forget_settings(); }

  fake::Install fake;
};

TEST_F(Settings, rule_38_only_another_value_begins_an_epoch) {
  EXPECT_TRUE(differs(kLimit, 1, 64));
  EXPECT_TRUE(set(kLimit, 1, 64));
  EXPECT_FALSE(differs(kLimit, 1, 64));
  EXPECT_FALSE(set(kLimit, 1, 64));
  EXPECT_TRUE(differs(kLimit, 1, 65));
  EXPECT_TRUE(set(kLimit, 1, 65));
  EXPECT_TRUE(set(kLimit, 1, 64)) << "the value before the last";
}

TEST_F(Settings, a_call_that_was_not_made_changes_nothing) {
  const std::uint64_t before = settings_epoch();
  EXPECT_TRUE(differs(kLimit, 1, 64));
  EXPECT_TRUE(differs(kLimit, 1, 64));
  EXPECT_EQ(before, settings_epoch());
}

TEST_F(Settings, devices_and_attributes_have_values_of_their_own) {
  constexpr std::uint64_t kAttributes = 300;  // so many that they stand beside each other
  for (std::uint64_t i = 0; i < kAttributes; ++i) set(kLimit, i, 64);
  for (std::uint64_t i = 0; i < kAttributes; ++i) {
    EXPECT_FALSE(differs(kLimit, i, 64)) << i;
    EXPECT_TRUE(differs(kLimit, kAttributes + i, 64)) << i;
    EXPECT_TRUE(differs(EntryId::hipDeviceSetCacheConfig, i, 64)) << i;
    fake::t_device = 1;
    EXPECT_TRUE(differs(kLimit, i, 64)) << i;
    fake::t_device = 0;
  }
}

TEST_F(Settings, what_is_not_remembered_makes_all_unknown) {
  set(kLimit, 1, 64);
  const std::uint64_t before = settings_epoch();
  settings_changed();
  EXPECT_NE(before, settings_epoch());
  EXPECT_TRUE(differs(kLimit, 1, 64));
}

TEST_F(Settings, of_calls_beside_each_other_neither_is_known_to_be_the_last) {
  for (const bool first_returns_first : {true, false}) {
    {
      SettingCall first(kLimit, 1, 64), second(kLimit, 1, 65);
      (first_returns_first ? first : second).set();
      (first_returns_first ? second : first).set();
    }
    EXPECT_TRUE(differs(kLimit, 1, 64));
    EXPECT_TRUE(differs(kLimit, 1, 65));
  }
  {
    SettingCall first(kLimit, 1, 64);
    { SettingCall(kLimit, 1, 65).set(); }
    first.set();
  }
  EXPECT_TRUE(differs(kLimit, 1, 64)) << "the second has come and gone while the first was under way";
  set(kLimit, 1, 64);
  EXPECT_FALSE(differs(kLimit, 1, 64)) << "alone";
}

TEST_F(Settings, more_values_than_places_are_forgotten_not_confused) {
  constexpr std::uint64_t kValues = 5000;
  for (std::uint64_t i = 0; i < kValues; ++i) {
    ASSERT_TRUE(set(kLimit, i, i)) << i;
    ASSERT_FALSE(differs(kLimit, i, i)) << i;
  }
  std::uint64_t known = 0;
  for (std::uint64_t i = 0; i < kValues; ++i) {
    ASSERT_TRUE(differs(kLimit, i, i + 1)) << i;
    known += !differs(kLimit, i, i);
  }
  EXPECT_LT(known, kValues);
}

}  // namespace
}  // namespace graphpool
