#include "shim/capture/put_off_joins.h"

#include "shim/capture/session_list.h"
#include "shim/hip/next.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"

namespace graphpool {

bool put_off_join(CaptureSession& session, StreamArgument stream, const CapturedEvent& event) {
  if (!fresh_streams().any() || !session.shell() || session.fate.invalid() || session.fate.rejected() != nullptr)
    return false;
  // Such an event may bring nodes of an earlier capture, which is seen at once (probe event_forgets_nodes).
  if (event.tail.empty() && has_defect(Defect::kEventsKeepNodes)) return false;
  // What the runtime is told later, and by another thread, must be what it would be told now.
  const CapturedStream* const from = session.streams.find(event.stream);
  return from != nullptr && !from->left && is_stream_handle(from->handle) &&
         fresh_streams().put_off_join(stream.handle, event.handle);
}

void make_joins(CaptureSession& session) {
  if (!joins_put_off()) return;
  for (CapturedStream& stream : session.streams) {
    if (stream.join_put_off == nullptr) continue;
    const hipEvent_t event = stream.join_put_off;
    stream.join_put_off = nullptr;
    fresh_streams().remove(stream.handle);
    const PrivateCalls private_calls;
    const auto join = [&] { return next().hipStreamWaitEvent(stream.handle, event, 0); };
    if (PrivateCalls::answered(join)) continue;
    // The program was told that the stream had joined.
    session.fate.lose();
    session.fate.reject("the runtime did not let a stream join the capture");
  }
}

void drop_join(CapturedStream& stream) noexcept {
  if (stream.join_put_off == nullptr) return;
  stream.join_put_off = nullptr;
  fresh_streams().left_capture(stream.handle);
}

[[gnu::cold]] void make_joins_now() noexcept {
  for (const auto& session : open_sessions().all()) {
    const LockGuard guard(session->lock);
    make_joins(*session);
  }
}

}  // namespace graphpool
