// restore.h: how the engine makes HIP calls of its own inside a call of the program without leaving traces: the
// thread's capture mode, the current device, the last error and errno are afterwards what the program's call made them
// (rules 14 and 17).
//
// A call that restores and fails is made up to two times more: what it leaves behind would be the program's from then
// on. Two ways with errors: PrivateCalls::worked() makes a call and takes its failure out of the program's sight;
// LastErrorScope does it once for a scope whose calls are looked at otherwise.
// Threads: each scope lives on one thread's stack. Scopes nest. Not here: what HIP calls are made.
#pragma once

#include <cerrno>

#include "shim/hip/entry.h"
#include "shim/hip/hip_version.h"
#include "shim/hip/next.h"

namespace graphpool {

/// The error that hipGetLastError owes the program's thread: it was pending when a call of ours failed, and HIP keeps
/// one.
inline constinit thread_local hipError_t t_owed_error = hipSuccess;

/// What the program is told where the runtime answers `error`. `taken`: and has forgotten it.
inline hipError_t last_error_of_program(hipError_t error, bool taken) noexcept {
  const hipError_t owed = t_owed_error;
  if (taken || error != hipSuccess) t_owed_error = hipSuccess;
  return error != hipSuccess ? error : owed;
}

/// The first version of the runtime in which success does not replace the last error (probe
/// last_error_goes_by_version).
inline constexpr int kKeepsErrors = hip_version(7, 0);

/// What the program has pending where a call of ours that fails would replace it; where every call does (HIP before 7),
/// hipSuccess.
hipError_t pending_error() noexcept;
/// Takes a failure of ours out of the program's sight. `pending`: pending_error() before it.
void clear_error(hipError_t pending) noexcept;

/// A failure of a call of our own must not show in hipGetLastError: it is cleared, and what the program had pending is
/// owed to it. (Up to HIP 6 the program's next call replaces that anyway: there the runtime's answer stands.)
class LastErrorScope {
 public:
  LastErrorScope() noexcept : pending_(next().hipPeekAtLastError()) {}
  ~LastErrorScope() {
    if (pending_ == hipSuccess)
      static_cast<void>(next().hipGetLastError());
    else
      owe();
  }
  LastErrorScope(const LastErrorScope&) = delete;
  LastErrorScope& operator=(const LastErrorScope&) = delete;

 private:
  void owe() const noexcept;

  hipError_t pending_;
};

/// Our own HIP calls in this scope neither invalidate a capture of another thread nor are refused because of one
/// (probes capture_modes_are_exchanged, relaxed_thread_may_query, relaxed_thread_may_instantiate). errno is kept.
class PrivateCalls {
 public:
  PrivateCalls() noexcept : errno_(errno) {
    changed_ = worked([&] { return next().hipThreadExchangeStreamCaptureMode(&mode_); });
  }
  ~PrivateCalls() {
    if (changed_ && !restored() && !restored()) static_cast<void>(restored());
    errno = errno_;
  }
  PrivateCalls(const PrivateCalls&) = delete;
  PrivateCalls& operator=(const PrivateCalls&) = delete;

  /// The capture mode the program has given the thread. False: the runtime did not say.
  bool mode_of_thread(hipStreamCaptureMode* mode) const noexcept {
    if (changed_) *mode = mode_;
    return changed_;
  }

  /// Makes a call of ours. True when it worked; otherwise its error is out of the program's sight.
  template <typename Call>
  static bool worked(Call&& call) noexcept {
    const hipError_t pending = pending_error();
    if (call() == hipSuccess) return true;
    clear_error(pending);
    return false;
  }

  /// A question of ours: asked once more where that fails, for nothing follows from a failure.
  template <typename Call>
  static bool answered(Call&& call) noexcept {
    return worked(call) || worked(call);
  }

  /// A call of ours that gives memory back: made once more where it fails, for nobody else would give it back.
  template <typename Call>
  static bool gave_back(Call&& call) noexcept {
    return worked(call) || worked(call);
  }

 private:
  bool restored() const noexcept {
    hipStreamCaptureMode mode = mode_;
    return worked([&] { return next().hipThreadExchangeStreamCaptureMode(&mode); });
  }

  const LastErrorScope last_error_;
  hipStreamCaptureMode mode_ = hipStreamCaptureModeRelaxed;
  int errno_;
  bool changed_;
};

/// Refuses a call of the program by a handle of ours that it has destroyed: HIP's own error, as the thread's last one.
inline hipError_t refuse() noexcept {
  const hipError_t result = next().hipGraphDestroy(nullptr);
  return result == hipSuccess ? hipErrorInvalidValue : result;
}

/// The calling thread's current device, asked twice where it fails, or -1.
inline int current_device() noexcept {
  int device = -1;
  const auto call = [&] { return next().hipGetDevice(&device); };
  return PrivateCalls::answered(call) ? device : -1;
}

/// The calling thread's current device; 0 when the runtime does not say.
inline int calling_device() noexcept {
  const int device = current_device();
  return device < 0 ? 0 : device;
}

/// For a call of the program that succeeds without reaching HIP and is made too often to be asked something each time:
/// up to HIP 6 success replaces an error that is pending.
inline void succeeded_unseen() noexcept {
  if (!t_error_possible) [[likely]]
    return;
  t_error_possible = false;
  static_cast<void>(calling_device());
}

/// Restores the thread's current device.
class SavedDevice {
 public:
  SavedDevice() noexcept : before_(current_device()), now_(before_) {}
  /// Makes a device current for the scope; whether that worked: ok().
  explicit SavedDevice(int device) noexcept : SavedDevice() { ok_ = before_ >= 0 && set(device); }
  ~SavedDevice() {
    if (before_ >= 0 && !set(before_)) set(before_);
  }
  SavedDevice(const SavedDevice&) = delete;
  SavedDevice& operator=(const SavedDevice&) = delete;

  /// False when the device is not current now.
  bool set(int device) const noexcept {
    if (device != now_ && PrivateCalls::answered([&] { return next().hipSetDevice(device); })) now_ = device;
    return device == now_;
  }
  bool ok() const noexcept { return ok_; }

 private:
  int before_;
  mutable int now_;
  bool ok_ = true;
};

}  // namespace graphpool
