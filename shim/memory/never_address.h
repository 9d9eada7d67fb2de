// never_address.h: an address that no HIP allocation can have.
//
// Why: when the program uses memory it has freed and we have kept, the runtime's own error must come back. Asking it
// about an address it has never handed out gives exactly that error, in every version.
#pragma once

namespace graphpool {

/// An address inside a reserved page without access. Lives as long as the process.
void* never_allocated_address() noexcept;

}  // namespace graphpool
