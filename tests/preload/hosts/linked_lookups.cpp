// Lookups in a program that is linked to the runtime: every way must lead to the same function.
#include <dlfcn.h>

#include <cstring>

#include "host.h"

namespace {
const char* error() {
  const char* const text = dlerror();
  if (text == nullptr) return "none";
  const char* const colon = std::strstr(text, ": ");
  return colon != nullptr ? colon + 2 : text;
}
}  // namespace

int main() {
  // Natively one address; under the library too, whichever function it is.
  void* const direct = reinterpret_cast<void*>(static_cast<hipError_t (*)(void**, size_t)>(&hipMalloc));
  void* const runtime = dlopen("libamdhip64.so.5", RTLD_NOW | RTLD_NOLOAD);
  say("default", dlsym(RTLD_DEFAULT, "hipMalloc") == direct);
  say("next", dlsym(RTLD_NEXT, "hipMalloc") != nullptr);
  say("program", dlsym(dlopen(nullptr, RTLD_NOW), "hipMalloc") == direct);
  say("default and next for another", dlsym(RTLD_DEFAULT, "hipMemset") == dlsym(RTLD_NEXT, "hipMemset"));
  say("default and handle for another", dlsym(RTLD_DEFAULT, "hipMemset") == dlsym(runtime, "hipMemset"));
  say("default with version", dlvsym(RTLD_DEFAULT, "hipMemset", "hip_4.2") == dlsym(runtime, "hipMemset"));
  say("handle with version", dlvsym(runtime, "hipMemset", "hip_4.2") == dlsym(runtime, "hipMemset"));
  say("default with another version", dlvsym(RTLD_DEFAULT, "hipMemset", "hip_5.5") != nullptr);
  std::printf("error %s\n", error());
  say("nobody's function", dlsym(RTLD_DEFAULT, "hipNobodyHasThis") != nullptr);
  std::printf("error %s\n", error());
  // An error that is waiting to be asked for survives HIP's first call.
  void* const missing = dlsym(runtime, "hipNobodyHasThis");
  int count = 0;
  say("count", hipGetDeviceCount(&count));
  std::printf("%d, error %s\n", missing != nullptr, error());
}
