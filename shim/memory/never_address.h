// never_address.h: addresses that no HIP allocation can have.
//
// Why: when the program uses memory it has freed and we have kept, the runtime's own error must come back. Asking it
// about an address it has never handed out gives exactly that error, in every version (probe
// strange_address_is_refused). An operand that leaves its allocation needs another one: AMD's runtimes take an address
// they do not know for host memory, and touch it. They check bounds of what they do know (probe operands_are_bounded),
// so it becomes memory that is too small. Threads: any. The addresses live as long as the process, and too small memory
// as its device.
#pragma once

#include <cstddef>

namespace graphpool {

/// For frees and queries: a page without access that the runtime knows nothing of.
void* never_allocated_address() noexcept;

/// For operands of copies of a byte, and of written and awaited values: a reservation of the runtime's that is never
/// mapped; the page above where it has none. The first call makes the reservation: no lock may be held.
void* never_mapped_address() noexcept;

/// For operands of copies and fills of more than one byte: an allocation of one byte on the device. The address above
/// where there is no memory for it. The first call for a device makes it: no lock may be held.
void* too_small_memory(int device) noexcept;
/// How much of the device's memory that takes.
std::size_t too_small_bytes(int device) noexcept;
/// Gives that memory back, because memory is short. Returns whether there was any. The next question makes it again.
bool free_too_small_memory(int device) noexcept;
/// The device is reset: it is gone.
void forget_too_small_memory(int device) noexcept;

}  // namespace graphpool
