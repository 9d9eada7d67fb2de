// leave_midway.h: a capture of a place where only what is known is followed (costs/hit_rate.h) has turned out to be
// new: what is left of it is the runtime's own, as of any capture that is left alone (left_alone.h).
//
// Its forks would have to be followed all the same, for the runtime knows an event that was recorded in a shell without
// nodes. So a capture with forks stays a session, whose operations are forwarded and not noted.
#pragma once

#include "shim/capture/left_alone.h"
#include "shim/capture/session.h"
#include "shim/streams/stream_key.h"

namespace graphpool {

/// Whether the capture is new, and would have been left alone had that been known.
inline bool is_new_midway(const CaptureSession& session) noexcept REQUIRES(session.lock) {
  return session.follow == Follow::kKnown && session.fate.rejected() == kSeldomComesBack;
}
/// Leaves the rest of the capture on this stream to the runtime, where that can be. Call it without a lock held, after
/// an operation of the calling thread's.
void leave_midway(StreamKey key) noexcept;

}  // namespace graphpool
