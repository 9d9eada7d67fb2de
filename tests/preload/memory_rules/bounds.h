// bounds.h: every entry that takes an operand of a size, called so that it touches exactly `bytes` from `p` on. Copies
// have `other` for their second operand, which is large enough.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

// Not in every header the tests are built with.
extern "C" {
hipError_t hipMemcpy_spt(void*, const void*, std::size_t, hipMemcpyKind);
hipError_t hipMemcpyAsync_spt(void*, const void*, std::size_t, hipMemcpyKind, hipStream_t);
hipError_t hipMemcpy2D_spt(void*, std::size_t, const void*, std::size_t, std::size_t, std::size_t, hipMemcpyKind);
hipError_t hipMemcpy2DAsync_spt(void*, std::size_t, const void*, std::size_t, std::size_t, std::size_t, hipMemcpyKind,
                                hipStream_t);
hipError_t hipMemcpy3D_spt(const hipMemcpy3DParms*);
hipError_t hipMemcpy3DAsync_spt(const hipMemcpy3DParms*, hipStream_t);
hipError_t hipMemset_spt(void*, int, std::size_t);
hipError_t hipMemsetAsync_spt(void*, int, std::size_t, hipStream_t);
hipError_t hipMemset2D_spt(void*, std::size_t, int, std::size_t, std::size_t);
hipError_t hipMemset2DAsync_spt(void*, std::size_t, int, std::size_t, std::size_t, hipStream_t);
hipError_t hipMemset3D_spt(hipPitchedPtr, int, hipExtent);
hipError_t hipMemset3DAsync_spt(hipPitchedPtr, int, hipExtent, hipStream_t);
hipError_t hipMemsetD2D8(hipDeviceptr_t, std::size_t, unsigned char, std::size_t, std::size_t);
hipError_t hipMemsetD2D16(hipDeviceptr_t, std::size_t, unsigned short, std::size_t, std::size_t);
hipError_t hipMemsetD2D32(hipDeviceptr_t, std::size_t, unsigned int, std::size_t, std::size_t);
hipError_t hipMemsetD2D8Async(hipDeviceptr_t, std::size_t, unsigned char, std::size_t, std::size_t, hipStream_t);
hipError_t hipMemsetD2D16Async(hipDeviceptr_t, std::size_t, unsigned short, std::size_t, std::size_t, hipStream_t);
hipError_t hipMemsetD2D32Async(hipDeviceptr_t, std::size_t, unsigned int, std::size_t, std::size_t, hipStream_t);
}

namespace memory_rules {

struct Touch {
  std::string name;
  /// p and other are device memory, host is plain memory; bytes: a multiple of 256.
  std::function<hipError_t(char* p, char* other, char* host, std::size_t bytes, hipStream_t stream)> call;
};

inline hipMemcpy3DParms box_params(char* dst, char* src, std::size_t bytes, hipMemcpyKind kind) {
  hipMemcpy3DParms params{};
  params.dstPtr = {dst, 128, 128, 1};
  params.srcPtr = {src, 128, 128, 1};
  params.extent = {128, 1, bytes / 128};
  params.kind = kind;
  return params;
}

/// hipMemoryType got other values with HIP 6, and HIP_MEMCPY3D wider members.
inline bool six() {
  int version = 0;
  return hipRuntimeGetVersion(&version) == hipSuccess && version >= 60000000;
}
inline hipMemoryType on_device() { return static_cast<hipMemoryType>(six() ? 2 : 1); }

inline hip_Memcpy2D plane_params(char* dst, char* src, std::size_t bytes) {
  hip_Memcpy2D params{};
  params.srcMemoryType = params.dstMemoryType = on_device();
  params.dstDevice = dst;
  params.srcDevice = src;
  params.srcPitch = params.dstPitch = params.WidthInBytes = 256;
  params.Height = bytes / 256;
  return params;
}

struct WideMemcpy3D {
  std::size_t srcXInBytes, srcY, srcZ, srcLOD;
  hipMemoryType srcMemoryType;
  const void* srcHost;
  hipDeviceptr_t srcDevice;
  hipArray_t srcArray;
  std::size_t srcPitch, srcHeight, dstXInBytes, dstY, dstZ, dstLOD;
  hipMemoryType dstMemoryType;
  void* dstHost;
  hipDeviceptr_t dstDevice;
  hipArray_t dstArray;
  std::size_t dstPitch, dstHeight, WidthInBytes, Height, Depth;
};

/// Calls with the layout of the runtime's version.
template <typename Params, typename Call>
hipError_t with_driver_params(char* dst, char* src, std::size_t bytes, Call&& call) {
  Params params{};
  params.srcMemoryType = params.dstMemoryType = on_device();
  params.dstDevice = dst;
  params.srcDevice = src;
  params.srcPitch = params.dstPitch = params.WidthInBytes = 128;
  params.srcHeight = params.dstHeight = params.Height = 2;
  params.Depth = static_cast<unsigned>(bytes / 256);
  return call(reinterpret_cast<const HIP_MEMCPY3D*>(&params));
}
template <typename Call>
hipError_t driver_box(char* dst, char* src, std::size_t bytes, Call&& call) {
  return six() ? with_driver_params<WideMemcpy3D>(dst, src, bytes, call)
               : with_driver_params<HIP_MEMCPY3D>(dst, src, bytes, call);
}

#define TOUCH(...)                                                                                    \
  Touch {                                                                                             \
#__VA_ARGS__, [](char* p, char* other, char* host, std::size_t n, hipStream_t s) {                  \
      (void)p, (void)other, (void)host, (void)n, (void)s;                                               \
      return __VA_ARGS__;                                                                               \
    } \
  }
inline constexpr hipMemcpyKind kIn = hipMemcpyHostToDevice, kOut = hipMemcpyDeviceToHost, kOn = hipMemcpyDeviceToDevice;

inline std::vector<Touch> touches() {
  return {
      TOUCH(hipMemcpy(p, host, n, kIn)),
      TOUCH(hipMemcpy(host, p, n, kOut)),
      TOUCH(hipMemcpy(p, other, n, kOn)),
      TOUCH(hipMemcpy(other, p, n, kOn)),
      TOUCH(hipMemcpy(other, p, n, hipMemcpyDefault)),
      TOUCH(hipMemcpy_spt(p, other, n, kOn)),
      TOUCH(hipMemcpy_spt(other, p, n, kOn)),
      TOUCH(hipMemcpyAsync(p, other, n, kOn, s)),
      TOUCH(hipMemcpyAsync(other, p, n, kOn, s)),
      TOUCH(hipMemcpyAsync_spt(p, other, n, kOn, s)),
      TOUCH(hipMemcpyAsync_spt(other, p, n, kOn, s)),
      TOUCH(hipMemcpyHtoD(p, host, n)),
      TOUCH(hipMemcpyDtoH(host, p, n)),
      TOUCH(hipMemcpyDtoD(p, other, n)),
      TOUCH(hipMemcpyDtoD(other, p, n)),
      TOUCH(hipMemcpyHtoDAsync(p, host, n, s)),
      TOUCH(hipMemcpyDtoHAsync(host, p, n, s)),
      TOUCH(hipMemcpyDtoDAsync(p, other, n, s)),
      TOUCH(hipMemcpyDtoDAsync(other, p, n, s)),
      TOUCH(hipMemcpyWithStream(p, other, n, kOn, s)),
      TOUCH(hipMemcpyWithStream(other, p, n, kOn, s)),
      TOUCH(hipMemcpyPeer(p, 0, other, 0, n)),
      TOUCH(hipMemcpyPeer(other, 0, p, 0, n)),
      TOUCH(hipMemcpyPeerAsync(p, 0, other, 0, n, s)),
      TOUCH(hipMemcpyPeerAsync(other, 0, p, 0, n, s)),
      TOUCH(hipMemcpy2D(p, 128, other, 128, 128, n / 128, kOn)),
      TOUCH(hipMemcpy2D(other, 128, p, 128, 128, n / 128, kOn)),
      TOUCH(hipMemcpy2D_spt(other, 128, p, 128, 128, n / 128, kOn)),
      TOUCH(hipMemcpy2DAsync(p, 128, other, 128, 128, n / 128, kOn, s)),
      TOUCH(hipMemcpy2DAsync(other, 128, p, 128, 128, n / 128, kOn, s)),
      TOUCH(hipMemcpy2DAsync_spt(other, 128, p, 128, 128, n / 128, kOn, s)),
      {"hipMemcpy3D to",
       [](char* p, char* other, char*, std::size_t n, hipStream_t) {
         const auto params = box_params(p, other, n, kOn);
         return hipMemcpy3D(&params);
       }},
      {"hipMemcpy3D from",
       [](char* p, char* other, char*, std::size_t n, hipStream_t) {
         const auto params = box_params(other, p, n, kOn);
         return hipMemcpy3D(&params);
       }},
      {"hipMemcpy3D_spt",
       [](char* p, char* other, char*, std::size_t n, hipStream_t) {
         const auto params = box_params(p, other, n, kOn);
         return hipMemcpy3D_spt(&params);
       }},
      {"hipMemcpy3DAsync to",
       [](char* p, char* other, char*, std::size_t n, hipStream_t s) {
         const auto params = box_params(p, other, n, kOn);
         return hipMemcpy3DAsync(&params, s);
       }},
      {"hipMemcpy3DAsync from",
       [](char* p, char* other, char*, std::size_t n, hipStream_t s) {
         const auto params = box_params(other, p, n, kOn);
         return hipMemcpy3DAsync(&params, s);
       }},
      {"hipMemcpy3DAsync_spt",
       [](char* p, char* other, char*, std::size_t n, hipStream_t s) {
         const auto params = box_params(other, p, n, kOn);
         return hipMemcpy3DAsync_spt(&params, s);
       }},
      {"hipMemcpyParam2D to",
       [](char* p, char* other, char*, std::size_t n, hipStream_t) {
         const auto params = plane_params(p, other, n);
         return hipMemcpyParam2D(&params);
       }},
      {"hipMemcpyParam2D from",
       [](char* p, char* other, char*, std::size_t n, hipStream_t) {
         const auto params = plane_params(other, p, n);
         return hipMemcpyParam2D(&params);
       }},
      {"hipMemcpyParam2DAsync",
       [](char* p, char* other, char*, std::size_t n, hipStream_t s) {
         const auto params = plane_params(p, other, n);
         return hipMemcpyParam2DAsync(&params, s);
       }},
      {"hipDrvMemcpy2DUnaligned",
       [](char* p, char* other, char*, std::size_t n, hipStream_t) {
         const auto params = plane_params(other, p, n);
         return hipDrvMemcpy2DUnaligned(&params);
       }},
      {"hipDrvMemcpy3D to",
       [](char* p, char* other, char*, std::size_t n, hipStream_t) {
         return driver_box(p, other, n, [](const HIP_MEMCPY3D* params) { return hipDrvMemcpy3D(params); });
       }},
      {"hipDrvMemcpy3DAsync from",
       [](char* p, char* other, char*, std::size_t n, hipStream_t s) {
         return driver_box(other, p, n, [s](const HIP_MEMCPY3D* params) { return hipDrvMemcpy3DAsync(params, s); });
       }},
      TOUCH(hipMemset(p, 1, n)),
      TOUCH(hipMemset_spt(p, 1, n)),
      TOUCH(hipMemsetAsync(p, 1, n, s)),
      TOUCH(hipMemsetAsync_spt(p, 1, n, s)),
      TOUCH(hipMemset2D(p, 128, 1, 128, n / 128)),
      TOUCH(hipMemset2D_spt(p, 128, 1, 128, n / 128)),
      TOUCH(hipMemset2DAsync(p, 128, 1, 128, n / 128, s)),
      TOUCH(hipMemset2DAsync_spt(p, 128, 1, 128, n / 128, s)),
      TOUCH(hipMemset3D({p, 128, 128, 1}, 1, {128, 1, n / 128})),
      TOUCH(hipMemset3D_spt({p, 128, 128, 1}, 1, {128, 1, n / 128})),
      TOUCH(hipMemset3DAsync({p, 128, 128, 1}, 1, {128, 1, n / 128}, s)),
      TOUCH(hipMemset3DAsync_spt({p, 128, 128, 1}, 1, {128, 1, n / 128}, s)),
      TOUCH(hipMemsetD8(p, 1, n)),
      TOUCH(hipMemsetD16(p, 1, n / 2)),
      TOUCH(hipMemsetD32(p, 1, n / 4)),
      TOUCH(hipMemsetD8Async(p, 1, n, s)),
      TOUCH(hipMemsetD16Async(p, 1, n / 2, s)),
      TOUCH(hipMemsetD32Async(p, 1, n / 4, s)),
      TOUCH(hipMemsetD2D8(p, 128, 1, 128, n / 128)),
      TOUCH(hipMemsetD2D16(p, 128, 1, 64, n / 128)),
      TOUCH(hipMemsetD2D32(p, 128, 1, 32, n / 128)),
      TOUCH(hipMemsetD2D8Async(p, 128, 1, 128, n / 128, s)),
      TOUCH(hipMemsetD2D16Async(p, 128, 1, 64, n / 128, s)),
      TOUCH(hipMemsetD2D32Async(p, 128, 1, 32, n / 128, s)),
  };
}

}  // namespace memory_rules
