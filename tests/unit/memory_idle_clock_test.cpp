// Tests of shim/memory/idle_clock.h.
#include <gtest/gtest.h>

#include "shim/memory/idle_clock.h"

namespace graphpool {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

constinit std::uint32_t g_now_ms = 0;
std::uint32_t now() noexcept { return g_now_ms; }

TEST(IdleClock, MemoryIsOldAfterItsTime) {
  IdleClock clock;
  g_now_ms = 0xffffff00;  // it wraps
  clock.configure(seconds(10), now);
  ASSERT_TRUE(clock.limits());
  ASSERT_TRUE(clock.look());
  const std::uint32_t freed = clock.now_ms();
  g_now_ms += 9'999;
  EXPECT_TRUE(clock.look());
  EXPECT_FALSE(clock.is_old(freed));
  ++g_now_ms;
  EXPECT_FALSE(clock.is_old(freed)) << "nobody has looked";
  EXPECT_TRUE(clock.look());
  EXPECT_TRUE(clock.is_old(freed));
}

TEST(IdleClock, AClockThatIsGivenIsWorthALookInEveryCall) {
  IdleClock clock;
  clock.configure(seconds(10), now);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(clock.moment_passed());
    EXPECT_TRUE(clock.look());
  }
}

TEST(IdleClock, NothingGetsOldWithoutATime) {
  IdleClock clock;
  EXPECT_FALSE(clock.look()) << "before it is configured";
  for (const nanoseconds never : {nanoseconds(0), nanoseconds(seconds(3'000'000))}) {
    clock.configure(never, now);
    EXPECT_FALSE(clock.limits());
    EXPECT_FALSE(clock.look());
  }
}

TEST(IdleClock, PartsOfAMillisecondCountAsOne) {
  IdleClock clock;
  clock.configure(nanoseconds(1), now);
  EXPECT_TRUE(clock.look());
  EXPECT_FALSE(clock.is_old(clock.now_ms()));
  EXPECT_TRUE(clock.is_old(clock.now_ms() - 1));
}

}  // namespace
}  // namespace graphpool
