// last_launch.h: knows the last launch of a slot set, or of the direct exec. It tells whether that is complete, and
// makes work of another stream come behind it.
//
// When is it complete? If the runtime has timelines (streams/timeline.h), a launch of a ring with several sets, or with
// overlap, raises one, and one atomic load tells. Other launches raise none (rule 19). Without a timeline what the
// program has waited for tells, or an event behind the launch is asked for.
// How does other work come behind it?
//   - on its stream: the stream orders them;
//   - launches that are ordered anyway (rule 3): the stream waits for the event, recorded with the launch;
//   - independent launches are not ordered on the device: one may spin until the other runs (a deadlock). The launch is
//     refused as busy, unless the caller asks for a wait on the device (IfRunning::kOnDevice).
//
// Nobody may wait for or ask for an event whose stream is being captured. So before a stream takes part in a capture,
// its event is passed on to a stream of the library's (before_capture()). The event is also passed on before its stream
// is destroyed: afterwards AMD's runtime must not be asked for it (before_destroy()).
//
// Threads: any. Each object has a lock of its own (rank kRing). It is held over HIP calls that record, ask for or pass
// on an event, write a value, or make a stream wait.
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
  /// What order() has done for a stream.
  struct Turn {
    hipError_t result = hipSuccess;
    bool busy = false;   ///< the stream does not come behind the launch, which may still run
    bool waits = false;  ///< a wait was enqueued
  };
  /// What order() does if the launch may still run.
  enum class IfRunning : std::uint8_t {
    kAsPlanned,  ///< the device waits; the turn is busy if it cannot, or if launches are independent
    kOnDevice,   ///< the device waits; if it cannot be made to, nobody waits
  };

  LastLaunch() = default;
  ~LastLaunch();
  LastLaunch(const LastLaunch&) = delete;
  LastLaunch& operator=(const LastLaunch&) = delete;

  /// Makes the event, and the timeline if the plan needs one. Call it once, before the first launch.
  hipError_t make(const StagePlan& plan);
  bool made() const noexcept { return event_ != nullptr; }
  /// The event that the launch's exec may record by a node. Valid after make().
  hipEvent_t event() const noexcept { return event_; }
  /// Whether launches need the event: there is no timeline, or launches are ordered.
  bool needs_event() const noexcept EXCLUDES(lock_);

  /// Notes a launch that was enqueued. `recorded`: its exec records the event. Returns how many operations this has
  /// enqueued behind it.
  std::size_t launched(StreamKey key, hipStream_t stream, bool recorded) EXCLUDES(lock_);
  /// Makes the stream come behind the launch.
  Turn order(StreamKey key, hipStream_t stream, IfRunning if_running) EXCLUDES(lock_);
  /// Whether the launch is known to be complete. Never waits.
  bool complete() const noexcept EXCLUDES(lock_);

  /// Passes the event on if it is of this stream, which is about to take part in a capture.
  void before_capture(StreamKey stream) noexcept EXCLUDES(lock_);
  /// Passes the event on if it is of one of these streams, which are about to go. `first`: the first of `count` keys.
  void before_destroy(StreamKey first, StreamKey count) noexcept EXCLUDES(lock_);
  /// Forgets the launch and the event, which is gone and not to be destroyed: the device is being reset.
  void forget() noexcept EXCLUDES(lock_);

 private:
  bool is_complete() const noexcept REQUIRES(lock_);
  Turn wait_on_device(hipStream_t stream, bool busy_if_not) noexcept REQUIRES(lock_);
  bool record() noexcept REQUIRES(lock_);
  void pass_on() noexcept REQUIRES(lock_);

  // Set by make(), before the first launch: until then other threads look at none of these. forget() clears event_,
  // when no launch uses it any more.
  hipEvent_t event_ = nullptr;  ///< behind the launch
  int device_ = 0;
  bool overlap_ = false;  ///< launches are independent of each other

  mutable RankedMutex<LockRank::kRing> lock_;
  std::unique_ptr<Timeline> timeline_ GUARDED_BY(lock_);  ///< null: not needed, or the runtime has none
  bool recorded_ GUARDED_BY(lock_) = false;               ///< the event stands for the launch
  StreamKey key_ GUARDED_BY(lock_) = 0;                   ///< of its stream; 0: there is no launch to come behind
  hipStream_t stream_ GUARDED_BY(lock_) = nullptr;
  std::shared_ptr<StreamState> state_ GUARDED_BY(lock_);   ///< of its stream
  std::uint64_t number_ GUARDED_BY(lock_) = 0;             ///< what next_launch() gave it
  std::shared_ptr<PassedEvent> passed_ GUARDED_BY(lock_);  ///< stands for the event until the next launch; null: none
};

}  // namespace graphpool
