// policy_example_test.cpp: policy/example.toml is what the rows of policy_keys.def say, and parses to the defaults.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "policy/keys.h"
#include "policy/parse.h"

namespace graphpool {
namespace {

using namespace reading;

std::string file_text() {
  std::ostringstream text;
  text << std::ifstream(GRAPHPOOL_EXAMPLE_POLICY).rdbuf();
  return text.str();
}

template <typename Target>
std::string literal(const Key<Target>& key) {
  auto item = [&](std::string_view text) {
    bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
    bool bare = (key.forms & kBoolean) || ((key.forms & kInteger) && digits);
    return bare ? std::string(text) : "\"" + std::string(text) + "\"";
  };
  if (!(key.forms & kList)) return item(key.fallback);
  std::string list;
  for (std::string_view text : key.items(key.fallback)) list += (list.empty() ? "" : ", ") + item(text);
  return "[" + list + "]";
}

template <typename Target>
std::string row(const Key<Target>& key, const char* start) {
  return "# " + std::string(key.help) + "\n" + start + std::string(key.name) + " = " + literal(key) + "\n";
}

std::string expected_text() {
  std::string text =
      "# A policy of libgraphpool: every key at its default. Name such a file in GRAPHPOOL_POLICY; leave out what you "
      "do\n"
      "# not change. Every key outside of [[buffer]] is also an environment variable, which wins: "
      "GRAPHPOOL_<SECTION>_<KEY>.\n"
      "# Sizes: bytes, or a number with K, M, G, T or KiB, MiB, GiB, TiB. Durations: a number with ms, s or min.\n\n";
  for (const auto& key : policy_keys()) {
    if (key.section.empty()) text += row(key, "");
  }
  for (const Section& section : policy_sections()) {
    text += "\n# " + std::string(section.help) + "\n[" + std::string(section.name) + "]\n";
    for (const auto& key : policy_keys()) {
      if (key.section == section.name) text += row(key, "");
    }
  }
  text +=
      "\n# Rules for allocations, as many as you like; the first that matches wins. GRAPHPOOL_BUFFERS, an inline "
      "array\n"
      "# [{size = \">=1MiB\", stage = \"always\"}, ...], replaces them.\n#[[buffer]]\n";
  for (const auto& key : buffer_keys()) text += row(key, "#");
  return text;
}

TEST(Example, ShowsEveryKeyAtItsDefault) {
  EXPECT_EQ(file_text(), expected_text()) << "policy/example.toml should read:\n" << expected_text();
}

TEST(Example, ParsesToTheDefaults) {
  Policy policy;
  EXPECT_EQ(parse_policy(file_text(), "example.toml", policy), std::vector<std::string>{});
  EXPECT_EQ(policy, Policy{});
}

TEST(Example, ItsRuleIsTheDefaultRule) {
  std::istringstream lines(file_text());
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#') && !line.starts_with("# ")) line.erase(0, 1);
    text += line + "\n";
  }
  Policy policy;
  EXPECT_EQ(parse_policy(text, "example.toml", policy), std::vector<std::string>{});
  ASSERT_EQ(policy.buffers.size(), 1u);
  EXPECT_EQ(policy.buffers[0].said, (1u << buffer_keys().size()) - 1);
  policy.buffers[0].said = 0;
  EXPECT_EQ(policy.buffers[0], BufferRule{});
}

TEST(Example, LinesFitAndHelpIsOneLine) {
  std::istringstream lines(file_text());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120u) << line;
  for (const auto& key : policy_keys()) EXPECT_FALSE(key.help.empty()) << key.name;
}

}  // namespace
}  // namespace graphpool
