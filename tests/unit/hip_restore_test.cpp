// Tests of shim/hip/restore.h and shim/memory/never_address.h.
#include <gtest/gtest.h>

#include <cerrno>

#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"
#include "shim/memory/never_address.h"
#include "tests/unit/fake_hip.h"

namespace graphpool {
namespace {

TEST(RestoreTest, ModeAndErrnoAreRestored) {
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

TEST(RestoreTest, WhatTheFirstAndTheLastCallDoToErrnoIsUndone) {
  fake::Install fake;
  const Next saved = test_next();
  test_next().hipPeekAtLastError = [] { return errno = 7, hipSuccess; };
  test_next().hipGetLastError = [] { return errno = 7, hipSuccess; };
  errno = 42;
  { const PrivateCalls private_calls; }
  EXPECT_EQ(errno, 42);
  test_next() = saved;
}

TEST(RestoreTest, AFailureOfOursIsNotLeftBehind) {
  fake::Install fake;
  EXPECT_FALSE(PrivateCalls::worked([] { return fake::result(hipErrorInvalidValue); }));
  EXPECT_EQ(fake::t_last_error, hipSuccess);
}

TEST(RestoreTest, AProgramsErrorSurvivesWhatWorked) {
  fake::Install fake;
  fake::t_last_error = hipErrorInvalidValue;
  {
    PrivateCalls private_calls;
    SavedDevice device(1);
    EXPECT_TRUE(device.ok());
    EXPECT_EQ(fake::t_device, 1);
  }
  EXPECT_EQ(fake::t_device, 0);
  EXPECT_EQ(fake::t_last_error, hipErrorInvalidValue);
}

TEST(RestoreTest, WhatFailsOnceIsRestoredAllTheSame) {
  for (int failing = 1; failing <= 8; ++failing) {
    fake::Install fake;
    fake::g_hip->fail_at = failing;
    {
      PrivateCalls private_calls;
      SavedDevice device(1);
    }
    EXPECT_EQ(fake::t_mode, hipStreamCaptureModeGlobal) << failing << ' ' << fake::g_hip->failed;
    EXPECT_EQ(fake::t_device, 0) << failing << ' ' << fake::g_hip->failed;
    EXPECT_EQ(fake::t_last_error, hipSuccess) << failing << ' ' << fake::g_hip->failed;
  }
}

TEST(RestoreTest, ADeviceThatIsNot) {
  fake::Install fake;
  SavedDevice device(9);
  EXPECT_FALSE(device.ok());
  EXPECT_EQ(fake::t_device, 0);
  EXPECT_EQ(fake::t_last_error, hipSuccess);
}

TEST(RestoreTest, DevicesAreSetAndSetBack) {
  fake::Install fake;
  {
    const SavedDevice device;
    EXPECT_TRUE(device.set(1));
    EXPECT_EQ(fake::t_device, 1);
    EXPECT_FALSE(device.set(9));
    EXPECT_EQ(fake::t_device, 1);
    EXPECT_EQ(fake::t_last_error, hipSuccess);
  }
  EXPECT_EQ(fake::t_device, 0);
}

TEST(RestoreTest, APendingErrorOfTheProgramStaysAndOursDoesNot) {
  fake::Install fake;
  {
    const LastErrorScope scope;
    static_cast<void>(fake::result(hipErrorInvalidValue));
  }
  EXPECT_EQ(fake::t_last_error, hipSuccess);
  fake::t_last_error = hipErrorNotFound;
  { const LastErrorScope scope; }
  EXPECT_EQ(fake::t_last_error, hipErrorNotFound);
}

TEST(RestoreTest, WhatAProgramHadPendingIsOwedToItSinceHip7) {
  for (const bool keeps : {true, false}) {
    fake::Install fake;
    fake.hip->version = keeps ? kKeepsErrors : kKeepsErrors - 1;
    fake::t_last_error = hipErrorNotFound;
    EXPECT_FALSE(PrivateCalls::worked([] { return fake::result(hipErrorInvalidValue); }));
    const auto told = [](hipError_t error) { return last_error_of_program(error, true); };
    EXPECT_EQ(told(next().hipGetLastError()), keeps ? hipErrorNotFound : hipSuccess);
    EXPECT_EQ(told(next().hipGetLastError()), hipSuccess);
  }
}

TEST(RestoreTest, AVersionThatIsNotToldAtOnceCostsNoPendingError) {
  for (const bool keeps : {true, false}) {
    fake::Install fake;
    fake.hip->version = keeps ? kKeepsErrors : kKeepsErrors - 1;
    fake::t_last_error = hipErrorNotFound;
    test_next().hipRuntimeGetVersion = [](int* version) {
      test_next().hipRuntimeGetVersion = [](int* known) {
        *known = fake::g_hip->version;
        return fake::result(hipSuccess);
      };
      *version = -1;
      return fake::result(hipErrorUnknown);
    };
    EXPECT_EQ(runtime_version(), fake.hip->version);
    EXPECT_EQ(last_error_of_program(next().hipGetLastError(), true), keeps ? hipErrorNotFound : hipSuccess);
  }
}

TEST(NeverAddressTest, AlwaysTheSame) {
  EXPECT_NE(never_allocated_address(), nullptr);
  EXPECT_EQ(never_allocated_address(), never_allocated_address());
  EXPECT_NE(never_mapped_address(), nullptr);
  EXPECT_EQ(never_mapped_address(), never_mapped_address());
}

}  // namespace
}  // namespace graphpool
