// trace_file.h: writes the trace (base/trace.h) to a file of Chrome's trace events in JSON, which Perfetto and
// about:tracing show. README.md says what each event is.
//
// Threads: one at a time writes (the lock of report.cpp). Writing takes host memory by the number of events.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "shim/base/trace.h"
#include "shim/report/report_file.h"

namespace graphpool {

/// The names of graphs in a trace, by their numbers: "gemm .. adamw".
using TraceGraphs = std::map<std::uint64_t, std::string>;

/// Traces from now on, for a file of this pattern (report_file.h). Does nothing for an empty pattern, or when called
/// again. Logs a warning where the file could not be written now.
void open_trace(std::string_view pattern) noexcept;

/// Writes what was seen so far, into one file of the process; the first call chooses its name, which no other plain
/// file has. Logs a warning where that fails. Does nothing where nothing is traced for a file.
void write_trace(const TraceGraphs& graphs);

/// What write_trace() wrote last.
struct TraceWritten {
  std::string name;  ///< empty: nothing yet
  std::uint64_t events = 0, lost = 0;
};
/// Null: nothing is traced for a file.
const TraceWritten* trace_written() noexcept;

/// The file's text, sorted by time, in pieces. Returns false where one of them could not be written.
bool write_trace_text(const TraceSeen& seen, const TraceGraphs& graphs, WritePiece write);

}  // namespace graphpool
