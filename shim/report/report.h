// report.h: what the library did, as one JSON object, written when the process ends and, if asked for, again and again
// before: a process that hangs or is killed has left one.
//
// Threads: any; one at a time writes. What is read is counters, under locks that nobody holds across a call of the
// runtime that can wait: a process that hangs in one is reported on.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace graphpool {

/// The report as JSON text. `ended`: the process is about to end.
std::string report_text(bool ended);

/// Registers the report for the end of the process: `pattern` names the file; empty: only the line of summary. With
/// `every` above 0 a thread, started by the first such call, writes the file so often until then.
void write_reports(std::string_view pattern, std::chrono::nanoseconds every) noexcept;

}  // namespace graphpool
