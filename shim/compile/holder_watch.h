// holder_watch.h: looks at who holds permits: how much memory and processor time each uses.
//
// A holder that uses no processor time lends its permit on: it does not count until it is seen to run again. One of
// another namespace of process numbers (a container's) cannot be looked at from here, and is taken to run.
//
// Threads: any. Reads /proc without the table's lock. Units: ns.
#pragma once

#include "shim/compile/shared_permits.h"

namespace graphpool {

/// A pool thread stands still after this part of the time.
inline constexpr std::uint32_t kPoolThreadHaste = 10;

/// Of each holder memory is looked at twenty times a second at most, processor time four times. `idle_ns`: one that has
/// used no processor time for so long lends its permit on. `self`: the calling process.
void look_at_holders(SharedPermits& memory, const Machine& machine, const ProcessName& self,
                     std::uint64_t idle_ns) noexcept;

}  // namespace graphpool
