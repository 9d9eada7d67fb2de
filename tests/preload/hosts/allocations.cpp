// The same allocations again and again.
#include "host.h"

int main() {
  for (int step = 0; step < 4; ++step) {
    void *first = nullptr, *second = nullptr;
    say("malloc", hipMalloc(&first, 1 << 20));
    say("malloc", hipMalloc(&second, 3000));
    say("memset", hipMemset(first, step, 1 << 20));
    say("free", hipFree(first));
    say("free", hipFree(second));
  }
}
