// failing.h: what the hosts of every_call_fails.py share: programs that go on whatever fails, and say what they saw.
//
// Lines on stdout: an error of a call ("hipMalloc: hipErrorOutOfMemory"); the error hipGetLastError keeps although no
// call since it was asked last has failed ("left behind: ..."); results of a part in which no call failed ("2 a:
// 1234"); at the end what the CPU runtime holds ("held: ...").
#pragma once

#include <dlfcn.h>
#include <hip/hip_runtime_api.h>

#include <cstdio>
#include <vector>

#include "tests/runtimes/cpu/cpuhip_statistics.h"

namespace failing {

inline int failures = 0;  ///< since the last result()

inline bool ok(hipError_t result, const char* call) {
  if (result == hipSuccess) return true;
  ++failures;
  std::printf("%s: %s\n", call, hipGetErrorName(result));
  return false;
}
#define CALL(function, ...) ::failing::ok(function(__VA_ARGS__), #function)

/// Ends a part: its sum if no call in it failed.
inline void result(int step, const char* part, unsigned long sum) {
  const hipError_t left = hipGetLastError();
  if (failures == 0 && left != hipSuccess) std::printf("left behind: %s\n", hipGetErrorName(left));
  if (failures == 0) std::printf("%d %s: %lx\n", step, part, sum);
  failures = 0;
}

/// The sum over what the device has there.
inline unsigned long sum_of(const void* memory, std::size_t bytes) {
  std::vector<unsigned char> host(bytes);
  unsigned long sum = 0;
  if (CALL(hipMemcpy, host.data(), memory, bytes, hipMemcpyDeviceToHost))
    for (const unsigned char byte : host) sum = sum * 31 + byte;
  return sum;
}

inline cpuhip_statistics_t statistics() {
  using Function = void (*)(cpuhip_statistics_t*);
  cpuhip_statistics_t now = {};
  if (const auto ask = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, "cpuhip_statistics"))) ask(&now);
  return now;
}

/// The program is through: what is held now, when it has given back all and asks for more than there is, is a leak or
/// kept by the library for good.
inline void held() {
  void* memory = nullptr;
  for (int i = 0; i < 2; ++i)
    if (hipMalloc(&memory, std::size_t{1} << 40) == hipSuccess) std::printf("memory without end\n");
  (void)hipGetLastError();
  hipStreamCaptureMode mode = hipStreamCaptureModeThreadLocal;
  if (hipThreadExchangeStreamCaptureMode(&mode) == hipSuccess) std::printf("capture mode: %d\n", mode);
  int device = -1;
  if (hipGetDevice(&device) == hipSuccess) std::printf("device: %d\n", device);
  std::size_t free = 0, total = 0;
  if (hipMemGetInfo(&free, &total) == hipSuccess) std::printf("memory in use: %zu\n", total - free);
  const cpuhip_statistics_t now = statistics();
  std::printf("held: bytes=%zu streams=%zu events=%zu graphs=%zu execs=%zu captures=%zu\n", now.device_bytes,
              now.streams, now.events, now.graphs, now.execs, now.captures);
  // Addresses are kept until the device is reset.
  for (int i = 0; i < 2; ++i)
    if (hipDeviceReset() == hipSuccess) break;
  const cpuhip_statistics_t after = statistics();
  std::printf("held: reservations=%zu handles=%zu\n", after.reservations, after.physical_handles);
}

}  // namespace failing
