// owner_lock.h: a lock that one thread takes nearly always, and takes without an atomic read-modify-write.
//
// Why: a captured call of a shell does so little that a mutex would be a third of it.
// How: the owner says that it is inside by a plain store and looks whether anybody else wants in. Somebody else says so
// and lets the kernel put a barrier into every running thread of the process (membarrier): then either he sees the
// owner inside, and waits until it has left, or the owner sees him, and takes the mutex as everybody does. Where the
// kernel has no such call there is only the mutex.
// A thread that will take it more often from now on becomes the owner (hand_over). Each of the first kOwners threads
// has a place of its own where it says that it is inside, so that a former owner that has not noticed yet does nobody
// harm: it looks who the owner is once more, after it has said so.
// Threads: the first owner is the thread that made the lock; a later thread at an owner's address takes its place. Not
// recursive.
#pragma once

#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
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
  static constexpr std::size_t kOwners = 4;

  OwnerLock() noexcept {
    if (!barrier_in_all_threads()) return;
    owners_[0].thread.store(&t_thread_token, std::memory_order_relaxed);
    owner_.store(&owners_[0], std::memory_order_relaxed);
  }
  OwnerLock(const OwnerLock&) = delete;
  OwnerLock& operator=(const OwnerLock&) = delete;

  bool owned_by_caller() const noexcept { return is_callers(owner_.load(std::memory_order_acquire)); }
  /// The caller is the owner or was it once.
  bool was_owned_by_caller() const noexcept {
    return std::any_of(owners_.begin(), owners_.end(), [](const Owner& owner) { return is_callers(&owner); });
  }
  /// The kernel cannot do it.
  bool owned_by_nobody() const noexcept { return owner_.load(std::memory_order_acquire) == nullptr; }

  void lock() {
    Owner* const owner = owner_.load(std::memory_order_acquire);
    if (is_callers(owner)) [[likely]] {
      owner->inside.store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      // In this order: who no longer wants in may have become the owner before.
      if (!wanted_.load(std::memory_order_acquire) && owner_.load(std::memory_order_relaxed) == owner) [[likely]] {
        rank_.entered();
        return;
      }
      owner->inside.store(false, std::memory_order_release);
    }
    lock_as_others();
  }
  void unlock() {
    Owner* const owner = owner_.load(std::memory_order_relaxed);
    if (is_callers(owner) && owner->inside.load(std::memory_order_relaxed)) [[likely]] {
      rank_.left();
      owner->inside.store(false, std::memory_order_release);
      return;
    }
    waited_ = false;
    held_.store(false, std::memory_order_relaxed);
    wanted_.store(false, std::memory_order_release);
    mutex_.unlock();
  }

  // While the caller holds it:

  /// The caller is the owner from its next turn on; not where kOwners others have been it.
  void hand_over() noexcept {
    if (owned_by_nobody() || owned_by_caller()) return;
    const auto place = std::find_if(owners_.begin(), owners_.end(), [](const Owner& owner) {
      return is_callers(&owner) || owner.thread.load(std::memory_order_relaxed) == nullptr;
    });
    if (place == owners_.end()) return;
    place->thread.store(&t_thread_token, std::memory_order_relaxed);
    owner_.store(&*place, std::memory_order_release);
  }
  /// Another thread was inside when the caller wanted in. Not where the caller was let in as the owner: `waited_` is
  /// then that of a thread which wants in now.
  bool waited() const noexcept {
    const Owner* const owner = owner_.load(std::memory_order_relaxed);
    return !(is_callers(owner) && owner->inside.load(std::memory_order_relaxed)) && waited_;
  }

 private:
  struct Owner {
    std::atomic<const void*> thread{nullptr};
    std::atomic<bool> inside{false};
  };

  static bool is_callers(const Owner* owner) noexcept {
    return owner != nullptr && owner->thread.load(std::memory_order_relaxed) == &t_thread_token;
  }

  [[gnu::noinline]] void lock_as_others() {
    const bool held = held_.load(std::memory_order_relaxed);
    mutex_.lock();
    waited_ = held;
    held_.store(true, std::memory_order_relaxed);
    const Owner* const owner = owner_.load(std::memory_order_relaxed);
    if (owner == nullptr || is_callers(owner)) return;
    wanted_.store(true);
    // Refused only where a filter of system calls came later: a store is seen by all long before the thread runs again.
    if (!barrier_in_all_threads()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    while (owner->inside.load(std::memory_order_acquire)) {
      waited_ = true;
      sched_yield();
    }
  }

  std::array<Owner, kOwners> owners_;
  std::atomic<Owner*> owner_{nullptr};  ///< changed by who holds the mutex; null: nobody has the short way
  std::atomic<bool> wanted_{false};
  std::atomic<bool> held_{false};  ///< by who holds the mutex
  bool waited_ = false;            ///< likewise
  RankedMutex<Rank> mutex_;
  [[no_unique_address]] RankHeld<Rank> rank_;
};

}  // namespace graphpool
