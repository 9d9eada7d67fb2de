// guest_scope.h: what the library does while it works in a thread of the host for longer than a moment.
//
// Why: a cancellation that is pending would be acted upon in the first system call of ours, and unwind through
// functions that cannot throw, which ends the process. Threads: each scope lives on one thread's stack. Scopes nest.
#pragma once

#include <pthread.h>

#include <cerrno>

namespace graphpool {

/// The thread cannot be cancelled, errno is left as found.
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
