// policy_fuzz.cpp: any bytes as a policy file, as buffer rules, as the value of one variable, as an environment.
//
// What must hold: no crash, no undefined behaviour; every message is bounded, one line, and says a place; what was read
// without an error is read the same again, and as a policy decides about every allocation.
// Runs under libFuzzer (meson option `fuzz`) and, on a few seeds, as a normal test (policy_fuzz_test.cpp).
// The first byte picks the form of the input.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "policy/keys.h"
#include "policy/load.h"
#include "policy/parse.h"

namespace graphpool {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void check_messages(const std::vector<std::string>& messages) {
  require(messages.size() <= kMostErrors + 1);
  for (const std::string& message : messages) {
    require(message.size() < 2000);
    require(message.find(": ") != std::string::npos);
    for (char c : message) require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  }
}

void check_policy(Policy policy) {
  complete(policy);
  for (std::uint64_t size_bytes : {std::uint64_t{0}, std::uint64_t{4096}, UINT64_MAX}) {
    for (const char* module : {"", "train", "librccl.so.1"}) {
      AllocationQuery query;
      query.size_bytes = size_bytes;
      query.function = "hipMalloc";
      query.module = module;
      require(policy.match(query) != nullptr);
    }
  }
}

template <typename Parse>
void check_parse(Parse parse) {
  Policy policy, again;
  std::vector<std::string> messages = parse(policy);
  check_messages(messages);
  require(parse(again) == messages);
  if (!messages.empty()) return;
  require(again == policy);
  check_policy(policy);
}

std::string g_file_text;

const char* file_of_input(const char*, std::string& text) {
  text = g_file_text;
  return nullptr;
}

/// Lines are variables; what follows an empty line is the policy file.
void check_load(std::string_view input) {
  std::size_t end = input.find("\n\n");
  g_file_text = end == std::string_view::npos ? "" : std::string(input.substr(end + 2));
  std::vector<std::string> variables;
  if (end != std::string_view::npos) variables.push_back("GRAPHPOOL_POLICY=p.toml");
  for (std::string_view rest = input.substr(0, end); !rest.empty();) {
    std::size_t line = rest.find('\n');
    variables.push_back("GRAPHPOOL_" + std::string(rest.substr(0, line)));
    rest.remove_prefix(line == std::string_view::npos ? rest.size() : line + 1);
  }
  std::vector<const char*> environment;
  for (const std::string& variable : variables) environment.push_back(variable.c_str());
  environment.push_back(nullptr);
  Loaded loaded = load(&file_of_input, environment.data());
  require(loaded.policy.has_value() == loaded.errors.empty());
}

}  // namespace
}  // namespace graphpool

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size_bytes) {
  using namespace graphpool;
  if (size_bytes == 0) return 0;
  std::string_view text(reinterpret_cast<const char*>(data) + 1, size_bytes - 1);
  switch (data[0] % 4) {
    case 0:
      check_parse([&](Policy& policy) { return parse_policy(text, "p.toml", policy); });
      break;
    case 1:
      check_parse([&](Policy& policy) { return parse_buffers(text, "environment B", policy); });
      break;
    case 2: {
      if (text.empty()) break;
      const Key<Policy>& key = policy_keys()[static_cast<std::uint8_t>(text[0]) % policy_keys().size()];
      check_parse([&](Policy& policy) { return parse_value(text.substr(1), "environment V", key, policy); });
      break;
    }
    default:
      check_load(text);
  }
  return 0;
}
