// left_alone.h: leaves captures to the runtime where comparing them would cost more than it saves.
//
// Of such a capture only the origin is known (streams/open_captures.h). Its calls pass: they go straight to the runtime
// (hooks/passing.h). In the thread that began the capture these are its begin (decided ahead), launches and end, and
// calls with its graph and exec. The thread's event records and waits pass, too, unless a part of the library looks at
// forks. One decision covers several such captures.
// Threads: any; which calls pass is each thread's own matter (ThreadStep).
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shim/base/function_ref.h"
#include "shim/costs/hit_rate.h"
#include "shim/costs/step_costs.h"
#include "shim/hip/entry.h"
#include "shim/streams/fresh_streams.h"
#include "shim/streams/open_captures.h"
#include "shim/streams/stream_key.h"

namespace graphpool {

/// The two reasons for leaving a capture alone.
inline constexpr const char* kSeldomComesBack = "captures that begin here seldom come back";
inline constexpr const char* kComparingCosts = "comparing captures that begin here costs more than it saves";

/// Counts left-alone captures that were closed while they were not of the closing thread's step. The thread that began
/// one may still take it for open, and the stream's handle may be another stream's by now.
inline constinit std::atomic<std::uint64_t> g_left_alone_lost{0};
/// Counts calls that did not pass and that destroy unknown graphs or execs: destroys, and device resets. A thread's
/// step may still name such a handle, which may be another's by now. The count is raised before the runtime destroys
/// them.
inline constinit std::atomic<std::uint64_t> g_unknown_ended{0};
inline void unknown_ends() noexcept { g_unknown_ended.fetch_add(1, std::memory_order_release); }
/// Whether the thread has begun a capture on this stream that is left alone and still open.
inline bool left_alone_here(StreamKey key) noexcept {
  return t_step.left_alone && t_step.stream == key &&
         t_step.lost_seen == g_left_alone_lost.load(std::memory_order_acquire);
}

/// Whether the beginning of a capture on this stream may pass. Ask only where t_ahead covers the place of the call:
/// there it is decided already that the capture is left alone. begin_passing() makes the call.
bool begin_passes(hipStream_t stream) noexcept;
/// Begins the capture and sets *result. Returns false, and does nothing, where another capture is open.
bool begin_passing(const void* place, hipStream_t stream, hipStreamCaptureMode mode, hipError_t* result) noexcept;
/// Whether launches on the stream, and the end of the capture there, pass: a capture of the thread's that is left alone
/// began there.
inline bool launches_pass(hipStream_t stream) noexcept {
  return t_step.passes_on == reinterpret_cast<std::uintptr_t>(stream) && !t_inside && active() &&
         t_step.lost_seen == g_left_alone_lost.load(std::memory_order_acquire);
}
/// Notes that the end of such a capture was forwarded. `graph`: where the runtime has put the graph's handle.
void passing_ended(hipStream_t stream, hipError_t result, const hipGraph_t* graph) noexcept;
/// Whether calls with this graph pass: the thread's last capture, which was left alone, ended in it.
inline bool graph_passes(hipGraph_t graph) noexcept {
  return graph != nullptr && t_step.graph == graph && !t_inside && active() && !joins_put_off() &&
         t_step.ended_seen == g_unknown_ended.load(std::memory_order_acquire);
}
/// Whether calls with this exec pass: it was made of that graph, or updated by it.
inline bool exec_passes(hipGraphExec_t exec) noexcept {
  return exec != nullptr && t_step.exec == exec && !t_inside && active() && !joins_put_off() &&
         t_step.ended_seen == g_unknown_ended.load(std::memory_order_acquire);
}
/// Whether event records and waits go straight to the runtime: a capture of the thread's is left alone, and no part of
/// the library looks at forks.
inline bool forks_pass() noexcept {
  return t_step.passes_on != ThreadStep::kNoStream && g_fork_watchers.load(std::memory_order_acquire) == 0;
}

/// Returns how many captures have ended that were left alone for this one of the two reasons; *text: the reason.
std::uint64_t captures_left_alone(std::size_t reason, const char** text) noexcept;

// Used by capture/ alone.

/// What becomes of a capture that begins at a place.
struct PlaceVerdict {
  Follow follow = Follow::kAll;
  const char* reason = nullptr;  ///< of kNone
};
PlaceVerdict judge_place(const void* place, StreamKey key) noexcept;
/// Notes that the calling thread's capture that began on this stream is left alone.
void step_left_alone(StreamKey key) noexcept;
/// Ends the thread's step, before the runtime begins the next capture.
void end_former_step() noexcept;
/// Notes the end of a capture that was left alone from its first new operation on.
void note_left_alone_midway() noexcept;
/// Ends a capture that is left alone.
hipError_t end_left_alone(StreamArgument stream, FunctionRef<hipError_t()> forward);
/// Closes the capture that was left to the runtime on this stream. Returns false where there is none.
bool close_left_alone(StreamKey key) noexcept;

}  // namespace graphpool
