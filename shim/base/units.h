// units.h: sizes and positions that several parts share. Units: bytes unless the name says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>

namespace graphpool {

inline constexpr std::size_t kKiB = std::size_t{1} << 10;
inline constexpr std::size_t kMiB = std::size_t{1} << 20;
inline constexpr std::size_t kGiB = std::size_t{1} << 30;

/// Device memory is handed out in pages of this size (rule 22).
inline constexpr std::size_t kPageBytes = 4 * kKiB;

constexpr std::size_t round_up(std::size_t value, std::size_t multiple) noexcept {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace graphpool
