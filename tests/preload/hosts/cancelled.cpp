// HIP calls of threads whose cancellation is pending: it is acted upon where they come to a cancellation point.
#include <pthread.h>

#include "host.h"

namespace {

void* call(void* what) {
  pthread_cancel(pthread_self());
  int count = 0;
  const int result = hipGetDeviceCount(&count);
  const int freed = hipFree(what);
  int before = 0;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
  std::printf("count %d, free %d\n", result, freed);
  pthread_setcancelstate(before, nullptr);
  pthread_testcancel();
  return nullptr;
}

}  // namespace

int main() {
  for (int round = 0; round < 2; ++round) {
    pthread_t thread{};
    void* result = nullptr;
    if (pthread_create(&thread, nullptr, call, nullptr) != 0 || pthread_join(thread, &result) != 0) return 1;
    say("cancelled", result == PTHREAD_CANCELED);
  }
}
