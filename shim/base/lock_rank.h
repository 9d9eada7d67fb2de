// lock_rank.h: every lock of the library with its rank. A thread takes locks in rising rank only, and holds none across
// a next call that can wait or call back, across dl* functions, unwinding or logging (rule 18). Debug builds check it.
#pragma once

#include <cassert>
#include <mutex>

namespace graphpool {

enum class LockRank : int {
  kNone = 0,
  kLifecycle,       ///< resolving next, loading the policy
  kCaptureList,     ///< which captures are open, which execs are staged
  kCapture,         ///< one open capture
  kExecs,           ///< one virtual exec
  kTemplates,       ///< recordings, templates, variants
  kHandles,         ///< the tables of our handles
  kKernels,         ///< code objects, registered functions
  kRings,           ///< which slot rings there are
  kRing,            ///< the last launches of one
  kSlots,           ///< slot memory waiting for another use
  kNodes,           ///< nodes are being made
  kCaptureGate,     ///< whether a capture may begin
  kStreams,         ///< streams with outstanding work
  kPrivateHandles,  ///< which handles are ours
  kBlocks,          ///< program-visible device memory
  kCallSites,       ///< the tree of frames
  kReport,          ///< counters that need more than an atomic
  kLog,             ///< the logger
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

/// A mutex that knows its rank. Never destroyed (a constinit global or a member of a leaked object).
template <LockRank Rank>
class RankedMutex {
 public:
  constexpr RankedMutex() = default;
  void lock() {
#ifndef NDEBUG
    RankHeld<Rank>::check();  // before it waits
#endif
    mutex_.lock();
    rank_.entered();
  }
  void unlock() {
    rank_.left();
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  [[no_unique_address]] RankHeld<Rank> rank_;
};

}  // namespace graphpool
