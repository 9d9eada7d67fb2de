// own_streams.h: tells a thread's own streams by their keys (streams/stream_key.h), and ends what goes with the thread.
//
// The keys of one thread's own streams are the same but for the device. A thread's own streams go with it, and so does
// their part in captures.
// Threads: any.
#pragma once

#include "shim/streams/stream_key.h"

namespace graphpool {

bool is_own_stream(StreamKey key) noexcept;
bool is_callers_own_stream(StreamKey key) noexcept;

/// Call it when a stream of the calling thread's own takes part in a capture. When the thread ends, the stream then
/// leaves the capture.
void watch_thread_for_captures() noexcept;

}  // namespace graphpool
