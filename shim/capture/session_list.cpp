#include "shim/capture/session_list.h"

#include <algorithm>

#include "shim/capture/own_streams.h"

namespace graphpool {

void OpenSessions::add(StreamKey key, Session session) {
  if (is_own_stream(key)) watch_thread_for_captures();
  const LockGuard guard(lock_);
  const bool known = std::find(sessions_.begin(), sessions_.end(), session) != sessions_.end();
  if (!known) sessions_.reserve(sessions_.size() + 1);
  entries_.add({key, session});
  if (!known) sessions_.push_back(std::move(session));
  count();
}

void OpenSessions::join(StreamKey key, const Session& session) {
  if (is_own_stream(key)) watch_thread_for_captures();
  const LockGuard guard(lock_);
  if (std::find(sessions_.begin(), sessions_.end(), session) != sessions_.end()) entries_.add({key, session});
}

OpenSessions::Session OpenSessions::find(StreamKey key) {
  const LockGuard guard(lock_);
  const Entry* const entry = entries_.find(key);
  return entry == nullptr ? nullptr : entry->session;
}

std::pair<StreamKey, OpenSessions::Session> OpenSessions::find_own() {
  const LockGuard guard(lock_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [](const Entry& entry) { return is_callers_own_stream(entry.key); });
  return found == entries_.end() ? std::pair<StreamKey, Session>() : std::pair(found->key, found->session);
}

OpenSessions::Session OpenSessions::find_event(hipEvent_t event) {
  const auto knows = [event](const Session& session) {
    if (!session->may_have_noted(event)) return false;
    const LockGuard guard(session->lock);
    return session->streams.find_event(event) != nullptr;
  };
  if (const Session one = only()) return knows(one) ? one : nullptr;
  for (const Session& session : all())
    if (knows(session)) return session;
  return nullptr;
}

bool OpenSessions::forget_event(hipEvent_t event, const CaptureSession* recorded_in) {
  if (only().get() == recorded_in) return false;
  bool noted = false;
  for (const Session& session : all()) {
    if (session.get() == recorded_in || !session->may_have_noted(event)) continue;
    const LockGuard guard(session->lock);
    noted = session->streams.has_noted(event) || noted;
    session->streams.event_recorded_elsewhere(event);
  }
  return noted;
}

void OpenSessions::event_destroyed(hipEvent_t event) {
  const auto forget = [event](const Session& session) {
    if (!session->may_have_noted(event)) return;
    const LockGuard guard(session->lock);
    session->streams.event_destroyed(event);
  };
  if (const Session one = only()) return forget(one);
  for (const Session& session : all()) forget(session);
}

void OpenSessions::remove(StreamKey key) noexcept {
  const LockGuard guard(lock_);
  entries_.erase_if([key](const Entry& entry) { return entry.key == key; });
}

/// Returns false when the capture was not open.
bool OpenSessions::remove(const CaptureSession* session) noexcept {
  const LockGuard guard(lock_);
  std::erase_if(sessions_, [session](const Session& open) { return open.get() == session; });
  count();
  return entries_.erase_if([session](const Entry& entry) { return entry.session.get() == session; }) != 0;
}

void OpenSessions::close(const Session& session) noexcept {
  if (!remove(session.get())) return;
  {
    const LockGuard guard(session->lock);
    session->close();
  }
  capture_closed(session->mode, session->thread);
}

std::vector<OpenSessions::Session> OpenSessions::all() {
  const LockGuard guard(lock_);
  return sessions_;
}

OpenSessions::Session OpenSessions::only() {
  const LockGuard guard(lock_);
  return sessions_.size() == 1 ? sessions_.front() : nullptr;
}

void OpenSessions::count() noexcept {
  g_followed_captures.store(sessions_.size(), std::memory_order_release);
  forks_.watch(!sessions_.empty());
}

OpenSessions& open_sessions() {
  static OpenSessions* const instance = new OpenSessions;
  return *instance;
}

namespace {

/// Sessions that serve no capture. Never destroyed, nor are the sessions.
class IdleSessions {
 public:
  CaptureSession* take() {
    {
      const LockGuard guard(lock_);
      const auto found = std::find_if(idle_.rbegin(), idle_.rend(), [](CaptureSession* idle) {
        return idle->lock.was_owned_by_caller() || idle->lock.owned_by_nobody();
      });
      if (found != idle_.rend()) {
        CaptureSession* const session = *found;
        idle_.erase(std::next(found).base());
        return session;
      }
      idle_.reserve(++made_);  // so that giving back needs no memory
    }
    return new CaptureSession;
  }

  void give_back(CaptureSession* session) noexcept {
    {
      const LockGuard guard(session->lock);
      session->reset();
    }
    const LockGuard guard(lock_);
    idle_.push_back(session);
  }

 private:
  ShortLock<LockRank::kCaptureList> lock_;
  std::vector<CaptureSession*> idle_ GUARDED_BY(lock_);
  std::size_t made_ GUARDED_BY(lock_) = 0;
};

IdleSessions& idle_sessions() {
  static IdleSessions* const instance = new IdleSessions;
  return *instance;
}

}  // namespace

std::shared_ptr<CaptureSession> take_idle_session() {
  return {idle_sessions().take(), [](CaptureSession* unused) { idle_sessions().give_back(unused); }};
}

}  // namespace graphpool
