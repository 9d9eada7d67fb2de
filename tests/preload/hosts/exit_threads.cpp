// Threads that call HIP while main ends the process.
#include <atomic>
#include <cstdlib>
#include <thread>

#include "host.h"

int main() {
  static std::atomic<int> running{0};
  for (int i = 0; i < 3; ++i)
    std::thread([] {
      for (bool first = true;; first = false) {
        void* pointer = nullptr;
        static_cast<void>(hipMalloc(&pointer, 512));
        static_cast<void>(hipFree(pointer));
        if (first) ++running;
      }
    }).detach();
  while (running < 3) std::this_thread::yield();
  say("threads", running);
  std::exit(6);
}
