// process_hooks.cpp: functions of the C library that compile permits must see: threads that begin and get their names,
// and ways out of a process that run no destructors (LLVM's linkers leave by _exit when they are done).
//
// What is not of interest is forwarded at once. A thread of interest is not known by its number of processors or by
// anything else it could ask for: it only begins later.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>

#include "shim/compile/compiler_process.h"
#include "shim/compile/pool_threads.h"
#include "shim/entry.h"

namespace graphpool {
namespace {

using Start = void* (*)(void*);

/// Looked up before main: a child of vfork or a signal handler must not.
void (*g_next_exit)(int) = nullptr;
int (*g_next_create)(pthread_t*, const pthread_attr_t*, Start, void*) = nullptr;
int (*g_next_set_name)(pthread_t, const char*) = nullptr;
int (*g_next_prctl)(int, ...) = nullptr;

template <typename Function>
Function* find(Function*& next, const char* name) noexcept {
  Function* found = __atomic_load_n(&next, __ATOMIC_RELAXED);
  if (found == nullptr) {
    found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
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
  if (result == 0 && pthread_equal(thread, pthread_self())) thread_is_named(name);
  return result;
}

int gp_prctl(int option, ...) {
  va_list list;
  va_start(list, option);
  unsigned long arguments[4];
  for (unsigned long& argument : arguments) argument = va_arg(list, unsigned long);
  va_end(list);
  const int result = find(g_next_prctl, "prctl")(option, arguments[0], arguments[1], arguments[2], arguments[3]);
  if (option == PR_SET_NAME && result == 0) thread_is_named(reinterpret_cast<const char*>(arguments[0]));
  return result;
}
}

}  // namespace graphpool
