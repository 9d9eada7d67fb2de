// process_hooks.cpp: functions of the C library that compile permits must see: threads that begin, get their names,
// wait for work and are waited for, and ways out of a process that run no destructors (LLVM's linkers leave by _exit
// when they are done).
//
// Conditions are handled as those of GLIBC_2.3.2: programs that ask for older ones (before 2003, with another layout)
// are not served. A wait of a thread that is of no pool costs a look at the thread's own memory; its first wait costs
// more.
//
// A call that is not of interest is forwarded at once. What a thread of interest can ask for, such as its number of
// processors, is not changed: only its work begins later.
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>

#include "shim/compile/compiler_process.h"
#include "shim/compile/pool_threads.h"
#include "shim/hip/entry.h"

namespace graphpool {
namespace {

using Start = void* (*)(void*);

/// Looked up before main: a child of vfork or a signal handler must not look them up.
void (*g_next_exit)(int) = nullptr;
int (*g_next_create)(pthread_t*, const pthread_attr_t*, Start, void*) = nullptr;
int (*g_next_set_name)(pthread_t, const char*) = nullptr;
int (*g_next_prctl)(int, ...) = nullptr;
int (*g_next_join)(pthread_t, void**) = nullptr;
int (*g_next_cond_wait)(pthread_cond_t*, pthread_mutex_t*) = nullptr;
int (*g_next_cond_timedwait)(pthread_cond_t*, pthread_mutex_t*, const timespec*) = nullptr;
int (*g_next_cond_clockwait)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*) = nullptr;
int (*g_next_sem_wait)(sem_t*) = nullptr;
int (*g_next_sem_timedwait)(sem_t*, const timespec*) = nullptr;
int (*g_next_sem_clockwait)(sem_t*, clockid_t, const timespec*) = nullptr;

constexpr char kConditions[] = "GLIBC_2.3.2";

/// Finds the next definition: another interposer's (TSan's) of any version, else the C library's of this version. A
/// lookup in the C library without a version may find an older one.
void* find_version(const char* name, const char* version) noexcept {
  void* const any = dlsym(RTLD_NEXT, name);
  void* const exact = version == nullptr ? nullptr : dlvsym(RTLD_NEXT, name, version);
  Dl_info of_any{}, of_exact{};
  if (any == nullptr || exact == nullptr || dladdr(any, &of_any) == 0 || dladdr(exact, &of_exact) == 0)
    return exact != nullptr ? exact : any;
  return of_any.dli_fbase == of_exact.dli_fbase ? exact : any;
}

template <typename Function>
Function* find(Function*& next, const char* name, const char* version = nullptr) noexcept {
  Function* found = __atomic_load_n(&next, __ATOMIC_RELAXED);
  if (found == nullptr) {
    found = reinterpret_cast<Function*>(find_version(name, version));
    __atomic_store_n(&next, found, __ATOMIC_RELAXED);
  }
  return found;
}

__attribute__((constructor)) void find_next() noexcept {
  const InsideScope inside;
  find(g_next_exit, "_exit");
  find(g_next_create, "pthread_create");
  find(g_next_set_name, "pthread_setname_np");
  find(g_next_prctl, "prctl");
  find(g_next_join, "pthread_join");
  find(g_next_cond_wait, "pthread_cond_wait", kConditions);
  find(g_next_cond_timedwait, "pthread_cond_timedwait", kConditions);
  find(g_next_cond_clockwait, "pthread_cond_clockwait");
  find(g_next_sem_wait, "sem_wait");
  find(g_next_sem_timedwait, "sem_timedwait");
  find(g_next_sem_clockwait, "sem_clockwait");
}

/// The first function of a thread that inherits something. pthread_exit may unwind through it.
void* start_thread(void* data) {
  const NewThread thread = *static_cast<NewThread*>(data);
  delete static_cast<NewThread*>(data);
  thread_begins(thread);
  return thread.start(thread.argument);
}

}  // namespace

extern "C" {
#define EXPORTED __attribute__((visibility("default")))
EXPORTED __attribute__((noreturn)) void gp_exit(int status) __asm__("_exit");
EXPORTED __attribute__((noreturn)) void gp_exit_c99(int status) __asm__("_Exit");
EXPORTED int gp_create(pthread_t* thread, const pthread_attr_t* attributes, Start start,
                       void* argument) __asm__("pthread_create");
EXPORTED int gp_set_name(pthread_t thread, const char* name) __asm__("pthread_setname_np");
EXPORTED int gp_prctl(int option, ...) __asm__("prctl");
EXPORTED int gp_join(pthread_t thread, void** result) __asm__("pthread_join");
EXPORTED int gp_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) __asm__("pthread_cond_wait");
EXPORTED int gp_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                               const timespec* until) __asm__("pthread_cond_timedwait");
EXPORTED int gp_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                               const timespec* until) __asm__("pthread_cond_clockwait");
EXPORTED int gp_sem_wait(sem_t* semaphore) __asm__("sem_wait");
EXPORTED int gp_sem_timedwait(sem_t* semaphore, const timespec* until) __asm__("sem_timedwait");
EXPORTED int gp_sem_clockwait(sem_t* semaphore, clockid_t clock, const timespec* until) __asm__("sem_clockwait");
#undef EXPORTED

void gp_exit(int status) {
  end_compiler_process();
  if (g_next_exit != nullptr) g_next_exit(status);
  for (;;) syscall(SYS_exit_group, status);
}

void gp_exit_c99(int status) { gp_exit(status); }

int gp_create(pthread_t* thread, const pthread_attr_t* attributes, Start start, void* argument) {
  NewThread* const inherits = new_thread(start, argument);
  if (inherits == nullptr) return find(g_next_create, "pthread_create")(thread, attributes, start, argument);
  const int result = find(g_next_create, "pthread_create")(thread, attributes, start_thread, inherits);
  if (result != 0) delete inherits;
  return result;
}

int gp_set_name(pthread_t thread, const char* name) {
  const int result = find(g_next_set_name, "pthread_setname_np")(thread, name);
  if (result == 0) pthread_equal(thread, pthread_self()) ? thread_is_named(name) : another_thread_is_named(name);
  return result;
}

int gp_join(pthread_t thread, void** result) {
  const JoinScope scope(thread);
  return find(g_next_join, "pthread_join")(thread, result);
}

int gp_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  return wait_for_work(mutex,
                       [=] { return find(g_next_cond_wait, "pthread_cond_wait", kConditions)(condition, mutex); });
}

int gp_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* until) {
  return wait_for_work(mutex, [=] {
    return find(g_next_cond_timedwait, "pthread_cond_timedwait", kConditions)(condition, mutex, until);
  });
}

int gp_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  return wait_for_work(
      mutex, [=] { return find(g_next_cond_clockwait, "pthread_cond_clockwait")(condition, mutex, clock, until); });
}

int gp_sem_wait(sem_t* semaphore) {
  return wait_for_work(nullptr, [=] { return find(g_next_sem_wait, "sem_wait")(semaphore); });
}

int gp_sem_timedwait(sem_t* semaphore, const timespec* until) {
  return wait_for_work(nullptr, [=] { return find(g_next_sem_timedwait, "sem_timedwait")(semaphore, until); });
}

int gp_sem_clockwait(sem_t* semaphore, clockid_t clock, const timespec* until) {
  return wait_for_work(nullptr, [=] { return find(g_next_sem_clockwait, "sem_clockwait")(semaphore, clock, until); });
}

int gp_prctl(int option, ...) {
  va_list list;
  va_start(list, option);
  unsigned long arguments[4];
  for (unsigned long& argument : arguments) argument = va_arg(list, unsigned long);
  va_end(list);
  const int result = find(g_next_prctl, "prctl")(option, arguments[0], arguments[1], arguments[2], arguments[3]);
  if (option == PR_SET_NAME && result == 0) {
    // The kernel reads no more of the name, and behind that there may be no memory.
    constexpr std::size_t kMostRead = 15;
    const auto* const name = reinterpret_cast<const char*>(arguments[0]);
    thread_is_named({name, strnlen(name, kMostRead)});
  }
  return result;
}
}

}  // namespace graphpool
