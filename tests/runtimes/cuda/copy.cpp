// copy.cpp: copies and fills. CUDA tells host from device memory by the address, as HIP does; the kind of a copy is
// only checked. HIP refuses what reaches past the end of an allocation, CUDA mostly does not: it is checked here.
#include "translate.h"

using namespace cudahip;

namespace {

/// hipErrorInvalidValue when the range reaches past the end of the allocation it begins in, or when it is said to be a
/// device's and the driver knows no allocation there (it would take the address for the host's).
hipError_t in_bounds(const void* pointer, std::size_t bytes, bool on_device) {
  cu::Address base = 0;
  std::size_t size = 0;
  if (driver().cuMemGetAddressRange_v2(&base, &size, address(pointer)) != cu::kSuccess) {
    int type = 0;
    const bool known = !on_device || driver().cuPointerGetAttribute(&type, 2, address(pointer)) == cu::kSuccess;
    return known ? hipSuccess : hipErrorInvalidValue;
  }
  return bytes <= size - (address(pointer) - base) ? hipSuccess : hipErrorInvalidValue;
}

hipError_t both_in_bounds(const void* dst, std::size_t dst_bytes, const void* src, std::size_t src_bytes, int kind) {
  const bool to_device = kind == hipMemcpyHostToDevice || kind == hipMemcpyDeviceToDevice;
  const bool from_device = kind == hipMemcpyDeviceToHost || kind == hipMemcpyDeviceToDevice;
  const hipError_t error = in_bounds(dst, dst_bytes, to_device);
  return error == hipSuccess ? in_bounds(src, src_bytes, from_device) : error;
}

std::size_t extent(std::size_t pitch, std::size_t width, std::size_t height) {
  return height == 0 ? 0 : pitch * (height - 1) + width;
}

template <typename Copy>
hipError_t copy(void* dst, const void* src, std::size_t bytes, int kind, Copy&& submit) {
  if (kind < hipMemcpyHostToHost || kind > hipMemcpyDefault) return hipErrorInvalidMemcpyDirection;
  if (bytes == 0) return hipSuccess;
  if (dst == nullptr || src == nullptr) return hipErrorInvalidValue;
  if (const hipError_t error = both_in_bounds(dst, bytes, src, bytes, kind); error != hipSuccess) return error;
  return translate(submit());
}

hipError_t copy_now(void* dst, const void* src, std::size_t bytes, int kind) {
  return copy(dst, src, bytes, kind, [&] { return driver().cuMemcpy(address(dst), address(src), bytes); });
}

hipError_t copy_on(void* dst, const void* src, std::size_t bytes, int kind, cu::Stream* stream) {
  return copy(dst, src, bytes, kind, [&] { return driver().cuMemcpyAsync(address(dst), address(src), bytes, stream); });
}

/// The synchronous form in functions with _spt: `enqueue` puts it into the thread's stream, then the host waits.
template <typename Enqueue>
hipError_t in_thread_stream(Enqueue&& enqueue) {
  cu::Stream* stream = stream_of_thread(nullptr);
  const hipError_t error = enqueue(stream);
  return error == hipSuccess ? translate(driver().cuStreamSynchronize(stream)) : error;
}

template <typename Copy>
hipError_t copy_rows(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch, std::size_t width,
                     std::size_t height, hipMemcpyKind kind, Copy&& submit) {
  if (width == 0 || height == 0) return hipSuccess;
  if (dst == nullptr || src == nullptr) return hipErrorInvalidValue;
  cu::Copy2D translated;
  if (const hipError_t error = rows(dst, dst_pitch, src, src_pitch, width, height, kind, &translated);
      error != hipSuccess)
    return error;
  const std::size_t dst_bytes = extent(dst_pitch, width, height), src_bytes = extent(src_pitch, width, height);
  if (const hipError_t error = both_in_bounds(dst, dst_bytes, src, src_bytes, kind); error != hipSuccess) return error;
  return translate(submit(translated));
}

hipError_t rows_on(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch, std::size_t width,
                   std::size_t height, hipMemcpyKind kind, cu::Stream* stream) {
  return copy_rows(dst, dst_pitch, src, src_pitch, width, height, kind,
                   [&](const cu::Copy2D& copy) { return driver().cuMemcpy2DAsync_v2(&copy, stream); });
}

/// A copy whose operands are in a structure, boxes or rows, of the runtime's style or of the driver's.
template <typename Translated, typename Params, typename Copy>
hipError_t copy_params(const Params* params, Copy&& submit) {
  if (params == nullptr) return hipErrorInvalidValue;
  Translated translated;
  const hipError_t error = translate(*params, &translated);
  return error == hipSuccess ? translate(submit(&translated)) : error;
}
template <typename Params>
hipError_t box_now(const Params* params) {
  return copy_params<cu::Copy3D>(params, driver().cuMemcpy3D_v2);
}
template <typename Params>
hipError_t box_on(const Params* params, cu::Stream* stream) {
  return copy_params<cu::Copy3D>(params, [&](cu::Copy3D* copy) { return driver().cuMemcpy3DAsync_v2(copy, stream); });
}

template <typename Fill>
hipError_t fill(void* dst, std::size_t bytes, Fill&& submit) {
  if (bytes == 0) return hipSuccess;
  if (dst == nullptr || in_bounds(dst, bytes, true) != hipSuccess) return hipErrorInvalidValue;
  return translate(submit());
}

hipError_t fill_on(void* dst, int value, std::size_t bytes, cu::Stream* stream) {
  return fill(dst, bytes,
              [&] { return driver().cuMemsetD8Async(address(dst), static_cast<unsigned char>(value), bytes, stream); });
}

hipError_t fill_rows_on(void* dst, std::size_t pitch, int value, std::size_t width, std::size_t height,
                        cu::Stream* stream) {
  return fill(dst, extent(pitch, width, height), [&] {
    return driver().cuMemsetD2D8Async(address(dst), pitch, static_cast<unsigned char>(value), width, height, stream);
  });
}

/// The driver fills rows only: a box is filled slice by slice.
hipError_t fill_box_on(const hipPitchedPtr& memory, int value, const hipExtent& box, cu::Stream* stream) {
  if (box.width == 0 || box.height == 0 || box.depth == 0) return hipSuccess;
  const std::size_t rows = memory.ysize * (box.depth - 1) + box.height;
  return fill(memory.ptr, extent(memory.pitch, box.width, rows), [&] {
    cu::Result result = cu::kSuccess;
    for (std::size_t z = 0; z < box.depth && result == cu::kSuccess; ++z)
      result = driver().cuMemsetD2D8Async(address(memory.ptr) + z * memory.ysize * memory.pitch, memory.pitch,
                                          static_cast<unsigned char>(value), box.width, box.height, stream);
    return result;
  });
}

hipError_t symbol_place(const void* symbol, std::size_t bytes, std::size_t offset, void** place) {
  cu::Address found = 0;
  std::size_t size = 0;
  if (const hipError_t error = symbol_address(symbol, &found, &size); error != hipSuccess) return error;
  if (offset > size || bytes > size - offset) return hipErrorInvalidValue;
  *place = reinterpret_cast<void*>(found + offset);
  return hipSuccess;
}

template <typename Copy>
hipError_t with_symbol(const void* symbol, std::size_t bytes, std::size_t offset, Copy&& submit) {
  void* place = nullptr;
  const hipError_t error = symbol_place(symbol, bytes, offset, &place);
  return error == hipSuccess ? submit(place) : error;
}

cu::Context* context(int ordinal) { return context_of(ordinal); }

}  // namespace

HIP_EXPORT hipError_t hipMemcpy(void* dst, const void* src, std::size_t bytes, hipMemcpyKind kind) {
  return api([&] { return copy_now(dst, src, bytes, kind); });
}
HIP_EXPORT hipError_t hipMemcpy_spt(void* dst, const void* src, std::size_t bytes, hipMemcpyKind kind) {
  return api(
      [&] { return in_thread_stream([&](cu::Stream* stream) { return copy_on(dst, src, bytes, kind, stream); }); });
}
HIP_EXPORT hipError_t hipMemcpyAsync(void* dst, const void* src, std::size_t bytes, hipMemcpyKind kind,
                                     hipStream_t stream) {
  return api([&] { return copy_on(dst, src, bytes, kind, stream_of(stream)); });
}
HIP_EXPORT hipError_t hipMemcpyAsync_spt(void* dst, const void* src, std::size_t bytes, hipMemcpyKind kind,
                                         hipStream_t stream) {
  return api([&] { return copy_on(dst, src, bytes, kind, stream_of_thread(stream)); });
}
HIP_EXPORT hipError_t hipMemcpyWithStream(void* dst, const void* src, std::size_t bytes, hipMemcpyKind kind,
                                          hipStream_t stream) {
  return stream_api(stream, [&] {
    const hipError_t error = copy_on(dst, src, bytes, kind, stream_of(stream));
    return error == hipSuccess ? translate(driver().cuStreamSynchronize(stream_of(stream))) : error;
  });
}
HIP_EXPORT hipError_t hipMemcpyHtoD(hipDeviceptr_t dst, void* src, std::size_t bytes) {
  return api([&] { return copy_now(dst, src, bytes, hipMemcpyHostToDevice); });
}
HIP_EXPORT hipError_t hipMemcpyDtoH(void* dst, hipDeviceptr_t src, std::size_t bytes) {
  return api([&] { return copy_now(dst, src, bytes, hipMemcpyDeviceToHost); });
}
HIP_EXPORT hipError_t hipMemcpyDtoD(hipDeviceptr_t dst, hipDeviceptr_t src, std::size_t bytes) {
  return api([&] { return copy_now(dst, src, bytes, hipMemcpyDeviceToDevice); });
}
HIP_EXPORT hipError_t hipMemcpyHtoDAsync(hipDeviceptr_t dst, void* src, std::size_t bytes, hipStream_t stream) {
  return stream_api(stream, [&] { return copy_on(dst, src, bytes, hipMemcpyHostToDevice, stream_of(stream)); });
}
HIP_EXPORT hipError_t hipMemcpyDtoHAsync(void* dst, hipDeviceptr_t src, std::size_t bytes, hipStream_t stream) {
  return stream_api(stream, [&] { return copy_on(dst, src, bytes, hipMemcpyDeviceToHost, stream_of(stream)); });
}
HIP_EXPORT hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t dst, hipDeviceptr_t src, std::size_t bytes,
                                         hipStream_t stream) {
  return stream_api(stream, [&] { return copy_on(dst, src, bytes, hipMemcpyDeviceToDevice, stream_of(stream)); });
}
HIP_EXPORT hipError_t hipMemcpyPeer(void* dst, int dst_device, const void* src, int src_device, std::size_t bytes) {
  return api([&] {
    return copy(dst, src, bytes, hipMemcpyDeviceToDevice, [&] {
      return driver().cuMemcpyPeer(address(dst), context(dst_device), address(src), context(src_device), bytes);
    });
  });
}
HIP_EXPORT hipError_t hipMemcpyPeerAsync(void* dst, int dst_device, const void* src, int src_device, std::size_t bytes,
                                         hipStream_t stream) {
  return api([&] {
    return copy(dst, src, bytes, hipMemcpyDeviceToDevice, [&] {
      return driver().cuMemcpyPeerAsync(address(dst), context(dst_device), address(src), context(src_device), bytes,
                                        stream_of(stream));
    });
  });
}
HIP_EXPORT hipError_t hipMemcpy2D(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch,
                                  std::size_t width, std::size_t height, hipMemcpyKind kind) {
  return api([&] {
    return copy_rows(dst, dst_pitch, src, src_pitch, width, height, kind,
                     [](const cu::Copy2D& copy) { return driver().cuMemcpy2DUnaligned_v2(&copy); });
  });
}
HIP_EXPORT hipError_t hipMemcpy2DAsync(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch,
                                       std::size_t width, std::size_t height, hipMemcpyKind kind, hipStream_t stream) {
  return stream_api(stream,
                    [&] { return rows_on(dst, dst_pitch, src, src_pitch, width, height, kind, stream_of(stream)); });
}
HIP_EXPORT hipError_t hipMemcpy2DAsync_spt(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch,
                                           std::size_t width, std::size_t height, hipMemcpyKind kind,
                                           hipStream_t stream) {
  return api([&] { return rows_on(dst, dst_pitch, src, src_pitch, width, height, kind, stream_of_thread(stream)); });
}
HIP_EXPORT hipError_t hipMemcpy2D_spt(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch,
                                      std::size_t width, std::size_t height, hipMemcpyKind kind) {
  return api([&] {
    return in_thread_stream(
        [&](cu::Stream* stream) { return rows_on(dst, dst_pitch, src, src_pitch, width, height, kind, stream); });
  });
}
HIP_EXPORT hipError_t hipMemcpy3D(const hipMemcpy3DParms* box) {
  return api([&] { return box_now(box); });
}
HIP_EXPORT hipError_t hipMemcpy3DAsync(const hipMemcpy3DParms* box, hipStream_t stream) {
  return api([&] { return box_on(box, stream_of(stream)); });
}
HIP_EXPORT hipError_t hipMemcpy3D_spt(const hipMemcpy3DParms* box) {
  return api([&] { return in_thread_stream([&](cu::Stream* stream) { return box_on(box, stream); }); });
}
HIP_EXPORT hipError_t hipMemcpy3DAsync_spt(const hipMemcpy3DParms* box, hipStream_t stream) {
  return api([&] { return box_on(box, stream_of_thread(stream)); });
}
HIP_EXPORT hipError_t hipDrvMemcpy3D(const HIP_MEMCPY3D* box) {
  return api([&] { return box_now(box); });
}
HIP_EXPORT hipError_t hipDrvMemcpy3DAsync(const HIP_MEMCPY3D* box, hipStream_t stream) {
  return api([&] { return box_on(box, stream_of(stream)); });
}
HIP_EXPORT hipError_t hipDrvMemcpy2DUnaligned(const hip_Memcpy2D* plane) {
  return api([&] { return copy_params<cu::Copy2D>(plane, driver().cuMemcpy2DUnaligned_v2); });
}
HIP_EXPORT hipError_t hipMemcpyParam2D(const hip_Memcpy2D* plane) { return hipDrvMemcpy2DUnaligned(plane); }
HIP_EXPORT hipError_t hipMemcpyParam2DAsync(const hip_Memcpy2D* plane, hipStream_t stream) {
  return stream_api(stream, [&] {
    return copy_params<cu::Copy2D>(
        plane, [&](cu::Copy2D* copy) { return driver().cuMemcpy2DAsync_v2(copy, stream_of(stream)); });
  });
}

// --- Fills ---
HIP_EXPORT hipError_t hipMemset(void* dst, int value, std::size_t bytes) {
  return api([&] {
    return fill(dst, bytes,
                [&] { return driver().cuMemsetD8_v2(address(dst), static_cast<unsigned char>(value), bytes); });
  });
}
HIP_EXPORT hipError_t hipMemsetD8(hipDeviceptr_t dst, unsigned char value, std::size_t count) {
  return api([&] { return fill(dst, count, [&] { return driver().cuMemsetD8_v2(address(dst), value, count); }); });
}
HIP_EXPORT hipError_t hipMemsetD16(hipDeviceptr_t dst, unsigned short value, std::size_t count) {
  return api([&] { return fill(dst, 2 * count, [&] { return driver().cuMemsetD16_v2(address(dst), value, count); }); });
}
HIP_EXPORT hipError_t hipMemsetD32(hipDeviceptr_t dst, int value, std::size_t count) {
  return api([&] {
    return fill(dst, 4 * count,
                [&] { return driver().cuMemsetD32_v2(address(dst), static_cast<unsigned>(value), count); });
  });
}
HIP_EXPORT hipError_t hipMemsetAsync(void* dst, int value, std::size_t bytes, hipStream_t stream) {
  return api([&] { return fill_on(dst, value, bytes, stream_of(stream)); });
}
HIP_EXPORT hipError_t hipMemsetAsync_spt(void* dst, int value, std::size_t bytes, hipStream_t stream) {
  return api([&] { return fill_on(dst, value, bytes, stream_of_thread(stream)); });
}
HIP_EXPORT hipError_t hipMemset_spt(void* dst, int value, std::size_t bytes) {
  return api([&] { return in_thread_stream([&](cu::Stream* stream) { return fill_on(dst, value, bytes, stream); }); });
}
HIP_EXPORT hipError_t hipMemsetD8Async(hipDeviceptr_t dst, unsigned char value, std::size_t count, hipStream_t stream) {
  return stream_api(stream, [&] {
    return fill(dst, count, [&] { return driver().cuMemsetD8Async(address(dst), value, count, stream_of(stream)); });
  });
}
HIP_EXPORT hipError_t hipMemsetD16Async(hipDeviceptr_t dst, unsigned short value, std::size_t count,
                                        hipStream_t stream) {
  return stream_api(stream, [&] {
    return fill(dst, 2 * count,
                [&] { return driver().cuMemsetD16Async(address(dst), value, count, stream_of(stream)); });
  });
}
HIP_EXPORT hipError_t hipMemsetD32Async(hipDeviceptr_t dst, int value, std::size_t count, hipStream_t stream) {
  return stream_api(stream, [&] {
    return fill(dst, 4 * count, [&] {
      return driver().cuMemsetD32Async(address(dst), static_cast<unsigned>(value), count, stream_of(stream));
    });
  });
}
HIP_EXPORT hipError_t hipMemset2D(void* dst, std::size_t pitch, int value, std::size_t width, std::size_t height) {
  return api([&] {
    return fill(dst, extent(pitch, width, height), [&] {
      return driver().cuMemsetD2D8_v2(address(dst), pitch, static_cast<unsigned char>(value), width, height);
    });
  });
}
HIP_EXPORT hipError_t hipMemset2DAsync(void* dst, std::size_t pitch, int value, std::size_t width, std::size_t height,
                                       hipStream_t stream) {
  return api([&] { return fill_rows_on(dst, pitch, value, width, height, stream_of(stream)); });
}
HIP_EXPORT hipError_t hipMemset2DAsync_spt(void* dst, std::size_t pitch, int value, std::size_t width,
                                           std::size_t height, hipStream_t stream) {
  return api([&] { return fill_rows_on(dst, pitch, value, width, height, stream_of_thread(stream)); });
}
HIP_EXPORT hipError_t hipMemset2D_spt(void* dst, std::size_t pitch, int value, std::size_t width, std::size_t height) {
  return api([&] {
    return in_thread_stream([&](cu::Stream* stream) { return fill_rows_on(dst, pitch, value, width, height, stream); });
  });
}
HIP_EXPORT hipError_t hipMemset3D(hipPitchedPtr memory, int value, hipExtent box) {
  return api([&] {
    const hipError_t error = fill_box_on(memory, value, box, nullptr);
    return error == hipSuccess ? translate(driver().cuStreamSynchronize(nullptr)) : error;
  });
}
HIP_EXPORT hipError_t hipMemset3D_spt(hipPitchedPtr memory, int value, hipExtent box) {
  return api(
      [&] { return in_thread_stream([&](cu::Stream* stream) { return fill_box_on(memory, value, box, stream); }); });
}
HIP_EXPORT hipError_t hipMemset3DAsync(hipPitchedPtr memory, int value, hipExtent box, hipStream_t stream) {
  return api([&] { return fill_box_on(memory, value, box, stream_of(stream)); });
}
HIP_EXPORT hipError_t hipMemset3DAsync_spt(hipPitchedPtr memory, int value, hipExtent box, hipStream_t stream) {
  return api([&] { return fill_box_on(memory, value, box, stream_of_thread(stream)); });
}

// --- Registered variables ---
HIP_EXPORT hipError_t hipGetSymbolAddress(void** place, const void* symbol) {
  return api([&] {
    std::size_t bytes = 0;
    return place == nullptr ? hipErrorInvalidValue : symbol_address(symbol, out<cu::Address>(place), &bytes);
  });
}
HIP_EXPORT hipError_t hipGetSymbolSize(std::size_t* bytes, const void* symbol) {
  return api([&] {
    cu::Address place = 0;
    return bytes == nullptr ? hipErrorInvalidValue : symbol_address(symbol, &place, bytes);
  });
}
HIP_EXPORT hipError_t hipMemcpyToSymbol(const void* symbol, const void* src, std::size_t bytes, std::size_t offset,
                                        hipMemcpyKind kind) {
  return api([&] {
    return with_symbol(symbol, bytes, offset, [&](void* place) { return copy_now(place, src, bytes, kind); });
  });
}
HIP_EXPORT hipError_t hipMemcpyFromSymbol(void* dst, const void* symbol, std::size_t bytes, std::size_t offset,
                                          hipMemcpyKind kind) {
  return api([&] {
    return with_symbol(symbol, bytes, offset, [&](void* place) { return copy_now(dst, place, bytes, kind); });
  });
}
HIP_EXPORT hipError_t hipMemcpyToSymbol_spt(const void* symbol, const void* src, std::size_t bytes, std::size_t offset,
                                            hipMemcpyKind kind) {
  return api([&] {
    return in_thread_stream([&](cu::Stream* stream) {
      return with_symbol(symbol, bytes, offset, [&](void* at) { return copy_on(at, src, bytes, kind, stream); });
    });
  });
}
HIP_EXPORT hipError_t hipMemcpyFromSymbol_spt(void* dst, const void* symbol, std::size_t bytes, std::size_t offset,
                                              hipMemcpyKind kind) {
  return api([&] {
    return in_thread_stream([&](cu::Stream* stream) {
      return with_symbol(symbol, bytes, offset, [&](void* at) { return copy_on(dst, at, bytes, kind, stream); });
    });
  });
}
HIP_EXPORT hipError_t hipMemcpyToSymbolAsync(const void* symbol, const void* src, std::size_t bytes, std::size_t offset,
                                             hipMemcpyKind kind, hipStream_t stream) {
  return api([&] {
    return with_symbol(symbol, bytes, offset,
                       [&](void* place) { return copy_on(place, src, bytes, kind, stream_of(stream)); });
  });
}
HIP_EXPORT hipError_t hipMemcpyFromSymbolAsync(void* dst, const void* symbol, std::size_t bytes, std::size_t offset,
                                               hipMemcpyKind kind, hipStream_t stream) {
  return api([&] {
    return with_symbol(symbol, bytes, offset,
                       [&](void* place) { return copy_on(dst, place, bytes, kind, stream_of(stream)); });
  });
}
HIP_EXPORT hipError_t hipMemcpyToSymbolAsync_spt(const void* symbol, const void* src, std::size_t bytes,
                                                 std::size_t offset, hipMemcpyKind kind, hipStream_t stream) {
  return api([&] {
    return with_symbol(symbol, bytes, offset,
                       [&](void* place) { return copy_on(place, src, bytes, kind, stream_of_thread(stream)); });
  });
}
HIP_EXPORT hipError_t hipMemcpyFromSymbolAsync_spt(void* dst, const void* symbol, std::size_t bytes, std::size_t offset,
                                                   hipMemcpyKind kind, hipStream_t stream) {
  return api([&] {
    return with_symbol(symbol, bytes, offset,
                       [&](void* place) { return copy_on(dst, place, bytes, kind, stream_of_thread(stream)); });
  });
}
