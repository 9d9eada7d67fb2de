// api.h: what every exported function of the CUDA runtime goes through: a device to work on, the thread's last error.
//
// Environment (read once):
//   CUDAHIP_VERSION=50221153   what hipRuntimeGetVersion answers; layouts and enumerators follow it (default: by the
//                              library's SONAME)
//   CUDAHIP_NVRTC=file         NVRTC's library (default: libnvrtc.so.13 and older names, then /usr/local/cuda/lib64)
// Threads: any. The thread's context is the primary one of its current device, made current by the first call that
// needs it.
#pragma once

#include <hip/hip_runtime_api.h>

#include <new>
#include <type_traits>

#include "driver.h"

#define HIP_EXPORT extern "C" __attribute__((visibility("default")))

namespace cudahip {

using cu::driver;

/// What hipRuntimeGetVersion answers.
int version();

/// Records the thread's last error and returns it.
hipError_t leave(hipError_t result);

/// The same for a call that leaves the last error where `stream` captures, up to HIP 6.
hipError_t leave_captured(hipStream_t stream, hipError_t result);

/// The driver's result as HIP's; last errors are left alone.
hipError_t translate(cu::Result result);

/// hipSuccess once the thread's device has its context current; else why there is none.
hipError_t enter();

/// Runs the body of an exported function that needs a device; it returns hipError_t or the driver's result.
/// `end` is given the result and returns it.
template <typename Body, typename End = hipError_t (*)(hipError_t)>
hipError_t api(Body&& body, End&& end = leave) {
  if (const hipError_t error = enter(); error != hipSuccess) return leave(error);
  try {
    if constexpr (std::is_same_v<decltype(body()), cu::Result>) {
      return end(translate(body()));
    } else {
      return end(body());
    }
  } catch (const std::bad_alloc&) {
    return end(hipErrorOutOfMemory);
  }
}

/// The same for functions that leave the last error where the stream captures, up to HIP 6.
template <typename Body>
hipError_t stream_api(hipStream_t stream, Body&& body) {
  return api(body, [stream](hipError_t result) { return leave_captured(stream, result); });
}

/// The same for functions that need no device.
template <typename Body>
hipError_t query_api(Body&& body) {
  return leave(body());
}

// --- Devices ---
int current_ordinal();
int device_count();
/// The primary context of a device, retained once; null when there is none.
cu::Context* context_of(int ordinal);
/// The device of a context made by context_of(); -1 for others.
int ordinal_of(cu::Context* context);
/// Drops what was loaded for the device: registration.cpp.
void forget_device(int ordinal);

}  // namespace cudahip
