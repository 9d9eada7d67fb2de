// hip_version.h: a version of the runtime as hipRuntimeGetVersion tells it.
#pragma once

namespace graphpool {

inline constexpr int kHipMajor = 10'000'000, kHipMinor = 100'000;

/// The lowest number of a version: that of its patch 0. The numbers of its other patches are higher.
constexpr int hip_version(int major, int minor) { return major * kHipMajor + minor * kHipMinor; }

}  // namespace graphpool
