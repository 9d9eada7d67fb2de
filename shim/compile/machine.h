// machine.h: the questions that compile permits ask the operating system, as a small struct of functions.
//
// Why: limits, dead holders and control groups must be testable without a machine that has them: unit tests hand in
// fakes. Units: bytes and ns. Threads: any; no state but what the system keeps. Nothing here allocates.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace graphpool {

struct Machine {
  /// A clock all processes share.
  std::uint64_t (*now_ns)();
  /// Reads at most `bytes` of a file; the number read, or -1.
  ssize_t (*read_file)(const char* path, char* text, std::size_t bytes);
  pid_t (*process)();
  pid_t (*thread)();
  /// The namespace that process numbers are of.
  std::uint32_t (*process_space)();
  /// Processors this process may run on.
  std::uint32_t (*processors)();
  /// Whether another process of this namespace may run on one of these processors. True where that is not known.
  bool (*shares_processors)(pid_t other);
  /// This process's limit of address space; the largest number when there is none.
  std::uint64_t (*address_space_bytes)();
  /// Sleeps until a wake, a signal, or the end of the time; not at all where *word is no longer `seen`.
  void (*wait)(const std::uint32_t* word, std::uint32_t seen, std::uint64_t ns);
  /// Wakes everyone who waits for *word, in all processes.
  void (*wake)(std::uint32_t* word);
};

/// The real one.
const Machine& machine() noexcept;

/// When a process started and what it used. The start tells it from a later process of its number. All 0: there is no
/// such process, or it is a zombie.
struct ProcessTimes {
  std::uint64_t start_ticks = 0;  ///< when it started, in clock ticks since boot
  std::uint64_t used_ticks = 0;   ///< processor time of its threads, and of the children that it has waited for
  pid_t parent = 0;
  bool runs = false;  ///< now: it (of a process, its first thread) has a processor, or waits for one
};
ProcessTimes process_times(const Machine& machine, pid_t process) noexcept;

/// A process as all that share a machine know it: numbers repeat, in time and in containers.
struct ProcessName {
  pid_t process = 0;
  std::uint64_t start_ticks = 0;
  std::uint32_t space = 0;  ///< the namespace of its number
  bool operator==(const ProcessName&) const = default;
};

/// The name of a process in the caller's own namespace.
ProcessName process_name(const Machine& machine, pid_t process) noexcept;

/// Like process_times(), but of one thread.
ProcessTimes thread_times(const Machine& machine, pid_t process, pid_t thread) noexcept;

/// Whether a thread sleeps so that signals can wake it. Returns false if there is no such thread.
bool thread_sleeps(const Machine& machine, pid_t process, pid_t thread) noexcept;

/// own: resident memory without pages of files, so no code. The kernel cannot drop it, and as a rule no other process
/// shares it. Its peak is the peak of all memory less the files that are in memory now. It is too low where files came
/// into memory after the peak, but never lower than what is there now.
struct ProcessMemory {
  std::uint64_t virtual_bytes = 0, own_bytes = 0, peak_own_bytes = 0, peak_virtual_bytes = 0;
};
ProcessMemory process_memory(const Machine& machine, pid_t process) noexcept;

/// So much is read of /proc/PID/status: what is looked for there lies behind a line of all groups of the user.
inline constexpr std::size_t kStatusBytes = std::size_t{16} << 10;

/// The number behind `key` at the start of a line of a text such as /proc/meminfo; -1: none.
std::int64_t number_after(std::string_view text, std::string_view key) noexcept;

}  // namespace graphpool
