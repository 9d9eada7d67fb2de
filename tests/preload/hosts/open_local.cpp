// Opens the runtime RTLD_LOCAL and looks everything up, as Python's ctypes does. Arguments: the runtime's file name.
#include <dlfcn.h>

#include <cstring>

#include "host.h"

namespace {

/// The text of dlerror() behind the object's name.
const char* error() {
  const char* const text = dlerror();
  if (text == nullptr) return "none";
  const char* const colon = std::strstr(text, ": ");
  return colon != nullptr ? colon + 2 : text;
}

void look_up(const char* what, void* handle, const char* name) {
  void* const address = dlsym(handle, name);
  std::printf("%s: %s is %s, error %s\n", what, name, address != nullptr ? "there" : "null", error());
}

}  // namespace

int main(int, char** arguments) {
  void* const program = dlopen(nullptr, RTLD_NOW);
  look_up("before, default", RTLD_DEFAULT, "hipMalloc");
  look_up("before, program", program, "hipMalloc");
  look_up("before, next", RTLD_NEXT, "hipMalloc");

  void* const runtime = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  say("opened", runtime != nullptr);
  if (runtime == nullptr) return 1;

  const auto malloc_function = reinterpret_cast<int (*)(void**, size_t)>(dlsym(runtime, "hipMalloc"));
  const auto free_function = reinterpret_cast<int (*)(void*)>(dlsym(runtime, "hipFree"));
  const auto count_function = reinterpret_cast<int (*)(int*)>(dlsym(runtime, "hipGetDeviceCount"));
  int count = 0;
  say("count", count_function(&count));
  void* pointer = nullptr;
  say("malloc", malloc_function(&pointer, 100));
  say("free", free_function(pointer));

  say("same again", dlsym(runtime, "hipMalloc") == reinterpret_cast<void*>(malloc_function));
  say("same with its version", dlvsym(runtime, "hipMalloc", "hip_4.2") == reinterpret_cast<void*>(malloc_function));
  say("with another version", dlvsym(runtime, "hipMalloc", "hip_6.1") != nullptr);
  std::printf("error %s\n", error());
  for (const char* name : {"hipMalloc", "hipGraphAddNode", "hipNobodyHasThis"}) {
    look_up("runtime", runtime, name);
    look_up("default", RTLD_DEFAULT, name);
    look_up("program", program, name);
    look_up("next", RTLD_NEXT, name);
  }
  say("closed", dlclose(runtime));
  void* const reopened = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  const auto again = reinterpret_cast<int (*)(int*)>(dlsym(reopened, "hipGetDeviceCount"));
  say("count after closing and opening", again != nullptr ? again(&count) : -1);
}
