// base_event_log_test.cpp: which events are lines of the log, at which level, and what the lines say.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "shim/base/event_log.h"
#include "shim/base/log.h"

namespace graphpool {
namespace {

class EventLog : public ::testing::Test {
 protected:
  ~EventLog() override {
    open_log(LogLevel::kWarn, "");
    unlink(path_.c_str());
  }

  /// What the work has logged at this level, without the words that begin each line.
  template <typename Work>
  std::string logged(LogLevel level, Work&& work) {
    unlink(path_.c_str());
    open_log(level, path_);
    work();
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    const std::string before = "graphpool[" + std::to_string(getpid()) + "]: ";
    std::string all = text.str();
    for (std::size_t at = all.find(before); at != std::string::npos; at = all.find(before))
      all.erase(at, before.size());
    return all;
  }

  const std::string path_ = ::testing::TempDir() + "event_log_" + std::to_string(getpid());
};

void log_one_of_each() {
  for (std::size_t kind = 0; kind < kTraceKinds; ++kind)
    log_event({static_cast<TraceKind>(kind), 0, 1, 2, "the fate", kind % 2 == 0 ? 7u : 0u, 101});
}

TEST_F(EventLog, tells_the_fate_of_captures_at_level_debug) {
  EXPECT_EQ("", logged(LogLevel::kInfo, log_one_of_each));
  EXPECT_EQ("debug: capture, 101 operations, graph 7: the fate\n", logged(LogLevel::kDebug, log_one_of_each));
}

TEST_F(EventLog, tells_of_each_call_at_level_trace) {
  EXPECT_EQ(
      "debug: capture, 101 operations, graph 7: the fate\n"
      "trace: instantiate: the fate\n"
      "trace: update, graph 7: the fate\n"
      "trace: launch: the fate\n",
      logged(LogLevel::kTrace, log_one_of_each));
}

TEST_F(EventLog, tells_what_has_no_fate) {
  EXPECT_EQ("debug: capture: it failed\n", logged(LogLevel::kDebug, [] { log_event({TraceKind::kCapture}); }));
}

/// The last: nothing ends what it begins.
TEST_F(EventLog, spans_are_logged_where_the_level_asks_for_it_and_no_file_gets_them) {
  const auto span = [] {
    open_event_log();
    const TraceSpan traced(TraceKind::kLaunch);
    tell_trace("patch", 3);
  };
  EXPECT_EQ("", logged(LogLevel::kInfo, span));
  EXPECT_FALSE(trace_on());
  EXPECT_EQ("trace: launch, graph 3: patch\n", logged(LogLevel::kTrace, span));
  EXPECT_TRUE(trace_on(TraceUse::kLog));
  EXPECT_FALSE(trace_on(TraceUse::kFile));
  EXPECT_TRUE(trace_seen().events.empty());
}

}  // namespace
}  // namespace graphpool
