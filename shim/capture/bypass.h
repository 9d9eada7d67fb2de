// bypass.h: notes what makes the library withhold no capture any more (captures_bypassed()).
//
// Threads: atomic, any.
#pragma once

#include <atomic>

#include "shim/streams/stream_key.h"

namespace graphpool {

/// Whether operations have reached a capture past the library.
inline constinit std::atomic<bool> g_captures_passed_by{false};
/// Whether the runtime runs kernels at once that are launched into a capture (leave_to_runtime()).
inline constinit std::atomic<bool> g_runs_at_once{false};
inline bool runs_at_once() noexcept { return g_runs_at_once.load(std::memory_order_relaxed); }

/// Notes that operations have reached a capture past the library. Says so once.
void note_passed_by() noexcept;
/// Notes that the runtime has run a kernel at once, or may have, although the program launched it on this stream, which
/// captures: it is work of the stream. AMD's 5.2 does so with all launches but those by hipLaunchKernel. From then on
/// the library leaves captures and memory to the runtime: a capture lacks such kernels, and they may use memory that
/// only a capture names. Logs this once. Call it without a lock held.
void leave_to_runtime(StreamArgument stream);

}  // namespace graphpool
