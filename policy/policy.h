// policy.h: holds what the user asked for, in one immutable object. It knows nothing of HIP.
//
// Why: all texts (file, environment) are read once, before the first hook runs; from then on the engine reads plain
// fields, without locks. The fields are the rows of policy_keys.def: `policy.pool.chunk.bytes`, `policy.graph.slots`;
// their meaning, default and unit are written there and in values.h.
// Threads: never changed after load() (load.h) returned it. Lives to the end of the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "policy/readers.h"
#include "policy/values.h"

namespace graphpool {

template <typename Reader>
constexpr typename Reader::Value default_value(std::string_view text) {
  typename Reader::Value value{};
  static_cast<void>(Reader::read(reading::items_of<Reader>(text), value));
  return value;
}

/// The stack of an allocation. Frames are "module!function", innermost first, without frames of this library.
class CallSite {
 public:
  virtual std::size_t depth() noexcept = 0;
  /// The text stays valid as long as the call site. index: 0 (innermost) to depth() - 1. Cheap in rising order.
  virtual std::string_view frame(std::size_t index) noexcept = 0;
  /// How many allocations this call site made before.
  virtual std::uint64_t order() noexcept = 0;

  /// Whether some frame matches, and whether the outermost frames match one glob each, the outermost the first.
  /// Overridden where answers are remembered, by the glob's address: globs of a policy stay where they are.
  virtual bool any_frame_matches(const Glob& glob) noexcept;
  virtual bool begins_with(const std::vector<Glob>& globs) noexcept;

 protected:
  ~CallSite() = default;
};

struct AllocationQuery {
  std::uint64_t size_bytes = 0;
  std::uint32_t device = 0;
  std::string_view function;     ///< the function the program called: "hipMalloc"
  std::string_view module;       ///< file name of the calling module, without its folder
  CallSite* callsite = nullptr;  ///< null: rules that need one do not match. Asked only if all else in a rule matched.
};

/// One [[buffer]] rule. In a loaded policy every field holds its final value: what the rule did not say is taken from
/// [pool] and [graph].
struct BufferRule {
#define BUFFER_KEY(name, reader, fallback, help) reading::reader::Value name = default_value<reading::reader>(fallback);
#include "policy/policy_keys.def"

  /// The position of a key among the rows, and whether the rule itself said it.
  enum class Key : std::uint32_t {
#define BUFFER_KEY(name, reader, fallback, help) name,
#include "policy/policy_keys.def"
  };
  std::uint32_t said = 0;  ///< one bit a Key

  [[nodiscard]] bool says(Key key) const noexcept { return (said >> static_cast<unsigned>(key) & 1u) != 0; }
  [[nodiscard]] bool needs_callsite() const noexcept {
    return !callsite.empty() || !callsite_prefix.empty() || !order.is_everything();
  }
  [[nodiscard]] bool matches(const AllocationQuery& query) const noexcept;

  bool operator==(const BufferRule&) const = default;
};

struct Policy {
#define POLICY_TOP(name, reader, fallback, help) reading::reader::Value name = default_value<reading::reader>(fallback);
#include "policy/policy_keys.def"

#define POLICY_SECTION(type, section, help) struct type {
#define POLICY_KEY(section, name, reader, fallback, help) \
  reading::reader::Value name = default_value<reading::reader>(fallback);
#define POLICY_END(type, section)               \
  bool operator==(const type&) const = default; \
  }                                             \
  section;
#include "policy/policy_keys.def"

  /// The user's rules, in order; then, once complete() ran, the built-in ones. First match wins.
  std::vector<BufferRule> buffers;

  /// The rule that decides about an allocation. Of a completed policy never null: the last built-in rule matches all.
  /// Cost: the rules before the one that matches; allocates nothing.
  [[nodiscard]] const BufferRule* match(const AllocationQuery& query) const noexcept;

  /// Whether match() can ask for a call site.
  [[nodiscard]] bool needs_callsite() const noexcept;

  bool operator==(const Policy&) const = default;
};

/// Fills in what the user's rules left open and appends the built-in rules. load() calls it, once for each policy.
void complete(Policy& policy);

/// Modules whose allocations only a rule with its own `module` key may pool or stage: communication libraries, which
/// hand memory to other processes and devices.
[[nodiscard]] bool is_communication_library(std::string_view module) noexcept;

/// Functions whose memory follows a stream's order; only a rule with its own `function` key may pool it.
[[nodiscard]] bool is_stream_ordered(std::string_view function) noexcept;

}  // namespace graphpool
