// owner_lock.h: a lock that nearly always the same thread takes, its owner, without an atomic read-modify-write.
//
// Why: a call captured in a shell does so little that a mutex would be a third of it.
// How: the owner says by a plain store that it is inside, then looks whether another thread wants in. Another thread
// takes the mutex, says that it wants in, and lets the kernel put a barrier into every running thread of the process
// (membarrier). Then either that thread sees the owner inside and waits until the owner has left, or the owner sees the
// wish and takes the mutex, too. Where the kernel has no such call there is only the mutex.
// A thread that will take the lock more often from now on becomes the owner by hand_over(). Each of the owners, at most
// kOwners, has a flag of its own, which says that this thread is inside. A former owner may not know yet that it is the
// owner no more. It sets its flag, then looks again who the owner is, finds another thread, and takes the mutex.
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

#include "shim/base/lock_rank.h"
#include "shim/base/owned_count.h"

namespace graphpool {

/// Whether the kernel can put a barrier into every thread of the process. The first call finds out.
bool kernel_has_barrier() noexcept;
/// Puts a barrier into every running thread. Returns false where the kernel cannot, or refuses to.
bool barrier_in_all_threads() noexcept;

template <LockRank Rank>
class CAPABILITY("mutex") OwnerLock {
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
  /// There is no owner, because the kernel has no membarrier.
  bool owned_by_nobody() const noexcept { return owner_.load(std::memory_order_acquire) == nullptr; }

  void lock() ACQUIRE() NOT_CHECKED {
    if (!try_lock_as_owner()) [[unlikely]]
      lock_as_others();
  }
  /// Takes the lock if the caller is the owner and no other thread wants in. Else returns false. Either unlock
  /// function gives it back.
  bool try_lock_as_owner() noexcept TRY_ACQUIRE(true) NOT_CHECKED {
    Owner* const owner = owner_.load(std::memory_order_acquire);
    if (!is_callers(owner)) [[unlikely]]
      return false;
    owner->inside.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    // The order counts: another thread may become the owner, and then takes wanted_ back.
    if (!wanted_.load(std::memory_order_acquire) && owner_.load(std::memory_order_relaxed) == owner) [[likely]] {
      rank_.entered();
      return true;
    }
    owner->inside.store(false, std::memory_order_release);
    return false;
  }
  /// Gives back what try_lock_as_owner() took.
  void unlock_as_owner() noexcept RELEASE() NOT_CHECKED {
    rank_.left();
    owner_.load(std::memory_order_relaxed)->inside.store(false, std::memory_order_release);
  }
  void unlock() RELEASE() NOT_CHECKED {  // the owner has no mutex to give back
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

  /// Makes the caller the owner from its next lock() on. Does nothing without membarrier, or where kOwners other
  /// threads have been owners.
  void hand_over() noexcept REQUIRES(this) {
    if (owned_by_nobody() || owned_by_caller()) return;
    const auto place = std::find_if(owners_.begin(), owners_.end(), [](const Owner& owner) {
      return is_callers(&owner) || owner.thread.load(std::memory_order_relaxed) == nullptr;
    });
    if (place == owners_.end()) return;
    place->thread.store(&t_thread_token, std::memory_order_relaxed);
    owner_.store(&*place, std::memory_order_release);
  }
  /// Whether another thread was inside when the caller called lock(). Always false for an owner that took the lock
  /// without the mutex: then `waited_` belongs to a thread that is taking the mutex.
  bool waited() const noexcept REQUIRES(this) {
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

  [[gnu::noinline]] void lock_as_others() NOT_CHECKED {  // unlock() gives it back
    const bool held = held_.load(std::memory_order_relaxed);
    mutex_.lock();
    waited_ = held;
    held_.store(true, std::memory_order_relaxed);
    const Owner* const owner = owner_.load(std::memory_order_relaxed);
    if (owner == nullptr || is_callers(owner)) return;
    wanted_.store(true);
    // Refused only where a filter of system calls was set later. After a millisecond all threads see the store.
    if (!barrier_in_all_threads()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    while (owner->inside.load(std::memory_order_acquire)) {
      waited_ = true;
      sched_yield();
    }
  }

  std::array<Owner, kOwners> owners_;
  std::atomic<Owner*> owner_{nullptr};  ///< written under mutex_; null: every thread takes the mutex
  std::atomic<bool> wanted_{false};
  std::atomic<bool> held_{false};  ///< a thread is inside that has taken mutex_; written under mutex_
  bool waited_ = false;            ///< written under mutex_
  RankedMutex<Rank> mutex_;
  [[no_unique_address]] RankHeld<Rank> rank_;
};

}  // namespace graphpool
