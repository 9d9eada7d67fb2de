// holder_watch.h: looks at who holds permits: how much memory and processor time each uses.
//
// A holder that uses less than a tenth of a processor for long lends its permit: it does not count until it is seen to
// run again. A holder in another namespace of process numbers (a container's) cannot be looked at from here, and keeps
// its state.
//
// Threads: any. Reads /proc without the table's lock. Units: ns.
#pragma once

#include "shim/compile/shared_permits.h"

namespace graphpool {

/// A pool thread lends its permit after `idle_ns` divided by this.
inline constexpr std::uint32_t kPoolThreadHaste = 10;

/// Looks at the memory of each holder that does not sleep at most twenty times a second, at its processor time at most
/// four times. `idle_ns`: after so long with next to no processor time a holder lends its permit. `self`: the calling
/// process.
void look_at_holders(SharedPermits& memory, const Machine& machine, const ProcessName& self,
                     std::uint64_t idle_ns) noexcept;

}  // namespace graphpool
