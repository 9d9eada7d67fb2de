// A preloaded library that wraps dlsym, as tools do: prints lookups of cos and hypot and passes everything on. Built
// with optimisation, so that the last call is a jump and RTLD_NEXT works through it.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

using Dlsym = void* (*)(void*, const char*) noexcept;  // no frame is needed for a handler

static Dlsym next_dlsym = nullptr;

extern "C" void* dlsym(void* handle, const char* name) {
  if (next_dlsym == nullptr) {
    next_dlsym = reinterpret_cast<Dlsym>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34"));
    if (next_dlsym == nullptr) next_dlsym = reinterpret_cast<Dlsym>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
  }
  if (std::strcmp(name, "cos") == 0 || std::strcmp(name, "hypot") == 0) {
    std::printf("wrapper: %s\n", name);
    std::fflush(stdout);
  }
  return next_dlsym(handle, name);
}
