// keys.h: has the rows of policy_keys.def as tables that a parser can walk.
// Threads: constant tables, usable before any constructor ran.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "policy/policy.h"

namespace graphpool {

template <typename Target>
struct Key {
  std::string_view section;  ///< empty: outside any section
  std::string_view name;
  std::string_view fallback;  ///< as an environment variable would say it
  std::string_view help;
  unsigned forms;  ///< reading::Form bits
  reading::Outcome (*read)(Target& target, reading::Items items);
  std::vector<std::string_view> (*items)(std::string_view text);  ///< the items of an environment variable's text
  std::string (*allowed)();
};

struct Section {
  std::string_view name;
  std::string_view help;
};

struct Reserved {
  std::string_view name;  ///< without GRAPHPOOL_
  std::string_view help;
};

[[nodiscard]] std::span<const Key<Policy>> policy_keys() noexcept;
[[nodiscard]] std::span<const Key<BufferRule>> buffer_keys() noexcept;
[[nodiscard]] std::span<const Section> policy_sections() noexcept;
[[nodiscard]] std::span<const Reserved> reserved_variables() noexcept;

/// "pool.chunk"; without its section where it has none.
template <typename Target>
std::string full_name(const Key<Target>& key) {
  return key.section.empty() ? std::string(key.name) : std::string(key.section) + "." + std::string(key.name);
}

/// The environment variable of a key: GRAPHPOOL_POOL_CHUNK.
[[nodiscard]] std::string variable_name(const Key<Policy>& key);

}  // namespace graphpool
