// robust_mutex.h: a mutex, between processes too, which comes free when its owner dies.
//
// The kernel marks it when the owning thread ends or its process execs; a forked child does not own it. Plain data: it
// is in mapped memory that began as zeros. Threads: any, of any process.
#pragma once

#include <pthread.h>

#include "shim/base/thread_safety.h"

namespace graphpool {

class CAPABILITY("mutex") RobustMutex {
 public:
  /// Called once, by whoever makes the memory. `shared`: other processes will lock it.
  void make(bool shared) noexcept;
  /// Never waits. Returns whether the caller owns it now.
  bool try_lock() noexcept TRY_ACQUIRE(true);
  /// Waits for a second at most. Returns false where the caller does not own it by then: a process that does may be
  /// stopped.
  bool lock_or_give_up() noexcept TRY_ACQUIRE(true);
  void unlock() noexcept RELEASE();

 private:
  pthread_mutex_t mutex_;
};

}  // namespace graphpool
