// stream_judge.h: asks HIP about a stream into which nothing is put. Threads: any.
#pragma once

#include <hip/hip_runtime_api.h>

namespace graphpool {

/// HIP's answer. The streams without a handle of their own are always good; hipStreamGetFlags does not take all of
/// them.
hipError_t judge_stream(hipStream_t stream) noexcept;

/// Whether the program has destroyed the stream, so that the runtime must be left to refuse the launch before anything
/// is made for it: the runtime's execs have streams of their own, and one of those may get the handle.
bool stream_is_gone(hipStream_t stream) noexcept;

/// Whether the stream is one of this device's. In doubt it is not.
bool is_stream_of(int device, hipStream_t stream) noexcept;

}  // namespace graphpool
