#include "shim/capture/forks.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "shim/capture/fork_events.h"
#include "shim/capture/keeping_events.h"
#include "shim/capture/make_real.h"
#include "shim/capture/put_off_joins.h"
#include "shim/capture/stream_tail.h"
#include "shim/hip/hip_abi.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"
#include "shim/recording/signature_bits.h"
#include "shim/streams/outstanding_uses.h"
#include "shim/streams/stream_work.h"

namespace graphpool {

/// Whether neither the stream nor the event stands for an operation of the capture. Before HIP 7 the event then keeps
/// the nodes of an earlier capture.
static bool stands_for_nothing(CaptureSession& session, StreamKey key, hipEvent_t event) REQUIRES(session.lock) {
  const CapturedStream* const where = session.streams.find(key);
  const CapturedEvent* const known = session.streams.find_event(event);
  return where != nullptr && !where->left && where->tail.empty() && (known == nullptr || known->tail.empty());
}

/// Notes that the event has been recorded on a stream of the capture. Returns its number in signatures.
static std::uint64_t note_record(CaptureSession& session, hipEvent_t event, CapturedStream& where)
    REQUIRES(session.lock) {
  const bool shell = session.shell();
  if (has_defect(Defect::kEventsKeepNodes)) {
    if (shell && !where.fork_recorded &&
        !(where.fork_recorded = fork_events().record(where.key, where.handle, where.device)))
      session.fate.reject("no event of the library's own");
    const CapturedEvent* const known = session.streams.find_event(event);
    const bool noted = known != nullptr && !known->tail.empty() && known->recorded_in_shell == shell;
    if (!where.tail.empty() && !noted) keeping_events().recorded(event, shell);
  }
  return session.streams.record(event, where, shell);
}

hipError_t record_in(CaptureSession& session, StreamKey key, hipEvent_t event, bool of_another, Forward forward) {
  session.note_feed(key);
  if (!session.fate.invalid()) session.check_status();
  // The event's stream in the other capture may be invalidated, and the event recorded there again. Then the runtime
  // takes the event for one of that capture, and refuses what comes behind the nodes that the event has from this
  // capture: they must exist.
  if (of_another && session.shell() && !session.fate.invalid())
    make_real(session, "an event of another open capture is recorded");
  session.follow_on(key);
  if (has_defect(Defect::kEventsKeepNodes) && stands_for_nothing(session, key, event))
    keeping_events().keeps_nodes(event, session.shell(), session.streams.find(key)->device);
  const hipError_t result = forward();
  if (result != hipSuccess) {
    // The next call makes a shell real: before HIP 7 a call of the library's would replace the error now.
    session.fate.reject("an event record failed");
    return result;
  }
  CapturedStream& where = *session.streams.find(key);
  if (where.left) {
    // It was recorded outside of the capture. What the runtime has noted on this stream, it still finds there.
    if (uses_tracked()) outstanding_uses().recorded(event, {where.handle, false});
    const CapturedEvent* const known = session.streams.find_event(event);
    if (known != nullptr && known->stream != key) session.streams.event_recorded_elsewhere(event);
    return result;
  }
  const std::uint64_t number = note_record(session, event, where);
  Signature signature = session.signature_on(where);
  signature.kind = OperationKind::kRecord;
  signature.object = number;
  session.take_bare(signature, "an event record differs from every recording");
  return result;
}

/// Lets a stream that has waited for an event of the capture come behind what the event stands for, and join the
/// capture if it was no part of it. `replace`: whether the event stands for other nodes in the runtime, and the nodes
/// that the stream came behind before; null: the runtime does not tell them.
static CapturedStream& join(CaptureSession& session, StreamKey key, StreamArgument stream, const CapturedEvent& event,
                            const std::pair<bool, const std::vector<hipGraphNode_t>*>& replace) REQUIRES(session.lock) {
  CapturedStream* where = session.streams.find(key);
  if (where == nullptr) {
    CapturedStream joined{key, plain_handle(stream), std::max(device_of(stream), 0), {}};
    joined.joined_from = event.stream;
    where = &session.streams.add(std::move(joined));
  }
  // An invalidated stream takes part again, behind what it did before.
  where->left = false;
  const auto set = [&] {
    assume_held(session.lock);
    return session.recorder.set_tail_after_wait(where->handle, replace.second, event.tail);
  };
  if (replace.first && !tried_twice(set)) session.fate.reject("the runtime did not take a dependency");
  session.follow_on(key);
  merge_tail(where->tail, event.tail);
  return *where;
}

/// Returns the event for which the runtime is told to wait where the program waits for `event`. That is the library's
/// own event, which has no nodes, if `event` was recorded in a shell behind operations and the library's on the same
/// stream; else `event`.
static hipEvent_t event_to_wait_for(CaptureSession& session, hipEvent_t event, const CapturedEvent* known)
    REQUIRES(session.lock) {
  if (known == nullptr || !known->recorded_in_shell || known->tail.empty()) return event;
  const CapturedStream* const from = session.streams.find(known->stream);
  const hipEvent_t own = from != nullptr && from->fork_recorded ? fork_events().find(known->stream) : nullptr;
  return own != nullptr ? own : event;
}

/// Whether a wait for an event that stands for nothing has brought nodes into a shell: they are of an earlier capture,
/// and the runtime refuses what comes behind them.
static bool brought_nodes(hipStream_t stream) {
  std::vector<hipGraphNode_t> nodes;
  return has_defect(Defect::kEventsKeepNodes) && copy_tail(stream, &nodes) && !nodes.empty();
}

hipError_t wait_in(CaptureSession& session, StreamKey key, StreamArgument stream, hipEvent_t event,
                   ForwardWait forward) {
  session.note_feed(key);
  if (!session.fate.invalid()) session.check_status();
  const CapturedEvent* const known = session.streams.find_event(event);
  CapturedStream* where = session.streams.find(key);
  // The event was recorded while the capture was a shell: in the runtime it stands for no node, or, before HIP 7, for
  // those of an earlier capture (probe event_forgets_nodes). These stay if it stands for no operation here.
  const bool replace = !session.shell() && known != nullptr && known->recorded_in_shell && !known->tail.empty();
  std::vector<hipGraphNode_t> before;
  const bool before_known = replace && (where == nullptr || copy_tail(where->handle, &before));
  const hipEvent_t awaited = event_to_wait_for(session, event, known);
  const bool put_off = known != nullptr && where == nullptr && put_off_join(session, stream, *known);
  if (put_off)
    succeeded_unseen();
  else if (where == nullptr || where->join_put_off != nullptr)
    make_joins(session);
  hipError_t result = put_off ? hipSuccess : forward(awaited);
  if (!put_off && result == hipSuccess && session.shell() && known != nullptr && known->tail.empty() &&
      brought_nodes(plain_handle(stream))) {
    constexpr const char* kReason = "a wait for an event that stands for nodes of an earlier capture";
    make_real(session, kReason);
    session.fate.reject(kReason);
    if (where != nullptr) result = forward(event);  // the stream comes behind its own operations alone now
  }
  if (known == nullptr) work_counts().note_work(plain_handle(stream));
  if (result != hipSuccess) {
    session.fate.reject("a stream wait failed");  // the next call makes a shell real, as in record_in()
    return result;
  }
  // The null stream never takes part in a capture, so it is not added: those who ask for its capture must find none.
  const hipStream_t plain = plain_handle(stream);
  if (where == nullptr && (plain == nullptr || plain == kStreamLegacy)) {
    work_counts().note_work(plain);
    return result;
  }
  std::uint64_t object = kExternalEvent;  // performed at once by the runtime (rule 6); no edge
  if (known != nullptr) {
    object = session.streams.number(*known);
    where = &join(session, key, stream, *known, {replace, before_known ? &before : nullptr});
    if (put_off) where->join_put_off = awaited;
  } else if (where == nullptr) {
    return result;
  }
  Signature signature = session.signature_on(*where);
  signature.kind = OperationKind::kWait;
  signature.object = object;
  // A stream that joins an invalidated capture is captured all the same, and comes behind what was withheld.
  if (session.shell() && session.fate.invalid())
    make_real(session, "a stream joined the invalidated capture", &signature);
  session.take_bare(signature, "a stream wait differs from every recording");
  return result;
}

void stream_left(CaptureSession& session, StreamKey key) {
  constexpr const char* kReason = "a stream of the capture began another";
  if (session.streams.is_origin(key)) {
    session.matcher.leave_shell();  // the runtime has dropped the capture: what was withheld must not reach the new one
    session.fate.invalidate();
    session.fate.reject(kReason);
  } else if (CapturedStream* const stream = session.streams.find(key)) {
    stream->left = true;
    session.expose(kReason);
    session.streams.forget(key);
  }
  session.renew();
}

// A stream by which no other took part leaves nothing in the runtime but its nodes.
void stream_destroyed(CaptureSession& session, StreamKey key) {
  session.note_feed(key);
  if (!session.fate.invalid()) session.check_status();
  CapturedStream* const where = session.streams.find(key);
  const bool origin = session.streams.is_origin(key);
  if (session.fate.invalid() || where == nullptr || where->left || origin || session.streams.joined_others(key)) {
    session.expose("a stream of the capture was destroyed");
  } else {
    session.follow_on(key);
    Signature signature = session.signature_on(*where);
    signature.kind = OperationKind::kLeave;
    session.take_bare(signature, "the end of a stream differs from every recording");
    where->destroyed = true;
    drop_join(*where);  // if the capture has become real, the join was made
  }
  if (origin) return;
  session.streams.forget(key);
  session.renew();
}

void thread_ended(CaptureSession& session, StreamKey key) noexcept {
  session.fate.reject("a thread ended whose own stream took part in the capture");
  if (session.streams.is_origin(key)) {
    session.matcher.leave_shell();
    session.fate.invalidate();
  } else {
    session.streams.forget(key);
  }
  session.renew();
}

}  // namespace graphpool
