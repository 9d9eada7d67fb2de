// lock_rank.h: every lock of the library with its rank. A thread takes locks in rising rank only, and holds none across
// a next call that can wait or call back, across dl* functions, unwinding or logging (rule 18). Debug builds check it.
#pragma once

#include <cassert>
#include <mutex>

namespace graphpool {

enum class LockRank : int {
  kNone = 0,
  kLifecycle,    ///< resolving next, loading the policy
  kCaptureList,  ///< which captures are open
  kCapture,      ///< one open capture
  kExecs,        ///< one virtual exec
  kTemplates,    ///< recordings, templates, variants
  kHandles,      ///< the tables of our handles
  kKernels,      ///< code objects, registered functions
  kSlots,        ///< slot memory waiting for another use
  kCaptureGate,  ///< whether a capture may begin
  kStreams,      ///< streams with outstanding work
  kBlocks,       ///< program-visible device memory
  kCallSites,    ///< the tree of frames
  kReport,       ///< counters that need more than an atomic
  kLog,          ///< the logger
};

inline thread_local int t_highest_rank = 0;

/// A mutex that knows its rank. Never destroyed (a constinit global or a member of a leaked object).
template <LockRank Rank>
class RankedMutex {
 public:
  constexpr RankedMutex() = default;
  void lock() {
    assert(t_highest_rank < static_cast<int>(Rank) && "locks are taken in rising rank");
    mutex_.lock();
    outer_ = t_highest_rank;
    t_highest_rank = static_cast<int>(Rank);
  }
  void unlock() {
    t_highest_rank = outer_;
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  int outer_ = 0;
};

}  // namespace graphpool
