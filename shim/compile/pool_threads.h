// pool_threads.h: threads that compile without calling anything we see: a framework's own LLVM in a pool of threads.
//
// They are known by the names they give themselves, or by the module of their first function. Such a thread takes its
// permit when it names itself, or when it begins if it is known by its module. It can wait there: it has no task yet
// and, as a rule, no lock, and the other threads of its pool do the work meanwhile.
//
// While it waits for work, at a condition or a semaphore of the C library, it does not count. Behind that wait it needs
// a permit again. It waits for one without the condition's mutex, as if it had woken later: the others of its pool go
// on, and may take its task. It goes on without waiting where its wait failed or timed out; where it rides, or is in a
// call that compiles, which holds locks of its own; and where another thread is in pthread_join for it, so it was
// probably woken to end. A thread that waits by other means lends its permit once it has used next to no processor time
// for a tenth of `wait`. When it goes on, it counts without having waited.
//
// A thread that a holder starts, but not one that a pool thread with its own permit starts, rides on the holder's
// permit while that lasts (rule 33): the holder may be waiting for it. For the same reason a thread that has to wait
// for a permit rides on that of a call of its process that sleeps.
//
// A thread that is named by another one is of the pool from its next wait on. One whose name is written into a file of
// /proc is of the pool from its first wait on, if it has the name by then. Threads: any.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <string_view>

#include "shim/hip/entry.h"

namespace graphpool {

struct Permit;

/// What a thread inherits from the one that starts it.
struct NewThread {
  void* (*start)(void*);
  void* argument;
  unsigned permit, generation;  ///< to ride on; permit kMostPermits: none
  bool counts;                  ///< it is of a pool, by its module
};

/// Tells what a thread that is about to start inherits. Null: it inherits nothing and is of no pool, or there was no
/// host memory.
NewThread* new_thread(void* (*start)(void*), void* argument) noexcept;

/// Call it in the new thread, before the thread's function. May wait for a permit.
void thread_begins(const NewThread& thread) noexcept;

/// Call it in the thread that has just got this name. May wait for a permit.
void thread_is_named(std::string_view name) noexcept;

/// Notes that a thread other than the calling one has got this name.
void another_thread_is_named(std::string_view name) noexcept;

/// is_pool_thread() tells whether the calling thread is of a pool. It looks at the thread's name only in the thread's
/// first call, and after a thread was named by another one.
extern constinit thread_local bool t_pool_thread __attribute__((tls_model("initial-exec")));
extern constinit thread_local std::uint32_t t_names_seen __attribute__((tls_model("initial-exec")));
extern constinit std::uint32_t g_names_by_others;
bool has_pool_name() noexcept;
inline bool is_pool_thread() noexcept {
  return t_pool_thread || (t_names_seen != __atomic_load_n(&g_names_by_others, __ATOMIC_RELAXED) && has_pool_name());
}

/// Called by a pool thread that is going to wait for work.
void pool_thread_sleeps() noexcept;
/// Called behind that wait. Returns false where the thread needs a permit first: it has to let go of its pool's mutex
/// and call pool_thread_waits(), which waits for one. `anyway`: it cannot wait, and true is returned.
bool pool_thread_wakes(bool anyway) noexcept;
void pool_thread_waits() noexcept;

/// Waits for work by calling `wait`. `mutex`: the condition's; null: none. Where the thread then waits for a permit, it
/// unlocks the mutex meanwhile: to its pool it woke later. Cancellation unwinds through here, as from the wait itself.
template <typename Wait>
int wait_for_work(pthread_mutex_t* mutex, Wait&& wait) {
  const bool pool = !t_inside && is_pool_thread();
  if (pool) pool_thread_sleeps();
  const int result = wait();
  // A thread that was named meanwhile is of its pool from here on.
  if ((!pool && (t_inside || !is_pool_thread())) || pool_thread_wakes(result != 0)) return result;
  if (mutex != nullptr && pthread_mutex_unlock(mutex) != 0) return result;
  pool_thread_waits();
  return mutex != nullptr ? pthread_mutex_lock(mutex) : result;
}

/// Called in a forked child, which has no pool.
void forget_pool_threads() noexcept;

/// Lives while the calling thread waits for the end of another one. That one does not wait for a permit meanwhile.
class JoinScope {
 public:
  explicit JoinScope(pthread_t thread) noexcept;
  ~JoinScope();
  JoinScope(const JoinScope&) = delete;
  JoinScope& operator=(const JoinScope&) = delete;

 private:
  int place_ = -1;
};

}  // namespace graphpool
