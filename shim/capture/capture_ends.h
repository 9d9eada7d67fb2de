// capture_ends.h: has what the rest of this folder needs of the beginnings and the ends of captures (capture.h).
#pragma once

#include <memory>

#include "shim/capture/session.h"
#include "shim/streams/stream_key.h"

namespace graphpool {

/// Call it before the stream takes part in a capture. Passes on the library's events that were recorded there: nobody
/// may wait for them then.
void leave_stream(StreamKey key) noexcept;
/// Closes a capture that is over by a failed end. Its stream is still there.
void close_failed(const std::shared_ptr<CaptureSession>& session);

}  // namespace graphpool
