// pool_threads.h: threads that compile without calling anything we see: a framework's own LLVM in a pool of threads.
//
// They are known by the names they give themselves, or by the module of their first function. Such a thread takes a
// permit where it names itself (where it begins, by module), waiting there for one: it has no task yet and, as a rule,
// no lock, and the other threads of its pool do its work meanwhile. It keeps the permit to its end, but counts only
// while it runs: a thread that uses no processor time for a tenth of `wait` lends its permit on. A pool that lives
// longer than its first work is therefore limited in the first only; what its threads do later counts against others.
//
// A thread that a holder starts rides on the holder's permit while that lasts (rule 33): the holder may be waiting for
// it.
//
// Not seen: threads that another thread names, and those that name themselves by a file of /proc. Threads: any.
#pragma once

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
void thread_is_named(const char* name) noexcept;

}  // namespace graphpool
