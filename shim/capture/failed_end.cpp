#include "shim/capture/failed_end.h"

#include "shim/capture/capture_ends.h"
#include "shim/capture/left_alone.h"
#include "shim/capture/session_list.h"
#include "shim/hip/next.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"

namespace graphpool {

constinit thread_local bool t_end_failed = false;
/// The stream on which the capture was to end.
static constinit thread_local StreamArgument t_end_failed_on{};

void note_failed_end(StreamArgument stream) noexcept {
  t_end_failed_on = stream;
  t_end_failed = true;
  if (runtime_version() >= kKeepsErrors) settle_failed_end_now();
}

// A capture that is not over stays known: it may still end, or another one may begin on its stream and take its place.
void settle_failed_end_now() noexcept {
  t_end_failed = false;
  const StreamKey key = stream_key(t_end_failed_on);
  const auto session = open_sessions().find(key);
  if (session == nullptr && !is_left_alone(key)) return;
  const auto over = [] {
    const PrivateCalls private_calls;
    hipStreamCaptureStatus status = hipStreamCaptureStatusActive;
    const hipStream_t stream = plain_handle(t_end_failed_on);
    return PrivateCalls::answered([&] { return next().hipStreamIsCapturing(stream, &status); }) &&
           status == hipStreamCaptureStatusNone;
  };
  if (session == nullptr) {
    if (over()) close_left_alone(key);
    return;
  }
  {
    const LockGuard guard(session->lock);  // its stream is not destroyed meanwhile
    if (session->streams.find(key) == nullptr || !session->streams.is_origin(key) || !over()) return;
  }
  close_failed(session);
}

}  // namespace graphpool
