// capture_ends.h: what the beginnings and the ends of captures (capture.h) share with the rest of this folder.
#pragma once

#include <memory>

#include "shim/capture/session.h"
#include "shim/streams/stream_key.h"

namespace graphpool {

/// The stream is about to take part in a capture: events of the library's that were recorded there are of no use then.
void leave_stream(StreamKey key) noexcept;
/// The capture is over by a failed end, but its stream is there.
void close_failed(const std::shared_ptr<CaptureSession>& session);

}  // namespace graphpool
