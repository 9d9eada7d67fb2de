// log.h: what the library says, on stderr or in the policy's file, never on stdout. printf formats; one line a message,
// "graphpool: warning: ...". Works before anything is set up; keeps errno. Call it without holding a lock.
#pragma once

namespace graphpool {

void log_error(const char* format, ...) noexcept __attribute__((format(printf, 1, 2)));
void log_warn(const char* format, ...) noexcept __attribute__((format(printf, 1, 2)));
void log_info(const char* format, ...) noexcept __attribute__((format(printf, 1, 2)));
void log_debug(const char* format, ...) noexcept __attribute__((format(printf, 1, 2)));

}  // namespace graphpool
