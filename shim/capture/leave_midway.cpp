#include "shim/capture/leave_midway.h"

#include <utility>

#include "shim/capture/bypass.h"
#include "shim/capture/capture_sink.h"
#include "shim/capture/session_list.h"
#include "shim/costs/hit_rate.h"
#include "shim/costs/step_costs.h"

namespace graphpool {

/// Whether nothing of the capture needs to be followed: the calling thread began it, and nothing was told of it or
/// forked from it.
static bool can_be_left(CaptureSession& session, StreamKey key) noexcept REQUIRES(session.lock) {
  return session.serial != 0 && is_new_midway(session) && !session.shell() && !session.fate.invalid() &&
         !session.exposed() && session.place != nullptr && session.thread == &t_thread_token &&
         session.streams.only_origin() && session.streams.is_origin(key);
}

void leave_midway(StreamKey key) noexcept {
  if (uses_tracked() || runs_at_once()) return;
  const auto session = open_sessions().find(key);
  if (session == nullptr) return;
  Materialisation materialised;
  const void* place;
  {
    const LockGuard guard(session->lock);
    if (!can_be_left(*session, key) || !capture_left_alone(session->mode, key)) return;
    materialised = session->materialised;
    place = session->place;
    session->close();
  }
  open_sessions().leave_alone(session);
  const std::uint32_t withheld = materialised.operation == 0 ? 0 : materialised.operation - 1;
  if (materialised.reason != nullptr) capture_sink().note_materialised(materialised);
  hit_rates().ended(place, Follow::kKnown, false, withheld);
  step_costs().ended(place, false, 0);
  t_step = {};  // the place is not judged by what the rest of the capture takes
  step_left_alone(key);
}

}  // namespace graphpool
