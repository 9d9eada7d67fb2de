// report_file.cpp: see report_file.h.
#include "shim/report/report_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "shim/base/launcher_rank.h"
#include "shim/base/log.h"

namespace graphpool {
namespace {

constexpr unsigned kMostNames = 10000;

/// Writes all of the text. Returns false where that failed; errno says why.
bool write_all(int file, std::string_view text) noexcept {
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t more = write(file, text.data() + written, text.size() - written);
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) return false;
    written += static_cast<std::size_t>(more);
  }
  return true;
}

/// Opens the file without a wait. A pipe that nobody reads fails with ENXIO: a wait for a reader might never end.
int open_at_once(const char* name, int flags) noexcept {
  const int file = open(name, flags | O_NONBLOCK, 0666);
  const int set = file < 0 ? -1 : fcntl(file, F_GETFL);
  if (set >= 0) static_cast<void>(fcntl(file, F_SETFL, set & ~O_NONBLOCK));
  return file;
}

/// The folder that a file of this name is in.
std::string folder_of(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : name.substr(0, slash);
}

}  // namespace

std::string rank_of_process() {
  const char* const rank = launcher_rank();
  return rank == nullptr ? "0" : rank;
}

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string expand_report_name(std::string_view pattern, unsigned number) {
  std::string name;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      name += pattern[i];
      continue;
    }
    switch (pattern[++i]) {
      case 'p':
        name += std::to_string(getpid());
        break;
      case 'r':
        name += rank_of_process();
        break;
      case 'h':
        name += host_name();
        break;
      case 'u':
        if (number > 1) name += '-' + std::to_string(number);
        break;
      case '%':
        name += '%';
        break;
      default:
        name.append({'%', pattern[i]});
    }
  }
  return name;
}

std::string unknown_marks(std::string_view pattern) {
  std::string unknown;
  for (std::size_t i = 0; i + 1 < pattern.size(); ++i) {
    if (pattern[i] != '%') continue;
    if (std::string_view("prhu%").find(pattern[++i]) == std::string_view::npos)
      unknown.append(unknown.empty() ? "" : ", ").append({'%', pattern[i]});
  }
  return unknown;
}

void warn_of_unknown_marks(const char* key, std::string_view pattern) {
  const std::string unknown = unknown_marks(pattern);
  if (!unknown.empty())
    log_warn("%s: %s is no mark, and stays in the name; there are %%p %%r %%h %%u %%%%", key, unknown.c_str());
}

std::string claim_report_name(std::string_view pattern) {
  const std::string first = expand_report_name(pattern, 1);
  if (first == expand_report_name(pattern, 2)) return first;
  for (unsigned number = 1; number <= kMostNames; ++number) {
    std::string name = expand_report_name(pattern, number);
    const int file = open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0) close(file);
    if (file >= 0 || errno != EEXIST) return name;
  }
  return first;
}

std::string claim_new_name(std::string_view pattern) {
  const std::string name = expand_report_name(pattern);
  struct stat status {};
  const bool numbered = name != expand_report_name(pattern, 2);
  if (numbered || (lstat(name.c_str(), &status) == 0 && !S_ISREG(status.st_mode))) return claim_report_name(pattern);
  const std::size_t slash = pattern.rfind('/'), dot = pattern.rfind('.');
  const bool ends = dot != std::string_view::npos && (slash == std::string_view::npos || dot > slash);
  std::size_t place = ends ? dot : pattern.size();
  // A sign before it that is not one of two would take the new one for its second.
  const std::string_view before = pattern.substr(0, place);
  if ((before.size() - (before.find_last_not_of('%') + 1)) % 2 != 0) --place;
  return claim_report_name(std::string(pattern).insert(place, "%u"));
}

const char* why_unwritable(const std::string& name) {
  struct stat status {};
  if (stat(name.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return "it is a directory";
    return faccessat(AT_FDCWD, name.c_str(), W_OK, AT_EACCESS) == 0 ? nullptr : "permission denied";
  }
  if (errno == EACCES) return "permission denied";
  const std::string folder = folder_of(name);
  if (stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return "there is no such folder";
  return faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0 ? nullptr : "permission denied";
}

bool write_report_file(const std::string& name, const std::string& text) {
  return write_report_pieces(name, [&text](WritePiece write) { return write(text); });
}

bool write_report_pieces(const std::string& name, FunctionRef<bool(WritePiece write)> produce) {
  struct stat before {};
  const bool there = lstat(name.c_str(), &before) == 0;
  const bool plain =
      there ? S_ISREG(before.st_mode) && before.st_nlink == 1 && before.st_uid == geteuid() : errno == ENOENT;
  const std::string aside = name + '.' + std::to_string(getpid());
  constexpr int kNew = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
  // What lies there under this name is what a killed process left, or a stranger's link, which is not followed.
  const auto open_aside = [&aside] { return open(aside.c_str(), kNew | O_EXCL, 0666); };
  int file = plain ? open_aside() : -1;
  if (plain && file < 0 && errno == EEXIST && unlink(aside.c_str()) == 0) file = open_aside();
  const bool replaces = file >= 0;
  if (!replaces) file = open_at_once(name.c_str(), kNew);
  if (file < 0) return false;
  if (replaces && there) static_cast<void>(fchmod(file, before.st_mode & 0777));
  bool good = false;
  try {
    good = produce([file](std::string_view text) { return write_all(file, text); });
  } catch (...) {
    close(file);
    if (replaces) unlink(aside.c_str());
    throw;
  }
  int error = errno;
  close(file);
  if (replaces && good && rename(aside.c_str(), name.c_str()) != 0) {
    good = false;
    error = errno;
  }
  if (replaces && !good) unlink(aside.c_str());
  errno = error;
  return good;
}

}  // namespace graphpool
