// hip_version.h: a version of the runtime as hipRuntimeGetVersion tells it.
#pragma once

namespace graphpool {

inline constexpr int kHipMajor = 10'000'000, kHipMinor = 100'000;

/// The first number of a version: whatever patch of it is running is not below.
constexpr int hip_version(int major, int minor) { return major * kHipMajor + minor * kHipMinor; }

}  // namespace graphpool
