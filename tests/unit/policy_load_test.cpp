// policy_load_test.cpp: file and environment, which of them wins, and what happens on errors.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>

#include "policy/keys.h"
#include "policy/load.h"
#include "policy/parse.h"

namespace graphpool {
namespace {

using namespace reading;

using Messages = std::vector<std::string>;

const char* g_file_text = nullptr;  // null: there is no such file

const char* fake_file(const char* path, std::string& text) {
  if (!g_file_text || std::string_view(path) != "p.toml") return "no such file";
  text = g_file_text;
  return nullptr;
}

Loaded load_with(const char* file_text, std::vector<const char*> environment) {
  g_file_text = file_text;
  if (file_text) environment.push_back("GRAPHPOOL_POLICY=p.toml");
  environment.push_back(nullptr);
  return load(&fake_file, environment.data());
}

TEST(Load, NothingSaid) {
  Loaded loaded = load_with(nullptr, {"HOME=/root", "GRAPHPOOL", "GRAPHPOOLX=1"});
  Policy expected;
  complete(expected);
  ASSERT_TRUE(loaded.policy);
  EXPECT_EQ(*loaded.policy, expected);
  EXPECT_EQ(loaded.errors, Messages{});
  EXPECT_EQ(loaded.warnings, Messages{});
}

TEST(Load, NoEnvironmentAtAll) { EXPECT_TRUE(load(&fake_file, nullptr).policy); }

TEST(Load, FileThenEnvironment) {
  const char* file = "[graph]\nslots = 2\nvariants = 3\n";
  Loaded loaded = load_with(file, {"GRAPHPOOL_GRAPH_SLOTS=4", "GRAPHPOOL_POOL_LARGE=1K"});
  ASSERT_TRUE(loaded.policy);
  EXPECT_EQ(loaded.policy->graph.slots, 4u);
  EXPECT_EQ(loaded.policy->graph.variants, 3u);
  EXPECT_EQ(loaded.policy->pool.large.bytes, 1024u);
  EXPECT_EQ(load_with(file, {}).policy->graph.slots, 2u);
}

TEST(Load, PolicyIsComplete) {
  Loaded loaded = load_with("[[buffer]]\nsize = 64\n", {"GRAPHPOOL_POOL_BACKING=vmm", "GRAPHPOOL_GRAPH_SLOTS=2"});
  ASSERT_TRUE(loaded.policy);
  EXPECT_EQ(loaded.policy->buffers.at(0).backing, Backing::kVmm);
  EXPECT_EQ(loaded.policy->buffers.at(0).slots, 2u);
  EXPECT_EQ(loaded.policy->buffers.size(), 3u);
}

TEST(Load, EveryKeyHasItsOwnVariable) {
  // A text every reader of the key allows and that is not the default.
  auto other_value = [](const Key<Policy>& key) -> std::string {
    for (const char* text : {"off", "on", "vmm", "deferred", "always", "patch", "trust", "first:2", "node", "offer",
                             "trace", "7", "7s", "7MiB", "text"}) {
      Policy policy;
      if (text != key.fallback && !key.read(policy, key.items(text)) && policy != Policy{}) return text;
    }
    return "";
  };
  std::set<std::string> names;
  for (const Key<Policy>& key : policy_keys()) {
    std::string name = variable_name(key);
    EXPECT_TRUE(names.insert(name).second) << name;
    std::string value = other_value(key);
    ASSERT_NE(value, "") << name;
    Policy expected;
    key.read(expected, key.items(value));
    complete(expected);
    Loaded loaded = load_with(nullptr, {(name + "=" + value).c_str()});
    EXPECT_EQ(loaded.errors, Messages{}) << name;
    EXPECT_EQ(loaded.warnings, Messages{}) << name;
    ASSERT_TRUE(loaded.policy) << name;
    EXPECT_EQ(*loaded.policy, expected) << name;

    // The variable wins over the file, also with the default's value.
    std::string set_back = name + "=" + std::string(key.fallback);
    std::string literal = value;
    if (key.forms & kBoolean) literal = value == "on" ? "true" : "false";
    if (!(key.forms & (kBoolean | kInteger)) || literal.find_first_not_of("0123456789truefals") != std::string::npos) {
      literal = "'" + value + "'";
    }
    std::string section = key.section.empty() ? "" : "[" + std::string(key.section) + "]\n";
    std::string file = section + std::string(key.name) + " = " + literal;
    EXPECT_EQ(load_with(file.c_str(), {}).policy, expected) << file;
    Policy defaults;
    complete(defaults);
    EXPECT_EQ(load_with(file.c_str(), {set_back.c_str()}).policy, defaults) << set_back;
  }
  EXPECT_TRUE(names.contains("GRAPHPOOL_ENABLED"));
  EXPECT_TRUE(names.contains("GRAPHPOOL_POOL_CHUNK"));
  EXPECT_TRUE(names.contains("GRAPHPOOL_GRAPH_RING_TIMEOUT"));
  for (const Reserved& reserved : reserved_variables()) {
    EXPECT_FALSE(names.contains("GRAPHPOOL_" + std::string(reserved.name))) << reserved.name;
  }
}

TEST(Load, BuffersReplaceTheFilesRules) {
  const char* file = "[[buffer]]\nname = 'file'\n[[buffer]]\n";
  Loaded loaded = load_with(file, {"GRAPHPOOL_BUFFERS=[{name = 'environment', stage = 'always'}]"});
  ASSERT_TRUE(loaded.policy);
  EXPECT_EQ(loaded.policy->buffers.size(), 3u);
  EXPECT_EQ(loaded.policy->buffers[0].name, "environment");
  EXPECT_EQ(load_with(file, {"GRAPHPOOL_BUFFERS="}).policy->buffers.size(), 2u);
  EXPECT_EQ(load_with(file, {}).policy->buffers.size(), 4u);
}

TEST(Load, Report) {
  EXPECT_EQ(load_with(nullptr, {"GRAPHPOOL_REPORT=a.json"}).policy->report.file, "a.json");
  EXPECT_EQ(load_with("[report]\nfile = 'f.json'", {"GRAPHPOOL_REPORT=a.json"}).policy->report.file, "a.json");
  EXPECT_EQ(load_with("[report]\nfile = 'f.json'", {"GRAPHPOOL_REPORT="}).policy->report.file, "f.json");
  EXPECT_EQ(load_with(nullptr, {"GRAPHPOOL_REPORT=a", "GRAPHPOOL_REPORT_FILE=b"}).policy->report.file, "b");
  EXPECT_EQ(load_with(nullptr, {"GRAPHPOOL_REPORT_FILE=b", "GRAPHPOOL_REPORT=a"}).policy->report.file, "b");
}

TEST(Load, Trace) {
  EXPECT_EQ(load_with(nullptr, {"GRAPHPOOL_TRACE=a.json"}).policy->report.trace, "a.json");
  EXPECT_EQ(load_with("[report]\ntrace = 'f.json'", {"GRAPHPOOL_TRACE="}).policy->report.trace, "f.json");
  EXPECT_EQ(load_with(nullptr, {"GRAPHPOOL_TRACE=a", "GRAPHPOOL_REPORT_TRACE=b"}).policy->report.trace, "b");
  EXPECT_EQ(load_with(nullptr, {"GRAPHPOOL_TRACE=a\tb"}).policy->report.trace, "") << "none, with a warning";
}

TEST(Load, BadReportMeansNone) {
  Loaded loaded = load_with("[report]\nfile = 'f.json'", {"GRAPHPOOL_REPORT=a\tb"});
  ASSERT_TRUE(loaded.policy);
  EXPECT_EQ(loaded.policy->report.file, "");
  EXPECT_EQ(loaded.warnings, Messages{"environment GRAPHPOOL_REPORT: report.file: bad value \"a?b\"; allowed: text "
                                      "without control characters; the default is used"});
}

TEST(Load, WhatOnlyTellsNeverSwitchesOff) {
  Policy defaults;
  complete(defaults);
  Loaded loaded = load_with("[log]\nlevel = 'loud'\ncolour = 1\nfile = 3\n[report]\nevery = 5\n",
                            {"GRAPHPOOL_LOG_LEVEL=verbose", "GRAPHPOOL_REPORT_CALLSITES=maybe"});
  EXPECT_EQ(loaded.errors, Messages{});
  EXPECT_EQ(loaded.policy, defaults);
  const char* const starts[] = {
      "p.toml:2:9: log.level: bad value \"loud\"; allowed: off, ",
      "p.toml:3:1: unknown key \"colour\"; allowed: level, file (in [log]); ignored",
      "p.toml:4:8: log.file: an integer; allowed: ",
      "p.toml:6:9: report.every: an integer; allowed: ",
      "environment GRAPHPOOL_LOG_LEVEL: log.level: bad value \"verbose\"; allowed: off, ",
      "environment GRAPHPOOL_REPORT_CALLSITES: report.callsites: bad value \"maybe\"; allowed: "};
  ASSERT_EQ(loaded.warnings.size(), std::size(starts));
  for (std::size_t i = 0; i < std::size(starts); ++i) {
    EXPECT_TRUE(loaded.warnings[i].starts_with(starts[i])) << loaded.warnings[i];
    const bool said = loaded.warnings[i].ends_with("the default is used") || loaded.warnings[i].ends_with("ignored");
    EXPECT_TRUE(said) << loaded.warnings[i];
  }
}

TEST(Load, WhatOnlyTellsLeavesOtherErrorsErrors) {
  Loaded loaded = load_with("[log]\nlevel = 'loud'\n[graph]\nslots = 0\n", {});
  EXPECT_FALSE(loaded.policy);
  EXPECT_EQ(loaded.errors.size(), 1u);
  EXPECT_EQ(loaded.warnings.size(), 1u);
}

TEST(Load, GivenValuesNameTheirPlace) {
  Loaded loaded = load_with("[graph]\nslots = 2\n[[buffer]]\nname = 'a'\n[[buffer]]\ndevice = [0, 1]\n",
                            {"GRAPHPOOL_GRAPH_SLOTS=4", "GRAPHPOOL_REPORT=r.json"});
  std::vector<std::string> found;
  for (const Given& given : loaded.given) found.push_back(given.key + " = " + given.value + " (" + given.from + ")");
  EXPECT_EQ(found,
            (Messages{"graph.slots = 2 (p.toml:2:9)", "buffer 1: name = a (p.toml:4:8)",
                      "buffer 2: device = 0, 1 (p.toml:6:10)", "report.file = r.json (environment GRAPHPOOL_REPORT)",
                      "graph.slots = 4 (environment GRAPHPOOL_GRAPH_SLOTS)"}));
}

TEST(Load, GivenRulesOfTheEnvironmentReplaceTheFiles) {
  Loaded loaded = load_with("[[buffer]]\nname = 'a'\n", {"GRAPHPOOL_BUFFERS=[{name = 'b'}]"});
  ASSERT_EQ(loaded.given.size(), 1u);
  EXPECT_EQ(loaded.given[0].value, "b");
  EXPECT_EQ(loaded.given[0].from, "environment GRAPHPOOL_BUFFERS, column 10");
}

TEST(Load, FirstOfARepeatedVariableCounts) {
  EXPECT_EQ(load_with(nullptr, {"GRAPHPOOL_GRAPH_SLOTS=4", "GRAPHPOOL_GRAPH_SLOTS=x"}).policy->graph.slots, 4u);
}

TEST(Load, EmptyPolicyNameMeansNone) { EXPECT_TRUE(load_with(nullptr, {"GRAPHPOOL_POLICY="}).policy); }

TEST(Load, EmptyVariableMeansUnsetWhereEmptyIsNoValue) {
  Loaded loaded =
      load_with("[graph]\nslots = 2\n[log]\nfile = 'f'\n", {"GRAPHPOOL_GRAPH_SLOTS=", "GRAPHPOOL_LOG_FILE="});
  ASSERT_TRUE(loaded.policy);
  EXPECT_EQ(loaded.policy->graph.slots, 2u);
  EXPECT_EQ(loaded.policy->log.file, "");
  EXPECT_EQ(loaded.warnings, Messages{});
}

TEST(Load, MissingFile) {
  Loaded loaded = load_with(nullptr, {"GRAPHPOOL_POLICY=p.toml"});
  EXPECT_FALSE(loaded.policy);
  EXPECT_EQ(loaded.errors, Messages{"environment GRAPHPOOL_POLICY: cannot read p.toml: no such file"});
}

TEST(Load, BadFileMeansNoPolicy) {
  Loaded loaded = load_with("[graph]\nslots = 0", {});
  EXPECT_FALSE(loaded.policy);
  EXPECT_EQ(loaded.errors, Messages{"p.toml:2:9: graph.slots: bad value \"0\"; allowed: an integer from 1 to 64"});
}

TEST(Load, BadVariableMeansNoPolicy) {
  Loaded loaded = load_with(nullptr, {"GRAPHPOOL_POOL_LARGE=12MiX"});
  EXPECT_FALSE(loaded.policy);
  EXPECT_EQ(loaded.errors, Messages{"environment GRAPHPOOL_POOL_LARGE: pool.large: bad value \"12MiX\"; allowed: a "
                                    "size: bytes, or a number with K, M, G, T or KiB, MiB, GiB, TiB"});
  loaded = load_with(nullptr, {"GRAPHPOOL_BUFFERS=[{slot = 1}]"});
  EXPECT_FALSE(loaded.policy);
  ASSERT_EQ(loaded.errors.size(), 1u);
  EXPECT_TRUE(loaded.errors[0].starts_with(
      "environment GRAPHPOOL_BUFFERS, column 3: unknown key \"slot\", did you mean \"slots\"?; allowed: name, size, "))
      << loaded.errors[0];
}

TEST(Load, FileAndEnvironmentErrorsTogether) {
  EXPECT_EQ(load_with("enabled = 1", {"GRAPHPOOL_ENABLED=maybe"}).errors.size(), 2u);
}

TEST(Load, UnknownVariablesWarnOnce) {
  Loaded loaded = load_with(nullptr, {"GRAPHPOOL_POOL_CHUNKS=1", "GRAPHPOOL_POOL_CHUNKS=2", "GRAPHPOOL_POLICYS=x",
                                      "GRAPHPOOL_SOMETHING_ELSE_ENTIRELY=1", "GRAPHPOOL_=1", "graphpool_enabled=0"});
  EXPECT_TRUE(loaded.policy);
  EXPECT_EQ(loaded.errors, Messages{});
  EXPECT_EQ(
      loaded.warnings,
      (Messages{"environment GRAPHPOOL_POOL_CHUNKS: unknown variable, ignored; did you mean GRAPHPOOL_POOL_CHUNK?",
                "environment GRAPHPOOL_POLICYS: unknown variable, ignored; did you mean GRAPHPOOL_POLICY?",
                "environment GRAPHPOOL_SOMETHING_ELSE_ENTIRELY: unknown variable, ignored",
                "environment GRAPHPOOL_: unknown variable, ignored"}));
}

TEST(Load, ErrnoIsLeftAsFound) {
  const char* environment[] = {"GRAPHPOOL_POLICY=/nowhere/at/all", nullptr};
  errno = EDOM;
  Loaded loaded = load(&read_policy_file, environment);
  EXPECT_EQ(errno, EDOM);
  EXPECT_FALSE(loaded.policy);
}

const char* failing_file(const char*, std::string&) { throw std::bad_alloc(); }

TEST(Load, OutOfMemoryMeansNoPolicy) {
  const char* environment[] = {"GRAPHPOOL_POLICY=p.toml", nullptr};
  EXPECT_FALSE(load(&failing_file, environment).policy);
}

class ReadPolicyFile : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/graphpool_policy_XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    folder_ = pattern;
    path_ = folder_ + "/p.toml";
  }
  void TearDown() override {
    unlink(path_.c_str());
    rmdir(folder_.c_str());
  }
  std::string read(const std::string& path) {
    const char* why = read_policy_file(path.c_str(), text_);
    return why ? why : "";
  }
  std::string folder_, path_, text_;
};

TEST_F(ReadPolicyFile, Whole) {
  std::string content(10000, '#');
  content += '\0';
  std::ofstream(path_, std::ios::binary) << content;
  EXPECT_EQ(read(path_), "");
  EXPECT_EQ(text_, content);
  EXPECT_EQ(read("/dev/null"), "");
  EXPECT_EQ(text_, "");
}

TEST_F(ReadPolicyFile, TooLarge) {
  std::ofstream(path_) << std::string(kLongestTextBytes + 1, '#');
  EXPECT_EQ(read(path_), "larger than 1 MiB");
  std::ofstream(path_) << std::string(kLongestTextBytes, '#');
  EXPECT_EQ(read(path_), "");
  EXPECT_EQ(read("/dev/zero"), "larger than 1 MiB");
}

TEST_F(ReadPolicyFile, Refused) {
  EXPECT_EQ(read(folder_), "it is a directory");
  EXPECT_EQ(read(path_), "no such file");
  EXPECT_EQ(read(path_ + "/x"), "no such file");
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(read(path_), "it is not a regular file");
}

}  // namespace
}  // namespace graphpool
