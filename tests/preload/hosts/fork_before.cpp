// fork before the first HIP call: both processes use HIP.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "host.h"

int main() {
  const pid_t child = fork();
  if (child == 0) {
    use_device("child");
    std::exit(4);
  }
  int status = 0;
  waitpid(child, &status, 0);
  say("child ended with", WEXITSTATUS(status));
  use_device("parent");
}
