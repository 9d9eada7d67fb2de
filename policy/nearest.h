// nearest.h: finds the known name that a misspelt one was probably meant to be.
#pragma once

#include <span>
#include <string_view>

namespace graphpool {

/// The candidate with the fewest edits (insert, drop, replace, swap neighbours), if that is at most a third of the
/// longer name's length; else empty. Names longer than 64 bytes have no neighbour. Case is ignored.
[[nodiscard]] std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates) noexcept;

}  // namespace graphpool
