// launch_marks.h: tells whether earlier launches are known to be complete. It asks what the program itself has waited
// for (stream_state.h), and private events (launch_event.h); it never waits (rule 20).
//
// Threads: any; the marks of one exec belong to its holder. Two short locks (rank kStreams), neither of which is taken
// for a launch on a stream with a handle on which the exec was launched before.
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "shim/streams/launch_event.h"
#include "shim/streams/passed_event.h"
#include "shim/streams/stream_key.h"
#include "shim/streams/stream_state.h"

namespace graphpool {

/// An event that a later launch is to wait for.
struct AwaitedLaunch {
  StreamKey key;
  hipStream_t stream;
  int device;
  std::shared_ptr<LaunchEvent> event;
};

/// The launches of one exec that may still run.
class LaunchMarks {
 public:
  /// Notes a launch, in the thread that made it, while the same device is current. On a thread's own stream it records
  /// an event behind the launch, unless the stream may be capturing or the thread's end cannot be learnt.
  void add(StreamKey key, hipStream_t stream, std::uint64_t number);
  /// Notes a launch that failed but may have enqueued something. Does nothing if its stream has no mark. Makes no call
  /// of HIP.
  void add_failed(StreamKey key, std::uint64_t number) noexcept;

  /// Whether all are known to be complete. Forgets those that are.
  bool complete() noexcept;

  /// Says that no launch follows. Records a private event behind each launch, but on threads' own streams, that is not
  /// known to be complete and has no event yet, so that complete() can ask for it. Returns false if a capture prevents
  /// that: the stream is capturing, or is a thread's own while a capture is open, and the launch has no event that has
  /// left the stream. A stream that was destroyed before leaves nothing to wait for. A launch for which HIP makes no
  /// event stays without one.
  bool seal();

  /// Makes `stream` wait for the launches that may still run on other streams. Returns false if one on a stream that
  /// lives has no event, as while that stream is capturing, or if a wait fails. A launch whose stream or event is lost
  /// is not waited for.
  bool order_before(StreamKey key, hipStream_t stream);

  /// Copies the marks for order_before(). The copy shares the events of the marks that have one, and keeps these events
  /// fit to be waited for when their streams begin to capture. Null when all launches are complete.
  std::unique_ptr<LaunchMarks> copy();

  /// How many launches are told apart. When there are too many, those that are complete are forgotten.
  std::size_t size() const noexcept { return marks_.size(); }

  LaunchMarks() = default;
  LaunchMarks(const LaunchMarks&) = delete;
  LaunchMarks& operator=(const LaunchMarks&) = delete;

 private:
  struct Mark {
    StreamKey key;
    hipStream_t stream;
    int device;
    std::uint64_t number;
    std::shared_ptr<StreamState> state;
    std::shared_ptr<LaunchEvent> event;    ///< null: none was recorded behind the last launch
    std::shared_ptr<LaunchEvent> earlier;  ///< recorded before a launch that failed, so it says nothing; goes later
    std::shared_ptr<AwaitedLaunch> order;  ///< of a copy: as long as it lives, the event can be waited for
  };
  static bool complete(const Mark& mark) noexcept;
  static void record(Mark& mark);
  std::vector<Mark>::iterator find(StreamKey key) noexcept;
  void forget_complete();

  static constexpr std::size_t kFew = 16;
  std::vector<Mark> marks_;
  std::size_t most_ = kFew;  ///< at so many marks, those that are complete are forgotten
};

/// Call it before a stream is destroyed: its handle is not used any more. Events that were recorded there pass to
/// streams of ours, because AMD's runtime looks at the stream of an event that it is asked for.
void launches_stream_destroyed(StreamKey stream) noexcept;
/// The same for the calling thread's own streams, `count` of them, when the thread is about to end.
void launches_own_streams_end(StreamKey first, StreamKey count) noexcept;
/// Call it when a device is about to be reset: its launches are complete, and its streams and their events gone.
void launches_device_reset(int device) noexcept;

/// The number of events that later launches are to wait for.
inline constinit std::atomic<std::size_t> g_launches_awaited{0};
void awaited_launches_before_capture(StreamKey stream) noexcept;
/// Call it before a stream takes part in a capture. While the stream does, the runtime lets nobody wait for an event
/// that was recorded there: events that are still to be waited for pass to streams of ours.
inline void launches_before_capture(StreamKey stream) noexcept {
  if (g_launches_awaited.load(std::memory_order_acquire) != 0) [[unlikely]]
    awaited_launches_before_capture(stream);
}
}  // namespace graphpool
