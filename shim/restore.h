// restore.h: calls of our own leave no trace in what the program can ask for: current device, last error (rule 14).
#pragma once

#include "shim/memory/hip_scope.h"
#include "shim/next.h"

namespace graphpool {

/// The calling thread's current device; 0 when the runtime does not say.
inline int calling_device() noexcept {
  const int device = current_device();
  return device < 0 ? 0 : device;
}

/// Restores the thread's current device.
class SavedDevice {
 public:
  SavedDevice() noexcept : before_(calling_device()), now_(before_) {}
  ~SavedDevice() { set(before_); }
  SavedDevice(const SavedDevice&) = delete;
  SavedDevice& operator=(const SavedDevice&) = delete;

  void set(int device) const noexcept {
    if (device != now_ && next().hipSetDevice(device) == hipSuccess) now_ = device;
  }

 private:
  int before_;
  mutable int now_;
};

/// A failure of a call of our own must not show in hipGetLastError. HIP keeps one error a thread: where the program has
/// one pending it is left alone, else ours is cleared.
class LastErrorScope {
 public:
  LastErrorScope() noexcept : pending_(next().hipPeekAtLastError()) {}
  ~LastErrorScope() {
    if (pending_ == hipSuccess) static_cast<void>(next().hipGetLastError());
  }
  LastErrorScope(const LastErrorScope&) = delete;
  LastErrorScope& operator=(const LastErrorScope&) = delete;

 private:
  hipError_t pending_;
};

}  // namespace graphpool
