#include "shim/graphs/stream_judge.h"

#include "shim/hip/next.h"
#include "shim/hip/restore.h"
#include "shim/streams/stream_key.h"
#include "shim/streams/stream_work.h"

namespace graphpool {
namespace {

bool has_no_handle(hipStream_t stream) noexcept {
  return stream == nullptr || stream == kStreamLegacy || stream == hipStreamPerThread;
}

}  // namespace

hipError_t judge_stream(hipStream_t stream) noexcept {
  if (has_no_handle(stream)) {
    static_cast<void>(calling_device());  // HIP before 7: every call sets the last error; this one sets success
    return hipSuccess;
  }
  unsigned flags = 0;
  return next().hipStreamGetFlags(stream, &flags);
}

bool stream_is_gone(hipStream_t stream) noexcept {
  if (has_no_handle(stream)) return false;
  unsigned flags = 0;
  const hipError_t pending = pending_error();
  const hipError_t result = next().hipStreamGetFlags(stream, &flags);
  if (result != hipSuccess) clear_error(pending);
  return result == hipErrorContextIsDestroyed;
}

bool is_stream_of(int device, hipStream_t stream) noexcept {
  const int own = work_counts().device_of_stream(stream);
  return (own < 0 ? device_of({stream, false}) : own) == device;
}

}  // namespace graphpool
