// bypass.h: notes what makes the library leave captures to the runtime for good (captures_bypassed()).
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
/// Notes that the runtime has run a kernel at once that the program launched on a capturing stream, as AMD's 5.2 does
/// with what is not launched by hipLaunchKernel. What is captured there is not what the program runs, and memory that
/// is only captured may be in use. So both are left to the runtime. Says so once. Call it without a lock held.
void leave_to_runtime(StreamArgument stream);

}  // namespace graphpool
