// What has become of a capture: the first reason stays, and a lost capture is an invalid one.
#include <gtest/gtest.h>

#include "shim/capture/capture_fate.h"

namespace graphpool {
namespace {

TEST(CaptureFate, the_first_reason_stays) {
  CaptureFate fate;
  EXPECT_EQ(nullptr, fate.rejected());
  fate.reject("first");
  fate.reject("second");
  EXPECT_STREQ("first", fate.rejected());
}

TEST(CaptureFate, a_lost_capture_is_invalid_and_stays_lost) {
  CaptureFate fate;
  EXPECT_FALSE(fate.invalid());
  fate.invalidate();
  EXPECT_TRUE(fate.invalid());
  EXPECT_FALSE(fate.lost());
  fate.lose();
  fate.invalidate();
  EXPECT_TRUE(fate.invalid());
  EXPECT_TRUE(fate.lost());
}

TEST(CaptureFate, what_the_runtime_runs_at_once_gives_no_recording) {
  CaptureFate fate;
  fate.leave_to_runtime();
  EXPECT_TRUE(fate.ran_at_once());
  EXPECT_NE(nullptr, fate.rejected());
  EXPECT_FALSE(fate.exposed());
}

}  // namespace
}  // namespace graphpool
