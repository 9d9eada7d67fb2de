#include "shim/base/small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace graphpool {

ssize_t read_small_file(const char* path, char* text, std::size_t bytes) noexcept {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  std::size_t got = 0;
  while (got < bytes) {
    const ssize_t more = read(file, text + got, bytes - got);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) break;
    got += static_cast<std::size_t>(more);
  }
  close(file);
  return static_cast<ssize_t>(got);
}

}  // namespace graphpool
