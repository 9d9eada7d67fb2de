// settings.h: settings of a device that change what a capture means are an epoch (rule 38).
#pragma once

#include <cstdint>

namespace graphpool {

/// Rises with every change of function attributes, limits, cache and shared-memory configuration, stream attributes,
/// peer and pool access, and registered host memory. One number for all devices: such calls are rare.
std::uint64_t settings_epoch(int device) noexcept;
void settings_changed() noexcept;

}  // namespace graphpool
