// fork while a report is being written; the child compiles, as AMD's runtime does in a child that uses it first. The
// argument, if there is one, is the pipe with a name that reports go to.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>

#include "host.h"

extern "C" int amd_comgr_do_action(int kind, std::uint64_t info, std::uint64_t input, std::uint64_t output);

namespace {

constexpr int kCompile = 1;  // sources to bitcode

/// Reports are written to the pipe until one does not fit: whoever writes it waits from then on, and there is no more
/// in the pipe than before. Reports differ in size.
void wait_for_a_report(const char* path) {
  constexpr int kRoom = 16384, kStillMs = 300;
  const int file = open(path, O_RDWR);
  if (file < 0 || fcntl(file, F_SETPIPE_SZ, kRoom) != kRoom) _exit(2);
  for (int before = 0, bytes = 0, still_ms = 0; still_ms < kStillMs; before = bytes) {
    usleep(1000);
    if (ioctl(file, FIONREAD, &bytes) != 0) _exit(3);
    still_ms = bytes == before && bytes > kRoom / 2 ? still_ms + 1 : 0;
  }
}

}  // namespace

int main(int argc, char** argv) {
  use_device("parent");
  if (argc > 1) wait_for_a_report(argv[1]);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    say("child: compiles", amd_comgr_do_action(kCompile, 0, 0, 0));
    _exit(4);
  }
  int status = 0;
  waitpid(child, &status, 0);
  say("child was ended by", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  _exit(0);  // without a last report, which nobody would read
}
