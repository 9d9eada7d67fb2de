// put_off_joins.h: puts off telling the runtime that streams join withheld captures (streams/fresh_streams.h).
//
// The program makes a stream and lets it wait for an event of a shell. The library puts this wait off: it does not tell
// the runtime yet. Two kinds of calls would show that: a call that names the stream (but for those that
// streams/fresh_streams.h lists), and a call that may invalidate captures. Before such a call, by any thread, the
// library tells the runtime all waits that it has put off. It also does so before the capture ends or becomes real. If
// the program destroys the stream first, the runtime is never told.
// Threads: any.
#pragma once

#include "shim/capture/session.h"
#include "shim/hip/hook_table.h"
#include "shim/streams/fresh_streams.h"

namespace graphpool {

/// Puts off the stream's wait for this event of the shell, where that is possible. Returns whether it did.
bool put_off_join(CaptureSession& session, StreamArgument stream, const CapturedEvent& event) REQUIRES(session.lock);
/// Tells the runtime the joins of this capture.
void make_joins(CaptureSession& session) REQUIRES(session.lock);
/// Forgets the stream's join, if it is put off: the stream leaves the capture.
void drop_join(CapturedStream& stream) noexcept;

/// Tells the runtime all joins that are put off. Call it without a lock held.
void make_joins_now() noexcept;
inline void make_joins() noexcept {
  if (joins_put_off()) [[unlikely]]
    make_joins_now();
}

/// Whether the call leaves joins as they are, as long as it names no stream of theirs: it invalidates no capture, or
/// tells the runtime all joins itself where it may.
constexpr bool leaves_joins(EntryId call) noexcept {
  switch (call) {
    case EntryId::hipEventRecord:
    case EntryId::hipGraphRetainUserObject:
    case EntryId::hipLaunchKernel:
    case EntryId::hipModuleLaunchKernel:
    case EntryId::hipStreamCreateWithFlags:
    case EntryId::hipStreamCreateWithPriority:
    case EntryId::hipStreamDestroy:
    case EntryId::hipStreamGetCaptureInfo_v2:
    case EntryId::hipStreamUpdateCaptureDependencies:
    case EntryId::hipStreamWaitEvent:
      return true;
    default:
      return false;
  }
}
}  // namespace graphpool
