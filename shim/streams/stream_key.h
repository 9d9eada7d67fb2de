// stream_key.h: tells which stream a call means: each stream has one key, whatever handle names it.
//
// Threads: any. The key of a thread's own stream is that thread's: only that thread can name the stream.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstdint>

namespace graphpool {

/// A stream as an entry got it. `per_thread`: the _spt entries, where null is the calling thread's stream (rule 10).
struct StreamArgument {
  hipStream_t handle = nullptr;
  bool per_thread = false;
};

/// The handle by which calls without _spt name the same stream.
inline hipStream_t plain_handle(StreamArgument stream) noexcept {
  return stream.per_thread && stream.handle == nullptr ? hipStreamPerThread : stream.handle;
}

/// Whether the argument is neither a name of the null stream nor hipStreamPerThread.
inline bool is_stream_handle(hipStream_t stream) noexcept { return reinterpret_cast<std::uintptr_t>(stream) > 2; }
inline bool is_null_stream(hipStream_t stream) noexcept {
  return !is_stream_handle(stream) && stream != hipStreamPerThread;
}

/// Each stream has one key. Null and hipStreamLegacy name one stream of each device, hipStreamPerThread one of each
/// thread and device.
using StreamKey = std::uintptr_t;
StreamKey unnamed_stream_key(StreamArgument stream) noexcept;
inline StreamKey stream_key(StreamArgument stream) noexcept {
  const auto handle = reinterpret_cast<StreamKey>(stream.handle);
  return handle > reinterpret_cast<StreamKey>(hipStreamPerThread) ? handle : unnamed_stream_key(stream);
}

/// Makes the library forget, when the calling thread ends, the events that it recorded on that thread's own streams:
/// the runtime destroys these streams then. Call it after the runtime has made the thread's first own stream. Returns
/// false if the library cannot learn of the thread's end: then no event recorded there may be queried.
[[nodiscard]] bool watch_own_streams() noexcept;

/// Whether the key is of another thread's own stream. That thread's handle for it names the caller's own stream here.
bool is_other_threads_own(StreamKey key) noexcept;

/// The device of a stream; -1 when the runtime does not say.
int device_of(StreamArgument stream) noexcept;

}  // namespace graphpool
