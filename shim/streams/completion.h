// completion.h: is an earlier launch known to be complete? Answered from what the program itself has waited for, and
// from private events; never by waiting (rule 20).
//
// Every launch takes a number. When the program waits for a stream or a device, all launches there with a smaller
// number are complete. What is known of a stream is kept from its first wait or launch until it is destroyed, and then
// by the marks that still name it: another stream with its handle is another one. Threads: any; one short lock (rank
// kStreams), not taken where a graph is launched where it was launched before.
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "shim/streams/stream_key.h"

namespace graphpool {

/// The number of the newest launch so far; take it before a wait is forwarded. A launch takes its number when it has
/// been enqueued, so that a wait before that does not count for it.
std::uint64_t launch_clock() noexcept;
std::uint64_t next_launch() noexcept;

/// The program has waited: everything up to `clock` is complete on the stream, or on all streams of the device.
void stream_waited(StreamKey stream, std::uint64_t clock) noexcept;
void device_waited(int device, std::uint64_t clock) noexcept;

/// A stream from its first launch until its handle is destroyed; a new stream with the handle has another state.
struct StreamState;
std::shared_ptr<StreamState> stream_state(StreamKey key);
bool stream_lives(const StreamState& stream) noexcept;
/// Whether the program itself has waited for this launch.
bool launch_waited_for(const StreamState& stream, int device, std::uint64_t number) noexcept;

/// How many streams are known: bounded by those alive.
std::size_t streams_known() noexcept;

/// A private event passed on to a stream of ours, which nobody captures: it stays fit to be waited for and asked.
class PassedEvent {
 public:
  /// Comes behind what the event, of this device, stands for now. Its stream is not captured. Null on failure.
  static std::shared_ptr<PassedEvent> make(hipEvent_t event, int device);
  virtual ~PassedEvent() = default;
  /// Null: complete, with a reset of the device.
  virtual hipEvent_t get() const noexcept = 0;
  /// Whether the device has passed it. Captures may be open.
  bool complete() const noexcept;
};

/// The launches of one exec that may still run.
class LaunchMarks {
 public:
  /// By the thread that launched, with the device current that was then. On a thread's own stream it records an event.
  void add(StreamKey key, hipStream_t stream, std::uint64_t number);
  /// The same of a launch that failed, with whatever it has enqueued: no call is made.
  void add_failed(StreamKey key, std::uint64_t number) noexcept;

  /// Whether all are known to be complete. Forgets those that are.
  bool complete() noexcept;

  /// No launch follows: records a private event behind each launch not yet known to be complete, so that complete() can
  /// find out by asking. A stream that is capturing is left alone; false: there was one, so that nothing can be told to
  /// come behind its launch. A stream that was destroyed unsealed leaves nothing to wait for.
  bool seal();

  /// Makes `stream` wait for the launches that may still run on other streams. False: for one of them it cannot.
  bool order_before(StreamKey key, hipStream_t stream);

  /// The same launches, for order_before(), sharing the events where they are sealed; null when all are complete. Their
  /// streams may begin to capture.
  std::unique_ptr<LaunchMarks> copy();

  /// How many launches are told apart: bounded by the streams alive on which there were any.
  std::size_t size() const noexcept { return marks_.size(); }

  LaunchMarks() = default;
  LaunchMarks(const LaunchMarks&) = delete;
  LaunchMarks& operator=(const LaunchMarks&) = delete;

 private:
  friend struct StreamState;
  friend void launches_stream_destroyed(StreamKey stream) noexcept;
  friend void launches_own_streams_end(StreamKey first, StreamKey count) noexcept;
  friend void awaited_launches_before_capture(StreamKey stream) noexcept;
  friend void launches_device_reset(int device) noexcept;
  friend class PassedEvent;
  class Event;
  class Passed;
  struct Awaited;
  class OwnStreams;
  struct Waiting;
  static OwnStreams& own_streams();
  static Waiting& waiting();
  struct Mark {
    StreamKey key;
    hipStream_t stream;
    int device;
    std::uint64_t number;
    std::shared_ptr<StreamState> state;
    std::shared_ptr<Event> event;    ///< null: not sealed
    std::shared_ptr<Awaited> order;  ///< of a copy: keeps the event fit to be waited for
  };
  static bool complete(const Mark& mark) noexcept;
  static void record(Mark& mark);
  static void leave_for_good(StreamState& state, hipStream_t stream) noexcept;
  std::vector<Mark>::iterator find(StreamKey key) noexcept;
  void forget_complete();

  static constexpr std::size_t kFew = 16;
  std::vector<Mark> marks_;
  std::size_t most_ = kFew;  ///< marks before those that are complete are forgotten
};

/// The stream is about to be destroyed: its handle must not be used any more. Nor may events be asked that were
/// recorded there, for AMD's runtime looks at the stream then: they pass to streams of ours.
void launches_stream_destroyed(StreamKey stream) noexcept;
/// The same of so many streams of the calling thread's own, which is about to end.
void launches_own_streams_end(StreamKey first, StreamKey count) noexcept;

/// How many events launches to come are to wait for.
inline constinit std::atomic<std::size_t> g_launches_awaited{0};
void awaited_launches_before_capture(StreamKey stream) noexcept;
/// The stream is about to take part in a capture. As long as it does, the runtime lets nobody wait for an event that
/// was recorded there: those that are still to be waited for pass to streams of ours.
inline void launches_before_capture(StreamKey stream) noexcept {
  if (g_launches_awaited.load(std::memory_order_acquire) != 0) [[unlikely]]
    awaited_launches_before_capture(stream);
}
/// The device is about to be reset: such streams are gone.
void launches_device_reset(int device) noexcept;

}  // namespace graphpool
