// file_signals.h: lets the library write to a file of the user's choice without a signal to the host.
//
// Why: a write that finds no reader, or goes past the process's limit of file sizes, raises a signal that ends a
// process which does not expect it. Threads: each scope lives on one thread's stack.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <cerrno>
#include <initializer_list>

namespace graphpool {

/// Holds SIGPIPE and SIGXFSZ back from this thread, and takes away those that our own writes raised. Its end is a
/// cancellation point, and changes errno.
class NoFileSignals {
 public:
  NoFileSignals() noexcept {
    sigset_t both, pending;
    sigemptyset(&both);
    sigemptyset(&ours_);
    const bool known = sigpending(&pending) == 0;
    for (const int signal : {SIGPIPE, SIGXFSZ}) {
      sigaddset(&both, signal);
      if (known && sigismember(&pending, signal) == 0) sigaddset(&ours_, signal);
    }
    blocked_ = pthread_sigmask(SIG_BLOCK, &both, &before_) == 0;
  }
  ~NoFileSignals() {
    if (!blocked_) return;
    const timespec no_wait{};
    while (sigtimedwait(&ours_, nullptr, &no_wait) > 0 || errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoFileSignals(const NoFileSignals&) = delete;
  NoFileSignals& operator=(const NoFileSignals&) = delete;

 private:
  sigset_t ours_;  ///< those that were not pending before
  sigset_t before_;
  bool blocked_;
};

}  // namespace graphpool
