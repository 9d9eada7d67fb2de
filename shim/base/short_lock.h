// short_lock.h: a lock that is held for a few hundred instructions and hardly ever asked for by two threads at once.
//
// Why: every allocation and every free takes one; given back by a plain store, it costs half of what a mutex does.
// Threads: any. Not recursive, not fair. Whoever finds it taken looks again, then lets others run, then sleeps for
// moments, so that a holder of lower priority gets on. No cancellation point; errno is kept.
#pragma once

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "shim/base/lock_rank.h"

namespace graphpool {

template <LockRank Rank>
class CAPABILITY("mutex") ShortLock {
 public:
  constexpr ShortLock() = default;
  ShortLock(const ShortLock&) = delete;
  ShortLock& operator=(const ShortLock&) = delete;

  void lock() noexcept ACQUIRE() {
#ifndef NDEBUG
    RankHeld<Rank>::check();  // before it waits
#endif
    if (taken_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      wait();
    rank_.entered();
  }
  void unlock() noexcept RELEASE() {
    rank_.left();
    taken_.store(false, std::memory_order_release);
  }

 private:
  static constexpr int kLooks = 100, kYields = 200;

  [[gnu::noinline]] void wait() noexcept {
    int rounds = 0;
    do {
      while (taken_.load(std::memory_order_relaxed)) {
        if (++rounds < kLooks)
          __builtin_ia32_pause();
        else if (rounds < kYields)
          sched_yield();
        else
          sleep_for_a_moment();
      }
    } while (taken_.exchange(true, std::memory_order_acquire));
  }

  static void sleep_for_a_moment() noexcept {
    const int before = errno;
    const timespec moment{0, 50'000};
    syscall(SYS_nanosleep, &moment, nullptr);
    errno = before;
  }

  std::atomic<bool> taken_{false};
  [[no_unique_address]] RankHeld<Rank> rank_;
};

}  // namespace graphpool
