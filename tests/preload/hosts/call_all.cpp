// Calls every function of the runtime with zeros, each in a process of its own, and prints what it answered or how the
// process ended. Argument: plt, dlsym or dlvsym.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string_view>

#define GP_PARAMETERS long, long, long, long, long, long, long, long, long, long, long, long, long, long
#define GP_ZEROS 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0

namespace {
struct Row {
  const char *name, *node, *kind;
  long (*call)();
};
#include "calls.inc"

constexpr int kStuck_s = 20;

using Function = long (*)(GP_PARAMETERS);

void call(const Row& row, std::string_view way, void* runtime) {
  alarm(kStuck_s);
  long result = 0;
  if (way == "plt") {
    result = row.call();
  } else {
    void* const address = way == "dlsym" ? dlsym(runtime, row.name) : dlvsym(runtime, row.name, row.node);
    if (address == nullptr) {
      std::printf("%s not found\n", row.name);
      return;
    }
    result = reinterpret_cast<Function>(address)(GP_ZEROS);
  }
  const std::string_view kind = row.kind;
  if (kind == "hip" || kind == "rtc" || kind == "int") {
    std::printf("%s %d\n", row.name, static_cast<int>(result));
  } else {
    std::printf("%s returned\n", row.name);
  }
}
}  // namespace

int main(int, char** arguments) {
  void* const runtime = dlopen("libamdhip64.so.5", RTLD_NOW | RTLD_NOLOAD);
  for (const Row& row : kRows) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      call(row, arguments[1], runtime);
      std::fflush(stdout);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) std::printf("%s ended with status %d\n", row.name, status);
  }
}
