// passed_event.h: passes a private event on to a stream of ours, which nobody captures. So it can be waited for and
// asked about even when the stream it was recorded on begins to capture, or is destroyed.
//
// Threads: any. A stream of ours serves one launch after another and stays until a reset of its device. Lock: one of
// rank kStreams, held over HIP calls that ask for an event or make a stream and an event.
#pragma once

#include <hip/hip_runtime_api.h>

#include <memory>

namespace graphpool {

class PassedEvent {
 public:
  /// Makes one that comes behind what the event, of this device, stands for now. Pre-condition: the event's stream is
  /// not captured. Null on failure. Throws std::bad_alloc.
  static std::shared_ptr<PassedEvent> make(hipEvent_t event, int device);
  virtual ~PassedEvent() = default;
  /// The event to wait for. Null: a reset of the device has completed it.
  virtual hipEvent_t get() const noexcept = 0;
  /// Whether the device has passed it. Captures may be open.
  bool complete() const noexcept;
};

/// Forgets streams of ours on the device, which is about to be reset.
void passed_events_device_reset(int device) noexcept;

}  // namespace graphpool
