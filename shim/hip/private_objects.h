// private_objects.h: makes the streams and events that the library has for itself, and destroys them.
//
// They are entered as the library's own (private_handles.h). They are made on the current device. An event has no
// times. Where the runtime refuses, the handle is null. Errors: HIP's; PrivateCalls (restore.h) keeps them out of the
// program's sight. Threads: any.
#pragma once

#include <hip/hip_runtime_api.h>

#include "shim/hip/next.h"
#include "shim/hip/private_handles.h"

namespace graphpool {

inline hipError_t make_private(hipStream_t* stream, unsigned int flags = hipStreamNonBlocking) noexcept {
  const hipError_t result = made_private(next().hipStreamCreateWithFlags(stream, flags), stream);
  if (result != hipSuccess) *stream = nullptr;
  return result;
}
/// Makes a stream for waits and events, of the lowest priority. AMD's runtime spreads the streams of a priority over
/// four hardware queues. A stream of ours among the program's would make two of these share one; where one runs a
/// kernel that waits for the other, that is a deadlock (rule 19). Programs hardly use the lowest priority.
inline hipError_t make_private_waiter(hipStream_t* stream, unsigned int flags = hipStreamNonBlocking) noexcept {
  constexpr int kLowest = 1;  // a runtime without it takes its own lowest
  const hipError_t result = made_private(next().hipStreamCreateWithPriority(stream, flags, kLowest), stream);
  if (result != hipSuccess) *stream = nullptr;
  return result;
}
inline hipError_t make_private(hipEvent_t* event) noexcept {
  const hipError_t result = made_private(next().hipEventCreateWithFlags(event, hipEventDisableTiming), event);
  if (result != hipSuccess) *event = nullptr;
  return result;
}

inline hipError_t destroy_private(hipStream_t stream) noexcept {
  return next().hipStreamDestroy(no_longer_private(stream));
}
inline hipError_t destroy_private(hipEvent_t event) noexcept {
  return next().hipEventDestroy(no_longer_private(event));
}

}  // namespace graphpool
