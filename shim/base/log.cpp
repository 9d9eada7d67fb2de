// log.cpp: see log.h. The one file that includes spdlog, headers only. Of spdlog it uses the logger alone: not the
// registry, whose default logger prints to stdout and is destroyed at exit, and none of its sinks, which would lock and
// so hang a forked child.
#define SPDLOG_HEADER_ONLY
#define SPDLOG_FMT_EXTERNAL
#define FMT_HEADER_ONLY
#include "shim/base/log.h"

#include <fcntl.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/sink.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <new>

#include "shim/base/file_signals.h"
#include "shim/base/guest_scope.h"
#include "shim/base/launcher_rank.h"

namespace graphpool {

constinit std::atomic<LogLevel> g_log_level{LogLevel::kWarn};

namespace {

/// A log file. Device and inode tell whether the descriptor is still ours: the host may close it and get its number for
/// a file of its own.
struct LogFile {
  int descriptor;
  dev_t device;
  ino_t inode;
  std::string path;
  LogFile* made_before;  ///< so that leak checkers still see what was replaced
};

constinit std::atomic<LogFile*> g_last_made{nullptr};
constinit std::atomic<LogFile*> g_file{nullptr};  // null: stderr. Never destroyed, nor are those it replaces.
constinit std::atomic<spdlog::logger*> g_logger{nullptr};

/// The process began without standard error: what has its number now is a file of the host's.
constinit bool g_no_stderr = false;
/// " rank 3", or empty. Read before the host has threads that could change the environment meanwhile.
constinit char g_rank_text[24] = "";
__attribute__((constructor)) void look_at_process() noexcept {
  const int saved_errno = errno;
  g_no_stderr = fcntl(STDERR_FILENO, F_GETFD) < 0;
  if (const char* const rank = launcher_rank()) std::snprintf(g_rank_text, sizeof g_rank_text, " rank %s", rank);
  errno = saved_errno;
}

int open_file(const char* path) noexcept {
  const int low = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0666);
  if (low < 0) return low;
  // A high number, for hosts that count on getting the lowest free one.
  constexpr int kLeastDescriptor = 200;
  const int high = fcntl(low, F_DUPFD_CLOEXEC, kLeastDescriptor);
  if (high < 0) return low;
  close(low);
  return high;
}

LogFile* make_file(const std::string& path) noexcept {
  const int descriptor = open_file(path.c_str());
  struct stat status {};
  if (descriptor < 0) return nullptr;
  if (fstat(descriptor, &status) == 0) {
    try {
      auto* file = new LogFile{descriptor, status.st_dev, status.st_ino, path, g_last_made.load()};
      while (!g_last_made.compare_exchange_weak(file->made_before, file)) {
      }
      return file;
    } catch (const std::bad_alloc&) {
    }
  }
  close(descriptor);
  return nullptr;
}

/// Where to write now; -1: nowhere.
int descriptor_now() noexcept {
  LogFile* file = g_file.load(std::memory_order_acquire);
  if (!file) return g_no_stderr ? -1 : STDERR_FILENO;
  struct stat status {};
  if (fstat(file->descriptor, &status) == 0 && status.st_dev == file->device && status.st_ino == file->inode) {
    return file->descriptor;
  }
  // The host closed it. The number is not ours any more, so it is left alone.
  LogFile* again = make_file(file->path);
  if (!again) return -1;
  if (g_file.compare_exchange_strong(file, again, std::memory_order_acq_rel)) return again->descriptor;
  close(again->descriptor);
  return file->descriptor;
}

/// Writes a line by one system call, so that lines of several threads and processes stay whole.
void write_line(std::string_view level, std::string_view message) noexcept {
  char head[80];
  const int head_bytes = std::snprintf(head, sizeof head, "graphpool[%d%s]: %.*s: ", static_cast<int>(getpid()),
                                       g_rank_text, static_cast<int>(level.size()), level.data());
  const std::string_view who(head, static_cast<std::size_t>(head_bytes));
  const std::size_t room_bytes = kLongestLineBytes - who.size() - 1;
  auto part = [](std::string_view text) { return iovec{const_cast<char*>(text.data()), text.size()}; };
  const iovec parts[] = {part(who), part(message.substr(0, room_bytes)), part("\n")};
  const int descriptor = descriptor_now();
  if (descriptor < 0) return;
  const NoFileSignals no_signals;
  while (writev(descriptor, parts, std::size(parts)) < 0 && errno == EINTR) {
  }
}

class LineSink final : public spdlog::sinks::sink {
 public:
  void log(const spdlog::details::log_msg& message) override {
    const spdlog::string_view_t level = spdlog::level::to_string_view(message.level);
    write_line({level.data(), level.size()}, {message.payload.data(), message.payload.size()});
  }
  void flush() override {}
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}
};

spdlog::level::level_enum spdlog_level(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::kOff:
      return spdlog::level::off;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kTrace:
      return spdlog::level::trace;
  }
  return spdlog::level::off;
}

constinit thread_local LogLater* t_later __attribute__((tls_model("initial-exec"))) = nullptr;

}  // namespace

struct LogLater::Line {
  Line* next;
  LogLevel level;
  std::size_t bytes;
  char text[kLongestLineBytes];
};

bool keep_for_later(LogLevel level, std::string_view message) noexcept {
  if (t_later == nullptr) return false;
  auto* const line = new (std::nothrow) LogLater::Line{nullptr, level, message.size(), {}};
  if (line == nullptr) return false;
  message.copy(line->text, sizeof line->text);
  *t_later->end_ = line;
  t_later->end_ = &line->next;
  return true;
}

namespace {

void emit(LogLevel level, std::string_view message) noexcept {
  if (keep_for_later(level, message)) return;
  const spdlog::level::level_enum its_level = spdlog_level(level);
  if (spdlog::logger* logger = g_logger.load(std::memory_order_acquire)) {
    try {
      logger->log(its_level, spdlog::string_view_t(message.data(), message.size()));
    } catch (...) {
    }
    return;
  }
  const spdlog::string_view_t name = spdlog::level::to_string_view(its_level);
  write_line({name.data(), name.size()}, message);
}

/// Lines written in one second of the monotonic clock: the second in the high 32 bits, their number in the low ones.
constinit std::atomic<std::uint64_t> g_second_and_lines{0};
constinit std::atomic<std::uint64_t> g_left_out{0};

bool within_rate() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::uint64_t second = static_cast<std::uint64_t>(now.tv_sec) << 32;
  std::uint64_t seen = g_second_and_lines.load(std::memory_order_relaxed);
  for (;;) {
    const bool same_second = (seen >> 32 << 32) == second;
    if (same_second && (seen & 0xffffffffu) >= kMostPerSecond) return false;
    const std::uint64_t next = same_second ? seen + 1 : second + 1;
    if (g_second_and_lines.compare_exchange_weak(seen, next, std::memory_order_relaxed)) return true;
  }
}

/// Takes a message's place within the rate. Returns false if there is none: the message is left out.
bool take_place(LogLevel level) noexcept {
  if (level > LogLevel::kInfo || within_rate()) return true;
  g_left_out.fetch_add(1, std::memory_order_relaxed);
  return false;
}

/// Writes a message that has its place.
void write_message(LogLevel level, const char* format, std::va_list arguments) noexcept {
  const GuestScope guest;
  if (level <= LogLevel::kInfo) {
    if (const std::uint64_t left_out = g_left_out.exchange(0, std::memory_order_relaxed)) {
      char text[64];
      const int length = std::snprintf(text, sizeof text, "%llu messages left out, too many a second",
                                       static_cast<unsigned long long>(left_out));
      emit(LogLevel::kWarn, {text, static_cast<std::size_t>(length)});
    }
  }
  char text[kLongestLineBytes];
  const int wanted = std::vsnprintf(text, sizeof text, format, arguments);
  const std::size_t length_bytes = wanted < 0 ? 0 : std::min(static_cast<std::size_t>(wanted), sizeof text - 1);
  for (std::size_t i = 0; i < length_bytes; ++i) {
    if (static_cast<unsigned char>(text[i]) < 0x20 || text[i] == 0x7f) text[i] = ' ';
  }
  emit(level, {text, length_bytes});
}

/// Hashes of the keys of log_once(), by open addressing. 0: a free place.
constexpr std::size_t kOnceKeys = 1024;
constinit std::atomic<std::uint64_t> g_once[kOnceKeys] = {};

/// Whether the key is new and its message has a place within the rate. Then the key is used up. (Threads that bring new
/// keys at the same time may take a place too many.)
bool take_first_place(LogLevel level, std::string_view key) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  if (hash == 0) hash = 1;
  for (std::size_t i = 0; i < kOnceKeys; ++i) {
    std::atomic<std::uint64_t>& place = g_once[(hash + i) % kOnceKeys];
    std::uint64_t seen = place.load(std::memory_order_relaxed);
    if (seen == 0) {
      if (!take_place(level)) return false;
      if (place.compare_exchange_strong(seen, hash, std::memory_order_relaxed)) return true;
    }
    if (seen == hash) return false;
  }
  return false;
}

}  // namespace

LogLater::LogLater() noexcept : inside_another_(t_later != nullptr) {
  if (!inside_another_) t_later = this;
}

LogLater::~LogLater() {
  if (inside_another_) return;
  t_later = nullptr;
  const GuestScope guest;
  while (Line* const line = first_) {
    first_ = line->next;
    emit(line->level, {line->text, line->bytes});
    delete line;
  }
}

void open_log(LogLevel level, const std::string& path) noexcept {
  const GuestScope guest;
  g_log_level.store(level, std::memory_order_relaxed);
  LogFile* file = path.empty() ? nullptr : make_file(path);
  if (!path.empty() && !file) {
    char text[64];
    const char* reason = strerror_r(errno, text, sizeof text);
    g_file.store(nullptr, std::memory_order_release);
    log_error("cannot write the log file %s: %s", path.c_str(), reason);
  }
  g_file.store(file, std::memory_order_release);
  if (!g_logger.load(std::memory_order_relaxed)) {
    try {
      auto logger = std::make_unique<spdlog::logger>("graphpool", std::make_shared<LineSink>());
      logger->set_level(spdlog::level::trace);  // log_enabled() decides
      logger->set_error_handler([](const std::string&) {});
      g_logger.store(logger.release(), std::memory_order_release);
    } catch (...) {
    }
  }
}

#define GRAPHPOOL_WRITE_MESSAGE(level, has_place)  \
  if (!log_enabled(level) || !(has_place)) return; \
  std::va_list arguments;                          \
  va_start(arguments, format);                     \
  write_message(level, format, arguments);         \
  va_end(arguments)

void log_error(const char* format, ...) noexcept {
  GRAPHPOOL_WRITE_MESSAGE(LogLevel::kError, take_place(LogLevel::kError));
}
void log_warn(const char* format, ...) noexcept {
  GRAPHPOOL_WRITE_MESSAGE(LogLevel::kWarn, take_place(LogLevel::kWarn));
}
void log_info(const char* format, ...) noexcept {
  GRAPHPOOL_WRITE_MESSAGE(LogLevel::kInfo, take_place(LogLevel::kInfo));
}
void log_debug(const char* format, ...) noexcept {
  GRAPHPOOL_WRITE_MESSAGE(LogLevel::kDebug, take_place(LogLevel::kDebug));
}
void log_trace(const char* format, ...) noexcept {
  GRAPHPOOL_WRITE_MESSAGE(LogLevel::kTrace, take_place(LogLevel::kTrace));
}

void log_once(LogLevel level, std::string_view key, const char* format, ...) noexcept {
  GRAPHPOOL_WRITE_MESSAGE(level, take_first_place(level, key));
}

#undef GRAPHPOOL_WRITE_MESSAGE

}  // namespace graphpool
