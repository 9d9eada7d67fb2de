#include "shim/base/event_log.h"

#include <array>
#include <cinttypes>
#include <cstdio>

#include "shim/base/log.h"

namespace graphpool {
namespace {

/// How an event of this kind is logged. Null name: it is not logged.
struct EventLine {
  const char* name;
  LogLevel level;
};
constexpr std::array<EventLine, kTraceKinds> kLines = {{{"capture", LogLevel::kDebug},
                                                        {"instantiate", LogLevel::kTrace},
                                                        {"update", LogLevel::kTrace},
                                                        {"launch", LogLevel::kTrace}}};
static_assert(static_cast<std::size_t>(TraceKind::kLaunch) == 3, "kLines has the kinds in their order");

}  // namespace

void open_event_log() noexcept {
  if (log_enabled(LogLevel::kDebug)) begin_trace(TraceUse::kLog);
}

void log_event(const TraceEvent& event) noexcept {
  const EventLine& line = kLines[static_cast<std::size_t>(event.kind)];
  if (line.name == nullptr || !log_enabled(line.level)) return;
  std::array<char, 96> about{};
  int length = std::snprintf(about.data(), about.size(), "%s", line.name);
  const auto add = [&](const char* format, std::uint64_t number) {
    if (number != 0) length += std::snprintf(about.data() + length, about.size() - length, format, number);
  };
  if (event.kind == TraceKind::kCapture) add(", %" PRIu64 " operations", event.value);
  add(", graph %" PRIu64, event.graph);
  const char* const fate = event.detail != nullptr ? event.detail : "it failed";
  if (line.level == LogLevel::kDebug)
    log_debug("%s: %s", about.data(), fate);
  else
    log_trace("%s: %s", about.data(), fate);
}

}  // namespace graphpool
