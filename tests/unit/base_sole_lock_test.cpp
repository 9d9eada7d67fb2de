// One thread takes the lock by a plain store until there is a second one.
#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "lock_threads.h"
#include "shim/base/short_lock.h"
#include "shim/base/sole_lock.h"

namespace graphpool {
namespace {

constexpr LockRank kRank = LockRank::kNodes;
/// One of many, as an object's.
struct OfMany : SoleLock<kRank, ShortLock<kRank>> {
  OfMany() : SoleLock(OneOfMany{}) {}
};

template <typename Lock>
class SoleLocks : public ::testing::Test {};
using Kinds = ::testing::Types<SoleLock<kRank>, SoleLock<kRank, ShortLock<kRank>>, OfMany>;
TYPED_TEST_SUITE(SoleLocks, Kinds);

TYPED_TEST(SoleLocks, two_threads_are_never_inside_together) {
  for (int round = 0; round < 20; ++round) {
    TypeParam lock;
    { const std::scoped_lock first(lock); }
    constexpr int kOwnTurns = 20'000, kOtherTurns = 1'000, kOthers = 3;
    EXPECT_EQ(kOwnTurns + kOthers * kOtherTurns, turns_inside(lock, kOthers, kOtherTurns, kOwnTurns, [] {}));
  }
}

TYPED_TEST(SoleLocks, a_second_thread_waits_for_the_first_that_is_inside) {
  TypeParam lock;
  { const std::scoped_lock first(lock); }
  bool done = false, seen = false;
  std::thread other;
  {
    const std::scoped_lock guard(lock);
    other = std::thread([&] {
      const std::scoped_lock its(lock);
      seen = done;
    });
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    done = true;
  }
  other.join();
  EXPECT_TRUE(seen);
}

TYPED_TEST(SoleLocks, the_first_waits_for_a_second_that_is_inside) {
  TypeParam lock;
  { const std::scoped_lock first(lock); }
  bool done = false;
  std::atomic<bool> inside{false};
  std::thread other([&] {
    const std::scoped_lock guard(lock);
    inside.store(true);
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    done = true;
  });
  while (!inside.load()) std::this_thread::yield();
  {
    const std::scoped_lock guard(lock);
    EXPECT_TRUE(done);
  }
  other.join();
}

}  // namespace
}  // namespace graphpool
