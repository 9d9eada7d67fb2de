// process_hooks.cpp: ways out of a process that run no destructors. LLVM's linkers leave by _exit when they are done.
#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/compile/compiler_process.h"

namespace graphpool {
namespace {

/// Looked up before main: a child of vfork or a signal handler must not.
void (*g_next)(int) = nullptr;
__attribute__((constructor)) void find_next() noexcept { g_next = reinterpret_cast<void (*)(int)>(dlsym(RTLD_NEXT, "_exit")); }

}  // namespace

extern "C" {
__attribute__((visibility("default"), noreturn)) void gp_exit(int status) __asm__("_exit");
__attribute__((visibility("default"), noreturn)) void gp_exit_c99(int status) __asm__("_Exit");

void gp_exit(int status) {
  end_compiler_process();
  if (g_next != nullptr) g_next(status);
  for (;;) syscall(SYS_exit_group, status);
}

void gp_exit_c99(int status) { gp_exit(status); }
}

}  // namespace graphpool
