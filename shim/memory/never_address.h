// never_address.h: addresses that no HIP allocation can have.
//
// Why: when the program uses memory it has freed and we have kept, the runtime's own error must come back. Asking it
// about an address it has never handed out gives exactly that error, in every version.
// Threads: any. The addresses live as long as the process.
#pragma once

namespace graphpool {

/// For frees and queries: a page without access that the runtime knows nothing of.
void* never_allocated_address() noexcept;

/// For operands of copies, where an unknown address is taken for host memory: a reservation of the runtime's that is
/// never mapped; the page above where it has none. The first call makes the reservation: no lock may be held.
void* never_mapped_address() noexcept;

}  // namespace graphpool
