// One thread takes the lock by a plain store, others by a barrier in all threads.
#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "lock_threads.h"
#include "shim/base/owner_lock.h"

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

TEST(OwnerLock, only_the_owner_takes_it_as_owner_and_only_while_no_other_wants_in) {
  Lock lock;
  if (lock.owned_by_nobody()) GTEST_SKIP() << "the kernel has no barrier for other threads";
  ASSERT_TRUE(lock.try_lock_as_owner());
  lock.unlock_as_owner();
  std::atomic<bool> inside{false}, leave{false};
  std::thread other([&] {
    EXPECT_FALSE(lock.try_lock_as_owner());
    const std::scoped_lock guard(lock);
    inside.store(true);
    while (!leave.load()) std::this_thread::yield();
  });
  while (!inside.load()) std::this_thread::yield();
  EXPECT_FALSE(lock.try_lock_as_owner());
  leave.store(true);
  other.join();
  ASSERT_TRUE(lock.try_lock_as_owner());
  lock.unlock_as_owner();
}

TEST(OwnerLock, who_it_is_handed_to_is_the_owner_from_then_on) {
  Lock lock;
  if (lock.owned_by_nobody()) GTEST_SKIP() << "the kernel has no barrier for other threads";
  const auto take_over = [&lock] {
    const std::scoped_lock guard(lock);
    lock.hand_over();
  };
  std::thread([&] {
    EXPECT_FALSE(lock.was_owned_by_caller());
    take_over();
    EXPECT_TRUE(lock.owned_by_caller());
    const std::scoped_lock guard(lock);
    EXPECT_FALSE(lock.waited());
  }).join();
  EXPECT_FALSE(lock.owned_by_caller());
  EXPECT_TRUE(lock.was_owned_by_caller());
  take_over();
  EXPECT_TRUE(lock.owned_by_caller());
}

TEST(OwnerLock, nobody_is_inside_beside_another_while_it_changes_hands) {
  Lock lock;
  constexpr int kTurns = 20'000, kThreads = static_cast<int>(Lock::kOwners) + 1;
  long turns = 0;  // not atomic
  const auto enter = [&](int every) {
    for (int i = 0; i < kTurns; ++i) {
      const std::scoped_lock guard(lock);
      if (i % every == 0) lock.hand_over();
      ++turns;
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(enter, 10 + i);
  enter(7);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(long{kThreads + 1} * kTurns, turns);
}

TEST(OwnerLock, who_had_to_wait_for_another_is_told_so) {
  Lock lock;
  for (const bool owner_first : {true, false}) {
    std::atomic<bool> inside{false}, leave{false};
    const auto hold = [&] {
      const std::scoped_lock guard(lock);
      inside = true;
      while (!leave) std::this_thread::yield();
      EXPECT_FALSE(lock.waited()) << "another one waits";
    };
    std::atomic<bool> waited{false};
    const auto come = [&] {
      while (!inside) std::this_thread::yield();
      std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        leave = true;
      }).detach();
      const std::scoped_lock guard(lock);
      waited = lock.waited();
    };
    std::thread other([&] { owner_first ? come() : hold(); });
    owner_first ? hold() : come();
    other.join();
    EXPECT_TRUE(waited);
    const std::scoped_lock guard(lock);
    EXPECT_FALSE(lock.waited());
  }
}

}  // namespace
}  // namespace graphpool
