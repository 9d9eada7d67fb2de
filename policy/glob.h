// glob.h: patterns over names: `*` stands for any run of characters (also none), `?` for one; all else for itself.
//
// Why so little: the names are demangled C++ ("operator[]", "foo[abi:cxx11]"), where brackets must mean themselves.
// Threads: immutable. Cost: linear where there is one `*`; never exponential; no allocation in matches().
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace graphpool {

class Glob {
 public:
  /// Empty: matches nothing but the empty name; users of optional globs test empty() first.
  Glob() = default;
  explicit Glob(std::string_view pattern);

  [[nodiscard]] bool matches(std::string_view name) const noexcept;
  [[nodiscard]] bool empty() const noexcept { return pattern_.empty(); }
  [[nodiscard]] const std::string& pattern() const noexcept { return pattern_; }

  bool operator==(const Glob&) const = default;

 private:
  std::string pattern_;            ///< runs of `*` collapsed
  std::size_t literal_bytes_ = 0;  ///< length of the part before the first wildcard
  std::size_t least_bytes_ = 0;    ///< shortest name that can match
};

}  // namespace graphpool
