// thread_safety_refused.cpp: breaks what locks say of themselves, once a line; thread_safety.py expects each to be
// refused.
#include <pthread.h>

#include <mutex>

#include "shim/base/fork_lock.h"
#include "shim/base/lock_rank.h"
#include "shim/base/owner_lock.h"
#include "shim/base/short_lock.h"
#include "shim/base/sole_lock.h"
#include "shim/compile/robust_mutex.h"

namespace graphpool {

template <typename Lock>
struct Guarded {
  Lock lock;
  int value GUARDED_BY(lock) = 0;
  void needs_it() REQUIRES(lock) { ++value; }
  void takes_it() EXCLUDES(lock) {
    const LockGuard guard(lock);
    needs_it();
  }
};

template <typename Lock>
void use(Guarded<Lock>& one, Guarded<Lock>& other) {
  one.value = 1;   // refused
  one.needs_it();  // refused
  one.takes_it();
  const LockGuard guard(one.lock);
  one.value = 2;
  one.needs_it();
  one.takes_it();   // refused
  other.value = 3;  // refused
  UniqueLock second(other.lock);
  other.value = 4;
  second.unlock();
  other.value = 5;           // refused
  [&] { one.value = 6; }();  // refused
  [&] {
    assume_held(one.lock);
    one.value = 7;
  }();
}

template void use(Guarded<RankedMutex<LockRank::kExecs>>&, Guarded<RankedMutex<LockRank::kExecs>>&);
template void use(Guarded<ShortLock<LockRank::kExecs>>&, Guarded<ShortLock<LockRank::kExecs>>&);
template void use(Guarded<SoleLock<LockRank::kExecs>>&, Guarded<SoleLock<LockRank::kExecs>>&);
template void use(Guarded<OwnerLock<LockRank::kExecs>>&, Guarded<OwnerLock<LockRank::kExecs>>&);
template void use(Guarded<ForkLock>&, Guarded<ForkLock>&);

struct Shared {
  RobustMutex mutex;
  int value GUARDED_BY(mutex);
};

void use(Shared& shared) {
  if (!shared.mutex.lock_or_give_up()) {
    shared.value = 1;  // refused
    return;
  }
  shared.value = 2;
  shared.mutex.unlock();
  shared.value = 3;  // refused
  if (shared.mutex.try_lock()) shared.mutex.unlock();
}

struct Bare {
  std::mutex member;  // refused
  pthread_mutex_t* of_program;
  int value;
};
pthread_mutex_t g_bare = PTHREAD_MUTEX_INITIALIZER;  // refused
RankedMutex<LockRank::kExecs> g_guards_nothing;      // refused

void use(Bare& bare, pthread_mutex_t* of_program) {
  static std::recursive_mutex local;  // refused
  const std::lock_guard guard(local);
  bare.of_program = of_program;
}

}  // namespace graphpool
