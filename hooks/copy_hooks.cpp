// copy_hooks.cpp: copies and fills put into a stream or a capture.
#include "hooks/bodies.h"
#include "shim/capture/capture.h"
#include "shim/memory/copy_params.h"
#include "shim/memory/device_memory.h"

namespace graphpool::hooks {
namespace {

// Operands are passed by reference: those that the runtime must refuse (memory/address_guard.h) are replaced before
// anybody looks at them.

template <typename Src, typename Forward>
hipError_t copy(StreamArgument stream, void*& dst, Src*& src, size_t bytes, hipMemcpyKind kind, Forward&& forward) {
  dst = address_guard().operand(dst, bytes);
  src = address_guard().operand(src, bytes);
  return captured_operation(
      stream, [&](OperationWriter& to) { return to.copy(dst, src, bytes, kind); }, forward);
}

template <typename Forward>
hipError_t fill(StreamArgument stream, void*& dst, std::uint32_t value, std::uint32_t element_bytes, size_t count,
                Forward&& forward) {
  dst = address_guard().operand(dst, count * element_bytes);
  return captured_operation(
      stream, [&](OperationWriter& to) { return to.fill(dst, value, element_bytes, count, 1, count * element_bytes); },
      forward);
}

}  // namespace

hipError_t on_hipMemcpyAsync(Entry&, void* dst, const void* src, size_t bytes, hipMemcpyKind kind, hipStream_t stream) {
  return copy({stream, false}, dst, src, bytes, kind,
              [&] { return next().hipMemcpyAsync(dst, src, bytes, kind, stream); });
}
hipError_t on_hipMemcpyAsync_spt(Entry&, void* dst, const void* src, size_t bytes, hipMemcpyKind kind,
                                 hipStream_t stream) {
  return copy({stream, true}, dst, src, bytes, kind,
              [&] { return next().hipMemcpyAsync_spt(dst, src, bytes, kind, stream); });
}
hipError_t on_hipMemcpyDtoDAsync(Entry&, hipDeviceptr_t dst, hipDeviceptr_t src, size_t bytes, hipStream_t stream) {
  return copy({stream, false}, dst, src, bytes, hipMemcpyDeviceToDevice,
              [&] { return next().hipMemcpyDtoDAsync(dst, src, bytes, stream); });
}
hipError_t on_hipMemcpyDtoHAsync(Entry&, void* dst, hipDeviceptr_t src, size_t bytes, hipStream_t stream) {
  return copy({stream, false}, dst, src, bytes, hipMemcpyDeviceToHost,
              [&] { return next().hipMemcpyDtoHAsync(dst, src, bytes, stream); });
}
hipError_t on_hipMemcpyHtoDAsync(Entry&, hipDeviceptr_t dst, const void* src, size_t bytes, hipStream_t stream) {
  return copy({stream, false}, dst, src, bytes, hipMemcpyHostToDevice,
              [&] { return next().hipMemcpyHtoDAsync(dst, src, bytes, stream); });
}

hipError_t on_hipMemcpy2DAsync(Entry&, void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width,
                               size_t height, hipMemcpyKind kind, hipStream_t stream) {
  dst = address_guard().operand(dst, pitched_bytes(dst_pitch, width, height));
  src = address_guard().operand(src, pitched_bytes(src_pitch, width, height));
  return captured_operation(
      {stream, false},
      [&](OperationWriter& to) { return to.copy_2d(dst, dst_pitch, src, src_pitch, width, height, kind); },
      [&] { return next().hipMemcpy2DAsync(dst, dst_pitch, src, src_pitch, width, height, kind, stream); });
}
hipError_t on_hipMemcpy2DAsync_spt(Entry&, void* dst, size_t dst_pitch, const void* src, size_t src_pitch, size_t width,
                                   size_t height, hipMemcpyKind kind, hipStream_t stream) {
  dst = address_guard().operand(dst, pitched_bytes(dst_pitch, width, height));
  src = address_guard().operand(src, pitched_bytes(src_pitch, width, height));
  return captured_operation(
      {stream, true},
      [&](OperationWriter& to) { return to.copy_2d(dst, dst_pitch, src, src_pitch, width, height, kind); },
      [&] { return next().hipMemcpy2DAsync_spt(dst, dst_pitch, src, src_pitch, width, height, kind, stream); });
}

hipError_t on_hipMemsetAsync(Entry&, void* dst, int value, size_t bytes, hipStream_t stream) {
  return fill({stream, false}, dst, static_cast<std::uint8_t>(value), 1, bytes,
              [&] { return next().hipMemsetAsync(dst, value, bytes, stream); });
}
hipError_t on_hipMemsetAsync_spt(Entry&, void* dst, int value, size_t bytes, hipStream_t stream) {
  return fill({stream, true}, dst, static_cast<std::uint8_t>(value), 1, bytes,
              [&] { return next().hipMemsetAsync_spt(dst, value, bytes, stream); });
}
hipError_t on_hipMemsetD8Async(Entry&, hipDeviceptr_t dst, unsigned char value, size_t count, hipStream_t stream) {
  return fill({stream, false}, dst, value, 1, count,
              [&] { return next().hipMemsetD8Async(dst, value, count, stream); });
}
hipError_t on_hipMemsetD16Async(Entry&, hipDeviceptr_t dst, unsigned short value, size_t count, hipStream_t stream) {
  return fill({stream, false}, dst, value, 2, count,
              [&] { return next().hipMemsetD16Async(dst, value, count, stream); });
}
hipError_t on_hipMemsetD32Async(Entry&, hipDeviceptr_t dst, int value, size_t count, hipStream_t stream) {
  return fill({stream, false}, dst, static_cast<std::uint32_t>(value), 4, count,
              [&] { return next().hipMemsetD32Async(dst, value, count, stream); });
}
hipError_t on_hipMemset2DAsync(Entry&, void* dst, size_t pitch, int value, size_t width, size_t height,
                               hipStream_t stream) {
  dst = address_guard().operand(dst, pitched_bytes(pitch, width, height));
  return captured_operation(
      {stream, false},
      [&](OperationWriter& to) { return to.fill(dst, static_cast<std::uint8_t>(value), 1, width, height, pitch); },
      [&] { return next().hipMemset2DAsync(dst, pitch, value, width, height, stream); });
}
hipError_t on_hipMemset2DAsync_spt(Entry&, void* dst, size_t pitch, int value, size_t width, size_t height,
                                   hipStream_t stream) {
  dst = address_guard().operand(dst, pitched_bytes(pitch, width, height));
  return captured_operation(
      {stream, true},
      [&](OperationWriter& to) { return to.fill(dst, static_cast<std::uint8_t>(value), 1, width, height, pitch); },
      [&] { return next().hipMemset2DAsync_spt(dst, pitch, value, width, height, stream); });
}

}  // namespace graphpool::hooks
