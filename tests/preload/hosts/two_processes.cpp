// Two processes share a device. The first frees what it had; later (its clock is put forward, as if it had done other
// things for a minute) it makes one more call, and the second allocates as much.
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "host.h"

static std::atomic<time_t> seconds_later{0};

// In the place of the C library's, for all of the process.
extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, now);
  if (result == 0) now->tv_sec += seconds_later.load();
  return static_cast<int>(result);
}

/// One process goes on when the other one says so.
class Turn {
 public:
  Turn() {
    if (pipe(ends_) != 0) std::abort();
  }
  void give() const {
    if (write(ends_[1], "", 1) != 1) std::abort();
  }
  void wait() const {
    char byte = 0;
    if (read(ends_[0], &byte, 1) != 1) std::abort();
  }

 private:
  int ends_[2] = {-1, -1};
};

int main(int argc, char** argv) {
  const char* const call = argc > 1 ? argv[1] : "wait";
  const Turn second;
  const pid_t child = fork();
  std::size_t free = 0, total = 0;
  void* memory = nullptr;
  if (child == 0) {
    second.wait();
    say("second has much, malloc", hipMemGetInfo(&free, &total) + hipMalloc(&memory, total / 10 * 6));
    say("second, free", hipFree(memory));
    std::exit(0);
  }
  say("first, malloc", hipMemGetInfo(&free, &total) + hipMalloc(&memory, total / 10 * 6));
  say("first, free", hipFree(memory));
  void* small = nullptr;
  if (std::strcmp(call, "free") == 0) say("first, small malloc", hipMalloc(&small, 4096));
  seconds_later = 60;
  if (std::strcmp(call, "malloc") == 0) say("first, small malloc", hipMalloc(&small, 4096));
  if (std::strcmp(call, "free") == 0) say("first, small free", hipFree(small));
  if (std::strcmp(call, "wait") == 0) say("first, wait", hipDeviceSynchronize());
  second.give();
  int status = 0;
  waitpid(child, &status, 0);
  say("second ended with", WEXITSTATUS(status));
  say("first again, malloc", hipMalloc(&memory, total / 10 * 6));
}
