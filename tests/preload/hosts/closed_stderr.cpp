// Starts without standard error, so that the first file it opens gets that number.
#include <unistd.h>

#include <cstdlib>

#include "host.h"

int main(int argc, char** argv) {
  if (argc == 1) {
    close(STDERR_FILENO);
    execl("/proc/self/exe", argv[0], "again", nullptr);
    return 1;
  }
  char name[] = "closed-stderr-XXXXXX";
  const int file = mkstemp(name);
  say("descriptor", file);
  use_device("host");
  const char text[] = "the host's\n";
  say("written", static_cast<int>(write(file, text, sizeof text)));
  say("bytes", static_cast<int>(lseek(file, 0, SEEK_END)));
  unlink(name);
}
