// copy.cpp: the entries that copy and fill. Each builds an operation; synchronous forms wait for it.
// Copies that touch memory of the program the runtime does not know return when they are done, as in HIP.
#include "api.h"
#include "capture.h"
#include "common/graph_abi.h"
#include "device.h"
#include "kernel.h"
#include "memory.h"
#include "stream.h"

namespace cpuhip {
namespace {

bool plain_host(const void* address) {
  AllocationInfo info;
  return !find_allocation(address, &info);
}

/// Work of an asynchronous entry.
hipError_t start(Call& call, hipStream_t handle, bool per_thread, Operation operation) {
  Stream* stream = nullptr;
  if (const hipError_t result = resolve(call, handle, per_thread, &stream); result != hipSuccess) return result;
  const auto* copy = std::get_if<CopyWork>(&operation);
  const bool host_waits = copy != nullptr && copy->width != 0 && (plain_host(copy->dst) || plain_host(copy->src));
  Token token;
  const hipError_t result = submit(*stream, std::move(operation), &token);
  return host_waits && result == hipSuccess && token ? token->wait_in_call() : result;
}

/// Work of a synchronous entry, in the null stream (or the thread's).
hipError_t finish(Call& call, bool per_thread, Operation operation) {
  if (const hipError_t result = check_capture_implicit(); result != hipSuccess) return result;
  Stream* stream = nullptr;
  if (const hipError_t result = resolve(call, nullptr, per_thread, &stream); result != hipSuccess) return result;
  Token token;
  const hipError_t result = submit(*stream, std::move(operation), &token);
  return result == hipSuccess && token ? token->wait_in_call() : result;
}

/// hipMemcpyWithStream: synchronous, in the stream it names.
hipError_t wait_for(Call& call, hipStream_t handle, Operation operation) {
  Stream* stream = nullptr;
  if (const hipError_t result = resolve(call, handle, false, &stream); result != hipSuccess) return result;
  Token token;
  const hipError_t result = submit(*stream, std::move(operation), &token);
  return result == hipSuccess && token ? token->wait_in_call() : result;
}

CopyWork linear(void* dst, const void* src, std::size_t bytes, hipMemcpyKind kind) {
  CopyWork work;
  work.dst = dst;
  work.src = src;
  work.kind = kind;
  work.width = bytes;
  return work;
}

CopyWork plane(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch, std::size_t width,
               std::size_t height, hipMemcpyKind kind) {
  CopyWork work = linear(dst, src, width, kind);
  work.form = CopyWork::Form::ThreeD;
  work.height = height;
  work.dst_pitch = dst_pitch;
  work.src_pitch = src_pitch;
  return work;
}

FillWork row(void* dst, unsigned value, unsigned element, std::size_t count) { return {dst, value, element, count}; }

FillWork rows(void* dst, std::size_t pitch, unsigned value, unsigned element, std::size_t width, std::size_t height) {
  return {dst, value, element, width, height, pitch};
}

FillWork box(const hipPitchedPtr& p, int value, const hipExtent& extent) {
  return {p.ptr, static_cast<unsigned>(value), 1, extent.width, extent.height, p.pitch, extent.depth, p.ysize};
}

hipError_t from_params(const hipMemcpy3DParms* p, CopyWork* work) {
  if (p == nullptr) return hipErrorInvalidValue;
  if (p->srcArray != nullptr || p->dstArray != nullptr) return hipErrorNotSupported;
  const auto place = [](const hipPitchedPtr& pointer, const hipPos& pos) -> char* {
    if (pointer.ptr == nullptr) return nullptr;
    return static_cast<char*>(pointer.ptr) + (pos.z * pointer.ysize + pos.y) * pointer.pitch + pos.x;
  };
  *work = plane(place(p->dstPtr, p->dstPos), p->dstPtr.pitch, place(p->srcPtr, p->srcPos), p->srcPtr.pitch,
                p->extent.width, p->extent.height, p->kind);
  work->depth = p->extent.depth;
  work->dst_slice = p->dstPtr.ysize;
  work->src_slice = p->srcPtr.ysize;
  return hipSuccess;
}

hipMemcpyKind kind_of(hipMemoryType src, hipMemoryType dst) {
  const int six = config().version >= 60000000 ? 1 : 0;  // hipMemoryTypeHost is 1 from HIP 6 on
  const bool from_host = src == six, to_host = dst == six;
  if (from_host) return to_host ? hipMemcpyHostToHost : hipMemcpyHostToDevice;
  return to_host ? hipMemcpyDeviceToHost : hipMemcpyDeviceToDevice;
}

hipError_t from_params(const hip_Memcpy2D* p, CopyWork* work) {
  if (p == nullptr) return hipErrorInvalidValue;
  if (p->srcArray != nullptr || p->dstArray != nullptr) return hipErrorNotSupported;
  const int host = config().version >= 60000000 ? 1 : 0;
  const void* src = p->srcMemoryType == host ? p->srcHost : p->srcDevice;
  void* dst = p->dstMemoryType == host ? p->dstHost : p->dstDevice;
  if (src == nullptr || dst == nullptr) return hipErrorInvalidValue;
  *work = plane(static_cast<char*>(dst) + p->dstY * p->dstPitch + p->dstXInBytes, p->dstPitch,
                static_cast<const char*>(src) + p->srcY * p->srcPitch + p->srcXInBytes, p->srcPitch, p->WidthInBytes,
                p->Height, kind_of(p->srcMemoryType, p->dstMemoryType));
  return hipSuccess;
}

hipError_t from_params(const HIP_MEMCPY3D* params, CopyWork* work) {
  if (params == nullptr) return hipErrorInvalidValue;
  const hipfront::WideMemcpy3D p = hipfront::read_driver_copy(params, config().version);
  if (p.srcArray != nullptr || p.dstArray != nullptr) return hipErrorNotSupported;
  const void* src = hipfront::is_host_type(p.srcMemoryType, config().version) ? p.srcHost : p.srcDevice;
  void* dst = hipfront::is_host_type(p.dstMemoryType, config().version) ? p.dstHost : p.dstDevice;
  if (src == nullptr || dst == nullptr) return hipErrorInvalidValue;
  *work = plane(static_cast<char*>(dst) + (p.dstZ * p.dstHeight + p.dstY) * p.dstPitch + p.dstXInBytes, p.dstPitch,
                static_cast<const char*>(src) + (p.srcZ * p.srcHeight + p.srcY) * p.srcPitch + p.srcXInBytes,
                p.srcPitch, p.WidthInBytes, p.Height, kind_of(p.srcMemoryType, p.dstMemoryType));
  work->depth = p.Depth;
  work->dst_slice = p.dstHeight;
  work->src_slice = p.srcHeight;
  return hipSuccess;
}

/// A copy to or from a variable of a module.
hipError_t symbol_copy(CopyWork::Form form, const void* symbol, void* other, std::size_t bytes, std::size_t offset,
                       hipMemcpyKind kind, CopyWork* work) {
  void* address = nullptr;
  std::size_t symbol_bytes = 0;
  if (symbol == nullptr) return hipErrorInvalidSymbol;
  if (const hipError_t result = resolve_symbol(symbol, current_device(), &address, &symbol_bytes); result != hipSuccess)
    return result;
  if (offset > symbol_bytes || bytes > symbol_bytes - offset) return hipErrorInvalidValue;
  char* place = static_cast<char*>(address) + offset;
  const bool to = form == CopyWork::Form::ToSymbol;
  *work = to ? linear(place, other, bytes, kind) : linear(other, place, bytes, kind);
  work->form = form;
  work->symbol = symbol;
  work->offset = offset;
  return hipSuccess;
}

hipError_t peer_copy(void* dst, int dst_device, const void* src, int src_device, std::size_t bytes, CopyWork* work) {
  const auto valid = [](int ordinal) { return ordinal >= 0 && ordinal < device_count(); };
  if (!valid(dst_device) || !valid(src_device)) return hipErrorInvalidDevice;
  *work = linear(dst, src, bytes, hipMemcpyDeviceToDevice);
  work->form = CopyWork::Form::Peer;
  return hipSuccess;
}

/// Entries that first make a CopyWork of what they are given.
template <typename Make>
hipError_t start_made(Call& call, hipStream_t stream, bool per_thread, Make&& make) {
  CopyWork work;
  const hipError_t result = make(&work);
  return result == hipSuccess ? start(call, stream, per_thread, std::move(work)) : result;
}
template <typename Make>
hipError_t finish_made(Call& call, bool per_thread, Make&& make) {
  CopyWork work;
  const hipError_t result = make(&work);
  return result == hipSuccess ? finish(call, per_thread, std::move(work)) : result;
}

}  // namespace
}  // namespace cpuhip

using namespace cpuhip;

// An entry is its parameters and what is done with them: start() or finish(), the thread's stream or the null stream.
#define ENTRY(name, parameters, how)                    \
  CPUHIP_EXPORT hipError_t name parameters {            \
    return api(#name, [&](Call& call) { return how; }); \
  }

ENTRY(hipMemcpy, (void* dst, const void* src, std::size_t bytes, hipMemcpyKind kind),
      finish(call, false, linear(dst, src, bytes, kind)))
ENTRY(hipMemcpyAsync, (void* dst, const void* src, std::size_t bytes, hipMemcpyKind kind, hipStream_t stream),
      start(call, stream, false, linear(dst, src, bytes, kind)))
ENTRY(hipMemcpy_spt, (void* dst, const void* src, std::size_t bytes, hipMemcpyKind kind),
      finish(call, true, linear(dst, src, bytes, kind)))
ENTRY(hipMemcpyAsync_spt, (void* dst, const void* src, std::size_t bytes, hipMemcpyKind kind, hipStream_t stream),
      start(call, stream, true, linear(dst, src, bytes, kind)))
ENTRY(hipMemcpyWithStream, (void* dst, const void* src, std::size_t bytes, hipMemcpyKind kind, hipStream_t stream),
      wait_for(call, stream, linear(dst, src, bytes, kind)))
ENTRY(hipMemcpyHtoD, (hipDeviceptr_t dst, void* src, std::size_t bytes),
      finish(call, false, linear(dst, src, bytes, hipMemcpyHostToDevice)))
ENTRY(hipMemcpyHtoDAsync, (hipDeviceptr_t dst, void* src, std::size_t bytes, hipStream_t stream),
      start(call, stream, false, linear(dst, src, bytes, hipMemcpyHostToDevice)))
ENTRY(hipMemcpyDtoH, (void* dst, hipDeviceptr_t src, std::size_t bytes),
      finish(call, false, linear(dst, src, bytes, hipMemcpyDeviceToHost)))
ENTRY(hipMemcpyDtoHAsync, (void* dst, hipDeviceptr_t src, std::size_t bytes, hipStream_t stream),
      start(call, stream, false, linear(dst, src, bytes, hipMemcpyDeviceToHost)))
ENTRY(hipMemcpyDtoD, (hipDeviceptr_t dst, hipDeviceptr_t src, std::size_t bytes),
      finish(call, false, linear(dst, src, bytes, hipMemcpyDeviceToDevice)))
ENTRY(hipMemcpyDtoDAsync, (hipDeviceptr_t dst, hipDeviceptr_t src, std::size_t bytes, hipStream_t stream),
      start(call, stream, false, linear(dst, src, bytes, hipMemcpyDeviceToDevice)))

ENTRY(hipMemcpy2D,
      (void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch, std::size_t width, std::size_t height,
       hipMemcpyKind kind),
      finish(call, false, plane(dst, dst_pitch, src, src_pitch, width, height, kind)))
ENTRY(hipMemcpy2DAsync,
      (void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch, std::size_t width, std::size_t height,
       hipMemcpyKind kind, hipStream_t stream),
      start(call, stream, false, plane(dst, dst_pitch, src, src_pitch, width, height, kind)))
ENTRY(hipMemcpy2D_spt,
      (void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch, std::size_t width, std::size_t height,
       hipMemcpyKind kind),
      finish(call, true, plane(dst, dst_pitch, src, src_pitch, width, height, kind)))
ENTRY(hipMemcpy2DAsync_spt,
      (void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch, std::size_t width, std::size_t height,
       hipMemcpyKind kind, hipStream_t stream),
      start(call, stream, true, plane(dst, dst_pitch, src, src_pitch, width, height, kind)))
ENTRY(hipMemcpy3D, (const hipMemcpy3DParms* p),
      finish_made(call, false, [&](CopyWork* work) { return from_params(p, work); }))
ENTRY(hipMemcpy3DAsync, (const hipMemcpy3DParms* p, hipStream_t stream),
      start_made(call, stream, false, [&](CopyWork* work) { return from_params(p, work); }))
ENTRY(hipMemcpy3D_spt, (const hipMemcpy3DParms* p),
      finish_made(call, true, [&](CopyWork* work) { return from_params(p, work); }))
ENTRY(hipMemcpy3DAsync_spt, (const hipMemcpy3DParms* p, hipStream_t stream),
      start_made(call, stream, true, [&](CopyWork* work) { return from_params(p, work); }))
ENTRY(hipMemcpyParam2D, (const hip_Memcpy2D* p),
      finish_made(call, false, [&](CopyWork* work) { return from_params(p, work); }))
ENTRY(hipMemcpyParam2DAsync, (const hip_Memcpy2D* p, hipStream_t stream),
      start_made(call, stream, false, [&](CopyWork* work) { return from_params(p, work); }))
ENTRY(hipDrvMemcpy3D, (const HIP_MEMCPY3D* p),
      finish_made(call, false, [&](CopyWork* work) { return from_params(p, work); }))
ENTRY(hipDrvMemcpy3DAsync, (const HIP_MEMCPY3D* p, hipStream_t stream),
      start_made(call, stream, false, [&](CopyWork* work) { return from_params(p, work); }))
ENTRY(hipDrvMemcpy2DUnaligned, (const hip_Memcpy2D* p),
      finish_made(call, false, [&](CopyWork* work) { return from_params(p, work); }))
ENTRY(hipMemcpyPeer, (void* dst, int dst_device, const void* src, int src_device, std::size_t bytes),
      finish_made(call, false,
                  [&](CopyWork* work) { return peer_copy(dst, dst_device, src, src_device, bytes, work); }))
ENTRY(hipMemcpyPeerAsync,
      (void* dst, int dst_device, const void* src, int src_device, std::size_t bytes, hipStream_t stream),
      start_made(call, stream, false,
                 [&](CopyWork* work) { return peer_copy(dst, dst_device, src, src_device, bytes, work); }))

ENTRY(hipMemcpyToSymbol,
      (const void* symbol, const void* src, std::size_t bytes, std::size_t offset, hipMemcpyKind kind),
      finish_made(call, false, [&](CopyWork* work) {
        return symbol_copy(CopyWork::Form::ToSymbol, symbol, const_cast<void*>(src), bytes, offset, kind, work);
      }))
ENTRY(hipMemcpyToSymbolAsync,
      (const void* symbol, const void* src, std::size_t bytes, std::size_t offset, hipMemcpyKind kind,
       hipStream_t stream),
      start_made(call, stream, false, [&](CopyWork* work) {
        return symbol_copy(CopyWork::Form::ToSymbol, symbol, const_cast<void*>(src), bytes, offset, kind, work);
      }))
ENTRY(hipMemcpyToSymbol_spt,
      (const void* symbol, const void* src, std::size_t bytes, std::size_t offset, hipMemcpyKind kind),
      finish_made(call, true, [&](CopyWork* work) {
        return symbol_copy(CopyWork::Form::ToSymbol, symbol, const_cast<void*>(src), bytes, offset, kind, work);
      }))
ENTRY(hipMemcpyToSymbolAsync_spt,
      (const void* symbol, const void* src, std::size_t bytes, std::size_t offset, hipMemcpyKind kind,
       hipStream_t stream),
      start_made(call, stream, true, [&](CopyWork* work) {
        return symbol_copy(CopyWork::Form::ToSymbol, symbol, const_cast<void*>(src), bytes, offset, kind, work);
      }))
ENTRY(hipMemcpyFromSymbol, (void* dst, const void* symbol, std::size_t bytes, std::size_t offset, hipMemcpyKind kind),
      finish_made(call, false, [&](CopyWork* work) {
        return symbol_copy(CopyWork::Form::FromSymbol, symbol, dst, bytes, offset, kind, work);
      }))
ENTRY(hipMemcpyFromSymbolAsync,
      (void* dst, const void* symbol, std::size_t bytes, std::size_t offset, hipMemcpyKind kind, hipStream_t stream),
      start_made(call, stream, false, [&](CopyWork* work) {
        return symbol_copy(CopyWork::Form::FromSymbol, symbol, dst, bytes, offset, kind, work);
      }))
ENTRY(hipMemcpyFromSymbol_spt,
      (void* dst, const void* symbol, std::size_t bytes, std::size_t offset, hipMemcpyKind kind),
      finish_made(call, true, [&](CopyWork* work) {
        return symbol_copy(CopyWork::Form::FromSymbol, symbol, dst, bytes, offset, kind, work);
      }))
ENTRY(hipMemcpyFromSymbolAsync_spt,
      (void* dst, const void* symbol, std::size_t bytes, std::size_t offset, hipMemcpyKind kind, hipStream_t stream),
      start_made(call, stream, true, [&](CopyWork* work) {
        return symbol_copy(CopyWork::Form::FromSymbol, symbol, dst, bytes, offset, kind, work);
      }))

ENTRY(hipMemset, (void* dst, int value, std::size_t bytes),
      finish(call, false, row(dst, static_cast<unsigned>(value), 1, bytes)))
ENTRY(hipMemsetAsync, (void* dst, int value, std::size_t bytes, hipStream_t stream),
      start(call, stream, false, row(dst, static_cast<unsigned>(value), 1, bytes)))
ENTRY(hipMemset_spt, (void* dst, int value, std::size_t bytes),
      finish(call, true, row(dst, static_cast<unsigned>(value), 1, bytes)))
ENTRY(hipMemsetAsync_spt, (void* dst, int value, std::size_t bytes, hipStream_t stream),
      start(call, stream, true, row(dst, static_cast<unsigned>(value), 1, bytes)))
ENTRY(hipMemsetD8, (hipDeviceptr_t dst, unsigned char value, std::size_t count),
      finish(call, false, row(dst, value, 1, count)))
ENTRY(hipMemsetD8Async, (hipDeviceptr_t dst, unsigned char value, std::size_t count, hipStream_t stream),
      start(call, stream, false, row(dst, value, 1, count)))
ENTRY(hipMemsetD16, (hipDeviceptr_t dst, unsigned short value, std::size_t count),
      finish(call, false, row(dst, value, 2, count)))
ENTRY(hipMemsetD16Async, (hipDeviceptr_t dst, unsigned short value, std::size_t count, hipStream_t stream),
      start(call, stream, false, row(dst, value, 2, count)))
ENTRY(hipMemsetD32, (hipDeviceptr_t dst, int value, std::size_t count),
      finish(call, false, row(dst, static_cast<unsigned>(value), 4, count)))
ENTRY(hipMemsetD32Async, (hipDeviceptr_t dst, int value, std::size_t count, hipStream_t stream),
      start(call, stream, false, row(dst, static_cast<unsigned>(value), 4, count)))
ENTRY(hipMemset2D, (void* dst, std::size_t pitch, int value, std::size_t width, std::size_t height),
      finish(call, false, rows(dst, pitch, static_cast<unsigned>(value), 1, width, height)))
ENTRY(hipMemset2DAsync,
      (void* dst, std::size_t pitch, int value, std::size_t width, std::size_t height, hipStream_t stream),
      start(call, stream, false, rows(dst, pitch, static_cast<unsigned>(value), 1, width, height)))
ENTRY(hipMemset2D_spt, (void* dst, std::size_t pitch, int value, std::size_t width, std::size_t height),
      finish(call, true, rows(dst, pitch, static_cast<unsigned>(value), 1, width, height)))
ENTRY(hipMemset2DAsync_spt,
      (void* dst, std::size_t pitch, int value, std::size_t width, std::size_t height, hipStream_t stream),
      start(call, stream, true, rows(dst, pitch, static_cast<unsigned>(value), 1, width, height)))
ENTRY(hipMemsetD2D8,
      (hipDeviceptr_t dst, std::size_t pitch, unsigned char value, std::size_t width, std::size_t height),
      finish(call, false, rows(dst, pitch, value, 1, width, height)))
ENTRY(hipMemsetD2D8Async,
      (hipDeviceptr_t dst, std::size_t pitch, unsigned char value, std::size_t width, std::size_t height,
       hipStream_t stream),
      start(call, stream, false, rows(dst, pitch, value, 1, width, height)))
ENTRY(hipMemsetD2D16,
      (hipDeviceptr_t dst, std::size_t pitch, unsigned short value, std::size_t width, std::size_t height),
      finish(call, false, rows(dst, pitch, value, 2, width, height)))
ENTRY(hipMemsetD2D16Async,
      (hipDeviceptr_t dst, std::size_t pitch, unsigned short value, std::size_t width, std::size_t height,
       hipStream_t stream),
      start(call, stream, false, rows(dst, pitch, value, 2, width, height)))
ENTRY(hipMemsetD2D32, (hipDeviceptr_t dst, std::size_t pitch, unsigned value, std::size_t width, std::size_t height),
      finish(call, false, rows(dst, pitch, value, 4, width, height)))
ENTRY(hipMemsetD2D32Async,
      (hipDeviceptr_t dst, std::size_t pitch, unsigned value, std::size_t width, std::size_t height,
       hipStream_t stream),
      start(call, stream, false, rows(dst, pitch, value, 4, width, height)))
ENTRY(hipMemset3D, (hipPitchedPtr pitched, int value, hipExtent extent),
      finish(call, false, box(pitched, value, extent)))
ENTRY(hipMemset3DAsync, (hipPitchedPtr pitched, int value, hipExtent extent, hipStream_t stream),
      start(call, stream, false, box(pitched, value, extent)))
ENTRY(hipMemset3D_spt, (hipPitchedPtr pitched, int value, hipExtent extent),
      finish(call, true, box(pitched, value, extent)))
ENTRY(hipMemset3DAsync_spt, (hipPitchedPtr pitched, int value, hipExtent extent, hipStream_t stream),
      start(call, stream, true, box(pitched, value, extent)))
