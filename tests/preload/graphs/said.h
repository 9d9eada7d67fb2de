// said.h: what the library says of verification, and what the runs of its tests are told by their environment.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "captures.h"

namespace captures {

/// What this test made the library say, by GRAPHPOOL_LOG_FILE.
class Said {
 public:
  Said() : before_(all().size()) {}
  /// Differences.
  std::vector<std::string> errors() const { return since("error: verify:"); }
  /// What is not compared, and why.
  std::vector<std::string> warnings() const { return since("warning: verify:"); }

 private:
  static std::vector<std::string> all() {
    const char* const name = std::getenv("GRAPHPOOL_LOG_FILE");
    std::vector<std::string> lines;
    if (name == nullptr) return lines;
    std::ifstream file(name);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  std::vector<std::string> since(const char* with) const {
    auto lines = all();
    lines.erase(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(before_));
    std::erase_if(lines, [with](const std::string& line) { return line.find(with) == std::string::npos; });
    return lines;
  }

  std::size_t before_;
};

inline bool verifies(const char* rule) {
  const char* const value = std::getenv("GRAPHPOOL_GRAPH_VERIFY");
  return under_library() && value != nullptr && std::strcmp(value, rule) == 0;
}

/// What faulty_runtime.cpp does.
inline bool fault(const char* name) {
  const char* const value = std::getenv("FAULT");
  return value != nullptr && std::strncmp(value, name, std::strlen(name)) == 0;
}

}  // namespace captures
