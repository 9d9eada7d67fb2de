// fork_lock.h: a mutex that a forked child can make anew: the thread that held it in the parent is not in the child.
//
// Why not RankedMutex: what these locks guard is set up once, in code that calls dl* functions, reads files or writes a
// report, so that rank says nothing of them. Threads: any. Never destroyed.
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
  /// In a forked child, by its only thread: whoever held it is gone.
  void make_anew() noexcept { mutex_ = PTHREAD_MUTEX_INITIALIZER; }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

}  // namespace graphpool
