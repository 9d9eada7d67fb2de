// bare_mutexes.h: included before a source, it lets clang warn of each mutex without a CAPABILITY (thread_safety.py).
#pragma once

#define BARE __attribute__((deprecated("a mutex that is no capability")))

namespace std {
class BARE mutex;
class BARE recursive_mutex;
class BARE timed_mutex;
class BARE shared_mutex;
}  // namespace std

#include <pthread.h>

typedef pthread_mutex_t pthread_mutex_t BARE;
typedef pthread_rwlock_t pthread_rwlock_t BARE;
typedef pthread_spinlock_t pthread_spinlock_t BARE;

#undef BARE
