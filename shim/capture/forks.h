// forks.h: events recorded and waited for in a capture, and streams that leave it.
//
// Begin, forks, joins and end reach the runtime, also of a shell: what is withheld is the operations alone.
#pragma once

#include <hip/hip_runtime_api.h>

#include "shim/capture/session.h"

namespace graphpool {

/// An event is recorded on a stream of the capture. `of_another`: it has been recorded in another capture, which is
/// open.
hipError_t record_in(CaptureSession& session, StreamKey key, hipEvent_t event, bool of_another, Forward forward)
    REQUIRES(session.lock);
/// A stream waits for an event. One of the two is the capture's.
hipError_t wait_in(CaptureSession& session, StreamKey key, StreamArgument stream, hipEvent_t event, ForwardWait forward)
    REQUIRES(session.lock);

/// The stream has begun another capture: nothing of this one reaches it any more, and no thread that fed this one
/// through it takes it for that one.
void stream_left(CaptureSession& session, StreamKey key) REQUIRES(session.lock);
/// The stream is about to be destroyed.
void stream_destroyed(CaptureSession& session, StreamKey key) REQUIRES(session.lock);
/// The calling thread, whose own stream that is, ends. No call of the runtime is made.
void thread_ended(CaptureSession& session, StreamKey key) noexcept REQUIRES(session.lock);

}  // namespace graphpool
