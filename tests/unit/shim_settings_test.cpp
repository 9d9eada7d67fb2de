// Which settings begin an epoch.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "shim/kernel/functions.h"
#include "shim/settings.h"
#include "tests/support/code_images.h"
#include "tests/unit/fake_hip.h"

namespace graphpool {
namespace {

constexpr EntryId kLimit = EntryId::hipDeviceSetLimit, kFunction = EntryId::hipFuncSetAttribute;

bool differs(EntryId function, const void* object, std::uint64_t attribute, std::uint64_t value) {
  return SettingCall(function, object, attribute, value).differs();
}

/// Whether the call, having succeeded, began an epoch.
bool set(EntryId function, const void* object, std::uint64_t attribute, std::uint64_t value) {
  const std::uint64_t before = settings_epoch();
  SettingCall(function, object, attribute, value).set();
  return settings_epoch() != before;
}

class Settings : public ::testing::Test {
 protected:
  Settings() { forget_settings(); }

  fake::Install fake;
};

TEST_F(Settings, rule_38_only_another_value_begins_an_epoch) {
  EXPECT_TRUE(differs(kLimit, nullptr, 1, 64));
  EXPECT_TRUE(set(kLimit, nullptr, 1, 64));
  EXPECT_FALSE(differs(kLimit, nullptr, 1, 64));
  EXPECT_FALSE(set(kLimit, nullptr, 1, 64));
  EXPECT_TRUE(differs(kLimit, nullptr, 1, 65));
  EXPECT_TRUE(set(kLimit, nullptr, 1, 65));
  EXPECT_TRUE(set(kLimit, nullptr, 1, 64)) << "the value before the last";
}

TEST_F(Settings, a_call_that_was_not_made_changes_nothing) {
  const std::uint64_t before = settings_epoch();
  EXPECT_TRUE(differs(kLimit, nullptr, 1, 64));
  EXPECT_TRUE(differs(kLimit, nullptr, 1, 64));
  EXPECT_EQ(before, settings_epoch());
}

TEST_F(Settings, devices_functions_and_attributes_have_values_of_their_own) {
  constexpr std::uint64_t kAttributes = 300;  // so many that they stand beside each other
  for (std::uint64_t i = 0; i < kAttributes; ++i) set(kLimit, nullptr, i, 64);
  for (std::uint64_t i = 0; i < kAttributes; ++i) {
    EXPECT_FALSE(differs(kLimit, nullptr, i, 64)) << i;
    EXPECT_TRUE(differs(kLimit, nullptr, kAttributes + i, 64)) << i;
    EXPECT_TRUE(differs(EntryId::hipDeviceSetCacheConfig, nullptr, i, 64)) << i;
    fake::t_device = 1;
    EXPECT_TRUE(differs(kLimit, nullptr, i, 64)) << i;
    fake::t_device = 0;
  }
}

TEST_F(Settings, what_is_not_remembered_makes_all_unknown) {
  set(kLimit, nullptr, 1, 64);
  const std::uint64_t before = settings_epoch();
  settings_changed();
  EXPECT_NE(before, settings_epoch());
  EXPECT_TRUE(differs(kLimit, nullptr, 1, 64));
}

TEST_F(Settings, of_calls_beside_each_other_neither_is_known_to_be_the_last) {
  for (const bool first_returns_first : {true, false}) {
    {
      SettingCall first(kLimit, nullptr, 1, 64), second(kLimit, nullptr, 1, 65);
      (first_returns_first ? first : second).set();
      (first_returns_first ? second : first).set();
    }
    EXPECT_TRUE(differs(kLimit, nullptr, 1, 64));
    EXPECT_TRUE(differs(kLimit, nullptr, 1, 65));
  }
  {
    SettingCall first(kLimit, nullptr, 1, 64);
    { SettingCall(kLimit, nullptr, 1, 65).set(); }
    first.set();
  }
  EXPECT_TRUE(differs(kLimit, nullptr, 1, 64)) << "the second has come and gone while the first was under way";
  set(kLimit, nullptr, 1, 64);
  EXPECT_FALSE(differs(kLimit, nullptr, 1, 64)) << "alone";
}

TEST_F(Settings, more_values_than_places_are_forgotten_not_confused) {
  constexpr std::uint64_t kValues = 5000;
  for (std::uint64_t i = 0; i < kValues; ++i) {
    ASSERT_TRUE(set(kLimit, nullptr, i, i)) << i;
    ASSERT_FALSE(differs(kLimit, nullptr, i, i)) << i;
  }
  std::uint64_t known = 0;
  for (std::uint64_t i = 0; i < kValues; ++i) {
    ASSERT_TRUE(differs(kLimit, nullptr, i, i + 1)) << i;
    known += !differs(kLimit, nullptr, i, i);
  }
  EXPECT_LT(known, kValues);
}

/// The process's functions know the kernels of a compiled program while one lives.
class Registered {
 public:
  Registered() {
    functions().on_fat_binary_registered(&slot_, &wrapper_);
    functions().on_function_registered(&slot_, stub(), "mixed");
  }
  ~Registered() { functions().on_fat_binary_unregistered(&slot_); }
  static const void* stub() { return reinterpret_cast<const void*>(0x1000); }

 private:
  std::string image_ =
      images::bundle({{"hipv4-amdgcn-amd-amdhsa--gfx90a", images::code_object(images::sample_kernels())}});
  struct {
    std::uint32_t magic = 0x48495046, version = 1;
    const void* binary;
    const void* unused = nullptr;
  } wrapper_{.binary = image_.data()};
  void* slot_ = nullptr;
};

TEST_F(Settings, a_function_that_nobody_registered_is_not_remembered) {
  EXPECT_TRUE(set(kFunction, Registered::stub(), 8, 1));
  EXPECT_TRUE(differs(kFunction, Registered::stub(), 8, 1)) << "nobody tells when it goes";
  EXPECT_TRUE(set(kFunction, Registered::stub(), 8, 1));
}

TEST_F(Settings, a_function_with_the_handle_of_another_has_values_of_its_own) {
  {
    const Registered program;
    EXPECT_TRUE(set(kFunction, Registered::stub(), 8, 1));
    EXPECT_FALSE(differs(kFunction, Registered::stub(), 8, 1));
  }
  const Registered again;
  EXPECT_TRUE(differs(kFunction, Registered::stub(), 8, 1));
}

TEST_F(Settings, what_one_handle_sets_makes_the_values_of_the_others_unknown) {
  const Registered program;
  const void* const function = reinterpret_cast<const void*>(0x9000);
  ASSERT_EQ(Status::kOk, functions().on_function_of_stub(Registered::stub(), function));
  functions_have_several_handles();
  set(kFunction, Registered::stub(), 8, 1);
  set(kFunction, function, 8, 2);
  EXPECT_FALSE(differs(kFunction, function, 8, 2));
  EXPECT_TRUE(differs(kFunction, Registered::stub(), 8, 1));
}

}  // namespace
}  // namespace graphpool
