#include "shim/base/owner_lock.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace graphpool {

bool kernel_has_barrier() noexcept {
  static const bool registered = [] {
    const int before = errno;
    const bool done = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
    errno = before;
    return done;
  }();
  return registered;
}

bool barrier_in_all_threads() noexcept {
  const int before = errno;
  const bool done = kernel_has_barrier() && syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
  errno = before;
  return done;
}

}  // namespace graphpool
