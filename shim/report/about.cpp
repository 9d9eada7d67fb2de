// about.cpp: see about.h.
#include "shim/report/about.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "policy/parse.h"
#include "shim/base/small_file.h"
#include "shim/hip/hip_version.h"
#include "shim/hip/process_policy.h"
#include "shim/hip/quirks.h"
#include "shim/report/devices.h"
#include "shim/report/report_file.h"
#include "shim/report/version.h"

namespace graphpool {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kFormat = 1;
constexpr std::size_t kMostCommandBytes = 4096;

/// Set before any report is written; never destroyed.
Clock::time_point g_began{};

/// The words the process was started with, as far as they fit.
void write_command(JsonWriter& json) {
  std::array<char, kMostCommandBytes> words{};
  const ssize_t length = read_small_file("/proc/self/cmdline", words.data(), words.size());
  json.key("command").open_array();
  for (std::string_view rest(words.data(), length > 0 ? static_cast<std::size_t>(length) : 0); !rest.empty();) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    json.value(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  json.close_array();
}

/// Calls nothing of the runtime, because a report is also written while the program hangs in the runtime.
void write_runtime(JsonWriter& json) {
  json.key("runtime").open_object();
  const int version = g_runtime_version.load(std::memory_order_acquire);
  if (version > 0) {
    json.key("version").value(std::to_string(version / kHipMajor) + '.' +
                              std::to_string(version % kHipMajor / kHipMinor) + '.' +
                              std::to_string(version % kHipMinor));
  }
  json.close_object();
}

void write_devices(JsonWriter& json) {
  json.key("devices").open_array();
  for (const DeviceSeen& device : devices_seen()) {
    json.open_object().key("name").value(device.name);
    if (!device.architecture.empty()) json.key("architecture").value(device.architecture);
    json.close_object();
  }
  json.close_array();
}

void write_policy(JsonWriter& json) {
  json.key("policy").open_array();
  if (const std::vector<Given>* const all = policy_given(); all != nullptr) {
    for (const Given& given : *all) {
      json.open_object().key("key").value(given.key).key("value").value(given.value);
      json.key("from").value(given.from).close_object();
    }
  }
  json.close_array();
}

}  // namespace

void begin_elapsed() noexcept { g_began = Clock::now(); }

std::uint64_t elapsed_ms() noexcept {
  if (g_began == Clock::time_point{}) return 0;
  const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - g_began);
  return static_cast<std::uint64_t>(passed.count());
}

void write_about(JsonWriter& json, bool ended) {
  json.key("format").value(kFormat);
  json.key("version").value(kVersion);
  json.key("ended").value(ended);
  char time_text[sizeof "2000-01-01T00:00:00Z"] = {};
  const std::time_t now = std::time(nullptr);
  tm parts{};
  if (gmtime_r(&now, &parts) != nullptr) std::strftime(time_text, sizeof time_text, "%FT%TZ", &parts);
  json.key("time").value(time_text);
  json.key("elapsed_ms").value(elapsed_ms());
  json.key("process").value(static_cast<std::uint64_t>(getpid()));
  json.key("rank").value(rank_of_process());
  json.key("host").value(host_name());
  write_command(json);
  write_runtime(json);
  write_devices(json);
  write_policy(json);
}

}  // namespace graphpool
