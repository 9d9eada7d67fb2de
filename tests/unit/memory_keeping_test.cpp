// Tests of shim/memory/keeping.h.
#include <gtest/gtest.h>

#include "shim/memory/keeping.h"

namespace graphpool {
namespace {

TEST(Keeping, NothingIsKeptBeforeAPolicySaysSo) {
  Keeping keeping;
  EXPECT_FALSE(keeping.on());
  keeping.configure(true);
  EXPECT_TRUE(keeping.on());
  keeping.configure(false);
  EXPECT_FALSE(keeping.on());
}

TEST(Keeping, WhatStopLeftIsGivenBackOnce) {
  Keeping keeping;
  keeping.configure(true);
  EXPECT_FALSE(keeping.end_stop());
  keeping.stop();
  EXPECT_FALSE(keeping.on());
  EXPECT_FALSE(keeping.switched_on());
  EXPECT_TRUE(keeping.end_stop());
  EXPECT_FALSE(keeping.end_stop());
  EXPECT_FALSE(keeping.on());
}

TEST(Keeping, ADeviceInErrorKeepsNothingUntilItsReset) {
  Keeping keeping;
  keeping.configure(true);
  EXPECT_TRUE(keeping.note_device_error());
  EXPECT_FALSE(keeping.note_device_error()) << "it is known";
  EXPECT_FALSE(keeping.on());
  EXPECT_TRUE(keeping.switched_on());
  EXPECT_TRUE(keeping.device_in_error());
  keeping.end_device_error();
  EXPECT_TRUE(keeping.on());
}

TEST(Keeping, AnErrorDoesNotSwitchOnWhatIsOff) {
  Keeping keeping;
  keeping.configure(true);
  keeping.note_device_error();
  keeping.stop();
  EXPECT_TRUE(keeping.device_in_error());
  EXPECT_TRUE(keeping.end_stop());
  keeping.switch_off();
  keeping.end_device_error();
  EXPECT_FALSE(keeping.on());
}

}  // namespace
}  // namespace graphpool
