// pool_threads.h: threads that compile without calling anything we see: a framework's own LLVM in a pool of threads.
//
// They are known by the names they give themselves, or by the module of their first function. Such a thread takes a
// permit where it names itself (where it begins, by module), waiting there for one: it has no task yet and, as a rule,
// no lock, and the other threads of its pool do its work meanwhile.
//
// Where it waits for work, at a condition or a semaphore of the C library, it does not count, and after its wait it
// needs a permit again. It waits for that without the condition's mutex, as if it had woken later, so the others of its
// pool go on, and take its task if they are sooner. It does not wait where its time has run out, in a call that
// compiles (which holds locks of its own), and when another thread is in pthread_join for it: then it was woken to end
// (if it was not, one works over the limit). Whatever else a thread waits at, it lends its permit on once it has used
// no processor time for a tenth of `wait`, and what it does then counts without having waited.
//
// A thread that a holder starts rides on the holder's permit while that lasts (rule 33): the holder may be waiting for
// it. For the same reason one that wakes while a call of its process holds a permit and sleeps rides on that.
//
// A thread that another one names is of the pool from its next wait on; one that is named in a way of its own (a file
// of /proc) from its first wait on, if it has its name by then. Threads: any.
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
  bool counts;                  ///< by its module
};

/// Null: the thread inherits nothing and is of no interest (or there is no memory).
NewThread* new_thread(void* (*start)(void*), void* argument) noexcept;

/// In the new thread, before its function. May wait.
void thread_begins(const NewThread& thread) noexcept;

/// In the thread that has just got this name. May wait.
void thread_is_named(std::string_view name) noexcept;

/// A thread other than the calling one has got this name.
void another_thread_is_named(std::string_view name) noexcept;

/// Whether the calling thread is of a pool. But for a thread's first time nothing but a look at its own memory while
/// nobody names others.
extern constinit thread_local bool t_pool_thread __attribute__((tls_model("initial-exec")));
extern constinit thread_local std::uint32_t t_names_seen __attribute__((tls_model("initial-exec")));
extern constinit std::uint32_t g_names_by_others;
bool has_pool_name() noexcept;
inline bool is_pool_thread() noexcept {
  return t_pool_thread || (t_names_seen != __atomic_load_n(&g_names_by_others, __ATOMIC_RELAXED) && has_pool_name());
}

/// In a pool thread that is going to wait for work, and behind that wait.
void pool_thread_sleeps() noexcept;
/// False: it needs a permit first: pool_thread_waits(), with no mutex of its pool. anyway: it goes on without waiting.
bool pool_thread_wakes(bool anyway) noexcept;
void pool_thread_waits() noexcept;

/// A wait for work: at a condition, or with no mutex. Where a permit has to be waited for, the mutex is let go and
/// locked again: to the pool its thread woke later. Cancellation unwinds through here, as from the wait itself.
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

/// In a forked child.
void forget_pool_threads() noexcept;

/// While the calling thread waits for the end of another, which does not wait for a permit then.
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
