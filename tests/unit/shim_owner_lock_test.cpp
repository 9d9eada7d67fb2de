// One thread takes the lock by a plain store, others by a barrier in all threads.
#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "lock_threads.h"
#include "shim/owner_lock.h"

namespace graphpool {
namespace {

using Lock = OwnerLock<LockRank::kCapture>;

TEST(OwnerLock, owner_and_others_are_never_inside_together) {
  Lock lock;
  EXPECT_TRUE(lock.owned_by_caller() || lock.owned_by_nobody());
  constexpr int kOwnTurns = 200'000, kOtherTurns = 2'000, kOthers = 3;
  const auto begins = [&] { EXPECT_FALSE(lock.owned_by_caller()); };
  EXPECT_EQ(kOwnTurns + kOthers * kOtherTurns, turns_inside(lock, kOthers, kOtherTurns, kOwnTurns, begins));
}

TEST(OwnerLock, the_owner_waits_for_another_that_is_inside) {
  Lock lock;
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
