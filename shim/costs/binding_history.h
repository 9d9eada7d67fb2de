// binding_history.h: knows which bindings a recording has had, and which of their words never stay.
//
// Why: whether an exec of its own pays for a binding depends on whether the binding will come back. A word that changes
// with every binding (a counter, a time, the padding of a structure) makes every binding new; such bindings never get
// an exec of their own (rule 30). Bindings that a free exec has are not noted, so a steady state of execs costs
// nothing.
//
// Invariants: bounded by the fingerprints and times of the last kRemembered bindings that were new when they came, the
// last binding, and a byte for each word. A binding that comes back shows that its words do: counting starts again.
// Threads: its user locks. Units: words of 8 bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "shim/recording/operation.h"

namespace graphpool {

class BindingHistory {
 public:
  static constexpr std::size_t kRemembered = 64;
  /// A word that changed in so many bindings in a row is volatile.
  static constexpr std::uint8_t kVolatileAfter = 8;

  struct Noted {
    bool seen = false;         ///< it is among the kRemembered
    std::uint64_t ago = 0;     ///< if seen: bindings noted since then, this one among them
    bool is_volatile = false;  ///< a volatile word differs from the binding before
  };
  /// Notes that a binding comes. All bindings of a recording have one size. Throws std::bad_alloc; then nothing is
  /// noted.
  Noted note(const Binding& binding);

  /// The last binding noted; empty: there was none.
  const Binding& last() const noexcept { return last_; }
  std::size_t volatile_words() const noexcept;
  std::size_t bytes() const noexcept { return last_.capacity() + streaks_.capacity(); }

 private:
  Binding last_;
  std::vector<std::uint8_t> streaks_;  ///< for each word: bindings in a row that changed it
  std::array<std::uint64_t, kRemembered> prints_{};
  std::array<std::uint64_t, kRemembered> times_{};  ///< when each was noted last
  std::size_t noted_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace graphpool
