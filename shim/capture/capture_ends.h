// capture_ends.h: has what the rest of this folder needs of the beginnings and the ends of captures (capture.h).
#pragma once

#include <memory>

#include "shim/capture/session.h"
#include "shim/streams/stream_key.h"

namespace graphpool {

/// Passes on the library's events that were recorded on the stream. Call it before the stream takes part in a capture:
/// afterwards HIP may refuse to wait for them.
void leave_stream(StreamKey key) noexcept;
/// Closes a capture that is over by a failed end. Its stream is still there.
void close_failed(const std::shared_ptr<CaptureSession>& session);

}  // namespace graphpool
