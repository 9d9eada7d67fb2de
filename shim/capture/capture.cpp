#include "shim/capture/capture.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <utility>

#include "shim/base/guest_scope.h"
#include "shim/base/log.h"
#include "shim/base/owned_count.h"
#include "shim/base/seeded_defect.h"
#include "shim/base/short_lock.h"
#include "shim/base/trace.h"
#include "shim/base/units.h"
#include "shim/capture/capture_sink.h"
#include "shim/capture/session.h"
#include "shim/costs/hit_rate.h"
#include "shim/costs/keyed_row.h"
#include "shim/costs/step_costs.h"
#include "shim/execs/graph_settings.h"
#include "shim/hip/coverage.h"
#include "shim/hip/entry.h"
#include "shim/hip/next.h"
#include "shim/hip/quirks.h"
#include "shim/hip/restore.h"
#include "shim/kernel/functions.h"
#include "shim/memory/freed_memory.h"
#include "shim/recording/node_check.h"
#include "shim/recording/node_creation.h"
#include "shim/recording/operand.h"
#include "shim/recording/settings.h"
#include "shim/recording/signature_bits.h"
#include "shim/staging/slot_ring.h"
#include "shim/staging/staging.h"
#include "shim/streams/outstanding_uses.h"

/// The C library's: calls the function when the calling thread ends, the last one registered first. `object`: one of
/// ours, which is not unloaded before.
extern "C" int __cxa_thread_atexit_impl(void (*function)(void*), void* argument, void* object) noexcept;

namespace graphpool {
namespace {

// A thread's number and a device stand for the thread's own stream there, above all addresses: what it left behind may
// still run when a thread that begins later has everything else of it. Small numbers stand for null streams.
constexpr StreamKey kOwn = ~(~StreamKey{0} >> 1), kDevices = 64;

/// The streams of this thread's own, without the device.
StreamKey own_streams() noexcept { return kOwn | calling_thread() * kDevices; }

bool is_own(StreamKey key) noexcept { return (key & kOwn) != 0; }
/// Those of one thread are the same but for the device.
bool of_one_thread(StreamKey key, StreamKey other) noexcept { return key / kDevices == other / kDevices; }

void watch_thread() noexcept;

/// Which capture a stream takes part in. A process has a few open captures at most.
class OpenCaptures {
 public:
  using Session = std::shared_ptr<CaptureSession>;

  void add(StreamKey key, Session session) {
    if (is_own(key)) watch_thread();
    const LockGuard guard(lock_);
    const bool known = std::find(sessions_.begin(), sessions_.end(), session) != sessions_.end();
    if (!known) sessions_.reserve(sessions_.size() + 1);
    entries_.add({key, session});
    if (!known) sessions_.push_back(std::move(session));
    count();
  }

  Session find(StreamKey key) {
    const LockGuard guard(lock_);
    const Entry* const entry = entries_.find(key);
    return entry == nullptr ? nullptr : entry->session;
  }

  /// A stream that is one of these of a thread's own, and its capture; or none.
  std::pair<StreamKey, Session> find_own(StreamKey own) {
    const LockGuard guard(lock_);
    const auto found = std::find_if(entries_.begin(), entries_.end(),
                                    [own](const Entry& entry) { return of_one_thread(entry.key, own); });
    return found == entries_.end() ? std::pair<StreamKey, Session>() : std::pair(found->key, found->session);
  }

  /// The capture in which the event was recorded.
  Session find_event(hipEvent_t event) {
    const auto knows = [event](const Session& session) {
      const LockGuard guard(session->lock());
      return session->knows_event(event);
    };
    if (const Session one = only()) return knows(one) ? one : nullptr;
    for (const Session& session : all())
      if (knows(session)) return session;
    return nullptr;
  }

  /// The event is recorded in this capture: it stands for nothing of another any more. Returns whether it did once, of
  /// one that is open.
  bool forget_event(hipEvent_t event, const CaptureSession* recorded_in) {
    if (only().get() == recorded_in) return false;
    bool noted = false;
    for (const Session& session : all()) {
      if (session.get() == recorded_in) continue;
      const LockGuard guard(session->lock());
      noted = session->has_noted(event) || noted;
      session->event_recorded_elsewhere(event);
    }
    return noted;
  }

  void event_destroyed(hipEvent_t event) {
    const auto forget = [event](const Session& session) {
      const LockGuard guard(session->lock());
      session->event_destroyed(event);
    };
    if (const Session one = only()) return forget(one);
    for (const Session& session : all()) forget(session);
  }

  /// Not its origin.
  void remove(StreamKey key) noexcept {
    const LockGuard guard(lock_);
    entries_.erase_if([key](const Entry& entry) { return entry.key == key; });
  }

  /// False when the capture was not open.
  bool remove(const CaptureSession* session) noexcept {
    const LockGuard guard(lock_);
    std::erase_if(sessions_, [session](const Session& open) { return open.get() == session; });
    count();
    return entries_.erase_if([session](const Entry& entry) { return entry.session.get() == session; }) != 0;
  }

  std::vector<Session> all() {
    const LockGuard guard(lock_);
    return sessions_;
  }

 private:
  struct Entry {
    StreamKey key;
    Session session;
  };

  /// Null where there are several, or none.
  Session only() {
    const LockGuard guard(lock_);
    return sessions_.size() == 1 ? sessions_.front() : nullptr;
  }

  void count() noexcept REQUIRES(lock_) {
    g_followed_captures.store(sessions_.size(), std::memory_order_release);
    forks_.watch(!sessions_.empty());
  }

  ShortLock<LockRank::kCaptureList> lock_;
  ForkWatcher forks_ GUARDED_BY(lock_);
  KeyedRow<Entry, &Entry::key> entries_ GUARDED_BY(lock_);  ///< by stream
  std::vector<Session> sessions_ GUARDED_BY(lock_);         ///< each once
};

/// Made at the first capture and never destroyed: captures may end after the exit handlers.
OpenCaptures& open_captures() {
  static OpenCaptures* const instance = new OpenCaptures;
  return *instance;
}

}  // namespace

std::shared_ptr<CaptureSession> find_open_capture(StreamKey key) { return open_captures().find(key); }
std::vector<std::shared_ptr<CaptureSession>> all_open_captures() { return open_captures().all(); }

namespace {

/// Sessions that serve no capture. A thread takes those it made or fed, for it can own their locks. Never destroyed,
/// nor are the sessions.
class IdleSessions {
 public:
  /// Throws std::bad_alloc.
  std::shared_ptr<CaptureSession> take() {
    CaptureSession* session = nullptr;
    {
      const LockGuard guard(lock_);
      const auto found = std::find_if(idle_.rbegin(), idle_.rend(), [](CaptureSession* idle) {
        return idle->lock().was_owned_by_caller() || idle->lock().owned_by_nobody();
      });
      if (found != idle_.rend()) {
        session = *found;
        idle_.erase(std::next(found).base());
      } else {
        idle_.reserve(++made_);  // so that giving back needs no memory
      }
    }
    if (session == nullptr) session = new CaptureSession;
    return {session, [](CaptureSession* unused) { idle_sessions().give_back(unused); }};
  }

  static IdleSessions& idle_sessions() {
    static IdleSessions* const instance = new IdleSessions;
    return *instance;
  }

 private:
  void give_back(CaptureSession* session) noexcept {
    {
      const LockGuard guard(session->lock());
      session->reset();
    }
    const LockGuard guard(lock_);
    idle_.push_back(session);
  }

  ShortLock<LockRank::kCaptureList> lock_;
  std::vector<CaptureSession*> idle_ GUARDED_BY(lock_);
  std::size_t made_ GUARDED_BY(lock_) = 0;
};

std::shared_ptr<CaptureSession> new_session(StreamArgument origin, hipStreamCaptureMode begun_in,
                                            const Signature& begin, TreeNode* known, CaptureSession::Mode mode,
                                            const void* place) {
  auto session = IdleSessions::idle_sessions().take();
  const LockGuard guard(session->lock());
  session->start(origin, begin, known, mode, place);
  session->begun_in(begun_in);
  return session;
}

/// The capture is over: by its end, its stream's destruction or the runtime's own decision.
void close(const std::shared_ptr<CaptureSession>& session) noexcept {
  if (!open_captures().remove(session.get())) return;
  const void* thread;
  hipStreamCaptureMode mode;
  {
    const LockGuard guard(session->lock());
    thread = session->begun_by();
    mode = session->capture_mode();
    session->close();
  }
  capture_closed(mode, thread);
}

/// A thread's own streams go with it, and so does their part in captures. What the runtime keeps for the thread is gone
/// already: it is not called. Made real is what needs it by the next thread that feeds the capture.
void thread_ends(void*) noexcept {
  const GuestScope guest;
  const InsideScope inside;
  while (captures_open() && !seeded_defect(Seeded::kThreadLeavesCaptures)) {
    const auto [key, session] = open_captures().find_own(own_streams());
    if (session == nullptr) return;
    bool origin;
    {
      const LockGuard guard(session->lock());
      session->thread_ended(key);
      origin = session->is_origin(key);
    }
    if (origin)
      close(session);
    else
      open_captures().remove(key);
  }
}

/// A stream of the thread's own takes part in a capture: thread_ends() is called when the thread ends.
void watch_thread() noexcept {
  static pthread_key_t key;
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  static bool made = false;
  pthread_once(&once, [] { made = pthread_key_create(&key, thread_ends) == 0; });
  if (made) static_cast<void>(pthread_setspecific(key, &t_thread_token));
}

/// A thread's own streams go with it; the runtime still has them.
void own_streams_end(void*) noexcept {
  const GuestScope guest;
  const InsideScope inside;
  if (g_mode.load(std::memory_order_acquire) == Mode::kPassThrough) return;  // a forked child
  rings_before_destroy(own_streams(), kDevices);
  launches_own_streams_end(own_streams(), kDevices);
}

/// Closes the capture that was left to the runtime on this stream. Returns false where there is none.
[[gnu::hot]] bool close_left_alone(StreamKey key) noexcept {
  if (!left_alone_closed(key)) return false;
  if (left_alone_here(key)) {
    t_step.left_alone = false;
    t_step.passes_on = ThreadStep::kNoStream;
  } else {
    g_left_alone_lost.fetch_add(1, std::memory_order_acq_rel);
  }
  return true;
}

/// A capture begins on a stream: what it took part in before was invalidated, and nobody ended it.
void leave_former_capture(StreamKey key) {
  if (no_other_capture_open() || close_left_alone(key)) return;
  const auto before = open_captures().find(key);
  if (before == nullptr) return;
  bool origin;
  {
    const LockGuard guard(before->lock());
    before->stream_left(key);
    origin = before->is_origin(key);
  }
  if (origin)
    close(before);
  else
    open_captures().remove(key);
}

/// The stream is about to take part in a capture: events of ours that were recorded there are of no use then.
void leave_stream(StreamKey key) noexcept {
  launches_before_capture(key);
  rings_before_capture(key);
}

/// Asks the runtime whether a stream takes part in a capture that the library left to it.
bool takes_part_unseen(StreamArgument stream) noexcept {
  if (!any_left_alone()) return false;
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  const hipStream_t handle = plain_handle(stream);
  return PrivateCalls::answered([&] { return next().hipStreamIsCapturing(handle, &status); }) &&
         status == hipStreamCaptureStatusActive;
}

/// A capture counts as open before the runtime begins it, so that no event of ours gets into it.
hipError_t counted_begin(StreamArgument stream, hipStreamCaptureMode mode, Forward forward) {
  settle_failed_end();
  leave_stream(stream_key(stream));
  capture_opened(mode);
  const hipError_t result = forward();
  if (result != hipSuccess) capture_closed(mode);
  return result;
}

constinit std::atomic<bool> g_comparing_off{false};
constinit std::atomic<bool> g_runs_at_once{false};  ///< see leave_to_runtime()

constexpr const char* kSeldomComesBack = "captures that begin here seldom come back";
constexpr const char* kComparingCosts = "comparing captures that begin here costs more than it saves";
/// How many ended for each.
constinit std::array<OwnedCount, 2> g_left_alone{};

}  // namespace

constinit thread_local std::uintptr_t t_thread = 0;

std::uintptr_t name_thread() noexcept {
  static constinit std::atomic<std::uintptr_t> threads{0};
  return t_thread = threads.fetch_add(1, std::memory_order_relaxed) + 1;
}

StreamKey unnamed_stream_key(StreamArgument stream) noexcept {
  const auto device = [] { return static_cast<StreamKey>(calling_device()) % kDevices; };
  const bool null = stream.handle == nullptr;
  if (stream.handle != hipStreamPerThread && !(null && stream.per_thread)) return 0x100 + device();
  return own_streams() + device();
}

// The runtime's own destructor of what it keeps for the thread was registered when it made the stream: one that is
// registered later is called before it.
bool watch_own_streams() noexcept {
  static constinit thread_local bool watched = false;
  static char ours;
  if (!watched) watched = __cxa_thread_atexit_impl(own_streams_end, nullptr, &ours) == 0;
  return watched;
}

bool is_other_threads_own(StreamKey key) noexcept { return is_own(key) && !of_one_thread(key, own_streams()); }

// --- captures ---

/// The runtime has run a kernel at once that the program launched on a capturing stream, as AMD's 5.2 does whatever is
/// not launched by hipLaunchKernel. Neither is what is captured there what the program runs, nor does memory stay
/// unused while it is only captured: both are left to the runtime. Not under a lock.
[[gnu::cold, gnu::noinline]] static void leave_to_runtime(StreamArgument stream) {
  work_counts().note_work(plain_handle(stream));
  if (g_runs_at_once.exchange(true)) return;
  device_memory().stop_keeping();
  log_warn("this runtime runs kernels at once that are launched into a capture: graphs and memory are left to it");
}

hipError_t operation_while_capturing(StreamArgument stream, Describe describe, Forward forward) {
  const TimedCall timed;
  const StreamKey key = stream_key(stream);
  if (left_alone_here(key)) {
    ++t_step.operations;
    const NodeCreation making;
    return forward();
  }
  if (t_fed.stream == key) {
    CaptureSession& fed = *t_fed.session;
    UniqueLock guard(fed.lock());
    if (fed.serial() == t_fed.serial) {
      const hipError_t result = fed.operation(key, stream, describe, forward);
      const bool at_once = fed.ran_at_once();
      guard.unlock();
      if (at_once) [[unlikely]]
        leave_to_runtime(stream);
      return result;
    }
  }
  const auto session = open_captures().find(key);
  if (session == nullptr) {
    note_capture_doubt();  // work on another stream: the null stream's, for one, may invalidate
    if (is_left_alone(key) || takes_part_unseen(stream)) {
      const NodeCreation making;
      return forward();
    }
    const hipError_t result = retry_with_room(forward);
    work_counts().note_work(plain_handle(stream));
    if (uses_tracked()) note_use(stream, describe);
    return result;
  }
  UniqueLock guard(session->lock());
  t_fed = session->serial() != 0 ? Fed{key, session.get(), session->serial()} : Fed{};
  const hipError_t result = session->operation(key, stream, describe, forward);
  const bool at_once = session->ran_at_once();
  guard.unlock();
  if (at_once) [[unlikely]]
    leave_to_runtime(stream);
  return result;
}

void note_use(StreamArgument stream, Describe describe) {
  // HIP before 7: a call of ours would replace what the program's has failed with.
  if (runtime_version() < kKeepsErrors && next().hipPeekAtLastError() != hipSuccess) return;
  if (!outstanding_uses().several(stream)) return;
  Binding payload;
  std::vector<Operation> operation(1);
  OperationWriter writer(operation[0].signature, payload, nullptr);
  OutstandingUses::Bases bases;
  if (describe(writer) == Status::kOk) {
    operation[0].layout = writer.layout();
    wholly_staged(operation, payload, &bases);
  } else {
    bases.push_back(nullptr);
  }
  outstanding_uses().used(stream, bases, nullptr);
}

bool in_open_capture(StreamArgument stream) {
  if (!captures_open()) return false;
  const StreamKey key = stream_key(stream);
  return open_captures().find(key) != nullptr || is_left_alone(key);
}

hipError_t other_stream_work(StreamArgument stream, Forward forward) {
  if (captures_open()) {
    note_capture_doubt();
    expose_capture(stream, "an operation that the library does not follow");
  }
  const hipError_t result = in_open_capture(stream) ? forward() : retry_with_room(forward);
  work_counts().note_work(plain_handle(stream));
  if (uses_tracked() && result == hipSuccess && outstanding_uses().several(stream))
    outstanding_uses().used_unseen(stream);
  return result;
}

/// Why a capture that begins at this place is left alone; null: it is followed.
static const char* why_left_alone(const void* place, StreamKey key) noexcept {
  if (!t_ahead.covers(place) && !hit_rates().follow(place)) return kSeldomComesBack;
  const GraphSettings& settings = capture_sink().settings();
  if (!settings.weigh || !settings.compare || !settings.reuse || settings.verify.mode != Verify::Mode::kOff)
    return nullptr;
  const StepCosts::Step step = step_begins(place);
  t_step.place = place;
  t_step.stream = key;
  t_step.step = step;
  t_step.timed = step.timed;
  return step.follow ? nullptr : kComparingCosts;
}

/// The thread's step began then.
static void note_time_since(std::uint64_t began) noexcept {
  if (t_step.timed) t_step.ticks += ticks_now() - began;
}

/// Ends the thread's step, before the runtime begins the next capture. Drops the execs that are kept for captures which
/// are left alone from now on: their nodes fill the runtime's tables. On 7.2.4 capturing a kernel takes 0.29 us without
/// such execs, and 0.36 us while four execs of 1000 nodes are kept.
static void end_former_step() noexcept {
  if (const void* const left_alone = end_step(); left_alone != nullptr) [[unlikely]]
    capture_sink().drop_free_execs_of(left_alone);
}

/// When the thread's capture began that is left alone, for the trace; 0: it is not traced.
static constinit thread_local std::uint64_t t_left_alone_began __attribute__((tls_model("initial-exec"))) = 0;

static void step_left_alone() noexcept {
  if (trace_on()) [[unlikely]]
    t_left_alone_began = trace_ticks();
  t_step.left_alone = true;
  t_step.lost_seen = g_left_alone_lost.load(std::memory_order_acquire);
  t_step.ended_seen = g_unknown_ended.load(std::memory_order_acquire);
}

// Together with what else a step of such captures runs: between two steps the runtime fills the caches.
[[gnu::hot]] bool begin_passes(hipStream_t stream) noexcept {
  return !t_inside && !t_end_failed && active() && every_entry_known() && !uses_tracked() &&
         WorkCounts::is_handle(stream) && !g_runs_at_once.load(std::memory_order_relaxed) &&
         g_launches_awaited.load(std::memory_order_acquire) == 0 && g_rings.load(std::memory_order_acquire) == 0;
}

[[gnu::hot]] bool begin_passing(const void* place, hipStream_t stream, hipStreamCaptureMode mode,
                                hipError_t* result) noexcept {
  const StreamKey key = stream_key({stream, false});
  if (!sole_capture_left_alone(mode, key)) return false;
  end_former_step();
  *result = next().hipStreamBeginCapture(stream, mode);
  if (*result != hipSuccess) {
    left_alone_closed(key);
    return true;
  }
  --t_ahead.left;
  t_step.place = place;
  t_step.stream = t_step.passes_on = key;
  t_step.step = {false, false, 0, t_ahead.most_operations, 0};
  step_left_alone();
  return true;
}

hipError_t begin_capture(StreamArgument stream, hipStreamCaptureMode mode, Forward forward) {
  const bool decides = !t_ahead.covers(t_caller);
  const std::uint64_t began = decides ? ticks_now() : 0;
  end_former_step();
  check_objects_loaded_since();
  const std::uint64_t forwarded = decides ? ticks_now() : 0;
  const hipError_t result = counted_begin(stream, mode, forward);
  const std::uint64_t begun = decides ? ticks_now() : 0;
  if (result != hipSuccess) return result;
  const StreamKey key = stream_key(stream);
  leave_former_capture(key);
  const bool own_handle = key == reinterpret_cast<StreamKey>(stream.handle);
  const bool sees_all = active() && !unknown_entries_in_use();
  const void* const place = t_caller;
  const SeededWay way_by_chance = seeded_way();
  const char* const why = !sees_all || !own_handle                 ? nullptr
                          : way_by_chance == SeededWay::kLeftAlone ? kSeldomComesBack
                                                                   : why_left_alone(place, key);
  if (why != nullptr && !uses_tracked() && !g_runs_at_once.load(std::memory_order_relaxed) &&
      capture_left_alone(mode, key)) {
    t_step.stream = key;
    step_left_alone();
    t_step.passes_on = key;
    // Once that is decided, nothing of this is asked at a beginning (begin_passing).
    if (t_step.timed) t_step.ticks += begun - forwarded;
    return result;
  }
  Signature begin;
  begin.kind = OperationKind::kBegin;
  const int stream_device = device_of(stream);
  const std::uint64_t device_changes = g_device_changes.load(std::memory_order_acquire);
  const int device = calling_device();
  begin.device = packed_devices(device, std::max(stream_device, 0));
  begin.validity = static_cast<std::uint32_t>(mode);
  begin.object = settings_epoch();
  const bool may_be_deferred =
      active() && own_handle && stream_device >= 0 && capture_sink().settings().compare && !captures_bypassed();
  const bool follow = why == nullptr;
  if (!may_be_deferred && follow && active() && capture_sink().settings().compare) {
    Materialisation told;
    told.why = !own_handle         ? "captured on a null stream, or on a thread's own"
               : stream_device < 0 ? "captured on a stream whose device the runtime does not tell"
                                   : "the library does not see every call of this process";
    capture_sink().note_materialised(told);
  }
  const TreeWalk walk =
      may_be_deferred && follow && way_by_chance == SeededWay::kUsual ? capture_sink().walk_begins(begin) : TreeWalk{};
  using Mode = CaptureSession::Mode;
  const Mode way = walk.start == nullptr ? Mode::kRecord : walk.verify ? Mode::kVerify : Mode::kCompare;
  auto session = new_session(stream, mode, begin, walk.start, way, follow ? place : nullptr);
  assume_held(session->lock());  // no other thread can find the session yet
  session->know_device(device, device_changes);
  if (!follow) session->spoil(why);
  if (!sees_all) session->spoil("the library does not see every call of this process");
  if (g_runs_at_once.load(std::memory_order_relaxed)) session->leave_to_runtime();
  open_captures().add(key, std::move(session));
  note_time_since(began);
  return result;
}

hipError_t begin_foreign_capture(StreamArgument stream, hipStreamCaptureMode mode, hipGraph_t into, Forward forward) {
  const hipError_t result = counted_begin(stream, mode, forward);
  if (result != hipSuccess) return result;
  auto session = new_session(stream, mode, Signature{}, nullptr, CaptureSession::Mode::kRecord, nullptr);
  assume_held(session->lock());  // no other thread can find the session yet
  session->spoil("captured into a graph of the program's");
  session->goes_into(into);
  leave_former_capture(stream_key(stream));
  open_captures().add(stream_key(stream), std::move(session));
  return result;
}

constinit thread_local bool t_end_failed = false;
/// The stream it was to end on.
static constinit thread_local StreamArgument t_end_failed_on{};

/// Whether the runtime says by an end's result that the stream captures nothing now.
static bool is_over(hipError_t result) noexcept {
  return result == hipSuccess || result == hipErrorStreamCaptureInvalidated || result == hipErrorIllegalState;
}

/// An end failed in a way that some runtimes take for the capture's end, and others do not.
static void note_failed_end(StreamArgument stream) noexcept {
  t_end_failed_on = stream;
  t_end_failed = true;
  if (runtime_version() >= kKeepsErrors) settle_failed_end_now();
}

/// The capture is over, but its stream is there.
static void close_failed(const std::shared_ptr<CaptureSession>& session) {
  if (session->into() != nullptr) capture_sink().nodes_gone(session->into());
  close(session);
}

// Where it is not over, nothing is known that will end it but the next beginning on its stream, which takes its place.
void settle_failed_end_now() noexcept {
  t_end_failed = false;
  const StreamKey key = stream_key(t_end_failed_on);
  const auto session = open_captures().find(key);
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
    const LockGuard guard(session->lock());  // its stream is not destroyed meanwhile
    if (!session->has_stream(key) || !session->is_origin(key) || !over()) return;
  }
  close_failed(session);
}

/// Of one that another thread has ended it is not known when it began.
[[gnu::cold, gnu::noinline]] static void trace_left_alone(bool own) noexcept {
  const TraceSpan traced(TraceKind::kCapture, own ? std::exchange(t_left_alone_began, 0) : trace_ticks());
  tell_trace(own && t_step.place != nullptr ? kComparingCosts : kSeldomComesBack, 0, own ? t_step.operations : 0);
}

/// The end of a capture that the library left to the runtime has been forwarded.
[[gnu::hot]] static void left_alone_ended(StreamArgument stream, hipError_t result) noexcept {
  const StreamKey key = stream_key(stream);
  const bool over = is_over(result), own = left_alone_here(key);
  if (!over) note_failed_end(stream);
  if (!over || !close_left_alone(key)) return;
  if (own) {
    t_step.complete = result == hipSuccess;
    if (t_step.operations > t_step.step.most_operations) {
      t_ahead = {};
      step_costs().larger_alone(t_step.place);
    }
  }
  if (result == hipSuccess) g_left_alone[own && t_step.place != nullptr].add();
  if (trace_on()) [[unlikely]]
    trace_left_alone(own);
}

/// Ends such a capture.
static hipError_t end_left_alone(StreamArgument stream, Forward forward) {
  // The program may know the graph, whose end may call it back: nodes are not made in line here
  // (recording/node_creation.h).
  const hipError_t result = forward();
  left_alone_ended(stream, result);
  return result;
}

[[gnu::hot]] void passing_ended(hipStream_t stream, hipError_t result, const hipGraph_t* graph) noexcept {
  left_alone_ended({stream, false}, result);
  if (result == hipSuccess) t_step.graph = *graph;
}

std::uint64_t captures_left_alone(std::size_t reason, const char** why) noexcept {
  *why = reason == 0 ? kSeldomComesBack : kComparingCosts;
  return g_left_alone[reason].load();
}

hipError_t end_capture(StreamArgument stream, hipGraph_t* graph, Forward forward) {
  const TimedCall timed;
  const StreamKey key = stream_key(stream);
  if (left_alone_here(key) || is_left_alone(key)) return end_left_alone(stream, forward);
  const auto session = open_captures().find(key);
  if (session == nullptr) return forward();
  TraceSpan traced(TraceKind::kCapture, session->began());
  HeldRecording end, expected;
  bool was_shell = false, over = false;
  hipError_t result;
  {
    const LockGuard guard(session->lock());
    if (session->shell()) {
      session->make_real_if_spoilt();
      if (session->shell() && !session->is_origin(stream_key(stream))) session->expose("ended on another stream");
    }
    if (session->shell()) {
      end = session->matched_end();
      if (!end) session->materialise("the capture ended before its recording", &kEndSignature);
    }
    was_shell = session->shell();
    {
      const NodeCreation making(!session->exposed());
      result = forward();
    }
    over = is_over(result) && (result != hipErrorIllegalState || session->is_origin(key));
    if (result == hipSuccess) {
      session->leave_shell();
      expected = session->expected_recording();
    }
  }
  if (result != hipSuccess) {
    tell_trace("it was invalid at its end", 0);
    if (!over) traced.drop();
    if (over)
      close_failed(session);
    else
      note_failed_end(stream);
    return result;
  }
  if (session->into() != nullptr) *graph = session->into();
  close(session);
  UniqueLock guard(session->lock());
  const bool by_passed = was_shell && !session->shell_is_empty(*graph);
  const CapturedGraph captured{*graph, session->take_told(), session->holds_objects(), session->place()};
  if (session->lost() || by_passed) {
    if (captured.told != nullptr) told_graphs().drop(*captured.told);
    const char* const lost = session->spoilt();
    guard.unlock();
    tell_trace("invalidated", 0);
    capture_sink().note_refused(by_passed ? "operations reached the capture past the library" : lost);
    if (by_passed && !g_comparing_off.exchange(true))
      log_warn("operations reached a capture past the library: captures are left to the runtime from now on");
    static_cast<void>(PrivateCalls::worked([&] { return next().hipGraphDestroy(*graph); }));
    *graph = nullptr;
    return hipErrorStreamCaptureInvalidated;
  }
  if (session->place() != nullptr) {
    const std::size_t nodes = was_shell ? (*end).node_count : 0, all = was_shell ? (*end).operations.size() : 0;
    step_costs().ended(session->place(), was_shell, static_cast<std::uint32_t>(nodes),
                       static_cast<std::uint32_t>(all - nodes));
    t_step.complete = t_step.complete || t_step.stream == key;
  }
  const auto tell_rate = [&captured](bool matched) {
    if (captured.place != nullptr) hit_rates().ended(captured.place, matched);
  };
  if (was_shell) {
    Binding binding = std::move(session->binding());
    guard.unlock();
    tell_trace("served", (*end).number, (*end).node_count);
    tell_rate(true);
    *graph = capture_sink().make_deferred_graph(std::move(end), std::move(binding), captured);
    return hipSuccess;
  }
  const LastErrorScope last_error;
  if (session->materialised().why != nullptr) capture_sink().note_materialised(session->materialised());
  const char* why = session->spoilt();
  tell_trace(session->materialised().why != nullptr ? session->materialised().why : "recorded", 0,
             session->operations().size());
  session->finish_recording();
  std::uint32_t which = 0;
  if (why == nullptr && session->matches(*graph, &why, &which)) {
    if (expected) capture_sink().capture_verified(*expected);
    RecordedCapture recording = session->take_recorded();
    guard.unlock();
    const RecordedGraph recorded = capture_sink().real_graph_captured(captured, std::move(recording));
    *graph = recorded.handle;
    if (!recorded.learned) tell_rate(static_cast<bool>(expected));
  } else {
    guard.unlock();
    tell_rate(static_cast<bool>(expected));
    assume_held(session->lock());  // the session is closed: no other thread changes it
    if (expected)
      capture_sink().capture_differs(*expected, session->operations()[which], session->binding(), session->node(which),
                                     why);
    tell_trace(why, 0);
    capture_sink().note_refused(why);
    *graph = capture_sink().untracked_graph_captured(captured);
  }
  return hipSuccess;
}

hipError_t record_event(hipEvent_t event, StreamArgument stream, Forward forward_only) {
  const TimedCall timed;
  if (captures_open() && nobody_looks()) return forward_only();
  const auto forward = [&] {
    const hipError_t result = forward_only();
    if (uses_tracked() && result == hipSuccess) outstanding_uses().recorded(event, stream);
    return result;
  };
  if (!captures_open()) return forward();
  const StreamKey key = stream_key(stream);
  const auto session = open_captures().find(key);
  if (session == nullptr) {
    const hipError_t result = forward();
    // The event now stands for work outside of any capture.
    const auto other = result == hipSuccess ? open_captures().find_event(event) : nullptr;
    if (other != nullptr) {
      const LockGuard guard(other->lock());
      other->event_recorded_elsewhere(event);
    }
    return result;
  }
  const bool of_another = open_captures().forget_event(event, session.get());
  const LockGuard guard(session->lock());
  return session->record(key, event, of_another, forward_only);
}

hipError_t wait_event(StreamArgument stream, hipEvent_t event, Forward forward_only) {
  const TimedCall timed;
  if (captures_open() && nobody_looks()) {
    leave_stream(stream_key(stream));  // it may join the capture
    // Or not, and then this is work of the stream's.
    if (t_step.left_alone)
      work_counts().note_work_anywhere();
    else
      work_counts().note_work(plain_handle(stream));
    return forward_only();
  }
  if (!captures_open()) {
    const hipError_t result = forward_only();
    work_counts().note_work(plain_handle(stream));
    if (uses_tracked() && result == hipSuccess) outstanding_uses().waited(stream, event);
    return result;
  }
  const auto forward = [&] {
    const hipError_t result = forward_only();
    if (result != hipSuccess) note_capture_doubt();  // two captures that meet are both invalidated
    return result;
  };
  const StreamKey key = stream_key(stream);
  auto session = open_captures().find(key);
  if (session == nullptr) {
    session = open_captures().find_event(event);
    if (session == nullptr) {
      const hipError_t result = forward();
      work_counts().note_work(plain_handle(stream));
      if (uses_tracked() && result == hipSuccess) outstanding_uses().waited(stream, event);
      return result;
    }
    leave_stream(key);
    hipError_t result;
    {
      const LockGuard guard(session->lock());
      result = session->wait(key, stream, event, forward);
      if (!session->has_stream(key)) return result;
    }
    open_captures().add(key, session);
    return result;
  }
  const LockGuard guard(session->lock());
  return session->wait(key, stream, event, forward);
}

void expose_capture(StreamArgument stream, const char* why) {
  if (!captures_open()) return;
  const auto session = open_captures().find(stream_key(stream));
  if (session == nullptr) return;
  const LockGuard guard(session->lock());
  session->expose(why);
  session->follow_on(stream_key(stream));
}

void events_leave_destroyed(hipStream_t stream) noexcept {
  if (!WorkCounts::is_handle(stream)) return;
  const StreamKey key = stream_key({stream, false});
  rings_before_destroy(key, 1);
  launches_stream_destroyed(key);
}

void capture_stream_destroyed(hipStream_t stream) noexcept {
  if (!captures_open()) return;
  const StreamKey key = stream_key({stream, false});
  if (close_left_alone(key)) return;
  const auto session = open_captures().find(key);
  if (session == nullptr) return;
  bool origin;
  {
    const LockGuard guard(session->lock());
    session->stream_destroyed(key);
    origin = session->is_origin(key);
  }
  if (origin)
    close(session);
  else
    open_captures().remove(key);
}

void capture_event_destroyed(hipEvent_t event) noexcept {
  if (uses_tracked()) outstanding_uses().event_destroyed(event);
  if (!captures_open()) return;
  open_captures().event_destroyed(event);
}

void materialise_open_captures(const char* why) {
  if (!captures_open()) return;
  for (const auto& session : open_captures().all()) {
    const LockGuard guard(session->lock());
    if (session->shell()) session->materialise(why);
  }
}

void materialise_captures_naming(const void* address, std::size_t bytes, const char* why) {
  if (!captures_open()) return;
  for (const auto& session : open_captures().all()) {
    const LockGuard guard(session->lock());
    if (session->shell() && (bytes == 0 || names_memory(session->binding(), address, bytes))) session->materialise(why);
  }
}

void materialise_captures_with(OperationTest test, const char* why) {
  if (!captures_open()) return;
  for (const auto& session : open_captures().all()) {
    const LockGuard guard(session->lock());
    if (session->shell() && session->withholds(test)) session->materialise(why);
  }
}

void end_comparing_with(OperationTest test, const char* why) {
  if (!captures_open()) return;
  for (const auto& session : open_captures().all()) {
    const LockGuard guard(session->lock());
    if (!session->has(test)) continue;
    if (session->shell()) session->materialise(why);
    session->spoil(why);
  }
}

void end_walks(const char* why) {
  if (!captures_open()) return;
  for (const auto& session : open_captures().all()) {
    const LockGuard guard(session->lock());
    session->leave_tree(why);
  }
}

void memory_goes(const void* address, std::size_t bytes, const char* why) {
  note_memory_freed();
  materialise_captures_naming(address, bytes, why);
  capture_sink().memory_leaves(address, bytes, why);
}

bool captures_bypassed() noexcept {
  return unknown_entries_in_use() || g_comparing_off.load(std::memory_order_relaxed) ||
         g_runs_at_once.load(std::memory_order_relaxed);
}

void note_unknown_operation(EntryId) noexcept {
  note_capture_doubt();
  for (const auto& session : open_captures().all()) {
    const LockGuard guard(session->lock());
    session->expose("an operation that the library does not follow");
  }
}

}  // namespace graphpool
