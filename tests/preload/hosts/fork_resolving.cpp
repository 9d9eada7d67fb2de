// The process forks while another thread makes the first HIP call, wherever that looks through the loaded objects: each
// child makes its own first call.
#include <dlfcn.h>
#include <link.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "host.h"

namespace {

using Visit = int (*)(dl_phdr_info*, std::size_t, void*);
using Iterate = int (*)(Visit, void*);

sem_t g_looks, g_goes_on;
std::atomic<bool> g_done{false};
thread_local bool t_calls = false;

}  // namespace

/// Before the C library's own, for every object of the process.
extern "C" __attribute__((visibility("default"))) int dl_iterate_phdr(Visit visit, void* data) {
  static std::atomic<Iterate> own{nullptr};
  static std::atomic<bool> looking{false};
  if (own.load() == nullptr) {
    if (looking.exchange(true)) return 0;
    own.store(reinterpret_cast<Iterate>(dlsym(RTLD_NEXT, "dl_iterate_phdr")));
  }
  if (t_calls) {
    sem_post(&g_looks);
    sem_wait(&g_goes_on);
  }
  return own.load()(visit, data);
}

int main() {
  sem_init(&g_looks, 0, 0);
  sem_init(&g_goes_on, 0, 0);
  std::thread first([] {
    int devices = 0;
    t_calls = true;
    const hipError_t result = hipGetDeviceCount(&devices);
    t_calls = false;
    say("counted", result);
    g_done = true;
    sem_post(&g_looks);
  });
  int children = 0, failed = 0;
  for (sem_wait(&g_looks); !g_done; sem_wait(&g_looks)) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);  // ends one that would hang
      void* pointer = nullptr;
      _exit(hipMalloc(&pointer, 4096) == hipSuccess && hipFree(pointer) == hipSuccess ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ++children;
    failed += status == 0 ? 0 : 1;
    sem_post(&g_goes_on);
  }
  first.join();
  say("children that failed or hung", failed);
  std::fprintf(stderr, "children: %d\n", children);
  use_device("parent");
}
