// faulty_runtime: stands between the library and the runtime and does one thing wrong, as a defective runtime would:
//   FAULT=argument:N   from the Nth kernel launch on, one into a capture has 1000 added to its third argument
//   FAULT=copy:N       the Nth copy between device memory arrives with its first byte changed
#include <dlfcn.h>
#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace {

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

/// Whether this is the call, counted from 1, that the fault is about; `onwards`: or a later one.
bool strikes(const char* fault, std::atomic<long>& calls, bool onwards) {
  const long call = ++calls;
  const char* const wanted = std::getenv("FAULT");
  const std::size_t length = std::strlen(fault);
  if (wanted == nullptr || std::strncmp(wanted, fault, length) != 0 || wanted[length] != ':') return false;
  const long number = std::atol(wanted + length + 1);
  return onwards ? call >= number : call == number;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) hipError_t hipModuleLaunchKernel(
    hipFunction_t function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
    unsigned block_z, unsigned shared, hipStream_t stream, void** params, void** extra) {
  static const auto real = next<decltype(&hipModuleLaunchKernel)>("hipModuleLaunchKernel");
  static std::atomic<long> calls{0};
  hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
  static const auto is_capturing = next<decltype(&hipStreamIsCapturing)>("hipStreamIsCapturing");
  const bool capturing = is_capturing(stream, &status) == hipSuccess && status == hipStreamCaptureStatusActive;
  if (!strikes("argument", calls, true) || !capturing || params == nullptr)
    return real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, params, extra);
  int wrong = *static_cast<int*>(params[2]) + 1000;
  void* wrong_params[] = {params[0], params[1], &wrong};
  return real(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, wrong_params, extra);
}

__attribute__((visibility("default"))) hipError_t hipMemcpyAsync(void* dst, const void* src, size_t bytes,
                                                                 hipMemcpyKind kind, hipStream_t stream) {
  static const auto real = next<decltype(&hipMemcpyAsync)>("hipMemcpyAsync");
  static const auto fill = next<decltype(&hipMemsetAsync)>("hipMemsetAsync");
  static std::atomic<long> calls{0};
  const hipError_t result = real(dst, src, bytes, kind, stream);
  if (kind == hipMemcpyDeviceToDevice && strikes("copy", calls, false)) return fill(dst, 0xa5, 1, stream);
  return result;
}

}  // extern "C"
