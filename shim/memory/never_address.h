// never_address.h: has addresses that the runtime refuses: of no allocation, or of one that is too small.
//
// Why: when the program uses memory that it has freed and we have kept, the runtime's own error must come back. An
// address that the runtime has never handed out gives exactly that error, in every version (probe
// strange_address_is_refused). But for an operand AMD's runtimes take an address that they do not know for host memory,
// and touch it. They check the bounds of memory that they know (probe operands_are_bounded), so such an operand becomes
// memory that is too small. Threads: any. The addresses stay as long as the process; memory that is too small stays
// until its device is reset or memory is short.
#pragma once

#include <cstddef>

namespace graphpool {

/// For frees and queries: a page without access that the runtime knows nothing of.
void* never_allocated_address() noexcept;

/// For operands of one byte, and for values written and awaited: a reservation of the runtime's that is never mapped;
/// else never_allocated_address(). The first call makes the reservation: no lock may be held.
void* never_mapped_address() noexcept;

/// For operands of more than one byte: an allocation of one byte on the device. If there is no memory for that,
/// never_mapped_address(). The first call for a device makes it: no lock may be held.
void* too_small_memory(int device) noexcept;
/// How much of the device's memory that allocation takes.
std::size_t too_small_bytes(int device) noexcept;
/// Frees that allocation, because memory is short. Returns whether it was freed. It is made again when needed.
bool free_too_small_memory(int device) noexcept;
/// Forgets that allocation, which a reset of the device destroys.
void forget_too_small_memory(int device) noexcept;

}  // namespace graphpool
