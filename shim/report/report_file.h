// report_file.h: the file a report goes to: its name, whether it can be written, and writing it.
//
// Threads: one at a time (the lock of report.cpp).
#pragma once

#include <string>
#include <string_view>

namespace graphpool {

/// The rank that the usual launchers give a process; "0" without one.
std::string rank_of_process();
std::string host_name();

/// The name a pattern stands for in this process: %p process id, %r rank (of the usual launchers; 0), %h host name, %u
/// nothing, or, from the second name on, "-" and its number: for a name that is not there yet.
std::string expand_report_name(std::string_view pattern, unsigned number = 1);

/// The name for this process. With %u in the pattern a file of that name is made here, so that no other process's is
/// taken; the same name is to be used from then on.
std::string claim_report_name(std::string_view pattern);

/// Null, or why a file of this name could not be written now: a static text. Makes no file.
const char* why_unwritable(const std::string& name);

/// A plain file is replaced once all is written: who reads it meanwhile, or is left with it by a process that was
/// killed, has a whole one. What cannot be replaced is written to as it is. False: errno says why.
bool write_report_file(const std::string& name, const std::string& text);

}  // namespace graphpool
