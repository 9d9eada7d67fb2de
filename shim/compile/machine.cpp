#include "shim/compile/machine.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <limits>

#include "shim/base/small_file.h"

namespace graphpool {
namespace {

std::uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

std::uint32_t processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<std::uint32_t>(CPU_COUNT(&set));
  const long online = sysconf(_SC_NPROCESSORS_ONLN);  // more processors than the set has bits
  return online > 0 ? static_cast<std::uint32_t>(online) : 1;
}

bool shares_processors(pid_t other) {
  cpu_set_t own, others;
  if (sched_getaffinity(0, sizeof own, &own) != 0 || sched_getaffinity(other, sizeof others, &others) != 0) return true;
  cpu_set_t both;
  CPU_AND(&both, &own, &others);
  return CPU_COUNT(&both) != 0;
}

std::uint64_t address_space_bytes() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::numeric_limits<std::uint64_t>::max();
  return limit.rlim_cur;
}

void wait_for(const std::uint32_t* word, std::uint32_t seen, std::uint64_t ns) {
  const timespec time = {static_cast<time_t>(ns / 1'000'000'000u), static_cast<long>(ns % 1'000'000'000u)};
  syscall(SYS_futex, word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void wake(std::uint32_t* word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

std::uint32_t process_space() {
  struct stat status {};
  return stat("/proc/self/ns/pid", &status) == 0 ? static_cast<std::uint32_t>(status.st_ino) : 0;
}

constexpr Machine kMachine = {now_ns,
                              read_small_file,
                              [] { return getpid(); },
                              [] { return static_cast<pid_t>(syscall(SYS_gettid)); },
                              process_space,
                              processors,
                              shares_processors,
                              address_space_bytes,
                              wait_for,
                              wake};

/// The number at the start of a text, behind spaces.
std::uint64_t leading_number(std::string_view text) noexcept {
  std::uint64_t number = 0;
  std::size_t position = text.find_first_not_of(" \t");
  for (; position < text.size() && text[position] >= '0' && text[position] <= '9'; ++position)
    number = number * 10 + static_cast<std::uint64_t>(text[position] - '0');
  return number;
}

}  // namespace

const Machine& machine() noexcept { return kMachine; }

std::int64_t number_after(std::string_view text, std::string_view key) noexcept {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
    if (line.starts_with(key)) return static_cast<std::int64_t>(leading_number(line.substr(key.size())));
    begin += line.size() + 1;
  }
  return -1;
}

static ProcessTimes times_in(const Machine& machine, const char* path) noexcept {
  char text[1024];
  const ssize_t got = machine.read_file(path, text, sizeof text);
  if (got <= 0) return {};
  // The name, in parentheses, may hold anything: what follows its last one counts from field 3.
  std::string_view rest(text, static_cast<std::size_t>(got));
  const std::size_t name_end = rest.rfind(')');
  if (name_end == std::string_view::npos) return {};
  rest.remove_prefix(name_end + 1);
  ProcessTimes times;
  for (int field = 3; field <= 22; ++field) {
    rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(' ')));
    if (field == 3 && !rest.empty() && (rest[0] == 'Z' || rest[0] == 'X')) return {};
    if (field == 3) times.runs = rest.starts_with('R');
    if (field == 4) times.parent = static_cast<pid_t>(leading_number(rest));
    if (field >= 14 && field <= 17) times.used_ticks += leading_number(rest);
    if (field == 22) times.start_ticks = leading_number(rest);
    rest.remove_prefix(std::min(rest.size(), rest.find(' ')));
  }
  return times;
}

ProcessTimes process_times(const Machine& machine, pid_t process) noexcept {
  char path[40];
  std::snprintf(path, sizeof path, "/proc/%d/stat", process);
  return times_in(machine, path);
}

ProcessName process_name(const Machine& machine, pid_t process) noexcept {
  return {process, process_times(machine, process).start_ticks, machine.process_space()};
}

ProcessTimes thread_times(const Machine& machine, pid_t process, pid_t thread) noexcept {
  char path[60];
  std::snprintf(path, sizeof path, "/proc/%d/task/%d/stat", process, thread);
  return times_in(machine, path);
}

bool thread_sleeps(const Machine& machine, pid_t process, pid_t thread) noexcept {
  char path[60], text[256];
  std::snprintf(path, sizeof path, "/proc/%d/task/%d/stat", process, thread);
  const ssize_t got = machine.read_file(path, text, sizeof text);
  if (got <= 0) return false;
  const std::string_view line(text, static_cast<std::size_t>(got));
  const std::size_t name_end = line.rfind(") ");
  return name_end != std::string_view::npos && line.substr(name_end + 2).starts_with('S');
}

ProcessMemory process_memory(const Machine& machine, pid_t process) noexcept {
  char path[40], text[kStatusBytes];
  std::snprintf(path, sizeof path, "/proc/%d/status", process);
  const ssize_t got = machine.read_file(path, text, sizeof text);
  if (got <= 0) return {};
  const std::string_view status(text, static_cast<std::size_t>(got));
  const auto bytes = [status](std::string_view key) {
    const std::int64_t kib = number_after(status, key);
    return kib < 0 ? 0 : static_cast<std::uint64_t>(kib) * 1024;
  };
  const std::uint64_t resident = bytes("VmRSS:"), files = std::min(resident, bytes("RssFile:"));
  const std::uint64_t peak = std::max(resident, bytes("VmHWM:"));
  return {bytes("VmSize:"), resident - files, peak - files, bytes("VmPeak:")};
}

}  // namespace graphpool
