// policy_parse_test.cpp: every key with a good and a bad value, every message, places, locale independence.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <locale>
#include <set>

#include "policy/parse.h"

namespace graphpool {
namespace {

using namespace reading;

using namespace std::chrono_literals;
using Messages = std::vector<std::string>;

struct Parsed {
  Policy policy;
  Messages errors;
};

Parsed parse(std::string_view text) {
  Parsed parsed;
  parsed.errors = parse_policy(text, "p.toml", parsed.policy);
  return parsed;
}

constexpr const char* kSizes = "a size: bytes, or a number with K, M, G, T or KiB, MiB, GiB, TiB";
constexpr const char* kShares = "0% to 100%, or a size: bytes, or a number with K, M, G, T or KiB, MiB, GiB, TiB";
constexpr const char* kFlags = "true, false (in the environment also 1, 0, on, off)";
constexpr const char* kCounts = "an integer from 1 to 1000000000";
constexpr const char* kTexts = "text without control characters";
constexpr const char* kDurations = "a number with ms, s or min";
constexpr const char* kPatterns =
    "a list of patterns, none empty (in the environment separated by commas); * stands for any characters, ? for one";
constexpr const char* kPattern = "a pattern; * stands for any characters, ? for one";

/// One key: a value that is not its default and what it becomes; a bad value and its message.
struct KeyCase {
  const char* section;
  const char* name;
  const char* good;
  std::function<bool(const Policy&)> is_good;
  const char* bad;
  const char* what;
  const char* allowed;
};

const BufferRule& rule(const Policy& p) { return p.buffers.at(0); }

std::vector<KeyCase> key_cases() {
  return {
      {"", "enabled", "false", [](const Policy& p) { return !p.enabled; }, "1", "an integer", kFlags},
      {"pool", "enabled", "false", [](const Policy& p) { return !p.pool.enabled; }, "'true'", "a string", kFlags},
      {"pool", "backing", "'vmm'", [](const Policy& p) { return p.pool.backing == Backing::kVmm; }, "'vm'",
       "bad value \"vm\"", "auto, classic, vmm"},
      {"pool", "idle", "'500ms'", [](const Policy& p) { return p.pool.idle == 500ms; }, "30", "an integer", kDurations},
      {"pool", "chunk", "'128MiB'", [](const Policy& p) { return p.pool.chunk.bytes == 128u << 20; }, "'1MiB'",
       "bad value \"1MiB\"",
       "a size: bytes, or a number with K, M, G, T or KiB, MiB, GiB, TiB; at least 2097152 bytes; at most "
       "1099511627776 bytes"},
      {"pool", "limit", "'50%'",
       [](const Policy& p) {
         return p.pool.limit == (Share{0, 50, true});
       },
       "'101%'", "bad value \"101%\"", kShares},
      {"pool", "large", "4096", [](const Policy& p) { return p.pool.large.bytes == 4096; }, "-1", "bad value \"-1\"",
       kSizes},
      {"pool", "idle", "'2min'", [](const Policy& p) { return p.pool.idle == 2min; }, "10", "an integer", kDurations},
      {"pool", "free", "'deferred'", [](const Policy& p) { return p.pool.free == FreeMode::kDeferred; }, "'async'",
       "bad value \"async\"", "sync, deferred"},
      {"pool", "preallocate", "'1G'", [](const Policy& p) { return p.pool.preallocate.bytes == 1u << 30; }, "1.5",
       "a floating-point number", kSizes},
      {"graph", "check", "true", [](const Policy& p) { return p.graph.check; }, "1", "an integer", kFlags},
      {"graph", "compare", "false", [](const Policy& p) { return !p.graph.compare; }, "0", "an integer", kFlags},
      {"graph", "reuse", "false", [](const Policy& p) { return !p.graph.reuse; }, "[]", "a list", kFlags},
      {"graph", "weigh", "false", [](const Policy& p) { return !p.graph.weigh; }, "[]", "a list", kFlags},
      {"graph", "stage", "'auto'", [](const Policy& p) { return p.graph.stage == Stage::kAuto; }, "'yes'",
       "bad value \"yes\"", "never, auto, always"},
      {"graph", "slots", "2", [](const Policy& p) { return p.graph.slots == 2; }, "0", "bad value \"0\"",
       "an integer from 1 to 64"},
      {"graph", "ring_timeout", "'500ms'", [](const Policy& p) { return p.graph.ring_timeout == 500ms; }, "30",
       "an integer", kDurations},
      {"graph", "overlap", "true", [](const Policy& p) { return p.graph.overlap; }, "'on'", "a string", kFlags},
      {"graph", "strategy", "'patch'", [](const Policy& p) { return p.graph.strategy == Strategy::kPatch; }, "'stage'",
       "bad value \"stage\"", "auto, new_exec, patch, one_shot"},
      {"graph", "variants", "3", [](const Policy& p) { return p.graph.variants == 3; }, "'3'", "a string", kCounts},
      {"graph", "variant_memory", "'1M'", [](const Policy& p) { return p.graph.variant_memory.bytes == 1u << 20; },
       "'lots'", "bad value \"lots\"", kSizes},
      {"graph", "exec_memory", "'8M'", [](const Policy& p) { return p.graph.exec_memory.bytes == 8u << 20; }, "'few'",
       "bad value \"few\"", kSizes},
      {"graph", "patch_budget", "7", [](const Policy& p) { return p.graph.patch_budget == 7; }, "0", "bad value \"0\"",
       kCounts},
      {"graph", "recordings", "9", [](const Policy& p) { return p.graph.recordings == 9; }, "1000000001",
       "bad value \"1000000001\"", kCounts},
      {"graph", "recording_memory", "1", [](const Policy& p) { return p.graph.recording_memory.bytes == 1; }, "true",
       "a boolean", kSizes},
      {"graph", "malloc_in_capture", "true", [](const Policy& p) { return p.graph.malloc_in_capture; }, "1",
       "an integer", kFlags},
      {"graph", "unknown", "'trust'", [](const Policy& p) { return p.graph.unknown == Unknown::kTrust; }, "'on'",
       "bad value \"on\"", "off, trust"},
      {"graph", "verify", "'first:3'",
       [](const Policy& p) {
         return p.graph.verify == (Verify{Verify::Mode::kFirst, 3});
       },
       "'first:0'", "bad value \"first:0\"", "off, first:K, every:M, where K and M are at least 1"},
      {"compile", "enabled", "false", [](const Policy& p) { return !p.compile.enabled; }, "1979-05-27",
       "a date or time", kFlags},
      {"compile", "max", "4", [](const Policy& p) { return p.compile.max == PermitLimit{4}; }, "'all'",
       "bad value \"all\"", "auto, or an integer from 1 to 65536"},
      {"compile", "scope", "'node'", [](const Policy& p) { return p.compile.scope == Scope::kNode; }, "'job'",
       "bad value \"job\"", "process, user, node"},
      {"compile", "reserve", "'2GiB'",
       [](const Policy& p) {
         return p.compile.reserve == (Share{2ull << 30, 0, false});
       },
       "'10 %%'", "bad value \"10 %%\"", kShares},
      {"compile", "wait", "'2min'", [](const Policy& p) { return p.compile.wait == 2min; }, "'2h'", "bad value \"2h\"",
       kDurations},
      {"compile", "tools", "['a*', 'b']",
       [](const Policy& p) {
         return p.compile.tools == std::vector<Glob>{Glob("a*"), Glob("b")};
       },
       "['a', '']", "bad value \"\"", kPatterns},
      {"compile", "threads", "'one'",
       [](const Policy& p) { return p.compile.threads == std::vector<Glob>{Glob("one")}; }, "['a', 1]", "an integer",
       kPatterns},
      {"compile", "jobserver", "'offer'", [](const Policy& p) { return p.compile.jobserver == Jobserver::kOffer; },
       "'on'", "bad value \"on\"", "off, honour, offer"},
      {"log", "level", "'trace'", [](const Policy& p) { return p.log.level == LogLevel::kTrace; }, "'warning'",
       "bad value \"warning\"", "off, error, warn, info, debug, trace"},
      {"log", "file", "'/var/log/x'", [](const Policy& p) { return p.log.file == "/var/log/x"; }, "\"a\\tb\"",
       "bad value \"a?b\"", kTexts},
      {"report", "file", "'r-%p.json'", [](const Policy& p) { return p.report.file == "r-%p.json"; }, "[1]", "a list",
       kTexts},
      {"report", "trace", "'t-%p.json'", [](const Policy& p) { return p.report.trace == "t-%p.json"; }, "[1]", "a list",
       kTexts},
      {"report", "every", "'5s'", [](const Policy& p) { return p.report.every == 5s; }, "5", "an integer", kDurations},
      {"report", "callsites", "true", [](const Policy& p) { return p.report.callsites; }, "'true'", "a string", kFlags},
      {"buffer", "name", "'weights'", [](const Policy& p) { return rule(p).name == "weights"; }, "\"\\n\"",
       "bad value \"?\"", kTexts},
      {"buffer", "size", "'>=1MiB'",
       [](const Policy& p) {
         return rule(p).size == (Span{1u << 20, UINT64_MAX});
       },
       "'> 1'", "bad value \"> 1\"",
       "a size, \">=size\", \"<=size\" or \"size..size\"; a size is bytes, or a number with K, M, G, T or KiB, MiB, "
       "GiB, TiB"},
      {"buffer", "callsite", "'lib*!f'", [](const Policy& p) { return rule(p).callsite == Glob("lib*!f"); }, "['a']",
       "a list", kPattern},
      {"buffer", "callsite_prefix", "['*!_start', '*!main']",
       [](const Policy& p) {
         return rule(p).callsite_prefix == std::vector<Glob>{Glob("*!_start"), Glob("*!main")};
       },
       "['']", "bad value \"\"", kPatterns},
      {"buffer", "module", "'libfoo*'", [](const Policy& p) { return rule(p).module == Glob("libfoo*"); }, "3",
       "an integer", kPattern},
      {"buffer", "device", "[0, 2]",
       [](const Policy& p) {
         return rule(p).device == std::vector<std::uint32_t>{0, 2};
       },
       "[0, -1]", "bad value \"-1\"", "a device number from 0, or a list of them"},
      {"buffer", "order", "'0..7'",
       [](const Policy& p) {
         return rule(p).order == (Span{0, 7});
       },
       "'7..0'", "bad value \"7..0\"", "a number from 0, \">=n\", \"<=n\" or \"n..m\""},
      {"buffer", "function", "'hipMallocAsync'",
       [](const Policy& p) { return rule(p).function == Glob("hipMallocAsync"); }, "true", "a boolean", kPattern},
      {"buffer", "action", "'pass'", [](const Policy& p) { return rule(p).action == Action::kPass; }, "'drop'",
       "bad value \"drop\"", "pool, pass"},
      {"buffer", "backing", "'classic'", [](const Policy& p) { return rule(p).backing == Backing::kClassic; }, "''",
       "bad value \"\"", "auto, classic, vmm"},
      {"buffer", "stage", "'always'", [](const Policy& p) { return rule(p).stage == Stage::kAlways; }, "true",
       "a boolean", "never, auto, always"},
      {"buffer", "role", "'temp'", [](const Policy& p) { return rule(p).role == Role::kTemp; }, "'tmp'",
       "bad value \"tmp\"", "inout, in, out, temp"},
      {"buffer", "full", "true", [](const Policy& p) { return rule(p).full; }, "1", "an integer", kFlags},
      {"buffer", "range", "[4096, '1MiB']",
       [](const Policy& p) {
         return rule(p).range == (WrittenRange{4096, 1u << 20});
       },
       "[1, 2, 3]", "a list of 3", "[offset, length], each bytes, or a number with K, M, G, T or KiB, MiB, GiB, TiB"},
      {"buffer", "slots", "64", [](const Policy& p) { return rule(p).slots == 64; }, "65", "bad value \"65\"",
       "an integer from 1 to 64"},
      {"buffer", "overlap", "true", [](const Policy& p) { return rule(p).overlap; }, "'true'", "a string", kFlags},
  };
}

std::string text_of(const KeyCase& c, const char* value) {
  std::string section = c.section;
  std::string head = section.empty() ? "\n" : section == "buffer" ? "[[buffer]]\n" : "[" + section + "]\n";
  return head + c.name + " = " + value + "\n";
}

std::string label(const KeyCase& c) { return (*c.section ? std::string(c.section) + "." : "") + c.name; }

TEST(ParseKeys, EveryKeyHasACase) {
  std::set<std::string> cases;
  for (const KeyCase& c : key_cases()) cases.insert(label(c));
  std::set<std::string> rows;
  for (const auto& key : policy_keys()) rows.insert(full_name(key));
  for (const auto& key : buffer_keys()) rows.insert(full_name(key));
  EXPECT_EQ(cases, rows);
}

TEST(ParseKeys, GoodValue) {
  for (const KeyCase& c : key_cases()) {
    Parsed parsed = parse(text_of(c, c.good));
    EXPECT_EQ(parsed.errors, Messages{}) << label(c);
    EXPECT_TRUE(c.is_good(parsed.policy)) << label(c);
    Parsed untouched = parse(std::string(c.section) == "buffer" ? "[[buffer]]" : "");
    EXPECT_FALSE(c.is_good(untouched.policy)) << label(c) << ": the value must differ from the default";
  }
}

TEST(ParseKeys, BadValue) {
  for (const KeyCase& c : key_cases()) {
    Parsed parsed = parse(text_of(c, c.bad));
    ASSERT_EQ(parsed.errors.size(), 1u) << label(c);
    std::string& error = parsed.errors[0];
    EXPECT_TRUE(error.starts_with("p.toml:2:")) << error;
    std::string message = error.substr(error.find(": ") + 2);
    EXPECT_EQ(message, label(c) + ": " + c.what + "; allowed: " + c.allowed);
  }
}

TEST(ParseKeys, MisspeltKey) {
  for (const KeyCase& c : key_cases()) {
    std::string wrong = std::string(c.name) + "x";
    KeyCase misspelt = c;
    misspelt.name = wrong.c_str();
    Parsed parsed = parse(text_of(misspelt, "1"));
    ASSERT_EQ(parsed.errors.size(), 1u) << label(c);
    std::string start = "p.toml:2:1: unknown key \"" + wrong + "\"";
    EXPECT_TRUE(parsed.errors[0].starts_with(start + ", did you mean \"" + c.name + "\"?; allowed: "))
        << parsed.errors[0];
  }
}

TEST(ParseKeys, RuleRemembersWhatItSaid) {
  Parsed parsed = parse("[[buffer]]\nslots = 1\n[[buffer]]\n");
  ASSERT_EQ(parsed.policy.buffers.size(), 2u);
  EXPECT_TRUE(parsed.policy.buffers[0].says(BufferRule::Key::slots));
  EXPECT_FALSE(parsed.policy.buffers[0].says(BufferRule::Key::stage));
  EXPECT_FALSE(parsed.policy.buffers[1].says(BufferRule::Key::slots));
}

/// The whole text of every kind of message, with its place.
void expect_error(std::string_view text, const std::string& message) {
  EXPECT_EQ(parse(text).errors, Messages{message}) << text;
}

TEST(ParseMessages, Places) {
  expect_error("[pool]\n  chunk = '1X'\n",
               "p.toml:2:11: pool.chunk: bad value \"1X\"; allowed: " + ChunkSize::allowed());
  expect_error("pool.chunk = '1X'", "p.toml:1:14: pool.chunk: bad value \"1X\"; allowed: " + ChunkSize::allowed());
  expect_error("[compile]\ntools = [\n 'a',\n  '']",
               "p.toml:4:3: compile.tools: bad value \"\"; allowed: " + GlobList::allowed());
  expect_error("[compile]\ntools = ['a', 1.0]",
               "p.toml:2:15: compile.tools: a floating-point number; allowed: " + GlobList::allowed());
  expect_error("[[buffer]]\nrange = []", "p.toml:2:9: buffer.range: a list of 0; allowed: " + ByteRange::allowed());
}

TEST(ParseMessages, UnknownNames) {
  expect_error("enable = true",
               "p.toml:1:1: unknown key \"enable\", did you mean \"enabled\"?; allowed: enabled, pool, graph, "
               "compile, log, report, buffer");
  expect_error("xyzzy = 1",
               "p.toml:1:1: unknown key \"xyzzy\"; allowed: enabled, pool, graph, compile, log, report, buffer");
  expect_error("[pol]\nchunk = 1",
               "p.toml:1:2: unknown section \"pol\", did you mean \"pool\"?; allowed: pool, graph, "
               "compile, log, report, buffer");
  expect_error("[log]\n color = 1", "p.toml:2:2: unknown key \"color\"; allowed: level, file (in [log])");
  expect_error("[log]\n\"a\\u001b[0m\" = 1", "p.toml:2:1: unknown key \"a?[0m\"; allowed: level, file (in [log])");
  expect_error(std::string(100, 'k') + " = 1",
               "p.toml:1:1: unknown key \"" + std::string(64, 'k') +
                   "...\"; allowed: enabled, pool, graph, compile, log, report, buffer");
}

TEST(ParseMessages, WrongShapes) {
  expect_error("pool = 3", "p.toml:1:1: pool: an integer; allowed: a section, [pool]");
  expect_error("[[pool]]\nchunk = 1", "p.toml:1:3: pool: a list; allowed: a section, [pool]");
  expect_error("[buffer]\nsize = 1", "p.toml:1:2: buffer: a table; allowed: [[buffer]] tables");
  expect_error("buffer = [1]", "p.toml:1:11: buffer: an integer; allowed: [[buffer]] tables");
  expect_error("buffer = 'x'", "p.toml:1:1: buffer: a string; allowed: [[buffer]] tables");
  expect_error("[log.level]\nx = 1", "p.toml:1:1: log.level: a table; allowed: off, error, warn, info, debug, trace");
}

TEST(ParseMessages, NotToml) {
  for (const char* text : {"[pool\n", "a = ", "a = 1\na = 2", "= 1", "a = \"\n", "\xff", "a = 0x", "[a]\n[a]"}) {
    Parsed parsed = parse(text);
    ASSERT_EQ(parsed.errors.size(), 1u) << text;
    EXPECT_NE(parsed.errors[0].find(": not TOML: "), std::string::npos) << parsed.errors[0];
    EXPECT_TRUE(parsed.errors[0].starts_with("p.toml:")) << parsed.errors[0];
  }
  EXPECT_TRUE(parse("\n\nenabled = maybe").errors.at(0).starts_with("p.toml:3:11: not TOML: "));
}

TEST(ParseMessages, TooLongOrTooDeep) {
  expect_error(std::string(kLongestTextBytes + 1, '\n'), "p.toml:1:1: text of 1048577 bytes; allowed: 1048576");
  std::string dotted = "a";
  for (int i = 0; i < 40; ++i) dotted += ".a";
  const std::string deep = "key nested too deep; allowed: section and key";
  expect_error(dotted + " = 1", "p.toml:1:66: " + deep);
  expect_error("\n[" + dotted + "]", "p.toml:2:67: " + deep);
  expect_error("x = '''\n''''' # \"\"\"\n" + dotted + " = 1", "p.toml:3:66: " + deep);
  expect_error("x = \"\"\"\\\"\"\"\"\"\"\n" + dotted + " = 1", "p.toml:2:66: " + deep);
  // Dots inside strings and comments are no keys.
  std::string dots(100, '.');
  EXPECT_EQ(parse("# " + dots + "\n[log]\nfile = '" + dots + "' # " + dots).errors, Messages{});
  EXPECT_EQ(parse("[log]\nfile = \"\\\"" + dots + "\"").errors, Messages{});
  EXPECT_EQ(parse("[log]\nfile = '''" + dots + "'''").errors, Messages{});
}

TEST(ParseMessages, OtherThanAsciiOnlyInStringsAndComments) {
  const std::string outside = "not TOML: other than ASCII outside a string or comment";
  expect_error("[log]\nfile = \xc3\xa9", "p.toml:2:8: " + outside);
  expect_error("\xef\xbb\xbf\xc2\xa0", "p.toml:1:1: " + outside);
  expect_error("'''x''' '\\' \xc3\xa9", "p.toml:1:13: " + outside);
  expect_error("x = '\xc3\xa9\xe2\x82\xac' \xc3\xa9", "p.toml:1:10: " + outside);
  EXPECT_EQ(parse("# \xc3\xa9\n[log]\nfile = '\xc3\xa9' # \xc3\xa9").errors, Messages{});
  expect_error("[log]\nfile = \"\"\"\\\n\xc3\xa9\"\"\"",
               "p.toml:3:1: not supported: other than ASCII in a multi-line \"\"\" string");
  EXPECT_EQ(parse("[log]\nfile = '''\xc3\xa9'''").errors, Messages{});
}

TEST(ParseMessages, NestedListsAreRefused) {
  std::string text = "[compile]\ntools = " + std::string(100000, '[');
  Parsed parsed = parse(text);
  ASSERT_EQ(parsed.errors.size(), 1u);
  EXPECT_NE(parsed.errors[0].find("not TOML"), std::string::npos);
}

TEST(ParseMessages, AllInOrderOfTheText) {
  Parsed parsed = parse("[report]\ncallsites = 1\n[log]\nlevel = 2\nfile = 3\n[graph]\nreuse = 4\n");
  ASSERT_EQ(parsed.errors.size(), 4u);
  EXPECT_TRUE(parsed.errors[0].starts_with("p.toml:2:13: report.callsites"));
  EXPECT_TRUE(parsed.errors[1].starts_with("p.toml:4:9: log.level"));
  EXPECT_TRUE(parsed.errors[2].starts_with("p.toml:5:8: log.file"));
  EXPECT_TRUE(parsed.errors[3].starts_with("p.toml:7:9: graph.reuse"));
}

TEST(ParseMessages, AtMostTwenty) {
  std::string text = "[pool]\n";
  for (int i = 0; i < 30; ++i) text += "x" + std::to_string(i) + " = 1\n";
  Parsed parsed = parse(text);
  ASSERT_EQ(parsed.errors.size(), kMostErrors + 1);
  EXPECT_EQ(parsed.errors.back(), "p.toml: and 10 more");
}

TEST(Parse, EmptyTextChangesNothing) {
  Policy policy;
  policy.graph.slots = 5;
  policy.buffers.emplace_back().name = "kept";
  Policy before = policy;
  EXPECT_EQ(parse_policy("# nothing\n", "p.toml", policy), Messages{});
  EXPECT_EQ(policy, before);
}

TEST(Parse, RulesReplaceTheList) {
  Policy policy;
  policy.buffers.resize(3);
  EXPECT_EQ(parse_policy("[[buffer]]\nname = 'a'\n[[buffer]]\nname = 'b'\n", "p.toml", policy), Messages{});
  ASSERT_EQ(policy.buffers.size(), 2u);
  EXPECT_EQ(policy.buffers[0].name, "a");
  EXPECT_EQ(policy.buffers[1].name, "b");
}

TEST(Parse, WindowsLineEndsAndByteOrderMark) {
  EXPECT_EQ(parse("\xef\xbb\xbf[graph]\r\nslots = 4\r\n").policy.graph.slots, 4u);
}

TEST(ParseBuffers, TablesAndArrays) {
  for (const char* text : {"[[buffer]]\nname = 'a'\n[[buffer]]\nname = 'b'", "[{name = 'a'}, {name = 'b'}]",
                           "  [\n  {name = 'a'},\n  {name = 'b'},\n]\n", "buffer = [{name = 'a'}, {name = 'b'}]"}) {
    Policy policy;
    policy.buffers.resize(5);
    EXPECT_EQ(parse_buffers(text, "environment B", policy), Messages{}) << text;
    ASSERT_EQ(policy.buffers.size(), 2u) << text;
    EXPECT_EQ(policy.buffers[1].name, "b") << text;
  }
  for (const char* text : {"", "  ", "[]", "# none"}) {
    Policy policy;
    policy.buffers.resize(5);
    EXPECT_EQ(parse_buffers(text, "environment B", policy), Messages{}) << text;
    EXPECT_TRUE(policy.buffers.empty());
  }
}

TEST(ParseBuffers, Places) {
  auto error = [](std::string_view text) {
    Policy policy;
    Messages errors = parse_buffers(text, "environment B", policy);
    return errors.size() == 1 ? errors[0] : std::to_string(errors.size()) + " errors";
  };
  const std::string slots = "buffer.slots: bad value \"0\"; allowed: an integer from 1 to 64";
  EXPECT_EQ(error("[{slots = 0}]"), "environment B, column 11: " + slots);
  EXPECT_EQ(error("             [{slots = 0}]"), "environment B, column 24: " + slots);
  EXPECT_EQ(error("buffer = [{slots = 0}]"), "environment B, column 20: " + slots);
  EXPECT_EQ(error("\n\n  [{slots = 0},\n]"), "environment B:3:13: " + slots);
  EXPECT_EQ(error("[\n {slots = 0}]"), "environment B:2:11: " + slots);
  EXPECT_EQ(error("[[buffer]]\nslots = 0"), "environment B:2:9: " + slots);
  EXPECT_EQ(error("[1]"), "environment B, column 2: buffer: an integer; allowed: [[buffer]] tables");
  EXPECT_EQ(error("pool.chunk = 1"), "environment B, column 1: unknown key \"pool\"; allowed: [[buffer]] tables");
  EXPECT_TRUE(error("[{slots = }]").starts_with("environment B, column 11: not TOML: ")) << error("[{slots = }]");
  EXPECT_TRUE(error("[").starts_with("environment B, column 2: not TOML: ")) << error("[");
}

TEST(ParseValue, PlacesAndMessages) {
  auto error = [](std::string_view name, std::string_view text) -> std::string {
    for (const Key<Policy>& key : policy_keys()) {
      if (full_name(key) != name) continue;
      Policy policy;
      Messages errors = parse_value(text, "environment V", key, policy);
      return errors.empty() ? "" : errors.at(0);
    }
    return "no such key";
  };
  EXPECT_EQ(error("pool.large", "1MiB"), "");
  EXPECT_EQ(error("pool.large", "12MiX"),
            "environment V: pool.large: bad value \"12MiX\"; allowed: " + Size::allowed());
  EXPECT_EQ(error("compile.tools", "ab,,c"),
            "environment V: compile.tools: bad value \"ab,,c\"; allowed: " + GlobList::allowed());
  EXPECT_EQ(error("enabled", ""), "environment V: enabled: bad value \"\"; allowed: " + Flag::allowed());
}

/// Numbers and messages must not depend on a locale the host chose.
TEST(Parse, LocaleIndependent) {
  struct Grouping : std::numpunct<char> {
    char do_thousands_sep() const override { return '.'; }
    char do_decimal_point() const override { return ','; }
    std::string do_grouping() const override { return "\1"; }
  };
  auto run = [] {
    std::vector<Messages> all;
    for (const char* text : {"[pool]\nlarge = 1234567\nchunk = '1234567'\n", "a = 99999999999999999999", "a = 1.5x",
                             "[[buffer]]\nsize = '1000000..2000000'\nrange = [1000, 1234567]"}) {
      Parsed parsed = parse(text);
      all.push_back(parsed.errors);
      all.push_back({std::to_string(parsed.policy.pool.large.bytes)});
    }
    return all;
  };
  std::vector<Messages> before = run();
  std::locale old = std::locale::global(std::locale(std::locale::classic(), new Grouping));
  std::vector<Messages> during = run();
  std::locale::global(old);
  EXPECT_EQ(before, during);
}

}  // namespace
}  // namespace graphpool
