// Fork handlers registered before and after the first HIP call, which use HIP themselves.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "host.h"

namespace {
void ask(const char* who) {
  int count = 0;
  say(who, hipGetDeviceCount(&count));
}
void wait_for_child() {
  int status = 0;
  wait(&status);
  say("child ended with", WEXITSTATUS(status));
}
}  // namespace

int main() {
  // The parent waits before its other handlers, so that the output has one order.
  pthread_atfork([] { ask("prepare 1"); }, wait_for_child, [] { ask("child 1"); });
  pthread_atfork([] { ask("prepare 2"); }, [] { ask("parent 2"); }, [] { ask("child 2"); });
  use_device("parent");
  pthread_atfork([] { ask("prepare 3"); }, [] { ask("parent 3"); }, [] { ask("child 3"); });
  if (fork() == 0) {
    ask("child");
    std::exit(4);
  }
  use_device("parent");
}
