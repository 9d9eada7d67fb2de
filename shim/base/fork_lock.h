// fork_lock.h: a mutex that a forked child can make anew: the thread that held it in the parent is not in the child.
//
// Why not RankedMutex: these locks are held for long, while the policy is read, a report is written or a compilation
// runs. The rules of ranked locks (rule 18) do not fit that. Threads: any. Never destroyed.
#pragma once

#include <pthread.h>

#include "shim/base/thread_safety.h"

namespace graphpool {

class CAPABILITY("mutex") ForkLock {
 public:
  constexpr ForkLock() = default;
  ForkLock(const ForkLock&) = delete;
  ForkLock& operator=(const ForkLock&) = delete;

  void lock() noexcept ACQUIRE() { pthread_mutex_lock(&mutex_); }
  void unlock() noexcept RELEASE() { pthread_mutex_unlock(&mutex_); }
  /// Frees the lock in a forked child, where its holder is gone. Call it in the child's only thread.
  void make_anew() noexcept { mutex_ = PTHREAD_MUTEX_INITIALIZER; }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

}  // namespace graphpool
