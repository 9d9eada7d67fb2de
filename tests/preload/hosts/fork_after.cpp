// fork after HIP was initialised: the child asks, allocates and frees what it was left.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "host.h"

int main() {
  use_device("parent");
  void* inherited = nullptr;
  say("parent's block", hipMalloc(&inherited, 1000));
  const pid_t child = fork();
  if (child == 0) {
    int count = 0, version = 0;
    say("child: device count", hipGetDeviceCount(&count));
    say("child: version", hipRuntimeGetVersion(&version));
    void* pointer = nullptr;
    say("child: malloc", hipMalloc(&pointer, 64));
    say("child: is new", pointer != inherited);
    say("child: free", hipFree(pointer));
    std::exit(4);
  }
  int status = 0;
  waitpid(child, &status, 0);
  say("child ended with", WEXITSTATUS(status));
  say("parent's free", hipFree(inherited));
  use_device("parent");
}
