// forks.h: records events in a capture, lets streams wait for them, and lets streams leave the capture.
//
// Begin, forks, joins and end reach the runtime, those of a shell, too: only operations are withheld. A join may be put
// off (put_off_joins.h).
#pragma once

#include <hip/hip_runtime_api.h>

#include "shim/capture/session.h"

namespace graphpool {

/// Records an event on a stream of the capture. `of_another`: it has been recorded in another capture, which is open.
hipError_t record_in(CaptureSession& session, StreamKey key, hipEvent_t event, bool of_another, Forward forward)
    REQUIRES(session.lock);
/// Lets a stream wait for an event. One of the two is the capture's.
hipError_t wait_in(CaptureSession& session, StreamKey key, StreamArgument stream, hipEvent_t event, ForwardWait forward)
    REQUIRES(session.lock);

/// Takes the stream out of the capture, because another capture has begun on it: nothing of the former reaches the
/// stream any more, and threads that fed the former by the stream look for their capture anew.
void stream_left(CaptureSession& session, StreamKey key) REQUIRES(session.lock);
/// Takes the stream out of the capture, because it is about to be destroyed.
void stream_destroyed(CaptureSession& session, StreamKey key) REQUIRES(session.lock);
/// Takes out a stream of the calling thread's own, because the thread ends. Makes no call of the runtime.
void thread_ended(CaptureSession& session, StreamKey key) noexcept REQUIRES(session.lock);

}  // namespace graphpool
