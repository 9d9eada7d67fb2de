#include "shim/log.h"

#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>

namespace graphpool {
namespace {

void write_line(const char* level, const char* format, std::va_list arguments) noexcept {
  const int saved_errno = errno;
  char line[1024];
  const int head = std::snprintf(line, sizeof line, "graphpool: %s: ", level);
  const int body = std::vsnprintf(line + head, sizeof line - static_cast<std::size_t>(head) - 1, format, arguments);
  std::size_t length = static_cast<std::size_t>(head + (body < 0 ? 0 : body));
  if (length > sizeof line - 2) length = sizeof line - 2;
  line[length] = '\n';
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line, length + 1);
  errno = saved_errno;
}

}  // namespace

void log_error(const char* format, ...) noexcept {
  std::va_list arguments;
  va_start(arguments, format);
  write_line("error", format, arguments);
  va_end(arguments);
}
void log_warn(const char* format, ...) noexcept {
  std::va_list arguments;
  va_start(arguments, format);
  write_line("warning", format, arguments);
  va_end(arguments);
}
void log_info(const char*, ...) noexcept {}
void log_debug(const char*, ...) noexcept {}

}  // namespace graphpool
