// Starts itself again: by posix_spawn, by vfork and exec, and by exec in the process that has used HIP.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"

int main(int count, char** arguments) {
  use_device(count > 1 ? arguments[1] : "first");
  if (count > 1 && arguments[1][0] != 'l') return 2;
  if (count > 1) return 9;

  char name[] = "spawned";
  char* spawn_arguments[] = {arguments[0], name, nullptr};
  pid_t child = 0;
  int status = 0;
  say("spawn", posix_spawn(&child, arguments[0], nullptr, nullptr, spawn_arguments, environ));
  waitpid(child, &status, 0);
  say("ended with", WEXITSTATUS(status));

  child = vfork();
  if (child == 0) {
    execl(arguments[0], arguments[0], "vforked", nullptr);
    _exit(1);
  }
  waitpid(child, &status, 0);
  say("ended with", WEXITSTATUS(status));

  execl(arguments[0], arguments[0], "last", nullptr);
  return 1;
}
