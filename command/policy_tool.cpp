// policy_tool.cpp: the program graphpool-policy, which the command `graphpool` starts. It reads the policy with the
// library's own code, from the environment as a preloaded process would, and prints it as JSON on stdout. So the
// command checks exactly what the library would use.
//
//   {"errors": [text], "warnings": [text], "values": [{key, variable, value, default, from, help, allowed}],
//    "rules": [{key, value, from}], "reserved": [name]}
//
// value: as it was written; from: "default", or the place that gave it. Where there are errors, the values that were
// given are printed all the same. Exit code: 0 the policy can be used, 1 it cannot.
#include <unistd.h>

#include <cstdio>
#include <string>

#include "policy/keys.h"
#include "policy/load.h"
#include "shim/report/json.h"

namespace graphpool {
namespace {

void write_texts(JsonWriter& json, const char* name, const std::vector<std::string>& texts) {
  json.key(name).open_array();
  for (const std::string& text : texts) json.value(text);
  json.close_array();
}

/// The value that counts for this key, which is the last one given; null where none was given.
const Given* given_for(const std::vector<Given>& all, const std::string& key) {
  const Given* found = nullptr;
  for (const Given& given : all)
    if (given.key == key) found = &given;
  return found;
}

std::string policy_text(const Loaded& loaded) {
  JsonWriter json;
  json.open_object();
  write_texts(json, "errors", loaded.errors);
  write_texts(json, "warnings", loaded.warnings);
  json.key("values").open_array();
  for (const Key<Policy>& key : policy_keys()) {
    const Given* const given = given_for(loaded.given, full_name(key));
    json.open_object().key("key").value(full_name(key)).key("variable").value(variable_name(key));
    json.key("value").value(given != nullptr ? std::string_view(given->value) : key.fallback);
    json.key("default").value(key.fallback);
    json.key("from").value(given != nullptr ? std::string_view(given->from) : "default");
    json.key("help").value(key.help).key("allowed").value(key.allowed()).close_object();
  }
  json.close_array().key("rules").open_array();
  for (const Given& given : loaded.given) {
    if (!given.key.starts_with("buffer ")) continue;
    json.open_object().key("key").value(given.key).key("value").value(given.value);
    json.key("from").value(given.from).close_object();
  }
  json.close_array().key("reserved").open_array();
  for (const Reserved& reserved : reserved_variables()) json.value("GRAPHPOOL_" + std::string(reserved.name));
  json.close_array().close_object();
  return json.text();
}

}  // namespace
}  // namespace graphpool

int main() {
  const graphpool::Loaded loaded = graphpool::load(graphpool::read_policy_file, environ);
  std::puts(graphpool::policy_text(loaded).c_str());
  return loaded.policy.has_value() && std::fflush(stdout) == 0 ? 0 : 1;
}
