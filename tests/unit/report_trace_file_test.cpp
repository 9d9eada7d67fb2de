#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "shim/report/trace_file.h"

namespace graphpool {
namespace {

std::string text_of(const TraceSeen& seen, const TraceGraphs& graphs = {}) {
  std::string text;
  EXPECT_TRUE(write_trace_text(seen, graphs, [&text](std::string_view piece) {
    text += piece;
    return true;
  }));
  return text;
}

/// The line of the event with this name, as others than the process's number have it.
std::string line_of(const std::string& text, const std::string& name) {
  const std::size_t at = text.find("{\"name\":\"" + name + "\"");
  if (at == std::string::npos) return "";
  std::string line = text.substr(at, text.find('\n', at) - at);
  const std::string process = "\"pid\":" + std::to_string(getpid()) + ",";
  const std::size_t pid = line.find(process);
  if (pid != std::string::npos) line.erase(pid, process.size());
  return line;
}

TEST(TraceFile, ALaunchIsACompleteEvent) {
  const TraceSeen seen{{{TraceKind::kLaunch, 5, 1'002'003, 1'004'007, "patch", 2}}, 0};
  EXPECT_EQ(line_of(text_of(seen, {{2, "first .. last"}}), "launch"),
            R"({"name":"launch","cat":"graphpool","ph":"X","tid":5,"ts":1002.003,"dur":2.004,)"
            R"("args":{"way":"patch","graph":2,"kernels":"first .. last"}})");
}

TEST(TraceFile, ACaptureHasABeginningAndAnEnd) {
  const std::string text = text_of({{{TraceKind::kCapture, 5, 1000, 3000, "served", 0, 9}}, 0});
  EXPECT_EQ(line_of(text, "capture"), R"({"name":"capture","cat":"graphpool","ph":"b","tid":5,"ts":1.000,"id":0,)"
                                      R"("args":{"result":"served","operations":9}},)");
  EXPECT_NE(text.find(R"("ph":"e")"), std::string::npos);
}

TEST(TraceFile, MemoryIsACounterAndAMoment) {
  const std::string text = text_of(
      {{{TraceKind::kKept, 5, 1000, 1000, nullptr, 1, 4096}, {TraceKind::kGivenBack, 5, 2000, 2000, "why", 1, 64}}, 0});
  EXPECT_EQ(line_of(text, "kept memory, device 1"),
            R"({"name":"kept memory, device 1","cat":"graphpool","ph":"C","tid":5,"ts":1.000,"args":{"bytes":4096}},)");
  EXPECT_EQ(line_of(text, "give back"), R"({"name":"give back","cat":"graphpool","ph":"i","tid":5,"ts":2.000,"s":"t",)"
                                        R"("args":{"why":"why","device":1,"bytes":64}})");
}

TEST(TraceFile, TheOuterOneComesFirstAlsoWhereACaptureBeginsThen) {
  const std::string text = text_of({{{TraceKind::kKept, 5, 1000, 1000, nullptr, 1, 64},
                                     {TraceKind::kMadeReal, 5, 1000, 1500, nullptr},
                                     {TraceKind::kCapture, 5, 1000, 3000, "served", 0, 9},
                                     {TraceKind::kInstantiate, 5, 1000, 2000, nullptr}},
                                    0});
  EXPECT_LT(text.find("{\"name\":\"instantiate\""), text.find("{\"name\":\"make real\""));
}

TEST(TraceFile, EventsAreInOrderAndTheOuterOneComesFirst) {
  const std::string text = text_of({{{TraceKind::kWait, 5, 2000, 3000, nullptr},
                                     {TraceKind::kMadeReal, 5, 1000, 1500, nullptr},
                                     {TraceKind::kInstantiate, 5, 1000, 2000, nullptr}},
                                    0});
  const std::size_t outer = text.find("instantiate"), inner = text.find("make real"), last = text.find("\"wait\"");
  EXPECT_LT(outer, inner);
  EXPECT_LT(inner, last);
}

TEST(TraceFile, SaysHowManyEventsItHasAndHowManyWereDropped) {
  EXPECT_NE(text_of({{{TraceKind::kLaunch, 5, 1, 2, nullptr}}, 77}).find(R"("events":1,"dropped":77})"),
            std::string::npos);
  EXPECT_NE(text_of({{}, 0}).find(R"("events":0,"dropped":0})"), std::string::npos);
}

TEST(TraceFile, WhatCannotBeWrittenIsToldOnce) {
  TraceSeen seen;
  seen.events.assign(50'000, {TraceKind::kLaunch, 5, 1, 2, nullptr});
  int pieces = 0;
  EXPECT_FALSE(write_trace_text(seen, {}, [&pieces](std::string_view) {
    ++pieces;
    return false;
  }));
  EXPECT_EQ(pieces, 1) << "nothing is written after a piece that failed";
}

TEST(TraceFile, ItsNameIsNoOthers) {
  char folder[] = "trace-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string in = std::string(folder) + "/";
  EXPECT_EQ(claim_new_name(in + "t.json"), in + "t.json");
  EXPECT_EQ(claim_new_name(in + "t.json"), in + "t-2.json");
  EXPECT_EQ(claim_new_name(in + "t%u.json"), in + "t-3.json");
  EXPECT_EQ(claim_new_name(in + "t"), in + "t");
  EXPECT_EQ(claim_new_name(in + "t"), in + "t-2");
  EXPECT_EQ(claim_new_name("/dev/null"), "/dev/null") << "no plain file is replaced";
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace graphpool
