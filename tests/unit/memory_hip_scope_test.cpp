// Tests of shim/memory/hip_scope.h and never_address.h.
#include "shim/memory/hip_scope.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "shim/memory/never_address.h"
#include "tests/unit/fake_hip.h"

namespace graphpool {
namespace {

TEST(HipScopeTest, ModeAndErrnoAreRestored) {
  fake::Install fake;
  errno = 42;
  {
    PrivateCalls private_calls;
    EXPECT_EQ(fake::t_mode, hipStreamCaptureModeRelaxed);
    errno = 7;
  }
  EXPECT_EQ(fake::t_mode, hipStreamCaptureModeGlobal);
  EXPECT_EQ(errno, 42);
}

TEST(HipScopeTest, AFailureOfOursIsNotLeftBehind) {
  fake::Install fake;
  EXPECT_FALSE(PrivateCalls::worked(fake::result(hipErrorInvalidValue)));
  EXPECT_EQ(fake::t_last_error, hipSuccess);
}

TEST(HipScopeTest, AProgramsErrorSurvivesWhatWorked) {
  fake::Install fake;
  fake::t_last_error = hipErrorInvalidValue;
  {
    PrivateCalls private_calls;
    DeviceScope device(1);
    EXPECT_TRUE(device.ok());
    EXPECT_EQ(fake::t_device, 1);
  }
  EXPECT_EQ(fake::t_device, 0);
  EXPECT_EQ(fake::t_last_error, hipErrorInvalidValue);
}

TEST(HipScopeTest, ADeviceThatIsNot) {
  fake::Install fake;
  DeviceScope device(9);
  EXPECT_FALSE(device.ok());
  EXPECT_EQ(fake::t_device, 0);
  EXPECT_EQ(fake::t_last_error, hipSuccess);
}

TEST(NeverAddressTest, AlwaysTheSame) {
  EXPECT_NE(never_allocated_address(), nullptr);
  EXPECT_EQ(never_allocated_address(), never_allocated_address());
  EXPECT_NE(never_mapped_address(), nullptr);
  EXPECT_EQ(never_mapped_address(), never_mapped_address());
}

}  // namespace
}  // namespace graphpool
