// Imports and no export at all: its GNU hash table covers no symbol.
#include <unistd.h>

namespace {
int (*volatile address)() = getpgrp;
__attribute__((constructor)) void at_load() {
  if (getppid() < 0) address = nullptr;
}
}  // namespace
