#include "shim/capture/left_alone.h"

#include <array>
#include <utility>

#include "shim/base/hot.h"
#include "shim/base/owned_count.h"
#include "shim/base/trace.h"
#include "shim/capture/bypass.h"
#include "shim/capture/capture.h"
#include "shim/capture/capture_sink.h"
#include "shim/capture/failed_end.h"
#include "shim/execs/graph_settings.h"
#include "shim/hip/coverage.h"
#include "shim/hip/next.h"
#include "shim/staging/rings.h"
#include "shim/streams/launch_marks.h"
#include "shim/streams/stream_work.h"

namespace graphpool {
namespace {

/// How many captures have ended that were left alone, by reason.
constinit std::array<OwnedCount, 2> g_ended{};

/// For the trace: when the thread's capture was left alone; 0: it is not traced.
constinit thread_local std::uint64_t t_left_alone_began __attribute__((tls_model("initial-exec"))) = 0;

}  // namespace

PlaceVerdict judge_place(const void* place, StreamKey key) noexcept {
  const Follow follow = t_ahead.covers(place) ? Follow::kAll : hit_rates().follow(place);
  if (follow == Follow::kNone) return {Follow::kNone, kSeldomComesBack};
  const GraphSettings& settings = capture_sink().settings();
  if (!settings.weigh || !settings.compare || !settings.reuse || settings.verify.mode != Verify::Mode::kOff)
    return {follow};
  const StepCosts::Step step = step_begins(place);
  t_step.place = place;
  t_step.stream = key;
  t_step.step = step;
  t_step.timed = step.timed;
  return step.follow ? PlaceVerdict{follow} : PlaceVerdict{Follow::kNone, kComparingCosts};
}

// Drops the execs that are kept for captures which are left alone from now on: their nodes fill the runtime's tables.
// On 7.2.4 capturing a kernel takes 0.29 us without such execs, and 0.36 us while four execs of 1000 nodes are kept.
void end_former_step() noexcept {
  if (const void* const left_alone = end_step(); left_alone != nullptr) [[unlikely]]
    capture_sink().drop_free_execs_of(left_alone);
}

void note_left_alone_midway() noexcept { g_ended[0].add(); }

static void mark_step() noexcept {
  if (trace_on()) [[unlikely]]
    t_left_alone_began = trace_ticks();
  t_step.left_alone = true;
  t_step.lost_seen = g_left_alone_lost.load(std::memory_order_acquire);
  t_step.ended_seen = g_unknown_ended.load(std::memory_order_acquire);
}

void step_left_alone(StreamKey key) noexcept {
  t_step.stream = key;
  mark_step();
  t_step.passes_on = key;
}

// HOT: lies with what else a step of such captures runs, because the runtime fills the caches between two steps.
HOT bool close_left_alone(StreamKey key) noexcept {
  if (!left_alone_closed(key)) return false;
  if (left_alone_here(key)) {
    t_step.left_alone = false;
    t_step.passes_on = ThreadStep::kNoStream;
  } else {
    g_left_alone_lost.fetch_add(1, std::memory_order_acq_rel);
  }
  return true;
}

HOT bool begin_passes(hipStream_t stream) noexcept {
  return !t_inside && !t_end_failed && active() && every_entry_known() && !uses_tracked() && is_stream_handle(stream) &&
         !runs_at_once() && g_launches_awaited.load(std::memory_order_acquire) == 0 &&
         g_rings.load(std::memory_order_acquire) == 0;
}

HOT bool begin_passing(const void* place, hipStream_t stream, hipStreamCaptureMode mode, hipError_t* result) noexcept {
  const StreamKey key = stream_key({stream, false});
  if (!sole_capture_left_alone(mode, key)) return false;
  end_former_step();
  *result = next().hipStreamBeginCapture(stream, mode);
  if (*result != hipSuccess) {
    left_alone_closed(key);
    return true;
  }
  --t_ahead.left;
  t_step.place = place;
  t_step.stream = t_step.passes_on = key;
  t_step.step = {false, false, 0, t_ahead.most_operations, 0};
  mark_step();
  return true;
}

/// `own`: the calling thread began the capture. Of others it is not known when they began.
[[gnu::cold, gnu::noinline]] static void trace_left_alone(bool own) noexcept {
  const TraceSpan traced(TraceKind::kCapture, own ? std::exchange(t_left_alone_began, 0) : trace_ticks());
  tell_trace(own && t_step.place != nullptr ? kComparingCosts : kSeldomComesBack, 0, own ? t_step.operations : 0);
}

/// Notes that the end of a capture that the library left to the runtime has been forwarded.
HOT static void left_alone_ended(StreamArgument stream, hipError_t result) noexcept {
  const StreamKey key = stream_key(stream);
  const bool over = end_is_over(result), own = left_alone_here(key);
  if (result != hipSuccess) [[unlikely]]
    note_capture_end_failed();
  if (!over) note_failed_end(stream);
  if (!over || !close_left_alone(key)) return;
  if (own) {
    t_step.complete = result == hipSuccess;
    if (t_step.operations > t_step.step.most_operations) {
      t_ahead = {};
      step_costs().larger_alone(t_step.place);
    }
  }
  if (result == hipSuccess) g_ended[own && t_step.place != nullptr].add();
  if (trace_on()) [[unlikely]]
    trace_left_alone(own);
}

// The program may know the graph, and then this end may call the program back. So it is not in line with the making of
// nodes (recording/node_creation.h).
hipError_t end_left_alone(StreamArgument stream, FunctionRef<hipError_t()> forward) {
  const hipError_t result = forward();
  left_alone_ended(stream, result);
  return result;
}

HOT void passing_ended(hipStream_t stream, hipError_t result, const hipGraph_t* graph) noexcept {
  left_alone_ended({stream, false}, result);
  if (result == hipSuccess) t_step.graph = *graph;
}

std::uint64_t captures_left_alone(std::size_t reason, const char** text) noexcept {
  *text = reason == 0 ? kSeldomComesBack : kComparingCosts;
  return g_ended[reason].load();
}

}  // namespace graphpool
