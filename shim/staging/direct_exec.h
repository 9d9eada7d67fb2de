// direct_exec.h: has the exec of a ring that works on the program's own memory: its launches copy nothing.
//
// It is made once the program's buffers have stayed where they are for some bindings in a row (kBindings), and goes in
// a binding after they moved. It serves all launches of a binding or none, unless `verify` ends its use in between
// (SlotRing::direct()). Its launches are in order with those of the sets. A ring whose launches are independent of each
// other has no such exec, because those launches need slots of their own.
// No kept memory is given back for it: where it cannot be made, launches copy.
// Threads: one at a time, as the ring.
#pragma once

#include <cstdint>
#include <vector>

#include "shim/staging/last_launch.h"
#include "shim/staging/ring_exec.h"

namespace graphpool {

class DirectExec {
 public:
  /// So many bindings in a row have the buffers in one place before the exec is made. Each time the buffers move after
  /// that it takes twice as many, up to kMostBindings.
  static constexpr std::uint32_t kBindings = 8, kMostBindings = 1024;

  explicit DirectExec(const RingGraph& ring);

  /// Makes the exec, uses it or gives it up, after the program has bound these buffers. `stayed`: they are those of the
  /// binding before. `freed`: memory_freed() before they were bound.
  void settle(const RingGraph& ring, const std::vector<char*>& bases, bool stayed, std::uint64_t freed);
  /// Uses the exec if it works on these buffers, else not. Neither makes nor destroys it.
  void look_again(const std::vector<char*>& bases, std::uint64_t freed) noexcept { in_use_ = serves(bases, freed); }
  /// Whether it serves the launches of the present binding.
  bool in_use() const noexcept { return in_use_; }

  explicit operator bool() const noexcept { return static_cast<bool>(bound_.exec); }
  hipGraphExec_t exec() const noexcept { return bound_.exec.exec(); }
  const std::vector<char*>& bases() const noexcept { return bound_.bases; }
  LastLaunch& last() noexcept { return last_; }
  void destroy() noexcept { bound_.exec.destroy(); }
  /// Forgets the exec, because the device is being reset: it is gone, and is not to be destroyed.
  void forget() noexcept;

 private:
  bool serves(const std::vector<char*>& bases, std::uint64_t freed) const noexcept;
  bool build(const RingGraph& ring, const std::vector<char*>& bases);

  const bool holds_memory_;  ///< some node may hold memory (memory/freed_memory.h)
  LastLaunch last_;
  BoundExec bound_;
  bool in_use_ = false;
  std::uint32_t stayed_ = 1;                ///< bindings in a row with these buffers
  std::uint32_t wanted_stays_ = kBindings;  ///< how far `stayed_` must come before the exec is made the next time
};

}  // namespace graphpool
