// lock_rank.h: gives the library's locks their ranks (fork_lock.h says why some have none). A thread takes locks in
// rising rank only, and holds none across a next call that can wait or call back, across dl* functions, unwinding or
// logging (rule 18). Debug builds check the order.
#pragma once

#include <cassert>
#include <mutex>

#include "shim/base/thread_safety.h"

namespace graphpool {

enum class LockRank : int {
  kNone = 0,
  kLifecycle,       ///< resolving next
  kExecLimit,       ///< which execs of the program may be given back
  kCaptureList,     ///< which captures are open, which execs are staged
  kCapture,         ///< one open capture, one graph of the program, one staged exec
  kExecs,           ///< one program exec
  kRecordings,      ///< recordings and their variants
  kHandles,         ///< the tables of our handles
  kKernels,         ///< code objects, registered functions
  kRings,           ///< which slot rings there are
  kRing,            ///< the last launches of one ring
  kSlots,           ///< memory of slots, timelines and verify that may be used again; uses that are outstanding
  kNodes,           ///< nodes are being made
  kCaptureGate,     ///< whether a capture may begin; the list of open captures
  kStreams,         ///< what is known of streams and their events
  kPrivateHandles,  ///< which handles are ours
  kBlocks,          ///< program-visible device memory
  kCallSites,       ///< the tree of frames, and their names
  kReport,          ///< counters and small tables that need more than an atomic
};

#ifdef NDEBUG
template <LockRank Rank>
class RankHeld {
 public:
  void entered() noexcept {}
  void left() noexcept {}
};
#else
inline thread_local int t_highest_rank = 0;

/// The rank of a lock while a thread holds it; kept by the lock.
template <LockRank Rank>
class RankHeld {
 public:
  static void check() noexcept { assert(t_highest_rank < static_cast<int>(Rank) && "locks are taken in rising rank"); }
  void entered() noexcept {
    check();
    outer_ = t_highest_rank;
    t_highest_rank = static_cast<int>(Rank);
  }
  void left() noexcept { t_highest_rank = outer_; }

 private:
  int outer_ = 0;
};
#endif

/// A mutex that knows its rank.
template <LockRank Rank>
class CAPABILITY("mutex") RankedMutex {
 public:
  constexpr RankedMutex() = default;
  void lock() ACQUIRE() {
#ifndef NDEBUG
    RankHeld<Rank>::check();  // before it waits
#endif
    mutex_.lock();
    rank_.entered();
  }
  void unlock() RELEASE() {
    rank_.left();
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  [[no_unique_address]] RankHeld<Rank> rank_;
};

/// Tells clang's check that the lock is held here, where clang cannot see it: in a function object that is only called
/// under the lock, for example.
template <typename Lock>
void assume_held([[maybe_unused]] const Lock& lock) noexcept ASSERT_CAPABILITY(lock) {}

/// Holds a lock from its making to the end of the scope.
template <typename Lock>
class SCOPED_CAPABILITY LockGuard {
 public:
  explicit LockGuard(Lock& lock) ACQUIRE(lock) : lock_(lock) { lock_.lock(); }
  ~LockGuard() RELEASE() { lock_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Lock& lock_;
};

/// A LockGuard whose lock may be given back before the end of the scope, and taken again.
template <typename Lock>
class SCOPED_CAPABILITY UniqueLock {
 public:
  explicit UniqueLock(Lock& lock) ACQUIRE(lock) : lock_(lock) { this->lock(); }
  ~UniqueLock() RELEASE() {
    if (holds_) lock_.unlock();
  }
  UniqueLock(const UniqueLock&) = delete;
  UniqueLock& operator=(const UniqueLock&) = delete;

  void lock() ACQUIRE() {
    lock_.lock();
    holds_ = true;
  }
  void unlock() RELEASE() {
    holds_ = false;
    lock_.unlock();
  }

 private:
  Lock& lock_;
  bool holds_ = false;
};

}  // namespace graphpool
