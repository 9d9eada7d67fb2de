// One thread inside at a time, also where the others have to sleep.
#include <gtest/gtest.h>

#include <cerrno>
#include <mutex>
#include <thread>
#include <vector>

#include "shim/short_lock.h"

namespace graphpool {
namespace {

using Lock = ShortLock<LockRank::kBlocks>;

TEST(ShortLock, one_thread_is_inside_at_a_time) {
  Lock lock;
  constexpr int kThreads = 4, kTurns = 50'000;
  long turns = 0;  // not atomic: only the lock keeps the count whole
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&] {
      for (int turn = 0; turn < kTurns; ++turn) {
        const std::scoped_lock guard(lock);
        ++turns;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(kThreads * kTurns, turns);
}

TEST(ShortLock, a_long_wait_ends_and_keeps_errno) {
  Lock lock;
  bool done = false;
  std::atomic<bool> inside{false};
  std::thread other([&] {
    const std::scoped_lock guard(lock);
    inside.store(true);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    done = true;
  });
  while (!inside.load()) std::this_thread::yield();
  errno = ENOENT;
  {
    const std::scoped_lock guard(lock);
    EXPECT_TRUE(done);
  }
  EXPECT_EQ(ENOENT, errno);
  other.join();
}

}  // namespace
}  // namespace graphpool
