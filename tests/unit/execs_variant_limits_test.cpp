// What variants hold of a device's memory, and what of that is too much.
#include <gtest/gtest.h>

#include "shim/execs/variant_limits.h"

namespace graphpool {
namespace {

class VariantLimitsTest : public testing::Test {
 protected:
  VariantLimitsTest() {
    settings_.most_variant_bytes = 250;
    recording_.exec_bytes = 100;
  }

  GraphSettings settings_;
  VariantLimits limits_{settings_};
  Recording recording_;
  Variant here_, there_;
};

TEST_F(VariantLimitsTest, what_is_held_is_counted_by_device) {
  there_.device = 3;
  const LockGuard guard(g_recordings_lock);
  limits_.note_adopted(recording_, here_);
  limits_.note_adopted(recording_, there_);
  limits_.grow(there_, 20);
  EXPECT_EQ((std::vector{0, 3}), limits_.devices());
  EXPECT_EQ(100u, limits_.held(0).bytes);
  EXPECT_EQ(120u, limits_.held(3).bytes);
  EXPECT_EQ(120u, there_.device_bytes());
  EXPECT_EQ(0u, limits_.held(1).bytes);
}

TEST_F(VariantLimitsTest, what_goes_is_held_no_more_and_its_peak_is_remembered) {
  const LockGuard guard(g_recordings_lock);
  limits_.note_adopted(recording_, here_);
  limits_.note_removed(here_);
  EXPECT_EQ(0u, limits_.held(0).bytes);
  EXPECT_EQ(100u, limits_.held(0).peak_bytes);
  EXPECT_EQ(0u, here_.device_bytes());
}

TEST_F(VariantLimitsTest, past_a_limit_they_are_due_until_that_was_looked_at) {
  const LockGuard guard(g_recordings_lock);
  limits_.note_adopted(recording_, here_);
  EXPECT_FALSE(limits_.are_due());
  EXPECT_FALSE(limits_.are_exceeded_by(here_));
  limits_.grow(here_, 151);
  EXPECT_TRUE(limits_.are_due());
  EXPECT_TRUE(limits_.are_exceeded_by(here_));
  limits_.looked_at();
  EXPECT_FALSE(limits_.are_due());
}

TEST_F(VariantLimitsTest, one_that_is_free_and_not_to_be_kept_is_due) {
  const LockGuard guard(g_recordings_lock);
  limits_.note_adopted(recording_, here_);
  here_.keep_no_longer();
  limits_.note_free(here_);
  EXPECT_EQ(1u, limits_.held(0).free);
  EXPECT_TRUE(limits_.are_due());
  limits_.note_not_free(here_);
  EXPECT_EQ(0u, limits_.held(0).free);
}

}  // namespace
}  // namespace graphpool
