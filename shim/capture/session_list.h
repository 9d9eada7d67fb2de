// session_list.h: keeps which captures are open and followed, and the sessions that serve them.
//
// Threads: any. Lock: kCaptureList, not held while a session is looked into.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "shim/base/short_lock.h"
#include "shim/capture/session.h"
#include "shim/costs/keyed_row.h"
#include "shim/streams/open_captures.h"
#include "shim/streams/stream_key.h"

namespace graphpool {

/// Which capture a stream takes part in. A process has a few open captures at most.
class OpenSessions {
 public:
  using Session = std::shared_ptr<CaptureSession>;

  /// Notes that the stream takes part in the session's capture.
  void add(StreamKey key, Session session);
  /// Does the same, if the capture is still open and followed: another thread may have closed it meanwhile.
  void join(StreamKey key, const Session& session);
  /// The capture that the stream takes part in; null: there is none.
  Session find(StreamKey key);
  /// A stream of the calling thread's own that takes part in a capture, and that capture; or none.
  std::pair<StreamKey, Session> find_own();
  /// The capture in which the event was recorded.
  Session find_event(hipEvent_t event);
  std::vector<Session> all();

  /// Call it when the event is recorded in this capture: it stands for nothing of another any more. Returns whether it
  /// was recorded in another one that is open.
  bool forget_event(hipEvent_t event, const CaptureSession* recorded_in);
  void event_destroyed(hipEvent_t event);

  /// Notes that the stream, which is not the origin, takes part no more.
  void remove(StreamKey key) noexcept;
  /// Closes the capture, which is over by its end, the end of its origin, or the runtime's own decision. Does nothing
  /// where it is closed already.
  void close(const Session& session) noexcept;
  /// Leaves the capture to the runtime from now on.
  void leave_alone(const Session& session) noexcept { remove(session.get()); }
  /// Notes that the stream takes part no more. If it is the origin, closes the capture.
  void leave(StreamKey key, const Session& session, bool origin) noexcept {
    if (origin)
      close(session);
    else
      remove(key);
  }

 private:
  struct Entry {
    StreamKey key;
    Session session;
  };
  /// The only one that is open. Null where there are several, or none.
  Session only();
  bool remove(const CaptureSession* session) noexcept;
  void count() noexcept REQUIRES(lock_);

  ShortLock<LockRank::kCaptureList> lock_;
  ForkWatcher forks_ GUARDED_BY(lock_);
  KeyedRow<Entry, &Entry::key> entries_ GUARDED_BY(lock_);  ///< by stream
  std::vector<Session> sessions_ GUARDED_BY(lock_);         ///< each once
};

/// The process's. It is made at the first capture and never destroyed: captures may end after the exit handlers.
OpenSessions& open_sessions();

/// Returns a session that serves no capture. The calling thread made or fed it, so that thread can own its lock. The
/// session is idle again once the last reference to it ends. Throws std::bad_alloc.
std::shared_ptr<CaptureSession> take_idle_session();

}  // namespace graphpool
