// device.h: the devices of the process and the calling thread's current one.
#pragma once

#include <hip/hip_runtime_api.h>

#include <atomic>

namespace cpuhip {

class Stream;

class Device {
 public:
  int ordinal() const { return ordinal_; }
  Stream& null_stream();
  /// The first asynchronous error: returned by every later call that touches the device, until a reset.
  std::atomic<hipError_t> sticky{hipSuccess};

 protected:
  int ordinal_ = 0;
};

Device& device(int ordinal);
Device& current_device();

}  // namespace cpuhip
