// log.h: writes what the library says: one line for each message, "graphpool[4711]: warning: ...", to stderr or the
// policy's file, never to stdout. The brackets hold the process, and its rank where a launcher gave it one: "[4711 rank
// 3]". Formats are those of printf. A line longer than kLongestLineBytes is cut.
//
// Where the process began without stderr, nothing is written there: the number may be a file of the host's.
// Works at any time: before open_log() (level warn, stderr), after exit handlers, in a forked child; takes no lock, and
// allocates only in open_log(), for LogLater, and to open the file anew where the host has closed it. Keeps errno; a
// closed pipe behind stderr does not kill the host. Rate: at most kMostPerSecond messages a second of level info and
// above; a later line says how many were left out. Threads: all functions from any thread; lines never mix. Call them
// without holding a ranked lock (else LogLater): a full pipe behind stderr makes them wait.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>

#include "policy/values.h"

namespace graphpool {

inline constexpr std::size_t kLongestLineBytes = 1024;
inline constexpr unsigned kMostPerSecond = 50;

/// The least severe level written; see log_enabled().
extern std::atomic<LogLevel> g_log_level;

/// Takes level and place from the policy. file: appended to; empty: stderr. If it cannot be opened, one line says so
/// and the log goes to stderr. Called once, at start (tests call it again).
void open_log(LogLevel level, const std::string& file) noexcept;

/// Whether messages of this level are written. Ask it before you make a message that costs something.
[[nodiscard]] inline bool log_enabled(LogLevel level) noexcept {
  return level <= g_log_level.load(std::memory_order_relaxed);
}

void log_error(const char* format, ...) noexcept __attribute__((format(printf, 1, 2)));
void log_warn(const char* format, ...) noexcept __attribute__((format(printf, 1, 2)));
void log_info(const char* format, ...) noexcept __attribute__((format(printf, 1, 2)));
void log_debug(const char* format, ...) noexcept __attribute__((format(printf, 1, 2)));
void log_trace(const char* format, ...) noexcept __attribute__((format(printf, 1, 2)));

/// Writes only the first message with this key in this process. After a thousand keys, messages with new keys are not
/// written.
void log_once(LogLevel level, std::string_view key, const char* format, ...) noexcept
    __attribute__((format(printf, 3, 4)));

/// Keeps this thread's messages until the scope ends, and writes them then: for code that runs under a lock. Of nested
/// scopes the outermost writes. A message for which there is no host memory is written at once.
class LogLater {
 public:
  LogLater() noexcept;
  ~LogLater();
  LogLater(const LogLater&) = delete;
  LogLater& operator=(const LogLater&) = delete;

 private:
  friend bool keep_for_later(LogLevel level, std::string_view message) noexcept;
  struct Line;
  bool inside_another_;
  Line* first_ = nullptr;
  Line** end_ = &first_;
};

}  // namespace graphpool
