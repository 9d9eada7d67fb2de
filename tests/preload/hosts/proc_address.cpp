// hipGetProcAddress, of runtimes from 6.1 on. Linked against libamdhip64.so.6.
#include <dlfcn.h>

#include <cstdint>

#include "host.h"

extern "C" hipError_t hipGetProcAddress(const char* symbol, void** function, int version, std::uint64_t flags,
                                        int* status);

namespace {
void* ask(const char* name) {
  void* function = nullptr;
  int status = -1;
  say(name, hipGetProcAddress(name, &function, 600, 0, &status));
  std::printf("found %d, status %d\n", function != nullptr, status);
  return function;
}
}  // namespace

int main() {
  void* const malloc_function = ask("hipMalloc");
  void* const free_function = ask("hipFree");
  void* const add_node = ask("hipGraphAddNode");
  say("null", hipGetProcAddress(nullptr, nullptr, 600, 0, nullptr));
  static_cast<void>(ask("hipNobodyHasThis"));
  static_cast<void>(ask("hipGetDeviceProperties"));
  say("as dlsym says", malloc_function == dlsym(RTLD_DEFAULT, "hipMalloc"));
  say("as dlsym says of a newer one", add_node == dlsym(RTLD_DEFAULT, "hipGraphAddNode"));
  void* pointer = nullptr;
  say("malloc", reinterpret_cast<hipError_t (*)(void**, size_t)>(malloc_function)(&pointer, 300));
  say("free", reinterpret_cast<hipError_t (*)(void*)>(free_function)(pointer));
}
