#include "shim/capture/capture_ends.h"

#include <algorithm>
#include <utility>

#include "shim/base/seeded_defect.h"
#include "shim/base/trace.h"
#include "shim/capture/bypass.h"
#include "shim/capture/capture_sink.h"
#include "shim/capture/failed_end.h"
#include "shim/capture/forks.h"
#include "shim/capture/left_alone.h"
#include "shim/capture/make_real.h"
#include "shim/capture/session_list.h"
#include "shim/costs/hit_rate.h"
#include "shim/costs/step_costs.h"
#include "shim/execs/graph_settings.h"
#include "shim/execs/recording.h"
#include "shim/hip/coverage.h"
#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/recording/node_check.h"
#include "shim/recording/node_creation.h"
#include "shim/recording/settings.h"
#include "shim/recording/signature_bits.h"
#include "shim/staging/rings.h"
#include "shim/streams/launch_marks.h"

namespace graphpool {

void leave_stream(StreamKey key) noexcept {
  launches_before_capture(key);
  rings_before_capture(key);
}

void close_failed(const std::shared_ptr<CaptureSession>& session) {
  if (session->into != nullptr) capture_sink().nodes_gone(session->into);
  open_sessions().close(session);
}

// --- beginnings ---

/// Lets the stream leave the capture that it took part in before. The runtime has invalidated that capture, and the
/// program has begun another one on the stream without ending the former.
static void leave_former_capture(StreamKey key) {
  if (no_other_capture_open() || close_left_alone(key)) return;
  const auto before = open_sessions().find(key);
  if (before == nullptr) return;
  bool origin;
  {
    const LockGuard guard(before->lock);
    stream_left(*before, key);
    origin = before->streams.is_origin(key);
  }
  open_sessions().leave(key, before, origin);
}

/// A capture counts as open before the runtime begins it, so that no event of the library's gets into it.
static hipError_t counted_begin(StreamArgument stream, hipStreamCaptureMode mode, Forward forward) {
  settle_failed_end();
  leave_stream(stream_key(stream));
  capture_opened(mode);
  const hipError_t result = forward();
  if (result != hipSuccess) capture_closed(mode);
  return result;
}

static std::shared_ptr<CaptureSession> new_session(StreamArgument origin, hipStreamCaptureMode begun_in,
                                                   const Signature& begin, TreeNode* known, CaptureMode mode,
                                                   const void* place) {
  auto session = take_idle_session();
  const LockGuard guard(session->lock);
  session->mode = begun_in;
  session->start(origin, begin, known, mode, place);
  return session;
}

namespace {

/// A capture that the runtime has begun.
struct Beginning {
  StreamArgument stream;
  StreamKey key;
  hipStreamCaptureMode mode;
  const void* place;
  SeededWay chance = seeded_way();
  /// Whether it began on a stream that has a handle of its own.
  bool own_handle() const noexcept { return key == reinterpret_cast<StreamKey>(stream.handle); }
};

}  // namespace

/// Says in the report why a capture is recorded each time anew.
static void tell_not_compared(const Beginning& beginning, int stream_device) {
  Materialisation materialisation;
  materialisation.reason = !beginning.own_handle() ? "captured on a null stream, or on a thread's own"
                           : stream_device < 0     ? "captured on a stream whose device the runtime does not tell"
                                                   : "the library does not see every call of this process";
  capture_sink().note_materialised(materialisation);
}

/// Opens a session for the capture. It gives no recording where the verdict is to leave it alone.
static void open_session(const Beginning& beginning, const PlaceVerdict& verdict, bool sees_all) {
  const bool follow = verdict.follow != Follow::kNone;
  Signature begin;
  begin.kind = OperationKind::kBegin;
  const int stream_device = device_of(beginning.stream);
  const std::uint64_t device_changes = g_device_changes.load(std::memory_order_acquire);
  const int device = calling_device();
  begin.device = packed_devices(device, std::max(stream_device, 0));
  begin.validity = static_cast<std::uint32_t>(beginning.mode);
  begin.object = settings_epoch();
  const bool wanted = active() && capture_sink().settings().compare;
  const bool may_compare = wanted && beginning.own_handle() && stream_device >= 0 && !captures_bypassed();
  if (!may_compare && follow && wanted) tell_not_compared(beginning, stream_device);
  TreeWalk walk;
  if (may_compare && follow && beginning.chance == SeededWay::kUsual) walk = capture_sink().walk_begins(begin);
  const CaptureMode way = walk.start == nullptr ? CaptureMode::kRecord
                          : walk.verify         ? CaptureMode::kVerify
                                                : CaptureMode::kCompare;
  auto session =
      new_session(beginning.stream, beginning.mode, begin, walk.start, way, follow ? beginning.place : nullptr);
  assume_held(session->lock);  // no other thread can find the session yet
  session->feeders.know_device(device, device_changes);
  session->follow = verdict.follow;
  if (!follow) session->fate.reject(verdict.reason);
  if (verdict.follow == Follow::kKnown && walk.start == nullptr) session->fate.reject(kSeldomComesBack);
  if (!sees_all) session->fate.reject("the library does not see every call of this process");
  if (runs_at_once()) session->fate.leave_to_runtime();
  open_sessions().add(beginning.key, std::move(session));
}

hipError_t begin_capture(StreamArgument stream, hipStreamCaptureMode mode, Forward forward) {
  const bool decides = !t_ahead.covers(t_caller);
  const std::uint64_t began = decides ? ticks_now() : 0;
  end_former_step();
  check_objects_loaded_since();
  const std::uint64_t forwarded = decides ? ticks_now() : 0;
  const hipError_t result = counted_begin(stream, mode, forward);
  const std::uint64_t begun = decides ? ticks_now() : 0;
  if (result != hipSuccess) return result;
  const Beginning beginning{stream, stream_key(stream), mode, t_caller};
  leave_former_capture(beginning.key);
  const bool sees_all = active() && !unknown_entries_in_use();
  PlaceVerdict verdict;
  if (sees_all && beginning.own_handle())
    verdict = beginning.chance == SeededWay::kLeftAlone ? PlaceVerdict{Follow::kNone, kSeldomComesBack}
                                                        : judge_place(t_caller, beginning.key);
  if (verdict.follow == Follow::kNone && !uses_tracked() && !runs_at_once() &&
      capture_left_alone(mode, beginning.key)) {
    step_left_alone(beginning.key);
    // Only the runtime's time counts: once this is decided, captures begin without the rest (begin_passing()).
    if (t_step.timed) t_step.ticks += begun - forwarded;
    return result;
  }
  open_session(beginning, verdict, sees_all);
  if (t_step.timed) t_step.ticks += ticks_now() - began;
  return result;
}

hipError_t begin_foreign_capture(StreamArgument stream, hipStreamCaptureMode mode, hipGraph_t into, Forward forward) {
  const hipError_t result = counted_begin(stream, mode, forward);
  if (result != hipSuccess) return result;
  auto session = new_session(stream, mode, Signature{}, nullptr, CaptureMode::kRecord, nullptr);
  assume_held(session->lock);  // no other thread can find the session yet
  session->fate.reject("captured into a graph of the program's");
  session->into = into;
  leave_former_capture(stream_key(stream));
  open_sessions().add(stream_key(stream), std::move(session));
  return result;
}

// --- ends ---

namespace {

/// A capture whose end was forwarded.
struct Ending {
  hipError_t result = hipSuccess;
  bool over = false;       ///< the runtime says that the capture is over
  bool was_shell = false;  ///< it matched to the end
  HeldRecording matched;   ///< what it matched
  HeldRecording expected;  ///< verified: what a shell would have matched
};

/// A capture that the runtime has ended.
struct Ended {
  CapturedGraph graph;
  Follow follow;         ///< what was followed of it
  std::size_t withheld;  ///< operations that had been withheld when it was made real
};

}  // namespace

static Ending forward_end(CaptureSession& session, StreamKey key, Forward forward) REQUIRES(session.lock) {
  Ending ending;
  session.make_real_if_rejected();
  if (session.shell() && !session.streams.is_origin(key)) session.expose("ended on another stream");
  if (session.shell()) {
    ending.matched = session.matcher.matched_end(session.recorder.binding().size());
    if (!ending.matched) make_real(session, "the capture ended before its recording", &kEndSignature);
  }
  ending.was_shell = session.shell();
  {
    const NodeCreation making(!session.exposed());
    ending.result = forward();
  }
  ending.over = end_is_over(ending.result) && (ending.result != hipErrorIllegalState || session.streams.is_origin(key));
  if (ending.result == hipSuccess) {
    // Another thread that still finds the capture must not make it real any more.
    session.matcher.leave_shell();
    session.serial = 0;  // nor feed it: what it does on these streams is work
    if (session.fate.rejected() == nullptr) ending.expected = session.matcher.expected_end();
  }
  return ending;
}

/// Whether the runtime's graph of a shell is empty, as it must be.
static bool is_empty(hipGraph_t graph) {
  std::size_t count = 1;
  return PrivateCalls::answered([&] { return next().hipGraphGetNodes(graph, nullptr, &count); }) && count == 0;
}

/// Lets the program find its capture invalidated: what it captured cannot be had. Call it without a lock held.
static hipError_t end_invalidated(const CapturedGraph& captured, const char* reason, hipGraph_t* graph) {
  if (captured.tracked != nullptr) open_graphs().drop(*captured.tracked);
  tell_trace("invalidated", 0);
  capture_sink().note_refused(reason);
  static_cast<void>(PrivateCalls::worked([&] { return next().hipGraphDestroy(*graph); }));
  *graph = nullptr;
  return hipErrorStreamCaptureInvalidated;
}

/// Tells the hit rates how the capture of a place has ended. `matched`: the recording that it matched, or would have;
/// empty: it was new.
static void tell_rate(const Ended& ended, const HeldRecording& matched) {
  if (ended.graph.place == nullptr) return;
  const bool hit = static_cast<bool>(matched);
  const std::size_t operations = hit ? (*matched).operations.size() : ended.withheld;
  hit_rates().ended(ended.graph.place, ended.follow, hit, static_cast<std::uint32_t>(operations));
}

/// Tells the step costs that a capture of a place that is judged has ended.
static void tell_costs(const void* place, StreamKey key, const Ending& ending) {
  const std::size_t nodes = ending.was_shell ? (*ending.matched).node_count : 0;
  const std::size_t all = ending.was_shell ? (*ending.matched).operations.size() : 0;
  step_costs().ended(place, ending.was_shell, static_cast<std::uint32_t>(nodes),
                     static_cast<std::uint32_t>(all - nodes));
  t_step.complete = t_step.complete || t_step.stream == key;
}

/// Ends a real capture. Returns the handle by which the program knows its graph.
static hipGraph_t end_real(CaptureSession& session, const Ended& ended, const HeldRecording& expected)
    EXCLUDES(session.lock) {
  UniqueLock guard(session.lock);
  const LastErrorScope last_error;
  if (session.materialised.reason != nullptr) capture_sink().note_materialised(session.materialised);
  const char* reason = session.fate.rejected();
  const bool compared = reason == nullptr;  // else another thread may have rejected it behind its end
  tell_trace(
      session.materialised.reason != nullptr ? session.materialised.reason : "recorded", 0,
      std::max<std::size_t>(session.recorder.operations().size(), 1) - 1);  // without its beginning; it has no end yet
  session.recorder.add_bare(kEndSignature);
  std::uint32_t which = 0;
  const bool matches = compared && nodes_match(ended.graph.graph, session.recorder.operations(),
                                               session.recorder.binding(), session.recorder.nodes(), &reason, &which);
  if (matches) {
    if (expected) capture_sink().capture_verified(*expected);
    RecordedCapture recorded = session.recorder.take();
    guard.unlock();
    const RecordedGraph real = capture_sink().real_graph_captured(ended.graph, std::move(recorded));
    if (!real.learned) tell_rate(ended, expected);
    return real.handle;
  }
  guard.unlock();
  tell_rate(ended, expected);
  assume_held(session.lock);  // the session is closed: no other thread changes it
  if (expected && compared)
    capture_sink().capture_differs(*expected, session.recorder.operations()[which], session.recorder.binding(),
                                   session.recorder.node(which), reason);
  tell_trace(reason, 0);
  if (reason == kSeldomComesBack)
    note_left_alone_midway();
  else
    capture_sink().note_refused(reason);
  return capture_sink().untracked_graph_captured(ended.graph);
}

hipError_t end_capture(StreamArgument stream, hipGraph_t* graph, Forward forward) {
  const TimedCall timed;
  const StreamKey key = stream_key(stream);
  if (left_alone_here(key) || is_left_alone(key)) return end_left_alone(stream, forward);
  const auto session = open_sessions().find(key);
  if (session == nullptr) return forward();
  TraceSpan traced(TraceKind::kCapture, session->began);
  Ending ending;
  {
    const LockGuard guard(session->lock);
    ending = forward_end(*session, key, forward);
  }
  if (ending.result != hipSuccess) {
    note_capture_end_failed();
    tell_trace("it was invalid at its end", 0);
    if (!ending.over) traced.drop();
    if (ending.over)
      close_failed(session);
    else
      note_failed_end(stream);
    return ending.result;
  }
  if (session->into != nullptr) *graph = session->into;
  open_sessions().close(session);
  UniqueLock guard(session->lock);
  const bool by_passed = ending.was_shell && !is_empty(*graph);
  const Ended ended{{*graph, session->names.take_tracked(), session->names.holds_objects(), session->place},
                    session->follow,
                    session->materialised.operation == 0 ? 0 : session->materialised.operation - std::size_t{1}};
  if (session->fate.lost() || by_passed) {
    const char* const reason = by_passed ? "operations reached the capture past the library" : session->fate.rejected();
    guard.unlock();
    if (by_passed) note_passed_by();
    return end_invalidated(ended.graph, reason, graph);
  }
  if (session->place != nullptr) tell_costs(session->place, key, ending);
  if (!ending.was_shell) {
    guard.unlock();
    *graph = end_real(*session, ended, ending.expected);
    return hipSuccess;
  }
  Binding binding = std::move(session->recorder.binding());
  guard.unlock();
  tell_trace("served", (*ending.matched).number, (*ending.matched).operations.size() - 2);  // without beginning and end
  tell_rate(ended, ending.matched);
  *graph = capture_sink().make_deferred_graph(std::move(ending.matched), std::move(binding), ended.graph);
  return *graph != nullptr ? hipSuccess : hipErrorStreamCaptureInvalidated;  // what it captured cannot be had
}

}  // namespace graphpool
