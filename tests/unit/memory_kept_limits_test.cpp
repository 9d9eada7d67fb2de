// Tests of shim/memory/kept_limits.h.
#include "shim/memory/kept_limits.h"
#include "tests/unit/device_memory_fixture.h"

namespace graphpool {
namespace {

class KeptLimitsTest : public DeviceMemoryTest {
 protected:
  KeptLimits limits;
};

TEST_F(KeptLimitsTest, BytesGoBeforeAPartOfTheDevice) {
  limits.configure(3 * kMiB, 50);
  EXPECT_EQ(limits.limit(0), 3 * kMiB);
  EXPECT_EQ(limits.limit(1), 3 * kMiB);
  EXPECT_EQ(count("hipDeviceTotalMem"), 0);
}

TEST_F(KeptLimitsTest, ADeviceIsAskedForItsSizeOnceUntilItIsReset) {
  limits.configure(0, 50);
  EXPECT_EQ(limits.limit(0), fake.hip->total_bytes / 100 * 50);
  EXPECT_EQ(limits.limit(0), fake.hip->total_bytes / 100 * 50);
  EXPECT_EQ(count("hipDeviceTotalMem"), 1);
  fake.hip->total_bytes /= 2;
  limits.device_reset(1);
  EXPECT_EQ(limits.limit(0), fake.hip->total_bytes * 2 / 100 * 50) << "another device was reset";
  limits.device_reset(0);
  EXPECT_EQ(limits.limit(0), fake.hip->total_bytes / 100 * 50);
  EXPECT_EQ(count("hipDeviceTotalMem"), 2);
}

TEST_F(KeptLimitsTest, TheLimitIsAPartOfTheDevice) {
  settings.limit_percent = 1;
  configure();
  drop(get(3 * kMiB));
  EXPECT_EQ(fake.hip->allocations.size(), 0u) << "1 % of 256 MiB";
  drop(get(2 * kMiB));
  EXPECT_EQ(fake.hip->allocations.size(), 1u);
}

TEST_F(KeptLimitsTest, ASizeOfTheDeviceThatIsNotSaidOnceIsAskedForAgain) {
  fake.hip->fail["hipDeviceTotalMem"] = hipErrorUnknown;
  drop(get(100));
  EXPECT_EQ(fake.hip->allocations.size(), 0u) << "nothing is kept without a limit";
  EXPECT_EQ(fake::t_last_error, hipSuccess);
  fake.hip->fail.clear();
  drop(get(100));
  EXPECT_EQ(fake.hip->allocations.size(), 1u);
}

}  // namespace
}  // namespace graphpool
