// last_launch.h: the last launch of a slot set, or of the direct exec: whether it is complete, and how work of another
// stream comes behind it.
//
// When is it complete? A launch of a ring with more than one set, or with overlap, raises a timeline
// (streams/timeline.h; rule 19: others do not); one atomic load tells. Otherwise an event behind the launch is asked.
// How does the next launch come behind it?
//   - on its stream: the stream orders them;
//   - launches that are ordered anyway (rule 3): the stream waits for the event, recorded with the launch;
//   - independent launches are never made to wait for each other on the device: they could in truth wait for each
//     other. The launch is refused as busy.
//
// An event of a stream that is being captured can be neither waited for nor asked. So before a stream takes part in a
// capture, what its events stand for is passed on to a stream of the library's (before_capture()); and before it is
// destroyed, for then AMD's runtime must not be asked for them (before_destroy()).
//
// Threads: any. Each object has a lock of its own (rank kRing), held over event records, queries and waits only.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "shim/base/lock_rank.h"
#include "shim/streams/passed_event.h"
#include "shim/streams/stream_key.h"
#include "shim/streams/stream_state.h"
#include "shim/streams/timeline.h"

namespace graphpool {

class StagePlan;

class LastLaunch {
 public:
  /// What a stream that is to come behind the launch has got.
  struct Turn {
    hipError_t result = hipSuccess;
    bool busy = false;   ///< it does not come behind the launch, which may still run
    bool waits = false;  ///< a wait was enqueued
  };
  /// What is done where the launch may still run.
  enum class IfRunning : std::uint8_t {
    kAsPlanned,  ///< the device waits where the plan orders launches, else the turn is busy
    kOnDevice,   ///< the device waits; where it cannot be made to, nobody waits
  };

  LastLaunch() = default;
  ~LastLaunch();
  LastLaunch(const LastLaunch&) = delete;
  LastLaunch& operator=(const LastLaunch&) = delete;

  /// Makes the event, and the timeline where the plan needs one. Call it once, before all else.
  hipError_t make(const StagePlan& plan);
  bool made() const noexcept { return event_ != nullptr; }
  /// The event that the launch's exec may record by a node. Valid after make().
  hipEvent_t event() const noexcept { return event_; }
  /// Whether launches need the event: without a timeline, or where they are ordered.
  bool needs_event() const noexcept EXCLUDES(lock_);

  /// A launch was enqueued. `recorded`: its exec records the event. Returns how many operations were enqueued behind
  /// it.
  std::size_t launched(StreamKey key, hipStream_t stream, bool recorded) EXCLUDES(lock_);
  /// Lets the stream come behind the launch.
  Turn order(StreamKey key, hipStream_t stream, IfRunning if_running) EXCLUDES(lock_);
  /// Whether the launch is known to be complete. Never waits.
  bool complete() const noexcept EXCLUDES(lock_);

  /// The stream is about to take part in a capture.
  void before_capture(StreamKey stream) noexcept EXCLUDES(lock_);
  /// So many streams, from this key on, are about to go.
  void before_destroy(StreamKey first, StreamKey count) noexcept EXCLUDES(lock_);
  /// The device is being reset: the event is gone, and is not to be destroyed. There was no launch.
  void forget() noexcept EXCLUDES(lock_);

 private:
  bool is_complete() const noexcept REQUIRES(lock_);
  Turn wait_on_device(hipStream_t stream, bool busy_if_not) noexcept REQUIRES(lock_);
  bool record() noexcept REQUIRES(lock_);
  void pass_on() noexcept REQUIRES(lock_);

  // Set by make(), before other threads know the object, and by forget(), when no launch uses it any more.
  hipEvent_t event_ = nullptr;  ///< behind the launch
  int device_ = 0;
  bool overlap_ = false;  ///< launches are independent of each other

  mutable RankedMutex<LockRank::kRing> lock_;
  std::unique_ptr<Timeline> timeline_ GUARDED_BY(lock_);  ///< null: not needed, or the runtime has none
  bool recorded_ GUARDED_BY(lock_) = false;               ///< the event stands for the launch
  StreamKey key_ GUARDED_BY(lock_) = 0;                   ///< of its stream; 0: there was no launch
  hipStream_t stream_ GUARDED_BY(lock_) = nullptr;
  std::shared_ptr<StreamState> state_ GUARDED_BY(lock_);   ///< of its stream
  std::uint64_t number_ GUARDED_BY(lock_) = 0;             ///< next_launch() of it
  std::shared_ptr<PassedEvent> passed_ GUARDED_BY(lock_);  ///< stands for the event while its stream captures
};

}  // namespace graphpool
