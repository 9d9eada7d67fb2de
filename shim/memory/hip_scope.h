// hip_scope.h: how the engine makes HIP calls of its own inside a call of the program without leaving traces: the
// thread's capture mode, the current device, the last error and errno are afterwards what the program's call made them
// (rules 14, 17).
//
// Threads: each scope lives on one thread's stack. Scopes nest. Not here: what HIP calls are made.
#pragma once

#include <cerrno>

#include "shim/next.h"

namespace graphpool {

/// Our own HIP calls in this scope neither invalidate a capture of another thread nor are refused because of one.
/// errno is kept.
class PrivateCalls {
 public:
  PrivateCalls() noexcept : errno_(errno) {
    changed_ = next().hipThreadExchangeStreamCaptureMode(&mode_) == hipSuccess;
    if (!changed_) clear_error();
  }
  ~PrivateCalls() {
    if (changed_) (void)next().hipThreadExchangeStreamCaptureMode(&mode_);
    errno = errno_;
  }
  PrivateCalls(const PrivateCalls&) = delete;
  PrivateCalls& operator=(const PrivateCalls&) = delete;

  /// A HIP failure of ours that the program shall not find in hipGetLastError.
  static void clear_error() noexcept { (void)next().hipGetLastError(); }

  /// True when a call of ours worked; otherwise its error is taken out of the program's sight.
  static bool worked(hipError_t error) noexcept {
    if (error == hipSuccess) return true;
    clear_error();
    return false;
  }

 private:
  hipStreamCaptureMode mode_ = hipStreamCaptureModeRelaxed;
  int errno_;
  bool changed_;
};

/// Makes a device current for the scope.
class DeviceScope {
 public:
  explicit DeviceScope(int device) noexcept {
    if (!PrivateCalls::worked(next().hipGetDevice(&before_))) return;
    if (before_ == device) {
      ok_ = true;
      before_ = -1;
    } else {
      ok_ = PrivateCalls::worked(next().hipSetDevice(device));
      if (!ok_) before_ = -1;
    }
  }
  ~DeviceScope() {
    if (before_ >= 0) (void)PrivateCalls::worked(next().hipSetDevice(before_));
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  bool ok() const noexcept { return ok_; }

 private:
  int before_ = -1;
  bool ok_ = false;
};

/// The calling thread's current device, or -1.
inline int current_device() noexcept {
  int device = -1;
  return PrivateCalls::worked(next().hipGetDevice(&device)) ? device : -1;
}

}  // namespace graphpool
