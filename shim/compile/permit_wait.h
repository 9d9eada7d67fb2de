// permit_wait.h: waits for a permit, but never for good.
//
// A waiter asks the table again whenever a permit comes back. Where memory is missing it asks again soon after that,
// because the process that gave the permit back has not ended yet. It asks at least every kAskEvery, because a holder
// that was killed wakes nobody.
// Two things end a wait although no permit comes back. A holder that uses next to no processor time for `idle_ns` lends
// its permit: it may be waiting for a lock that this waiter holds. When no permit has changed hands for kPatience times
// as long, one waiter at a time goes on over the limit; a program says so in one line. A pool thread may go on earlier
// (pool_threads.h).
//
// The host's thread cannot be cancelled while it waits, a signal only interrupts a sleep, and errno is kept.
// Threads: any. Units: ns. A thread that sleeps here holds no lock of this library but that of `one_at_a_time`
// (permits.h).
#pragma once

#include "policy/values.h"
#include "shim/base/guest_scope.h"
#include "shim/compile/permit_table.h"

namespace graphpool {

inline constexpr std::uint64_t kAskEvery = 100'000'000, kAskSoon = 5'000'000;
inline constexpr std::uint64_t kSayEvery = 10'000'000'000;
inline constexpr std::uint64_t kPatience = 10;

class JobTokens;

struct PermitSettings {
  PermitLimit max;
  Share reserve{0, 10, true};
  std::uint64_t idle_ns = 10'000'000'000;
  std::uint32_t pool_size = 0;  ///< jobs a surrounding make allows; 0: unknown
  std::uint32_t quota = 0;      ///< processors that control groups allow time of; 0: no limit known
  JobTokens* tokens = nullptr;  ///< of a surrounding jobserver; null: none
  bool says = true;             ///< false in compiler processes: their callers read what they print
};

/// Counts of this process. Written by any thread.
struct PermitCounters {
  std::uint64_t bytes_read = 0;  ///< of a jobserver
  std::uint64_t taken = 0, ridden = 0, waited = 0, waited_ns = 0, went_on = 0, without = 0;
  std::uint64_t most_in_flight = 0, least_headroom_bytes = ~std::uint64_t{0};
};

/// The process on whose permit a child process may ride. process 0: nobody's.
struct ParentPermit {
  ProcessName holder;
  std::uint32_t generation = 0;  ///< 0: any
};

/// Takes a permit, or rides on the parent's. Returns false where the compilation goes on without: the table cannot be
/// used, or has no permit left for it. Where request.goes_on made the thread ride, returns true and `permit` is not
/// held.
bool wait_for_permit(PermitTable& table, const Machine& machine, const PermitSettings& settings, PermitRequest request,
                     const ParentPermit& parent, PermitCounters& counters, Permit& permit) noexcept;

/// Gives the byte of a jobserver back, then the permit. Bytes of the same server that dead holders had go back, too.
void end_permit(PermitTable& table, const PermitSettings& settings, Permit& permit, const ProcessMemory& now) noexcept;

/// Gives back the bytes of this process's jobserver that dead processes held. What this process held before an exec is
/// among them.
void give_back_owed_bytes(PermitTable& table, JobTokens& tokens) noexcept;

/// How many may run at once, whatever memory there is, and how much memory of `allowed_bytes` is to stay free.
PermitLimits permit_limits(const PermitSettings& settings, const Machine& machine,
                           std::uint64_t allowed_bytes) noexcept;

}  // namespace graphpool
