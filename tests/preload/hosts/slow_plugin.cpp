// A plugin whose constructor takes its time and then uses HIP.
#include <unistd.h>

#include "host.h"

__attribute__((constructor)) static void at_load() {
  usleep(500'000);
  void* pointer = nullptr;
  static_cast<void>(hipMalloc(&pointer, 64));
  static_cast<void>(hipFree(pointer));
}
