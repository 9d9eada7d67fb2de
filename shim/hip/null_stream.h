// null_stream.h: chooses the handle by which private events are recorded on the null stream.
//
// Why: HIP 6.4 to 7.2 take the number that is hipStreamLegacy for a stream's address where an event recorded on it is
// waited for (tests/amd/defects.toml, legacy_records). Null names the same stream. Threads: any.
#pragma once

#include "shim/hip/hip_abi.h"

namespace graphpool {

/// The handle to pass to hipEventRecord when the library records an event of its own on this stream of the program's.
inline hipStream_t recorded_on(hipStream_t stream) noexcept { return stream == kStreamLegacy ? nullptr : stream; }

}  // namespace graphpool
