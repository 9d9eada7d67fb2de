// One thread inside at a time, also where the others have to sleep.
#include <gtest/gtest.h>

#include <cerrno>
#include <mutex>
#include <thread>

#include "lock_threads.h"
#include "shim/base/short_lock.h"

namespace graphpool {
namespace {

using Lock = ShortLock<LockRank::kBlocks>;

TEST(ShortLock, one_thread_is_inside_at_a_time) {
  Lock lock;
  constexpr int kThreads = 4, kTurns = 50'000;
  EXPECT_EQ(kThreads * kTurns, turns_inside(lock, kThreads, kTurns, 0, [] {}));
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
