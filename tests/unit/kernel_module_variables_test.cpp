#include <gtest/gtest.h>

#include "shim/kernel/module_variables.h"

namespace graphpool {
namespace {

class ModuleVariablesTest : public testing::Test {
 protected:
  char modules_[2] = {};
  const void* const first_ = &modules_[0];
  const void* const second_ = &modules_[1];
  ModuleVariables variables_;
};

TEST_F(ModuleVariablesTest, AnAddressInOneNamesItsModule) {
  variables_.add(first_, 0x1000, 0x10);
  variables_.add(second_, 0x2000, 0x10);
  EXPECT_EQ(variables_.module_of(0x1000), first_);
  EXPECT_EQ(variables_.module_of(0x100f), first_);
  EXPECT_EQ(variables_.module_of(0x2008), second_);
}

TEST_F(ModuleVariablesTest, AnAddressOutsideOfAllNamesNone) {
  EXPECT_EQ(variables_.module_of(0x1000), nullptr);
  variables_.add(first_, 0x1000, 0x10);
  EXPECT_EQ(variables_.module_of(0xfff), nullptr);
  EXPECT_EQ(variables_.module_of(0x1010), nullptr);
}

TEST_F(ModuleVariablesTest, ANewOneReplacesThoseItOverlaps) {
  variables_.add(first_, 0x1000, 0x10);
  variables_.add(first_, 0x1010, 0x10);
  variables_.add(second_, 0x1008, 0x10);
  EXPECT_EQ(variables_.module_of(0x1000), nullptr);
  EXPECT_EQ(variables_.module_of(0x1008), second_);
  EXPECT_EQ(variables_.module_of(0x1018), nullptr);
}

TEST_F(ModuleVariablesTest, ThoseOfAnUnloadedModuleAreForgotten) {
  variables_.add(first_, 0x1000, 0x10);
  variables_.add(second_, 0x2000, 0x10);
  variables_.forget_module(first_);
  EXPECT_EQ(variables_.module_of(0x1000), nullptr);
  EXPECT_EQ(variables_.module_of(0x2000), second_);
}

}  // namespace
}  // namespace graphpool
