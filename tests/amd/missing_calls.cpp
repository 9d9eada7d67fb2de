// missing_calls: what a test program is linked to in the place of functions that the runtime at hand does not have yet.
// Seen by the program alone: neither the library nor a lookup finds them.
#include <unistd.h>

#include <cstdio>

#define CALL(name)                                                \
  extern "C" __attribute__((visibility("hidden"))) void name() {  \
    std::fprintf(stderr, "needs a runtime that has %s\n", #name); \
    _exit(77);                                                    \
  }
#include "missing_names.inc"
