// thread_safety_refused.cpp: breaks what locks say of themselves, once a line; thread_safety.py expects each to be
// refused.
#include "shim/base/lock_rank.h"
#include "shim/base/owner_lock.h"
#include "shim/base/short_lock.h"
#include "shim/base/sole_lock.h"

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

}  // namespace graphpool
