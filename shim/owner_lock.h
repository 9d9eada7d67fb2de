// owner_lock.h: a lock that one thread takes nearly always, and takes without an atomic read-modify-write.
//
// Why: a captured call of a shell does so little that a mutex would be a third of it.
// How: the owner says that it is inside by a plain store and looks whether anybody else wants in. Somebody else says so
// and lets the kernel put a barrier into every running thread of the process (membarrier): then either he sees the
// owner inside, and waits until it has left, or the owner sees him, and takes the mutex as everybody does. Where the
// kernel has no such call there is only the mutex.
// Threads: the owner is the thread that made the lock; a later thread at its address takes its place. Not recursive.
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "shim/lock_rank.h"
#include "shim/memory/stream_work.h"

namespace graphpool {

/// Whether every running thread of the process has passed a barrier now. The first call finds out whether the kernel
/// can do that.
bool barrier_in_all_threads() noexcept;

template <LockRank Rank>
class OwnerLock {
 public:
  OwnerLock() noexcept : owner_(barrier_in_all_threads() ? &t_thread_token : nullptr) {}
  OwnerLock(const OwnerLock&) = delete;
  OwnerLock& operator=(const OwnerLock&) = delete;

  bool owned_by_caller() const noexcept { return owner_ == &t_thread_token; }
  /// The kernel cannot do it.
  bool owned_by_nobody() const noexcept { return owner_ == nullptr; }

  void lock() {
    if (owner_ == &t_thread_token) [[likely]] {
      inside_.store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (!wanted_.load(std::memory_order_acquire)) [[likely]] {
        rank_.entered();
        return;
      }
      inside_.store(false, std::memory_order_release);
    }
    lock_as_others();
  }
  void unlock() {
    if (inside_.load(std::memory_order_relaxed) && owner_ == &t_thread_token) [[likely]] {
      rank_.left();
      inside_.store(false, std::memory_order_release);
      return;
    }
    wanted_.store(false, std::memory_order_release);
    mutex_.unlock();
  }

 private:
  [[gnu::noinline]] void lock_as_others() {
    mutex_.lock();
    if (owner_ == nullptr) return;
    wanted_.store(true);
    // Refused only where a filter of system calls came later: a store is seen by all long before the thread runs again.
    if (!barrier_in_all_threads()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    while (inside_.load(std::memory_order_acquire)) sched_yield();
  }

  const void* const owner_;  ///< null: nobody has the short way
  std::atomic<bool> inside_{false};
  std::atomic<bool> wanted_{false};
  RankedMutex<Rank> mutex_;
  [[no_unique_address]] RankHeld<Rank> rank_;
};

}  // namespace graphpool
