// leave_midway.h: leaves the rest of a capture to the runtime, where only what is known is followed (costs/hit_rate.h)
// and the capture has turned out to be new. The rest is as any capture that is left alone (left_alone.h).
//
// A capture with forks stays a session, whose operations are forwarded and not noted. Its forks must be followed, for
// an event that was recorded in a shell has no nodes in the runtime.
#pragma once

#include "shim/capture/left_alone.h"
#include "shim/capture/session.h"
#include "shim/streams/stream_key.h"

namespace graphpool {

/// Whether the capture is new, and would have been left alone had that been known.
inline bool is_new_midway(const CaptureSession& session) noexcept REQUIRES(session.lock) {
  return session.follow == Follow::kKnown && session.fate.rejected() == kSeldomComesBack;
}
/// Leaves the rest of the capture on this stream to the runtime, where that is possible. Call it without a lock held,
/// after an operation of the calling thread's.
void leave_midway(StreamKey key) noexcept;

}  // namespace graphpool
