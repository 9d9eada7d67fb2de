// load.h: reads the policy of this process: the file that GRAPHPOOL_POLICY names, then the environment.
//
// Order, later wins: defaults, file, GRAPHPOOL_REPORT and GRAPHPOOL_TRACE, GRAPHPOOL_<SECTION>_<KEY>; GRAPHPOOL_BUFFERS
// replaces the rules. Any error anywhere: no policy, and everything must be passed through for this process (the host
// wins). A bad value of log.* or report.*, which change only what the library tells, is a warning instead, and the
// default is used. Threads: any; no state. It may be called before any constructor of this library ran. errno is
// left as found.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policy/parse.h"
#include "policy/policy.h"

namespace graphpool {

struct Loaded {
  std::optional<Policy> policy;       ///< complete; nothing: pass everything through
  std::vector<std::string> errors;    ///< why; empty with no policy: memory ran out
  std::vector<std::string> warnings;  ///< unknown variables; unknown keys and bad values of log.* and report.*
  std::vector<Given> given;           ///< what file and environment said; of two with one key the later one counts
};

/// Reads a whole file of at most kLongestTextBytes. Returns null, or why it could not.
using ReadFile = const char* (*)(const char* path, std::string& text);

/// Regular files and character devices only: a FIFO would stop the host.
const char* read_policy_file(const char* path, std::string& text);

/// environment: "NAME=value" pointers up to a null one (environ). Of a repeated name the first counts, as for getenv.
[[nodiscard]] Loaded load(ReadFile read_file, const char* const* environment) noexcept;

}  // namespace graphpool
