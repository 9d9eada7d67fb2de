// hip_abi.h: declarations of HIP functions and types newer than the oldest supported header (5.2), so that one binary
// serves every runtime from ROCm 5.2 to 7. Values and layouts: HIP 6.3's public headers. Nothing here may rely on a
// structure whose layout differs between runtimes; such members are opaque.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace graphpool {

/// hipDriverProcAddressQueryResult (6.1) and hipDriverEntryPointQueryResult (7.1): 0 is success.
enum class ProcAddressResult : int { kSuccess = 0 };
enum class DriverEntryPointResult : int { kSuccess = 0 };

}  // namespace graphpool

namespace graphpool {

/// hipStreamLegacy (6.x): the null stream by name.
inline const hipStream_t kStreamLegacy = reinterpret_cast<hipStream_t>(1);

}  // namespace graphpool
