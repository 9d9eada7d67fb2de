#include "shim/compile/jobserver.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace graphpool {
namespace {

constexpr std::string_view kAuth = "--jobserver-auth=", kOldAuth = "--jobserver-fds=", kFifo = "fifo:";
constexpr std::string_view kOffered = "libgraphpool-jobs-";
/// So many ancestors are looked at. A job that begins further up is taken to begin at the last of them.
constexpr int kMostAncestors = 32;

constinit TokenServer g_inherited;
/// The offered fifo, while this process keeps it, and whose it is.
constinit char g_offered[256] = "";
constinit pid_t g_offered_by = 0;

bool number(std::string_view text, int& value) noexcept {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && value >= 0;
}

/// The pipe or fifo behind a path or descriptor; inode 0: it is none.
TokenServer server_of(const struct stat& status) noexcept {
  if (!S_ISFIFO(status.st_mode)) return {};
  return {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino)};
}
TokenServer server_of_path(const char* path) noexcept {
  struct stat status {};
  return stat(path, &status) == 0 ? server_of(status) : TokenServer{};
}
TokenServer server_of_descriptor(int descriptor, int refused_mode) noexcept {
  struct stat status {};
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0 || (flags & O_ACCMODE) == refused_mode || fstat(descriptor, &status) != 0) return {};
  return server_of(status);
}

/// The pipe whose ends these are.
TokenServer server_of_ends(const int (&ends)[2]) noexcept {
  const TokenServer read_end = server_of_descriptor(ends[0], O_WRONLY);
  return read_end == server_of_descriptor(ends[1], O_RDONLY) ? read_end : TokenServer{};
}

/// Opens a pipe or fifo if it is still this one. For both directions: then a write finds a reader and raises no signal,
/// and the opening waits for nobody.
int open_if(const char* path, const TokenServer& server) noexcept {
  const int file = ::open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return -1;
  struct stat status {};
  if (fstat(file, &status) == 0 && server_of(status) == server) return file;
  close(file);
  return -1;
}

bool is_make(const Machine& machine, pid_t process) noexcept {
  char path[40], name[32];
  std::snprintf(path, sizeof path, "/proc/%d/comm", process);
  const ssize_t got = machine.read_file(path, name, sizeof name);
  const std::string_view text(name, got > 0 ? static_cast<std::size_t>(got) : 0);
  return text == "make\n" || text == "gmake\n";
}

/// Whether a process has a fifo open, as a client that reads from it keeps it.
bool has_open(pid_t process, const TokenServer& server) noexcept {
  char path[300];
  std::snprintf(path, sizeof path, "/proc/%d/fd", process);
  DIR* const folder = opendir(path);
  if (folder == nullptr) return false;
  bool found = false;
  for (const dirent* entry = nullptr; !found && (entry = readdir(folder)) != nullptr;) {
    if (entry->d_name[0] == '.') continue;
    std::snprintf(path, sizeof path, "/proc/%d/fd/%s", process, entry->d_name);
    found = server_of_path(path) == server;
  }
  closedir(folder);
  return found;
}

const char* offer_folder() noexcept {
  const char* const folder = std::getenv("XDG_RUNTIME_DIR");
  return folder != nullptr && folder[0] == '/' && access(folder, W_OK) == 0 ? folder : "/dev/shm";
}

/// "FOLDER/libgraphpool-jobs-PROCESS-START-SPACE": who offers it.
ProcessName offering_process(std::string_view path) noexcept {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (!name.starts_with(kOffered)) return {};
  ProcessName process;
  const char* const end = name.data() + name.size();
  const auto first = std::from_chars(name.data() + kOffered.size(), end, process.process);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') return {};
  const auto second = std::from_chars(first.ptr + 1, end, process.start_ticks);
  if (second.ec != std::errc() || second.ptr == end || *second.ptr != '-') return {};
  const auto third = std::from_chars(second.ptr + 1, end, process.space);
  return third.ec == std::errc() && third.ptr == end ? process : ProcessName{};
}

void remove_those_of_the_dead(const Machine& machine, const char* in) noexcept {
  DIR* const folder = opendir(in);
  if (folder == nullptr) return;
  while (const dirent* const entry = readdir(folder)) {
    const ProcessName process = offering_process(entry->d_name);
    if (process.process != 0 && process.space == machine.process_space() &&
        process_times(machine, process.process).start_ticks != process.start_ticks)
      unlinkat(dirfd(folder), entry->d_name, 0);
  }
  closedir(folder);
}

/// Keeps the file open to the end of the process, out of the way of the program's own descriptors.
bool keep(int file) noexcept {
  constexpr int kFirst = 200;
  const int kept = fcntl(file, F_DUPFD_CLOEXEC, kFirst);
  close(file);
  return kept >= 0;
}

__attribute__((destructor)) void remove_offered() noexcept {
  if (g_offered[0] == '\0' || g_offered_by != getpid()) return;
  const int saved_errno = errno;
  unlink(g_offered);
  errno = saved_errno;
}

/// Whether no process has the fifo open. It holds no bytes then: the last one that closes it loses them.
bool nobody_reads(const char* fifo) noexcept {
  const int file = ::open(fifo, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
  if (file >= 0) close(file);
  return file < 0 && errno == ENXIO;
}

}  // namespace

bool file_holds(const char* path, std::string_view text) noexcept {
  // In pieces that overlap by one byte less than the text has.
  char piece[4096];
  struct stat status {};
  if (stat(path, &status) != 0 || !S_ISREG(status.st_mode)) return false;
  const int file = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return false;
  bool found = text.empty();
  std::size_t kept = 0;
  while (!found) {
    const ssize_t got = read(file, piece + kept, sizeof piece - kept);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    const std::string_view all(piece, kept + static_cast<std::size_t>(got));
    found = all.find(text) != std::string_view::npos;
    const std::string_view end = all.substr(all.size() - std::min(all.size(), text.size() - 1));
    kept = end.size();
    std::copy(end.begin(), end.end(), piece);
  }
  close(file);
  return found;
}

MakeFlags parse_make_flags(const char* text) noexcept {
  MakeFlags flags;
  if (text == nullptr) return flags;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(word.size() + (word.size() < rest.size() ? 1 : 0));
    if (word == "--") break;  // variables follow
    int jobs = 0;
    if (word.starts_with("-j") && number(word.substr(2), jobs)) flags.jobs = static_cast<std::uint32_t>(jobs);
    const std::string_view option = word.starts_with(kAuth) ? kAuth : word.starts_with(kOldAuth) ? kOldAuth : "";
    if (option.empty()) continue;
    flags.option = word;  // the last one counts
    flags.auth = word.substr(option.size());
  }
  const std::size_t comma = flags.auth.find(',');
  if (flags.auth.starts_with(kFifo) && flags.auth.size() > kFifo.size()) {
    flags.fifo = flags.auth.substr(kFifo.size());
  } else if (comma == std::string_view::npos || !number(flags.auth.substr(0, comma), flags.read_end) ||
             !number(flags.auth.substr(comma + 1), flags.write_end)) {
    flags.auth = flags.option = {};
    flags.read_end = flags.write_end = -1;
  }
  return flags;
}

void remember_inherited_jobserver() noexcept {
  const char* const text = std::getenv("MAKEFLAGS");
  if (text == nullptr) return;
  const MakeFlags flags = parse_make_flags(text);
  if (flags.read_end >= 0) g_inherited = server_of_ends({flags.read_end, flags.write_end});
}

bool JobTokens::open(const Machine& machine) noexcept {
  const MakeFlags flags = parse_make_flags(std::getenv("MAKEFLAGS"));
  jobs_ = flags.jobs;
  if (flags.auth.empty()) return false;
  if (!flags.fifo.empty()) {
    if (flags.fifo.size() >= sizeof fifo_) return false;
    fifo_[flags.fifo.copy(fifo_, flags.fifo.size())] = '\0';
    server_ = server_of_path(fifo_);
  } else {
    descriptors_[0] = flags.read_end;
    descriptors_[1] = flags.write_end;
    server_ = server_of_ends(descriptors_);
    if (!(server_ == g_inherited)) server_ = {};
  }
  if (!server_.exists()) return false;

  // The job begins at the child of the nearest client: make, a process that keeps the fifo open, or the first one that
  // was not told of the server. If no client is nearer than the process that offers the fifo, the job begins at that
  // process, which counts itself.
  ProcessName offering = offering_process(flags.fifo);
  if (offering.space != machine.process_space()) offering = {};
  pid_t process = machine.process();
  bool client_is_make = false;
  for (int i = 0; i < kMostAncestors && process != offering.process; ++i) {
    const pid_t parent = process_times(machine, process).parent;
    if (parent <= 1) break;
    if (parent != offering.process) {
      char path[40];
      std::snprintf(path, sizeof path, "/proc/%d/environ", parent);
      client_ = parent;
      client_is_make = is_make(machine, parent);
      if (client_is_make || (fifo_[0] != '\0' && has_open(parent, server_)) ||
          (offering.process == 0 && !file_holds(path, flags.option)))
        break;
    }
    process = parent;
  }
  if (client_is_make && fifo_[0] == '\0') {
    char path[60];
    std::snprintf(path, sizeof path, "/proc/%d/fd/%d", client_, descriptors_[0]);
    if (!(server_of_path(path) == server_)) return false;
  }
  job_ = process_name(machine, process);
  return true;
}

int JobTokens::open_server() noexcept {
  if (!server_.exists()) return -1;  // the last open() found none
  if (fifo_[0] != '\0') return open_if(fifo_, server_);
  char path[60];
  for (const int end : descriptors_) {
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", end);
    if (const int file = open_if(path, server_); file >= 0) return file;
  }
  // The program has closed its own.
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", client_, descriptors_[0]);
  return client_ > 1 ? open_if(path, server_) : -1;
}

std::optional<std::uint8_t> JobTokens::take() noexcept {
  const int file = open_server();
  if (file < 0) return std::nullopt;
  std::uint8_t byte = 0;
  ssize_t got = 0;
  do got = read(file, &byte, 1);
  while (got < 0 && errno == EINTR);
  close(file);
  return got == 1 ? std::optional(byte) : std::nullopt;
}

bool JobTokens::put(std::uint8_t byte) noexcept {
  const int file = open_server();
  if (file < 0) return false;
  ssize_t put = 0;
  do put = write(file, &byte, 1);
  while (put < 0 && errno == EINTR);
  close(file);
  return put == 1;
}

bool offer_jobserver(const Machine& machine, std::uint32_t jobs) noexcept {
  const pid_t self = machine.process();
  const ProcessName name = process_name(machine, self);
  const char* const flags = std::getenv("MAKEFLAGS");
  const MakeFlags surrounding = parse_make_flags(flags);
  char path[sizeof g_offered];
  const bool ours = offering_process(surrounding.fifo) == name;  // offered before an exec of this process
  if (!ours && (!surrounding.auth.empty() || (flags != nullptr && std::strstr(flags, " -- ") != nullptr))) return false;
  const int length =
      ours
          ? std::snprintf(path, sizeof path, "%.*s", static_cast<int>(surrounding.fifo.size()), surrounding.fifo.data())
          : std::snprintf(path, sizeof path, "%s/%.*s%d-%llu-%u", offer_folder(), static_cast<int>(kOffered.size()),
                          kOffered.data(), name.process, static_cast<unsigned long long>(name.start_ticks), name.space);
  if (length < 0 || static_cast<std::size_t>(length) >= sizeof path || std::strchr(path, ' ') != nullptr) return false;
  if (!ours) {
    remove_those_of_the_dead(machine, offer_folder());
    if (mkfifo(path, 0600) != 0) return false;
  }
  const bool is_empty = nobody_reads(path);
  const int file = ::open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
  if (file < 0) return false;
  // After an exec children may still have bytes, which come back.
  if (is_empty)
    for (std::uint32_t i = 1; i < jobs; ++i) static_cast<void>(!write(file, "+", 1));
  if (!keep(file)) {
    unlink(path);
    return false;
  }
  std::memcpy(g_offered, path, static_cast<std::size_t>(length) + 1);
  g_offered_by = self;
  if (ours) return true;
  char text[1024];
  const int written =
      std::snprintf(text, sizeof text, "%s -j%u %.*s%.*s%s", flags == nullptr ? "" : flags, jobs,
                    static_cast<int>(kAuth.size()), kAuth.data(), static_cast<int>(kFifo.size()), kFifo.data(), path);
  return written > 0 && static_cast<std::size_t>(written) < sizeof text && setenv("MAKEFLAGS", text, 1) == 0;
}

void hide_offered_jobserver() noexcept {
  const char* const text = std::getenv("MAKEFLAGS");
  const MakeFlags flags = parse_make_flags(text);
  if (offering_process(flags.fifo).process == 0 || file_holds("/proc/self/exe", kFifo)) return;
  // The text as it was before the offer.
  const std::string_view all = text;
  const std::size_t jobs = all.rfind(" -j", static_cast<std::size_t>(flags.auth.data() - all.data()));
  char before[1024];
  if (jobs == std::string_view::npos || jobs >= sizeof before) return;
  before[all.copy(before, jobs)] = '\0';
  if (before[0] == '\0') {
    unsetenv("MAKEFLAGS");
  } else {
    setenv("MAKEFLAGS", before, 1);
  }
}

}  // namespace graphpool
