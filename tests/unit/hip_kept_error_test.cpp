// Where a call of the program's leaves the last error, calls of ours in its body do, too.
#include <gtest/gtest.h>

#include "shim/hip/kept_error.h"
#include "tests/unit/fake_hip.h"

namespace graphpool {
namespace {

hipError_t told() {
  forget_kept_error();
  return last_error_of_program(next().hipPeekAtLastError(), false);
}

/// A call of the program's that leaves the last error; a call of ours in its body replaces it.
void leaving_call() {
  count_call(EntryId::hipDeviceSynchronize);
  const KeptError last_error;
  EXPECT_EQ(0, current_device());
  last_error.keep();
}

class KeptErrorTest : public testing::Test {
 protected:
  explicit KeptErrorTest(int version = hip_version(6, 4)) {
    fake.hip->version = version;
    fake::t_last_error = hipErrorInvalidDevice;
  }
  ~KeptErrorTest() override { t_owed_error = hipSuccess; }

  fake::Install fake;
};

TEST_F(KeptErrorTest, IsOwedUntilTheNextCall) {
  leaving_call();
  EXPECT_EQ(fake::t_last_error, hipSuccess);
  EXPECT_EQ(told(), hipErrorInvalidDevice);
  EXPECT_EQ(told(), hipErrorInvalidDevice);
  count_call(EntryId::hipGetDevice);
  EXPECT_EQ(told(), hipSuccess);
}

TEST_F(KeptErrorTest, IsOwedAcrossCallsThatLeaveIt) {
  leaving_call();
  leaving_call();
  EXPECT_EQ(told(), hipErrorInvalidDevice);
}

TEST_F(KeptErrorTest, IsForgottenBetweenCallsThatLeaveIt) {
  leaving_call();
  count_call(EntryId::hipGetDevice);
  leaving_call();
  EXPECT_EQ(told(), hipSuccess);
}

TEST_F(KeptErrorTest, ANewErrorTakesItsPlace) {
  leaving_call();
  count_call(EntryId::hipFree);
  static_cast<void>(fake::result(hipErrorInvalidValue));
  EXPECT_EQ(told(), hipErrorInvalidValue);
  fake::t_last_error = hipSuccess;
  EXPECT_EQ(told(), hipSuccess);
}

struct OfHip5 : KeptErrorTest {
  OfHip5() : KeptErrorTest(hip_version(5, 7)) {}
};
TEST_F(OfHip5, NoCallLeavesIt) {
  leaving_call();
  EXPECT_EQ(told(), hipSuccess);
}

struct OfHip7 : KeptErrorTest {
  OfHip7() : KeptErrorTest(kKeepsErrors) {}
};
TEST_F(OfHip7, EveryCallThatSucceedsLeavesItItself) {
  leaving_call();
  EXPECT_EQ(t_owed_error, hipSuccess);
  EXPECT_EQ(told(), hipErrorInvalidDevice);
}

}  // namespace
}  // namespace graphpool
