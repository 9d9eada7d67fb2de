// report.h: what the library did, as one JSON object, written when the process ends.
//
// Threads: write_report() once, at exit; everything it reads is counters. No lock is held while the file is written.
#pragma once

#include <string>
#include <string_view>

namespace graphpool {

/// The name a pattern stands for in this process: %p process id, %r rank (of the usual launchers; 0), %h host name.
std::string expand_report_name(std::string_view pattern);

/// The report as JSON text.
std::string report_text();

/// Registers the report for the end of the process: `pattern` names the file; empty: only the line of summary.
void write_report_at_exit(std::string_view pattern) noexcept;

}  // namespace graphpool
