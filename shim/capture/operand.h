// operand.h: what a copy's or fill's operand is, for the validity of a recording (rule 28).
#pragma once

#include <cstddef>
#include <cstdint>

namespace graphpool {

/// A value that is equal for operands the runtime would judge alike: a live device allocation that we know and that
/// contains the whole range is told by its device; anything else only by its address.
std::uint64_t operand_class(const void* address, std::size_t bytes) noexcept;

/// Whether operand_class() knew the memory; else the class is the address itself.
constexpr bool is_known_class(std::uint64_t value) noexcept { return value >> 63 != 0; }

}  // namespace graphpool
