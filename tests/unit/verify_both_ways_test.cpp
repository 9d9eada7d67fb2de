// Launches that run in the program's buffers and in copies of them.
#include "shim/verify/both_ways.h"
#include "tests/unit/rings_fixture.h"

namespace graphpool {
namespace {

class ShadowsTest : public RingsTest {};

TEST_F(ShadowsTest, bytes_that_cannot_be_fetched_are_not_compared) {
  plan_by(kFirstRule);
  test_next().hipStreamSynchronize = [](hipStream_t) { return hipSuccess; };
  Shadows shadows;
  ASSERT_EQ(hipSuccess, shadows.allocate(*plan_));
  Shadows::Difference difference;
  for (const int fetched : {0, 1}) {
    fake.hip->fail_at = fake.hip->calls + 1 + fetched;
    fake.hip->fail_code = hipErrorIllegalAddress;
    EXPECT_EQ(hipErrorIllegalAddress, shadows.compare({first_}, nullptr, &difference));
    EXPECT_EQ("hipMemcpyAsync", fake.hip->failed);
    EXPECT_FALSE(difference.found);
  }
}

}  // namespace
}  // namespace graphpool
