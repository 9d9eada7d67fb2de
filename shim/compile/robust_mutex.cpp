#include "shim/compile/robust_mutex.h"

#include <time.h>

#include <cerrno>

namespace graphpool {
namespace {

/// `result`: of a call that locks. Whoever died with the mutex has left it to the caller.
bool is_locked(pthread_mutex_t& mutex, int result) noexcept {
  return result == 0 || (result == EOWNERDEAD && pthread_mutex_consistent(&mutex) == 0);
}

}  // namespace

void RobustMutex::make(bool shared) noexcept {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  if (shared) pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&mutex_, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

bool RobustMutex::try_lock() noexcept { return is_locked(mutex_, pthread_mutex_trylock(&mutex_)); }

bool RobustMutex::lock_or_give_up() noexcept {
  const int result = pthread_mutex_trylock(&mutex_);
  if (result != EBUSY) return is_locked(mutex_, result);
  // pthread_mutex_clocklock() is newer than glibc 2.28. So the second counts by the wall clock: if that is set back
  // meanwhile, the wait is longer by as much, unless whoever holds the mutex unlocks it or dies.
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  ++until.tv_sec;
  return is_locked(mutex_, pthread_mutex_timedlock(&mutex_, &until));
}

void RobustMutex::unlock() noexcept { pthread_mutex_unlock(&mutex_); }

}  // namespace graphpool
