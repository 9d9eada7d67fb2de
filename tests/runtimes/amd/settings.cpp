#include "settings.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace hsa_cpu {
namespace {

std::string text(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

long number(const char* name, long otherwise) {
  const std::string value = text(name, "");
  if (value.empty()) return otherwise;
  char* end = nullptr;
  const long result = std::strtol(value.c_str(), &end, 0);
  if (*end == '\0' && result >= 0) return result;
  complain("%s=%s: expected a number; taken for %ld", name, value.c_str(), otherwise);
  return otherwise;
}

std::string format_line(const char* before, const char* format, va_list arguments) {
  char line[2048];
  const int start = std::snprintf(line, sizeof line, "%s", before);
  std::vsnprintf(line + start, sizeof line - static_cast<std::size_t>(start) - 1, format, arguments);
  std::strcat(line, "\n");
  return line;
}

void write_all(int file, const std::string& line) {
  if (write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) return;  // nobody reads it
}

int journal_file() {
  static const int file = settings().journal.empty()
                              ? -1
                              : open(settings().journal.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  return file;
}

}  // namespace

const Settings& settings() {
  static const Settings* const read = new Settings{static_cast<int>(number("HSACPU_DEVICES", 1)),
                                                   static_cast<std::size_t>(number("HSACPU_MEMORY", 8L << 30)),
                                                   text("HSACPU_ISA", "gfx906:sramecc-:xnack-"),
                                                   number("HSACPU_LARGE_BAR", 0) != 0,
                                                   static_cast<unsigned>(number("HSACPU_DELAY", 0)),
                                                   number("HSACPU_FAIL_AT", 0),
                                                   number("HSACPU_KERNELS", 1) != 0,
                                                   text("HSACPU_JOURNAL", ""),
                                                   static_cast<int>(number("HSACPU_CHECKED", 0))};
  return *read;
}

void complain(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_all(STDERR_FILENO, format_line("hsa on the cpu: ", format, arguments));
  va_end(arguments);
}

bool journal_kept() { return journal_file() >= 0; }

void journal(const char* format, ...) {
  if (!journal_kept()) return;
  va_list arguments;
  va_start(arguments, format);
  write_all(journal_file(), format_line("", format, arguments));
  va_end(arguments);
}

void delay() {
  const unsigned longest_us = settings().delay_us;
  if (longest_us == 0) return;
  static std::atomic<unsigned> calls{0};
  unsigned state = calls.fetch_add(1, std::memory_order_relaxed) * 2654435761u + 12345u;
  state ^= state >> 15;
  const long us = state % (longest_us + 1);
  const timespec span{us / 1000000, us % 1000000 * 1000};
  nanosleep(&span, nullptr);
}

}  // namespace hsa_cpu
