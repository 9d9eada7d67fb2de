// admission.h: decides whether a compilation may begin beside those that run.
//
// It may while fewer than the limit run, and while its expected size fits into the memory that is left once those that
// run have grown to their expected sizes. One may always run. A process that waits has its libraries' memory already:
// where little would be left, none is admitted beside others while more are just starting. Where there is no room for
// two of a class of which none has finished, the process with the smallest input goes first, and all others wait.
//
// Threads: everything here is called with the table's lock held. Units: bytes, ns.
#pragma once

#include <algorithm>
#include <cstdint>

#include "shim/compile/memory_watch.h"
#include "shim/compile/permit_slots.h"
#include "shim/compile/size_learning.h"

namespace graphpool {

/// Compilations at once where no size is known.
inline constexpr std::uint32_t kUnknownSizeLimit = 8;
/// Pressure from which on nothing new is admitted beside what runs.
inline constexpr std::uint32_t kMostPressurePercent = 10;

/// How many may run, as whoever asks has worked it out.
struct PermitLimits {
  std::uint32_t most = kUnknownSizeLimit;  ///< of all that share the permits
  std::uint32_t most_here = kMostPermits;  ///< of processes that may use a processor of this one's
  bool is_auto = true;                     ///< then kUnknownSizeLimit bounds those of unknown size
  std::uint64_t reserve_bytes = 0;         ///< to be left free

  /// How many compilations this process alone may have.
  [[nodiscard]] std::uint32_t own() const noexcept { return std::min(most, most_here); }
  /// Whether as many run as may. Asks for processors only where that decides.
  [[nodiscard]] bool reached(const PermitSlots& slots, const Machine& machine) const noexcept {
    const std::uint32_t running = slots.running();
    return running >= most || (running >= most_here && slots.running_here(machine) >= most_here);
  }
};

enum class Admission : std::uint8_t {
  kGranted,
  kFull,        ///< as many run as may
  kNoMemory,    ///< too little memory or address space is left, or memory is under pressure
  kAskMemory,   ///< it depends on the memory, which the caller has not read
  kNoToken,     ///< only a byte of the jobserver is missing: the caller may read one and ask again
  kOthersTurn,  ///< somebody has waited much longer, or will show what this one needs
  kUnusable,    ///< the table cannot be used, or has no place for another pool thread: go on without
};

/// What the table remembers about those that wait. Plain data: it is in shared memory.
struct Waiters {
  std::uint64_t elder_since_ns;  ///< since when the longest waiter waits
  std::uint64_t elder_seen_ns;   ///< when it last said so; 0: it waits no more
  std::uint64_t arrived_ns;      ///< when a process last began to ask
  std::uint64_t refused_ns;      ///< when memory was last found too little, and for how much
  std::uint64_t refused_bytes;
  std::uint32_t refused_turn;
};

/// What a decision is about. memory: null while it has not been read.
struct AdmissionQuestion {
  const PermitRequest& request;
  const PermitLimits& limits;
  const MemoryFacts* memory;
  const Machine& machine;
  const ProcessName& self;
  std::uint64_t now_ns;
  std::uint32_t turn;  ///< changes whenever a permit comes back
};

/// Decides one question. Lives while the table's lock is held.
class AdmissionDecision {
 public:
  AdmissionDecision(const AdmissionQuestion& question, const PermitSlots& slots, SizeClasses& sizes,
                    Waiters& waiters) noexcept;

  /// Decides by the limit, the memory and those who wait. kGranted: it may begin, as far as these go. Tokens of a
  /// jobserver are not looked at.
  /// Does not ask for memory if a request that needs no more was refused a moment ago, and no permit has come back
  /// since. So many waiters do not read the same files.
  Admission decide() noexcept;

 private:
  enum class Age : std::uint8_t { kElder, kBehindElder, kLikeOthers };

  [[nodiscard]] bool is_unknown_process() const noexcept {
    return !known_ && request_.kind == HolderKind::kProcess && size_class_ < kMostClasses;
  }
  Age age() noexcept;
  Admission beside_others() noexcept;
  Admission without_memory_read(bool elder) const noexcept;
  Admission with_memory() noexcept;
  [[nodiscard]] bool newcomers_need_room(std::uint64_t left_bytes) const noexcept;
  [[nodiscard]] bool fits_address_space(std::uint64_t own_outstanding_bytes) const noexcept;
  Admission alone() const noexcept;

  const AdmissionQuestion& question_;
  const PermitRequest& request_;
  const PermitLimits& limits_;
  const PermitSlots& slots_;
  SizeClasses& sizes_;
  Waiters& waiters_;
  const std::uint32_t running_, size_class_;
  const bool known_;
};

}  // namespace graphpool
