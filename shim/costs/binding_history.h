// binding_history.h: which bindings a recording has had, and which of their words never stay.
//
// Why: whether an exec of its own pays for a binding depends on whether the binding will come back. A word that changes
// with every binding (a counter, a time, the padding of a structure) makes every binding new; such bindings never get
// an exec of their own (rule 30). Only bindings that no exec has are noted, so a steady state costs nothing.
//
// Invariants: bounded: the fingerprints of the last kRemembered bindings, the last binding, a byte a word. A binding
// that comes back shows that its words do come back: counting starts again.
// Threads: guarded by its user. Units: words of 8 bytes.
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
  /// A word that changed in so many bindings, one after the other, is volatile.
  static constexpr std::uint8_t kVolatileAfter = 8;

  struct Noted {
    bool seen = false;         ///< among the last kRemembered
    std::uint64_t ago = 0;     ///< and so many bindings were noted since, this one among them
    bool is_volatile = false;  ///< differs from the one before in a volatile word
  };
  /// All of one size. Throws std::bad_alloc; then nothing is noted.
  Noted note(const Binding& binding);

  /// The last one noted; empty: there was none.
  const Binding& last() const noexcept { return last_; }
  std::size_t volatile_words() const noexcept;
  std::size_t bytes() const noexcept { return last_.capacity() + streaks_.capacity(); }

 private:
  Binding last_;
  std::vector<std::uint8_t> streaks_;  ///< a word: bindings in a row that changed it
  std::array<std::uint64_t, kRemembered> prints_{};
  std::array<std::uint64_t, kRemembered> times_{};  ///< when each was noted last
  std::size_t noted_ = 0;
  std::uint64_t clock_ = 0;
};

}  // namespace graphpool
