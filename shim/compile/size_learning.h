// size_learning.h: learns from compilations that have finished how much memory others are expected to need.
//
// Sizes are learnt by class: tool, kind and size of input (class_name() in permits.h). A compilation with a larger
// input than the one with the peak had is expected to need more in proportion. A smaller input is not expected to need
// less: much of it may be in headers.
//
// Threads: everything here is called with the table's lock held. Units: bytes, ns.
// The memory may be anyone's of the scope: every index is checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "shim/base/units.h"
#include "shim/compile/machine.h"
#include "shim/compile/permit_slots.h"

namespace graphpool {

inline constexpr std::uint32_t kMostClasses = 96;
inline constexpr std::size_t kClassNameBytes = 48;
/// What a compilation is taken to need before any of its class has finished.
inline constexpr std::uint64_t kUnknownSizeBytes = 2 * kGiB;
/// Inputs up to here are taken to be equal: what a compiler needs without any is more.
inline constexpr std::uint64_t kLeastInputBytes = 64 * kKiB;

/// One class. Plain data: it is in shared memory.
struct SizeClass {
  char name[kClassNameBytes];        ///< empty: the place is free
  std::uint64_t peak_bytes;          ///< 0: no size is known
  std::uint64_t peak_virtual_bytes;  ///< of calls: address space
  std::uint64_t input_bytes;         ///< of the one with that peak
  std::uint64_t finished;
  // While no size is known, those that wait:
  std::uint64_t smallest_bytes;    ///< the smallest input, and when it was seen
  std::uint64_t smallest_seen_ns;  ///< 0: nobody is known to wait
  std::uint64_t waiting_since_ns;  ///< when the first one was seen
};

/// All classes of a scope. Plain data: it is in shared memory.
class SizeClasses {
 public:
  /// The class of this name, made where there is none. kMostClasses: there is no room, and its size stays unknown.
  std::uint32_t find(std::string_view name) noexcept;
  /// Whether a size of the class has been learnt.
  [[nodiscard]] bool known(std::uint32_t index) const noexcept {
    return index < kMostClasses && classes_[index].peak_bytes != 0;
  }
  [[nodiscard]] std::uint64_t expected_bytes(std::uint32_t index, std::uint64_t input_bytes) const noexcept;
  /// Address space. Never less than what is expected to be resident: allocators reserve more than is used.
  [[nodiscard]] std::uint64_t expected_virtual_bytes(std::uint32_t index, std::uint64_t input_bytes) const noexcept;
  /// How much of its expected memory the request does not have yet: of a call all.
  [[nodiscard]] std::uint64_t needed_bytes(std::uint32_t index, const PermitRequest& request) const noexcept;

  /// Learns from a compilation that ends. `grown_bytes`: by how much it grew; `now`: its process's memory.
  void learn(const SharedPermit& slot, std::uint64_t grown_bytes, const ProcessMemory& now) noexcept;
  /// Learns from one whose holder died with more than its class was known, or taken, to need: it may have been killed
  /// for its size, so the class needs that much at least.
  void learn_from_dead(const SharedPermit& slot) noexcept;

  /// Notes, for a class without a known size, the smallest input among those that wait, whatever they wait for.
  void note_waiting(std::uint32_t index, const PermitRequest& request, std::uint64_t now_ns) noexcept;
  /// Whether one with a much smaller input waits, or may be about to come.
  [[nodiscard]] bool smaller_goes_first(std::uint32_t index, const PermitRequest& request,
                                        std::uint64_t now_ns) const noexcept;
  /// Forgets who waits, because one of the class has been given its permit.
  void forget_waiting(std::uint32_t index) noexcept;

  /// Copies the classes; returns how many.
  std::uint32_t copy(SizeClass* to, std::uint32_t most) const noexcept;
  /// Copies the name of a class; empty: there is no such class.
  void copy_name(std::uint32_t index, char (&name)[kClassNameBytes]) const noexcept;

 private:
  SizeClass classes_[kMostClasses];
};

/// By how much a compilation that ends has grown, at its peak. Of a call beside others of its process: as far as it was
/// looked at.
std::uint64_t grown_at_peak(const PermitSlots& slots, const SharedPermit& slot, const ProcessMemory& now) noexcept;

}  // namespace graphpool
