#include "api.h"

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string>

#include "common/error_names.h"
#include "common/look_up.h"
#include "translate.h"

extern "C" const int cudahip_default_version;  // version.cpp: by SONAME

namespace cudahip {
namespace {

struct LastErrors {
  hipError_t error = hipSuccess, result = hipSuccess;
};
thread_local LastErrors t_last;
thread_local int t_ordinal = 0, t_bound = -1;

constexpr int kMaxDevices = 64;
struct Contexts {
  std::mutex lock;
  cu::Context* of[kMaxDevices] = {};
};
Contexts& contexts() {
  static auto& all = *new Contexts;
  return all;
}

}  // namespace

int version() {
  static const int chosen = [] {
    const char* text = std::getenv("CUDAHIP_VERSION");
    return text != nullptr && *text != '\0' ? std::atoi(text) : cudahip_default_version;
  }();
  return chosen;
}

hipError_t leave(hipError_t result) {
  t_last.result = result;
  // Up to HIP 6 the last error is the last call's result, success included; HIP 7 keeps the last real error.
  if (version() < 70000000 || (result != hipSuccess && result != hipErrorNotReady)) t_last.error = result;
  return result;
}

hipError_t leave_captured(hipStream_t stream, hipError_t result) {
  const bool differs = version() < 70000000 && (t_last.error != hipSuccess || result != hipSuccess);
  int status = 0;
  if (!differs || driver().cuStreamIsCapturing(stream_of(stream), &status) != cu::kSuccess ||
      status != hipStreamCaptureStatusActive)
    return leave(result);
  t_last.result = result;
  return result;
}

int current_ordinal() { return t_ordinal; }

int device_count() {
  // Asked of the driver until it knows of some: hipGetDevice is a few nanoseconds in HIP too.
  static std::atomic<int> known{0};
  if (const int count = known.load(std::memory_order_relaxed); count > 0) return count;
  int count = 0;
  if (cu::driver_state() != cu::kSuccess || driver().cuDeviceGetCount(&count) != cu::kSuccess) return 0;
  if (count > kMaxDevices) count = kMaxDevices;
  known.store(count, std::memory_order_relaxed);
  return count;
}

cu::Context* context_of(int ordinal) {
  if (ordinal < 0 || ordinal >= device_count()) return nullptr;
  Contexts& all = contexts();
  const std::lock_guard lock(all.lock);
  if (all.of[ordinal] == nullptr && driver().cuDevicePrimaryCtxRetain(&all.of[ordinal], ordinal) != cu::kSuccess)
    all.of[ordinal] = nullptr;
  return all.of[ordinal];
}

int ordinal_of(cu::Context* context) {
  Contexts& all = contexts();
  const std::lock_guard lock(all.lock);
  for (int ordinal = 0; ordinal < kMaxDevices; ++ordinal)
    if (context != nullptr && all.of[ordinal] == context) return ordinal;
  return -1;
}

hipError_t enter() {
  if (t_bound == t_ordinal) return hipSuccess;
  if (const cu::Result state = cu::driver_state(); state != cu::kSuccess) return translate(state);
  cu::Context* context = context_of(t_ordinal);
  if (context == nullptr) return hipErrorInvalidDevice;
  const cu::Result bound = driver().cuCtxSetCurrent(context);
  if (bound == cu::kSuccess) t_bound = t_ordinal;
  return translate(bound);
}

// Called by the generated stand-ins.
int stand_in(const char*) { return leave(hipErrorNotSupported); }
int stand_in_rtc(const char*) { return 11; }  // HIPRTC_ERROR_INTERNAL_ERROR
void* stand_in_pointer(const char*) { return nullptr; }

namespace {

hipError_t set_device(int ordinal) {
  if (cu::driver_state() != cu::kSuccess) return translate(cu::driver_state());
  if (ordinal < 0 || ordinal >= device_count()) return hipErrorInvalidDevice;
  t_ordinal = ordinal;
  return enter();
}

}  // namespace
}  // namespace cudahip

using namespace cudahip;

HIP_EXPORT hipError_t hipGetLastError() {
  const hipError_t error = t_last.error;
  t_last.error = hipSuccess;
  return error;
}
HIP_EXPORT hipError_t hipPeekAtLastError() { return t_last.error; }
HIP_EXPORT hipError_t hipExtGetLastError() {
  const hipError_t error = t_last.result;
  t_last.result = hipSuccess;
  return error;
}
HIP_EXPORT const char* hipGetErrorName(hipError_t code) { return hipfront::error_name(code); }
HIP_EXPORT const char* hipGetErrorString(hipError_t code) { return hipfront::error_text(code); }
HIP_EXPORT hipError_t hipDrvGetErrorName(hipError_t code, const char** name) {
  return leave(hipfront::find_error_name(code, name));
}
HIP_EXPORT hipError_t hipDrvGetErrorString(hipError_t code, const char** text) {
  return leave(hipfront::find_error_text(code, text));
}

HIP_EXPORT hipError_t hipInit(unsigned flags) {
  return api([&] { return flags == 0 ? hipSuccess : hipErrorInvalidValue; });
}
HIP_EXPORT hipError_t hipRuntimeGetVersion(int* place) {
  if (place == nullptr) return leave(hipErrorInvalidValue);
  *place = version();
  return leave(hipSuccess);
}
HIP_EXPORT hipError_t hipDriverGetVersion(int* place) { return hipRuntimeGetVersion(place); }

HIP_EXPORT hipError_t hipGetProcAddress(const char* symbol, void** function, int wanted, std::uint64_t, int* status) {
  return leave(hipfront::look_up(symbol, function, wanted, status, false));
}
HIP_EXPORT hipError_t hipGetProcAddress_spt(const char* symbol, void** function, int wanted, std::uint64_t,
                                            int* status) {
  return leave(hipfront::look_up(symbol, function, wanted, status, true));
}

HIP_EXPORT hipError_t hipGetDeviceCount(int* count) {
  if (count == nullptr) return leave(hipErrorInvalidValue);
  *count = device_count();
  return leave(*count > 0 ? hipSuccess : hipErrorNoDevice);
}
HIP_EXPORT hipError_t hipGetDevice(int* ordinal) {
  if (ordinal == nullptr) return leave(hipErrorInvalidValue);
  if (device_count() == 0) return leave(hipErrorNoDevice);
  *ordinal = t_ordinal;
  return leave(hipSuccess);
}
HIP_EXPORT hipError_t hipSetDevice(int ordinal) { return leave(set_device(ordinal)); }

namespace {

hipError_t reset(int ordinal) {
  if (context_of(ordinal) == nullptr) return hipErrorInvalidDevice;
  {
    Contexts& all = contexts();
    const std::lock_guard lock(all.lock);
    all.of[ordinal] = nullptr;
  }
  if (t_bound == ordinal) t_bound = -1;
  forget_device(ordinal);
  return translate(driver().cuDevicePrimaryCtxReset_v2(ordinal));
}

}  // namespace

HIP_EXPORT hipError_t hipDeviceReset() {
  return api([] { return reset(t_ordinal); });
}
HIP_EXPORT hipError_t hipDevicePrimaryCtxReset(hipDevice_t ordinal) {
  return api([&] { return reset(ordinal); });
}
HIP_EXPORT hipError_t hipDeviceSynchronize() {
  return api([] { return driver().cuCtxSynchronize(); });
}

// Contexts: a device's primary one, whatever is created.
HIP_EXPORT hipError_t hipCtxGetDevice(hipDevice_t* ordinal) { return hipGetDevice(ordinal); }
HIP_EXPORT hipError_t hipCtxSynchronize() { return hipDeviceSynchronize(); }
HIP_EXPORT hipError_t hipCtxGetCurrent(hipCtx_t* place) {
  return api([&] {
    if (place == nullptr) return hipErrorInvalidValue;
    *place = reinterpret_cast<hipCtx_t>(context_of(t_ordinal));
    return hipSuccess;
  });
}
HIP_EXPORT hipError_t hipCtxSetCurrent(hipCtx_t context) {
  return api([&] {
    if (context == nullptr) return hipSuccess;
    const int ordinal = ordinal_of(reinterpret_cast<cu::Context*>(context));
    return ordinal < 0 ? hipErrorInvalidContext : set_device(ordinal);
  });
}
HIP_EXPORT hipError_t hipDevicePrimaryCtxRetain(hipCtx_t* place, hipDevice_t ordinal) {
  return api([&] {
    if (place == nullptr) return hipErrorInvalidValue;
    *place = reinterpret_cast<hipCtx_t>(context_of(ordinal));
    return *place != nullptr ? hipSuccess : hipErrorInvalidDevice;
  });
}
HIP_EXPORT hipError_t hipDevicePrimaryCtxRelease(hipDevice_t ordinal) {
  return api([&] { return context_of(ordinal) != nullptr ? hipSuccess : hipErrorInvalidDevice; });
}
HIP_EXPORT hipError_t hipDevicePrimaryCtxGetState(hipDevice_t ordinal, unsigned* flags, int* active) {
  return api([&] { return driver().cuDevicePrimaryCtxGetState(ordinal, flags, active); });
}
