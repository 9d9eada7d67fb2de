// passed_event.h: a private event passed on to a stream of ours, which nobody captures: it stays fit to be waited for
// and asked about when the stream it was recorded on begins to capture, or is destroyed.
//
// Threads: any. Streams of ours are used one launch after another and never destroyed; lock: one of rank kStreams.
#pragma once

#include <hip/hip_runtime_api.h>

#include <memory>

namespace graphpool {

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

/// The device is about to be reset: streams of ours there are gone.
void passed_events_device_reset(int device) noexcept;

}  // namespace graphpool
