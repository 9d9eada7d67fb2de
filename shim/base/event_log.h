// event_log.h: writes events of the trace (trace.h) as lines of the log.
//
//   graphpool[4711]: debug: capture, 101 operations, graph 2: recorded    what became of each capture, at level debug
//   graphpool[4711]: trace: launch, graph 2: patch                        each instantiate, update, launch: level trace
//
// Other events may be noted under a lock, where nothing may be logged: they are in the trace file only.
// Threads: any.
#pragma once

#include "shim/base/trace.h"

namespace graphpool {

/// Makes events for the log where its level asks for them. Call it once, after open_log().
void open_event_log() noexcept;

/// Writes the event's line, if it has one and the log's level is fine enough.
void log_event(const TraceEvent& event) noexcept;

}  // namespace graphpool
