// report.h: what the library did, as one JSON object, written when the process ends and, if asked for, again and again
// before: a process that hangs or is killed has left one.
//
// Threads: any; one at a time writes. A report is made of counters, which are read under locks that no thread holds
// across a call of the runtime that can wait. So a report can be written while the program hangs in the runtime.
#pragma once

#include <chrono>
#include <string_view>

namespace graphpool {

/// Registers the report for the end of the process: `pattern` names the file; empty: only the line of summary. With
/// `every` above 0 a thread, started by the first such call, writes the file so often until then.
void write_reports(std::string_view pattern, std::chrono::nanoseconds every) noexcept;

}  // namespace graphpool
