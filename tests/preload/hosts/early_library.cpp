// A library that uses HIP in its constructor and destructor.
#include "host.h"

static int result = -1;
static void* kept = nullptr;

__attribute__((constructor)) static void at_load() { result = hipMalloc(&kept, 100); }
__attribute__((destructor)) static void at_unload() {
  say("destructor of a library", hipFree(kept));
  use_device("destructor of a library");
}

extern "C" int early_library_result() { return result; }
