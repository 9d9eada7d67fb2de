// slow_policy.cpp HOW WHAT: what a process does while one of its threads takes long over the policy, which that thread
// reads because it compiles (WHAT compile) or makes the first HIP call (WHAT hip). HOW:
//   fork    the reading takes long; a child forked meanwhile compiles and makes a HIP call, and ends
//   stderr  nobody reads the warning that the policy causes; another thread compiles and makes a HIP call
// The reading and the writing take long in this program's own open and writev, which come before the C library's.
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

extern "C" {
int hipMalloc(void**, std::size_t);
void* LLVMRunPasses(void*, const char*, void*, void*);
}

namespace {

std::atomic<bool> waits_in_open{false}, waits_in_write{false}, there{false}, may_go_on{false};
std::atomic<int> compiled{0};

void take_long(std::atomic<bool>& here) {
  if (!here.exchange(false)) return;
  there = true;
  while (!may_go_on) usleep(1000);
}

int open_it(const char* path, int flags, va_list arguments) {
  const char* const policy = std::getenv("GRAPHPOOL_POLICY");
  if (policy != nullptr && std::strcmp(path, policy) == 0) take_long(waits_in_open);
  return static_cast<int>(
      syscall(SYS_openat, AT_FDCWD, path, flags, (flags & O_CREAT) != 0 ? va_arg(arguments, int) : 0));
}

void compile() {
  LLVMRunPasses(reinterpret_cast<void*>(+[] { ++compiled; }), "", nullptr, nullptr);
}
void call_hip() {
  void* memory = nullptr;
  if (hipMalloc(&memory, 1) == 0) _exit(3);
}
void do_both() {
  compile();
  call_hip();
}

}  // namespace

extern "C" {
// By these names, whatever the headers make of them.
int open_by_name(const char* path, int flags, ...) __asm__("open");
int open64_by_name(const char* path, int flags, ...) __asm__("open64");

int open_by_name(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int file = open_it(path, flags, arguments);
  va_end(arguments);
  return file;
}
int open64_by_name(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int file = open_it(path, flags, arguments);
  va_end(arguments);
  return file;
}
ssize_t writev(int file, const iovec* parts, int number) {
  if (file == STDERR_FILENO) take_long(waits_in_write);
  return syscall(SYS_writev, file, parts, number);
}
}

int main(int, char** words) {
  const std::string how = words[1], what = words[2];
  constexpr unsigned kLongest = 30;
  std::thread first([&] {
    (how == "fork" ? waits_in_open : waits_in_write) = true;
    what == "hip" ? call_hip() : compile();
  });
  while (!there) usleep(1000);
  if (how == "fork") {
    const pid_t child = fork();
    if (child == 0) {
      alarm(kLongest);
      do_both();
      _exit(compiled == 1 ? 0 : 4);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) _exit(5);
  } else {
    alarm(kLongest);
    std::thread(do_both).join();
  }
  may_go_on = true;
  first.join();
  return 0;
}
