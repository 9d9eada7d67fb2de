// launch_marks.h: is an earlier launch known to be complete? Answered from what the program itself has waited for
// (stream_state.h), and from private events (launch_event.h); never by waiting (rule 20).
//
// Threads: any; the marks of one exec belong to its holder. One short lock (rank kStreams), not taken where a graph is
// launched where it was launched before.
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

/// An event that a launch to come is to wait for.
struct AwaitedLaunch {
  StreamKey key;
  hipStream_t stream;
  int device;
  std::shared_ptr<LaunchEvent> event;
};

/// The launches of one exec that may still run.
class LaunchMarks {
 public:
  /// Call it in the thread that launched, while the same device is current. On a thread's own stream it records an
  /// event.
  void add(StreamKey key, hipStream_t stream, std::uint64_t number);
  /// A launch that failed, with whatever it has enqueued: no call is made.
  void add_failed(StreamKey key, std::uint64_t number) noexcept;

  /// Whether all are known to be complete. Forgets those that are.
  bool complete() noexcept;

  /// Says that no launch follows. Records a private event behind each launch not yet known to be complete, so that
  /// complete() can find out by asking. A stream that is capturing is left alone: then returns false, because nothing
  /// can be told to come behind its launch. A stream that was destroyed unsealed leaves nothing to wait for.
  bool seal();

  /// Makes `stream` wait for the launches that may still run on other streams. Returns false where it cannot wait for
  /// one of them.
  bool order_before(StreamKey key, hipStream_t stream);

  /// A copy of the marks for order_before(), which shares the events of those that are sealed. Null when all launches
  /// are complete. Their streams may begin to capture.
  std::unique_ptr<LaunchMarks> copy();

  /// How many launches are told apart: bounded by the streams alive on which there were any.
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
    std::shared_ptr<LaunchEvent> event;    ///< null: not sealed
    std::shared_ptr<AwaitedLaunch> order;  ///< of a copy: keeps the event fit to be waited for
  };
  static bool complete(const Mark& mark) noexcept;
  static void record(Mark& mark);
  std::vector<Mark>::iterator find(StreamKey key) noexcept;
  void forget_complete();

  static constexpr std::size_t kFew = 16;
  std::vector<Mark> marks_;
  std::size_t most_ = kFew;  ///< marks before those that are complete are forgotten
};

/// The stream is about to be destroyed: its handle must not be used any more. Nor may events be asked that were
/// recorded there, for AMD's runtime looks at the stream then: they pass to streams of ours.
void launches_stream_destroyed(StreamKey stream) noexcept;
/// The calling thread is about to end, and with it so many streams of its own.
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
}  // namespace graphpool
