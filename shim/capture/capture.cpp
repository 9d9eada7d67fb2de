#include "shim/capture/capture.h"

#include <utility>
#include <vector>

#include "shim/base/hot.h"
#include "shim/capture/bypass.h"
#include "shim/capture/capture_ends.h"
#include "shim/capture/capture_sink.h"
#include "shim/capture/fork_events.h"
#include "shim/capture/forks.h"
#include "shim/capture/keeping_events.h"
#include "shim/capture/leave_midway.h"
#include "shim/capture/left_alone.h"
#include "shim/capture/make_real.h"
#include "shim/capture/put_off_joins.h"
#include "shim/capture/session.h"
#include "shim/capture/session_list.h"
#include "shim/costs/step_costs.h"
#include "shim/hip/next.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"
#include "shim/memory/freed_memory.h"
#include "shim/recording/node_creation.h"
#include "shim/staging/rings.h"
#include "shim/staging/staging.h"
#include "shim/streams/launch_marks.h"
#include "shim/streams/outstanding_uses.h"

namespace graphpool {

// --- operations ---

/// Asks the runtime whether a stream takes part in a capture that the library left to it.
static bool takes_part_unseen(StreamArgument stream) noexcept {
  if (!any_left_alone()) return false;
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  const hipStream_t handle = plain_handle(stream);
  return PrivateCalls::answered([&] { return next().hipStreamIsCapturing(handle, &status); }) &&
         status == hipStreamCaptureStatusActive;
}

/// Makes an operation on a stream that takes part in no capture that is followed.
static hipError_t operation_elsewhere(StreamArgument stream, StreamKey key, Describe describe, Forward forward) {
  make_joins();
  note_capture_doubt();  // work on another stream: the null stream's, for one, may invalidate
  if (is_left_alone(key) || takes_part_unseen(stream)) {
    const NodeCreation making;
    return forward();
  }
  const hipError_t result = retry_with_room(forward);
  work_counts().note_work(plain_handle(stream));
  if (uses_tracked()) note_use(stream, describe);
  return result;
}

hipError_t operation_while_capturing(StreamArgument stream, Describe describe, Forward forward) {
  const TimedCall timed;
  const StreamKey key = stream_key(stream);
  if (left_alone_here(key)) {
    ++t_step.operations;
    const NodeCreation making;
    return forward();
  }
  if (t_fed.stream == key) {
    CaptureSession& fed = *t_fed.session;
    UniqueLock guard(fed.lock);
    if (fed.serial == t_fed.serial) {
      const hipError_t result = fed.operation(key, stream, describe, forward);
      const bool at_once = fed.fate.ran_at_once(), midway = is_new_midway(fed);
      guard.unlock();
      if (at_once) [[unlikely]]
        leave_to_runtime(stream);
      if (midway) leave_midway(key);
      return result;
    }
  }
  const auto session = open_sessions().find(key);
  if (session == nullptr) return operation_elsewhere(stream, key, describe, forward);
  UniqueLock guard(session->lock);
  if (!session->has_stream(key)) [[unlikely]] {
    guard.unlock();
    return operation_elsewhere(stream, key, describe, forward);
  }
  t_fed = Fed{key, session.get(), session->serial};
  const hipError_t result = session->operation(key, stream, describe, forward);
  const bool at_once = session->fate.ran_at_once(), midway = is_new_midway(*session);
  guard.unlock();
  if (at_once) [[unlikely]]
    leave_to_runtime(stream);
  if (midway) leave_midway(key);
  return result;
}

void note_use(StreamArgument stream, Describe describe) {
  // HIP before 7: a call of the library's would replace the error of the program's call.
  if (runtime_version() < kKeepsErrors && next().hipPeekAtLastError() != hipSuccess) return;
  if (!outstanding_uses().several(stream)) return;
  Binding payload;
  std::vector<Operation> operation(1);
  OperationWriter writer(operation[0].signature, payload, nullptr);
  OutstandingUses::Bases bases;
  if (describe(writer) == Status::kOk) {
    operation[0].layout = writer.layout();
    wholly_staged(operation, payload, &bases);
  } else {
    bases.push_back(nullptr);
  }
  outstanding_uses().used(stream, bases, nullptr);
}

HOT bool in_open_capture(StreamArgument stream) {
  if (!captures_open()) return false;
  const StreamKey key = stream_key(stream);
  return open_sessions().find(key) != nullptr || is_left_alone(key);
}

hipError_t other_stream_work(StreamArgument stream, Forward forward) {
  if (captures_open()) {
    note_capture_doubt();
    expose_capture(stream, "an operation that the library does not follow");
  }
  const hipError_t result = in_open_capture(stream) ? forward() : retry_with_room(forward);
  work_counts().note_work(plain_handle(stream));
  if (uses_tracked() && result == hipSuccess && outstanding_uses().several(stream))
    outstanding_uses().used_unseen(stream);
  return result;
}

// --- events ---

hipError_t record_event(hipEvent_t event, StreamArgument stream, Forward forward_only) {
  const TimedCall timed;
  if (fresh_streams().awaits(event)) make_joins();
  if (captures_open() && nobody_looks()) return forward_only();
  const auto forward = [&] {
    const hipError_t result = forward_only();
    if (uses_tracked() && result == hipSuccess) outstanding_uses().recorded(event, stream);
    return result;
  };
  if (!captures_open()) return forward();
  const StreamKey key = stream_key(stream);
  if (const auto session = open_sessions().find(key); session != nullptr) {
    const bool of_another = open_sessions().forget_event(event, session.get());
    const LockGuard guard(session->lock);
    if (session->has_stream(key)) return record_in(*session, key, event, of_another, forward_only);
  }
  make_joins();
  const hipError_t result = forward();
  // The event now stands for nothing of a capture that is followed.
  const auto other = result == hipSuccess ? open_sessions().find_event(event) : nullptr;
  if (other != nullptr) {
    const LockGuard guard(other->lock);
    other->streams.event_recorded_elsewhere(event);
  }
  return result;
}

/// Makes a wait that the runtime performs: it is work of the stream's.
static hipError_t wait_outside(StreamArgument stream, hipEvent_t event, ForwardWait forward) {
  const hipError_t result = forward(event);
  work_counts().note_work(plain_handle(stream));
  if (uses_tracked() && result == hipSuccess) outstanding_uses().waited(stream, event);
  return result;
}

/// Makes a wait while captures are open of which none is looked into.
static hipError_t wait_unseen(StreamArgument stream, hipEvent_t event, ForwardWait forward) {
  leave_stream(stream_key(stream));  // it may join the capture
  // Or not, and then this is work of the stream's.
  if (t_step.left_alone)
    work_counts().note_work_anywhere();
  else
    work_counts().note_work(plain_handle(stream));
  return forward(event);
}

hipError_t wait_event(StreamArgument stream, hipEvent_t event, ForwardWait forward_only) {
  const TimedCall timed;
  if (captures_open() && nobody_looks()) return wait_unseen(stream, event, forward_only);
  if (!captures_open()) return wait_outside(stream, event, forward_only);
  const auto forward = [&](hipEvent_t named) {
    const hipError_t result = forward_only(named);
    if (result != hipSuccess) note_capture_doubt();  // two captures that meet are both invalidated
    return result;
  };
  const StreamKey key = stream_key(stream);
  if (const auto session = open_sessions().find(key); session != nullptr) {
    UniqueLock guard(session->lock);
    if (joins_put_off() && session->streams.find_event(event) == nullptr) {
      guard.unlock();
      make_joins();  // the wait may make two captures meet
      guard.lock();
    }
    if (session->has_stream(key)) return wait_in(*session, key, stream, event, forward);
  }
  const auto joined = open_sessions().find_event(event);
  if (joined == nullptr) {
    make_joins();
    return wait_outside(stream, event, forward);
  }
  leave_stream(key);
  hipError_t result;
  {
    const LockGuard guard(joined->lock);
    result = wait_in(*joined, key, stream, event, forward);
    if (joined->streams.find(key) == nullptr) return result;
  }
  open_sessions().join(key, joined);
  return result;
}

void events_leave_destroyed(hipStream_t stream) noexcept {
  if (!is_stream_handle(stream)) return;
  const StreamKey key = stream_key({stream, false});
  rings_before_destroy(key, 1);
  fork_events().streams_destroyed(key, 1);
  launches_stream_destroyed(key);
}

void capture_event_destroyed(hipEvent_t event) noexcept {
  if (uses_tracked()) outstanding_uses().event_destroyed(event);
  keeping_events().event_destroyed(event);
  if (!captures_open()) return;
  open_sessions().event_destroyed(event);
}

void capture_stream_destroyed(hipStream_t stream) noexcept {
  if (!captures_open()) return;
  const StreamKey key = stream_key({stream, false});
  if (close_left_alone(key)) return;
  const auto session = open_sessions().find(key);
  if (session == nullptr) return;
  bool origin;
  {
    const LockGuard guard(session->lock);
    stream_destroyed(*session, key);
    origin = session->streams.is_origin(key);
  }
  open_sessions().leave(key, session, origin);
}

// --- captures made real ---

HOT void expose_capture(StreamArgument stream, const char* reason) {
  if (!captures_open()) return;
  const auto session = open_sessions().find(stream_key(stream));
  if (session == nullptr) return;
  const LockGuard guard(session->lock);
  session->expose(reason);
  session->follow_on(stream_key(stream));
}

/// Calls use(session) for every open capture that is followed, under its lock.
template <typename Use>
static void for_all_sessions(const Use& use) {
  if (!captures_open()) return;
  for (const auto& session : open_sessions().all()) {
    const LockGuard guard(session->lock);
    use(*session);
  }
}

void materialise_open_captures(const char* reason) {
  for_all_sessions([reason](CaptureSession& session) {
    assume_held(session.lock);
    if (session.shell()) make_real(session, reason);
  });
}

void materialise_captures_naming(const void* address, std::size_t bytes, const char* reason) {
  for_all_sessions([=](CaptureSession& session) {
    assume_held(session.lock);
    if (session.shell() && (bytes == 0 || names_memory(session.recorder.binding(), address, bytes)))
      make_real(session, reason);
  });
}

void materialise_captures_with(OperationTest test, const char* reason) {
  for_all_sessions([=](CaptureSession& session) {
    assume_held(session.lock);
    if (session.shell() && session.matcher.withholds(test)) make_real(session, reason);
  });
}

void end_comparing_with(OperationTest test, const char* reason) {
  for_all_sessions([=](CaptureSession& session) {
    assume_held(session.lock);
    if (!session.has(test)) return;
    if (session.shell()) make_real(session, reason);
    session.fate.reject(reason);
  });
}

void end_walks(const char* reason) {
  for_all_sessions([reason](CaptureSession& session) {
    assume_held(session.lock);
    session.leave_tree(reason);
  });
}

void memory_goes(const void* address, std::size_t bytes, const char* reason) {
  note_memory_freed();
  materialise_captures_naming(address, bytes, reason);
  capture_sink().memory_leaves(address, bytes, reason);
  note_memory_freed();  // execs were made of graphs that name it
}

void note_unknown_operation(EntryId) noexcept {
  note_capture_doubt();
  for_all_sessions([](CaptureSession& session) {
    assume_held(session.lock);
    session.expose("an operation that the library does not follow");
  });
}

}  // namespace graphpool
