// On the fake runtime: calls of its own exports through the PLT, functions it lacks, arguments of forwarded calls.
#include <dlfcn.h>

#include "host.h"

// Not in the oldest header.
extern "C" int hipMemcpy2DArrayToArray(void* dst, size_t a, size_t b, const void* src, size_t c, size_t d, size_t width,
                                       size_t height, int kind);

int main() {
  // The first call of the process goes the slow way, the second the fast way.
  for (int i = 0; i < 2; ++i) {
    say("clamp", hipTexRefSetMipmapLevelClamp(reinterpret_cast<textureReference*>(1), 2.5F, -3.25F));
    say("copy", hipMemcpy2DArrayToArray(reinterpret_cast<void*>(1), 2, 3, reinterpret_cast<void*>(4), 5, 6, 7, 8, 9));
  }
  void* pointer = nullptr;
  size_t pitch = 0;
  say("pitched", hipMallocPitch(&pointer, &pitch, 100, 3));
  say("pitch", static_cast<int>(pitch));
  say("free", hipFree(pointer));
  void* const runtime = dlopen("libamdhip64.so.5", RTLD_NOW | RTLD_NOLOAD);
  say("lacking, handle", dlsym(runtime, "hipGraphAddNode") != nullptr);
  say("with an error", dlerror() != nullptr);
  say("lacking, default", dlsym(RTLD_DEFAULT, "hipGraphAddNode") != nullptr);
  say("with an error", dlerror() != nullptr);
  say("lacking, next", dlsym(RTLD_NEXT, "hipGraphAddNode") != nullptr);
  say("lacking, program", dlsym(dlopen(nullptr, RTLD_NOW), "hipGraphAddNode") != nullptr);
}
