// restore.h: makes HIP calls of the engine's own inside a call of the program without leaving traces: the thread's
// capture mode, the current device, the last error and errno are afterwards what the program's call made them (rules 14
// and 17).
//
// A call that restores something and fails is made two or three times more, because the program would keep what it
// leaves behind. Errors: PrivateCalls::worked() makes a call and takes its failure out of the program's sight;
// LastErrorScope does so once for a scope.
// Threads: each scope lives on one thread's stack. Scopes nest. Not here: which HIP calls are made.
#pragma once

#include <cerrno>

#include "shim/hip/entry.h"
#include "shim/hip/hip_version.h"
#include "shim/hip/next.h"

namespace graphpool {

/// The error that hipGetLastError has still to tell the program's thread: it was pending when a call of ours replaced
/// it, and HIP keeps only one.
inline constinit thread_local hipError_t t_owed_error = hipSuccess;

/// Returns the error to tell the program where the runtime answers `error`. `taken`: the runtime has forgotten that
/// error.
inline hipError_t last_error_of_program(hipError_t error, bool taken) noexcept {
  const hipError_t owed = t_owed_error;
  if (taken || error != hipSuccess) t_owed_error = hipSuccess;
  return error != hipSuccess ? error : owed;
}

/// The first version of the runtime in which success does not replace the last error (probe
/// last_error_goes_by_version).
inline constexpr int kKeepsErrors = hip_version(7, 0);

/// The error that the program has pending and that a failing call of ours would replace. Before HIP 7, where every call
/// replaces it, hipSuccess.
hipError_t pending_error() noexcept;
/// Takes a failure of ours out of the program's sight. `pending`: pending_error() before it.
void clear_error(hipError_t pending) noexcept;

/// Clears failures of our own calls in the scope, so that hipGetLastError does not tell them, and keeps what the
/// program had pending in t_owed_error. (Up to HIP 6 the program's next call replaces that anyway: there the runtime's
/// answer stands.)
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

/// errno is afterwards what it was before.
class SavedErrno {
 public:
  SavedErrno() noexcept : errno_(errno) {}
  ~SavedErrno() { errno = errno_; }
  SavedErrno(const SavedErrno&) = delete;
  SavedErrno& operator=(const SavedErrno&) = delete;

 private:
  const int errno_;
};

/// Our own HIP calls in this scope neither invalidate a capture of another thread nor are refused because of one
/// (probes capture_modes_are_exchanged, relaxed_thread_may_query, relaxed_thread_may_instantiate). errno is kept.
class PrivateCalls {
 public:
  PrivateCalls() noexcept {
    changed_ = worked([&] { return next().hipThreadExchangeStreamCaptureMode(&mode_); });
  }
  ~PrivateCalls() {
    if (changed_ && !restored() && !restored()) static_cast<void>(restored());
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

  /// Asks the runtime a question of the library's own. If the call fails, asks once more: one failure tells nothing.
  template <typename Call>
  static bool answered(Call&& call) noexcept {
    return worked(call) || worked(call);
  }

  /// Makes a call of ours that gives memory back, once more where it fails, for nobody else would give it back.
  template <typename Call>
  static bool gave_back(Call&& call) noexcept {
    return worked(call) || worked(call);
  }

 private:
  bool restored() const noexcept {
    hipStreamCaptureMode mode = mode_;
    return worked([&] { return next().hipThreadExchangeStreamCaptureMode(&mode); });
  }

  const SavedErrno errno_;  // around the calls of last_error_
  const LastErrorScope last_error_;
  hipStreamCaptureMode mode_ = hipStreamCaptureModeRelaxed;
  bool changed_;
};

/// Refuses a call that names a handle which the library gave out and the program has destroyed. Returns HIP's own
/// error, which is the thread's last one then.
inline hipError_t refuse() noexcept {
  const hipError_t result = next().hipGraphDestroy(nullptr);
  return result == hipSuccess ? hipErrorInvalidValue : result;
}

/// The calling thread's current device, or -1. Asks twice where that fails.
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

/// Replaces an error that is pending, as success does up to HIP 6, by a call of ours. For frequent calls of the program
/// that succeed without reaching HIP: does nothing unless an error may be pending.
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
  /// Makes a device current for the scope. ok() tells whether that worked.
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
