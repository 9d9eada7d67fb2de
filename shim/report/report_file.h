// report_file.h: makes the name of the file that a report goes to, says whether it can be written, and writes it.
//
// Threads: any; no state. One at a time claims names and writes (the lock of report.cpp).
#pragma once

#include <string>
#include <string_view>

#include "shim/base/function_ref.h"

namespace graphpool {

/// The rank that the usual launchers give a process; "0" without one.
std::string rank_of_process();
std::string host_name();

/// Replaces the marks of a pattern (README.md has all of them) by what they stand for in this process. `number` is for
/// %u: 1 leaves it out, any other number is written as "-2", "-3" and so on.
std::string expand_report_name(std::string_view pattern, unsigned number = 1);

/// The marks of a pattern that stand for nothing, and so stay in the name: "%x, %y". Empty: there is none.
std::string unknown_marks(std::string_view pattern);
/// Logs a warning where a pattern has such marks. key: the policy's, for the message.
void warn_of_unknown_marks(const char* key, std::string_view pattern);

/// Returns the name of this process's file. Where the pattern has %u, takes the first name that no file has, and makes
/// an empty file of that name, so that no other process takes it. Call it once and use that name for all reports.
std::string claim_report_name(std::string_view pattern);

/// The same for a file that replaces none: where the pattern has no %u and there is a plain file of that name, a number
/// comes before the name's ending.
std::string claim_new_name(std::string_view pattern);

/// Returns null where a file of this name could be written now, else the reason as a static text. Makes no file.
const char* why_unwritable(const std::string& name);

/// Writes a report. If there is nothing of that name, or a plain file of this user without other names, a complete new
/// file takes its place: nobody reads half a report, even if the process is killed meanwhile. If `name` is something
/// else (a pipe, a link), or no new file can be made beside it, the report is written into `name` itself. Returns false
/// on failure; errno says why.
bool write_report_file(const std::string& name, const std::string& text);

/// Writes a piece of a file. Returns false on failure; errno says why.
using WritePiece = FunctionRef<bool(std::string_view text)>;
/// The same for a text that comes in pieces. `produce` writes them and returns false where one of them failed.
bool write_report_pieces(const std::string& name, FunctionRef<bool(WritePiece write)> produce);

}  // namespace graphpool
