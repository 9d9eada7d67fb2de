// bypass.h: what makes the library leave captures to the runtime for the rest of the process (captures_bypassed()).
//
// Threads: atomic, any.
#pragma once

#include <atomic>

#include "shim/streams/stream_key.h"

namespace graphpool {

/// Operations reached a capture past the library.
inline constinit std::atomic<bool> g_captures_passed_by{false};
/// The runtime runs kernels at once that are launched into a capture (leave_to_runtime()).
inline constinit std::atomic<bool> g_runs_at_once{false};
inline bool runs_at_once() noexcept { return g_runs_at_once.load(std::memory_order_relaxed); }

/// Operations have reached a capture past the library. Says so once.
void note_passed_by() noexcept;
/// The runtime has run a kernel at once that the program launched on a capturing stream, as AMD's 5.2 does whatever is
/// not launched by hipLaunchKernel. Neither is what is captured there what the program runs, nor does memory stay
/// unused while it is only captured: both are left to the runtime. Says so once. Call it without a lock held.
void leave_to_runtime(StreamArgument stream);

}  // namespace graphpool
