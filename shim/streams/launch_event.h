// launch_event.h: has a private event behind one launch.
//
// The event is on the stream that it was recorded on, and leaves it (leave_stream) before the stream begins to capture,
// if a later launch is to wait for the event (launch_marks.h): nobody may wait for it or ask about it then. Before the
// stream goes, the event leaves it for good, because AMD's runtime looks at the stream of an event that it is asked
// about:
//
//   kStream -> kPassed      the device had passed it
//           \-> kOwnStream   it was passed on to a stream of ours (passed_event.h)
//            \-> kLost       its stream went, and it could not be passed on: only a wait for the device tells
//
// Threads: the place changes in one thread, as the stream begins to capture or goes, and is read in any.
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>
#include <memory>

#include "shim/streams/passed_event.h"

namespace graphpool {

class LaunchEvent {
 public:
  LaunchEvent() = default;
  LaunchEvent(const LaunchEvent&) = delete;
  LaunchEvent& operator=(const LaunchEvent&) = delete;
  ~LaunchEvent();

  /// Records a new event behind what the stream has now. Null: HIP failed. Throws std::bad_alloc.
  static std::shared_ptr<LaunchEvent> record(hipStream_t stream);
  /// Records the same event behind another launch. Returns false if that needs a new event.
  bool record_again(hipStream_t stream);

  /// The event to wait for. Null: the launch is complete, or nobody knows (lost()).
  hipEvent_t get() const noexcept;
  /// Whether passed() may be asked although captures are open.
  bool off_stream() const noexcept { return place_.load(std::memory_order_acquire) != Place::kStream; }
  /// Whether its stream went before the launch was known to be complete: only a wait for the device can tell then.
  bool lost() const noexcept { return place_.load(std::memory_order_acquire) == Place::kLost; }
  /// Whether the device has passed it, once it is off its stream. Captures may be open.
  bool passed() const noexcept;

  /// Takes the event off its stream, which is about to capture but does not yet. The event stays there if it has not
  /// passed and cannot be passed on. Throws std::bad_alloc.
  void leave_stream(int device);
  /// Takes the event off its stream, which is about to go. `may_ask`: the stream does not capture.
  void leave_for_good(int device, bool may_ask) noexcept;

 private:
  enum class Place { kStream, kOwnStream, kPassed, kLost };
  hipEvent_t event_ = nullptr;
  std::shared_ptr<PassedEvent> own_;
  std::atomic<Place> place_{Place::kStream};
};

}  // namespace graphpool
