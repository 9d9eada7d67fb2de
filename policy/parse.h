// parse.h: turns TOML text into fields of a Policy, or into messages that name the place and what is allowed.
//
// Why a file of its own: it is the only one that sees toml++ and the only one fed with text from outside (fuzzed).
// Messages: "file:line:column: message; allowed: ...", in the order of the text; at most kMostErrors, then one that
// says how many more there are. Lines and columns count from 1, columns in characters.
// A key with an error leaves its field unspecified: a Policy with errors must not be used.
// Threads: no state. Throws nothing but std::bad_alloc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "policy/keys.h"
#include "policy/policy.h"

namespace graphpool {

inline constexpr std::size_t kMostErrors = 20;
inline constexpr std::size_t kLongestTextBytes = std::size_t{1} << 20;

/// A value that a text or the environment gave.
struct Given {
  std::string key;    ///< "graph.slots"; of a rule "buffer 1: stage"
  std::string value;  ///< as text; items of a list with commas between them
  std::string from;   ///< "p.toml:2:9", or "environment GRAPHPOOL_GRAPH_SLOTS"
};

/// What the functions below tell in addition to the errors.
struct Notes {
  std::vector<std::string> warnings;  ///< in the order of the text
  std::vector<Given> given;           ///< in the order of the text; of two with one key the later one counts
};

/// Whether a bad value of a key in this section is only a warning. It is in [log] and [report], whose keys change what
/// the library tells and nothing else.
[[nodiscard]] bool only_tells(std::string_view section) noexcept;

// The functions below return errors. With `notes`, a bad value or an unknown key of a section for which only_tells() is
// true becomes a warning there; a key with a bad value gets its default. Without `notes` both are errors, too.

/// A whole policy file. file: its name for messages. Fields the text does not name keep their value; if it has
/// [[buffer]] rules they replace the policy's.
[[nodiscard]] std::vector<std::string> parse_policy(std::string_view text, std::string_view file, Policy& policy,
                                                    Notes* notes = nullptr);

/// [[buffer]] rules alone: `[[buffer]]` tables, or an array of inline tables. They replace the policy's.
/// place: for messages, "environment GRAPHPOOL_BUFFERS"; where the text has one line, ", column N" follows.
[[nodiscard]] std::vector<std::string> parse_buffers(std::string_view text, std::string_view place, Policy& policy,
                                                     Notes* notes = nullptr);

/// The text of an environment variable as the value of a key. place: for messages, "environment
/// GRAPHPOOL_POOL_CHUNK".
[[nodiscard]] std::vector<std::string> parse_value(std::string_view text, std::string_view place,
                                                   const Key<Policy>& key, Policy& policy, Notes* notes = nullptr);

}  // namespace graphpool
