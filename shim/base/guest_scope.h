// guest_scope.h: protects a thread of the host while the library works in it for longer than a moment.
//
// Why: a cancelled thread ends in its next system call, which may be one of the library's. The thread's stack is then
// unwound through functions that cannot throw, and the process ends. Threads: each scope lives on one thread's stack.
// Scopes nest.
#pragma once

#include <pthread.h>

#include <cerrno>

namespace graphpool {

/// While it lives the thread cannot be cancelled. At its end errno is what it was at its beginning.
class GuestScope {
 public:
  GuestScope() noexcept : errno_(errno) { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_); }
  ~GuestScope() {
    int ignored = 0;
    pthread_setcancelstate(cancel_, &ignored);
    errno = errno_;
  }
  GuestScope(const GuestScope&) = delete;
  GuestScope& operator=(const GuestScope&) = delete;

 private:
  int errno_, cancel_ = 0;
};

}  // namespace graphpool
