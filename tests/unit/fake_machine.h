// fake_machine.h: a machine made of a map of files and a clock that a test moves, for the unit tests of shim/compile.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "shim/base/units.h"
#include "shim/compile/machine.h"

namespace graphpool {

struct FakeMachine {
  static inline std::map<std::string, std::string> files;
  static inline std::uint64_t clock_ns = 0;
  static inline std::uint32_t processor_count = 4, space = 0;
  static inline std::set<pid_t> elsewhere;  ///< processes on other processors
  static inline std::uint64_t address_space = std::numeric_limits<std::uint64_t>::max();
  static inline int waits = 0;
  /// Called instead of sleeping; the clock moves by the time asked for.
  static inline std::function<void()> on_wait;

  static void reset() {
    files.clear();
    clock_ns = 1'000'000'000'000;
    processor_count = 4;
    space = 0;
    elsewhere.clear();
    address_space = std::numeric_limits<std::uint64_t>::max();
    waits = 0;
    on_wait = nullptr;
    process(getpid(), 100, 0);
  }
  /// A process that has used so many ticks of processor time.
  static void process(pid_t number, std::uint64_t started, std::uint64_t ticks, pid_t parent = 1, char state = 'S') {
    const std::string stat = std::to_string(number) + " (a ) b) " + state + " " + std::to_string(parent) +
                             " 3 4 5 6 7 8 9 10 11 " + std::to_string(ticks) + " 0 0 0 16 17 18 19 " +
                             std::to_string(started) + " 23 24\n";
    files["/proc/" + std::to_string(number) + "/stat"] = stat;
    files["/proc/" + std::to_string(number) + "/task/" + std::to_string(number) + "/stat"] = stat;
  }
  static void memory_of(pid_t number, std::uint64_t size_kib, std::uint64_t resident_kib, std::uint64_t peak_kib) {
    files["/proc/" + std::to_string(number) + "/status"] =
        "Name:\tx\nVmPeak:\t1 kB\nVmSize:\t" + std::to_string(size_kib) + " kB\nVmHWM:\t" + std::to_string(peak_kib) +
        " kB\nVmRSS:\t" + std::to_string(resident_kib) + " kB\n";
  }
  static void meminfo(std::uint64_t total_kib, std::uint64_t available_kib) {
    files["/proc/meminfo"] = "MemTotal:       " + std::to_string(total_kib) +
                             " kB\nMemFree:        1 kB\nMemAvailable:   " + std::to_string(available_kib) + " kB\n";
  }

  static const Machine& machine() {
    static const Machine kFake = {[] { return clock_ns; },
                                  [](const char* path, char* text, std::size_t bytes) -> ssize_t {
                                    const auto found = files.find(path);
                                    if (found == files.end()) return -1;
                                    const std::size_t length = std::min(bytes, found->second.size());
                                    std::memcpy(text, found->second.data(), length);
                                    return static_cast<ssize_t>(length);
                                  },
                                  [] { return getpid(); },
                                  [] { return static_cast<pid_t>(gettid()); },
                                  [] { return space; },
                                  [] { return processor_count; },
                                  [](pid_t other) { return !elsewhere.contains(other); },
                                  [] { return address_space; },
                                  [](const std::uint32_t*, std::uint32_t, std::uint64_t ns) {
                                    clock_ns += ns;
                                    ++waits;
                                    if (on_wait) on_wait();
                                  },
                                  [](std::uint32_t*) {}};
    return kFake;
  }
};

}  // namespace graphpool
