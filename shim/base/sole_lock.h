// sole_lock.h: a lock that costs next to nothing as long as only one thread takes it.
//
// Why: most programs capture, build and launch graphs in one thread, and there every captured launch takes the lock of
// recording/node_creation.h, every capture that of the list of open captures, and every launch that of its exec.
// How: the first thread takes it by a plain store, as the owner of an OwnerLock does. A second thread ends that for
// good: it lets the kernel put a barrier into every running thread and waits until the first one has left. From then on
// all threads take the lock behind this one (`Behind`). Where the kernel has no such call, they take that lock from the
// beginning. Where objects have a lock each (OneOfMany), a lock made after a second thread came to one of these locks
// does so, too: only the first objects cost a barrier.
// Threads: any; a later thread at the address of the first one takes its place. Not recursive.
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "shim/base/lock_rank.h"
#include "shim/base/owned_count.h"
#include "shim/base/owner_lock.h"

namespace graphpool {

/// Says that the lock is one of many, of which each object has one.
struct OneOfMany {};

/// Behind: the lock that all threads take once a second one has come.
template <LockRank Rank, typename Behind = RankedMutex<Rank>>
class CAPABILITY("mutex") SoleLock {
 public:
  constexpr SoleLock() = default;
  explicit SoleLock(OneOfMany) noexcept : shared_(several_.load(std::memory_order_relaxed)) {}
  SoleLock(const SoleLock&) = delete;
  SoleLock& operator=(const SoleLock&) = delete;

  void lock() ACQUIRE() {
    if (first_.load(std::memory_order_relaxed) == &t_thread_token) [[likely]] {
      inside_.store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      if (!shared_.load(std::memory_order_acquire)) [[likely]] {
        rank_.entered();
        return;
      }
      inside_.store(false, std::memory_order_release);
    }
    lock_behind();
  }
  void unlock() RELEASE() NOT_CHECKED {  // by the short way there is no mutex to give back
    if (first_.load(std::memory_order_relaxed) == &t_thread_token && inside_.load(std::memory_order_relaxed))
        [[likely]] {
      rank_.left();
      inside_.store(false, std::memory_order_release);
      return;
    }
    behind_.unlock();
  }

 private:
  [[gnu::noinline]] void lock_behind() NOT_CHECKED {  // unlock() gives it back
    behind_.lock();
    if (shared_.load(std::memory_order_relaxed)) return;
    const bool is_first = first_.load(std::memory_order_relaxed) == nullptr;
    if (is_first && kernel_has_barrier()) {
      first_.store(&t_thread_token, std::memory_order_relaxed);  // from the next time on
      return;
    }
    shared_.store(true);
    if (is_first) return;
    several_.store(true, std::memory_order_relaxed);
    // Refused only where a filter of system calls was set later. After a millisecond all threads see the store.
    if (!barrier_in_all_threads()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    while (inside_.load(std::memory_order_acquire)) sched_yield();
  }

  static inline constinit std::atomic<bool> several_{false};  ///< a second thread has come to one of these locks
  std::atomic<const void*> first_{nullptr};
  std::atomic<bool> inside_{false};  ///< the first thread is, by the short way
  std::atomic<bool> shared_{false};
  Behind behind_;
  [[no_unique_address]] RankHeld<Rank> rank_;
};

}  // namespace graphpool
