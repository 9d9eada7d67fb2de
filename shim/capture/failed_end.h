// failed_end.h: finds out whether a capture is over although its end failed, where the runtime does not say so.
//
// Threads: each has its own failed end.
#pragma once

#include <hip/hip_runtime_api.h>

#include "shim/streams/stream_key.h"

namespace graphpool {

/// Whether the calling thread has failed to end a capture, and the runtime has not been asked yet whether the capture
/// is over all the same. settle_failed_end() asks. Up to HIP 6 that replaces the last error: call it where the
/// program's call does so, too.
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
/// Notes that an end failed in a way that some runtimes take for the capture's end, and others do not.
void note_failed_end(StreamArgument stream) noexcept;

}  // namespace graphpool
