// load.cpp: see load.h.
#include "policy/load.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string_view>
#include <utility>

#include "policy/keys.h"
#include "policy/nearest.h"
#include "policy/parse.h"

namespace graphpool {
namespace {

constexpr std::string_view kPrefix = "GRAPHPOOL_";

/// errno is the host's.
class ErrnoGuard {
 public:
  ErrnoGuard() : saved_(errno) {}
  ~ErrnoGuard() { errno = saved_; }
  ErrnoGuard(const ErrnoGuard&) = delete;
  ErrnoGuard& operator=(const ErrnoGuard&) = delete;

 private:
  int saved_;
};

struct Variable {
  std::string_view name;
  std::string_view value;
};

std::vector<Variable> own_variables(const char* const* environment) {
  std::vector<Variable> variables;
  for (; environment && *environment; ++environment) {
    std::string_view text = *environment;
    std::size_t equals = text.find('=');
    if (!text.starts_with(kPrefix) || equals == std::string_view::npos) continue;
    std::string_view name = text.substr(0, equals);
    bool seen = std::any_of(variables.begin(), variables.end(), [&](const Variable& v) { return v.name == name; });
    if (!seen) variables.push_back({name, text.substr(equals + 1)});
  }
  return variables;
}

std::string_view value_of(const std::vector<Variable>& variables, std::string_view name) {
  for (const Variable& variable : variables) {
    if (variable.name.substr(kPrefix.size()) == name) return variable.value;
  }
  return {};
}

void append(std::vector<std::string>& to, std::vector<std::string> from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

std::string place_of(std::string_view variable) { return "environment " + std::string(variable); }

std::string unknown_variable(std::string_view name, const std::vector<std::string>& known) {
  std::vector<std::string_view> candidates;
  for (const std::string& candidate : known) candidates.push_back(std::string_view(candidate).substr(kPrefix.size()));
  std::string_view near = nearest(name.substr(kPrefix.size()), candidates);
  std::string text = place_of(name.substr(0, 80)) + ": unknown variable, ignored";
  if (!near.empty()) text.append("; did you mean ").append(kPrefix).append(near).append("?");
  return text;
}

constexpr std::pair<std::string_view, std::string_view> kShortNames[] = {{"REPORT", "report.file"},
                                                                         {"TRACE", "report.trace"}};

void read_all(ReadFile read_file, const char* const* environment, Loaded& loaded) {
  std::vector<Variable> variables = own_variables(environment);
  Policy policy;
  Notes notes;

  if (std::string path{value_of(variables, "POLICY")}; !path.empty()) {
    std::string text;
    if (const char* reason = read_file(path.c_str(), text)) {
      loaded.errors.push_back("environment GRAPHPOOL_POLICY: cannot read " + path + ": " + reason);
    } else {
      append(loaded.errors, parse_policy(text, path, policy, &notes));
    }
  }
  for (const auto& [name, stands_for] : kShortNames) {
    const std::string_view value = value_of(variables, name);
    if (value.empty()) continue;
    for (const Key<Policy>& key : policy_keys())
      if (full_name(key) == stands_for)
        append(loaded.errors, parse_value(value, place_of(std::string(kPrefix).append(name)), key, policy, &notes));
  }

  std::vector<std::string> known;
  for (const Key<Policy>& key : policy_keys()) known.push_back(variable_name(key));
  for (const Reserved& reserved : reserved_variables())
    known.push_back(std::string(kPrefix) + std::string(reserved.name));
  for (const Variable& variable : variables) {
    std::size_t row = static_cast<std::size_t>(std::find(known.begin(), known.end(), variable.name) - known.begin());
    if (row == known.size()) {
      loaded.warnings.push_back(unknown_variable(variable.name, known));
    } else if (row < policy_keys().size()) {
      // An empty variable counts as unset, unless its key is empty by default.
      if (variable.value.empty() && !policy_keys()[row].fallback.empty()) continue;
      append(loaded.errors, parse_value(variable.value, place_of(variable.name), policy_keys()[row], policy, &notes));
    } else if (variable.name == "GRAPHPOOL_BUFFERS") {
      std::erase_if(notes.given, [](const Given& given) { return given.key.starts_with("buffer "); });
      append(loaded.errors, parse_buffers(variable.value, place_of(variable.name), policy, &notes));
    }
  }
  append(loaded.warnings, std::move(notes.warnings));
  loaded.given = std::move(notes.given);
  if (!loaded.errors.empty()) return;
  complete(policy);
  loaded.policy = std::move(policy);
}

}  // namespace

const char* read_policy_file(const char* path, std::string& text) {
  auto reason_of = [](int error) -> const char* {
    switch (error) {
      case ENOENT:
      case ENOTDIR:
        return "no such file";
      case EACCES:
      case EPERM:
        return "permission denied";
      case EISDIR:
        return "it is a directory";
      default:
        return "input or output error";
    }
  };
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return reason_of(errno);
  struct stat status {};
  const char* reason = nullptr;
  if (fstat(file, &status) != 0) {
    reason = reason_of(errno);
  } else if (S_ISDIR(status.st_mode)) {
    reason = "it is a directory";
  } else if (!S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode)) {
    reason = "it is not a regular file";
  }
  text.clear();
  char part[4096];
  while (!reason) {
    ssize_t got = read(file, part, sizeof(part));
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      reason = reason_of(errno);
    } else if (text.size() + static_cast<std::size_t>(got) > kLongestTextBytes) {
      reason = "larger than 1 MiB";
    } else {
      text.append(part, static_cast<std::size_t>(got));
    }
  }
  close(file);
  return reason;
}

Loaded load(ReadFile read_file, const char* const* environment) noexcept {
  ErrnoGuard guard;
  Loaded loaded;
  try {
    read_all(read_file, environment, loaded);
  } catch (...) {
    loaded.policy.reset();
  }
  return loaded;
}

}  // namespace graphpool
