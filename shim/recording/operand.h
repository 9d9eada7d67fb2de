// operand.h: tells what memory a copy's or fill's operand is, for the validity of a recording (rule 28).
#pragma once

#include <cstddef>
#include <cstdint>

#include "shim/recording/operation.h"

namespace graphpool {

/// Returns a value that is equal for operands that the runtime would judge alike. For a live device allocation that the
/// library knows, and that contains the whole range, it tells the device; for anything else it is the address.
std::uint64_t operand_class(const void* address, std::size_t bytes) noexcept;

/// Whether operand_class() knew the memory; else the class is the address itself.
constexpr bool is_known_class(std::uint64_t value) noexcept { return value >> 63 != 0; }

/// Remembers the memory of the operands whose class is their address. Call it when the operation is recorded.
void note_judged_operands(const Signature& signature, const Binding& binding, std::uint32_t payload_offset) noexcept;
/// Whether an operation noted in the present epoch has an operand in this range whose class is its address. 0 bytes:
/// nobody knows how many. Also true where there was no room to remember all.
bool recordings_judged(const void* address, std::size_t bytes) noexcept;
/// Like recordings_judged(), but leaves out what was judged last before memory was unmapped for the `when`th time.
/// note_unmapped() counts these times.
bool recordings_judged_since(std::uint64_t when, const void* address, std::size_t bytes) noexcept;
/// Call it when the program has unmapped memory. Returns how often the program has done so, this time included.
std::uint64_t note_unmapped() noexcept;

}  // namespace graphpool
