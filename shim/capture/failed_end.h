// failed_end.h: ends of captures that have failed, where the runtime does not say whether the capture is over all the
// same.
//
// Threads: the calling thread's own matter.
#pragma once

#include <hip/hip_runtime_api.h>

#include "shim/streams/stream_key.h"

namespace graphpool {

/// The calling thread has failed to end a capture, and the runtime has not been asked yet whether it is over all the
/// same. Up to HIP 6 the question replaces the last error: call this where the program's call does so, too.
extern constinit thread_local bool t_end_failed __attribute__((tls_model("initial-exec")));
void settle_failed_end_now() noexcept;
inline void settle_failed_end() noexcept {
  if (t_end_failed) [[unlikely]]
    settle_failed_end_now();
}

/// Whether the runtime says by an end's result that the stream captures nothing now.
inline bool end_is_over(hipError_t result) noexcept {
  return result == hipSuccess || result == hipErrorStreamCaptureInvalidated || result == hipErrorIllegalState;
}
/// An end failed in a way that some runtimes take for the capture's end, and others do not.
void note_failed_end(StreamArgument stream) noexcept;

}  // namespace graphpool
