// report.h: writes what the library did, as one JSON object, when the process ends. If asked for it also writes it
// again and again before: then a process that hangs or is killed has left a report.
//
// Threads: any; one at a time writes. A report is made of counters, which are read under locks that no thread holds
// across a call of the runtime that can wait. So a report can be written while the program hangs in the runtime.
#pragma once

#include <chrono>
#include <string_view>

namespace graphpool {

/// Registers the report for the end of the process: `pattern`, that of the first call, names the file; empty: only the
/// line of summary, and the trace if there is one. With `every` above 0, and a file or a trace to write, a thread that
/// the first such call starts writes them at this interval until the end.
void write_reports(std::string_view pattern, std::chrono::nanoseconds every) noexcept;

}  // namespace graphpool
