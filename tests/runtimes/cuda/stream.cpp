// stream.cpp: streams, events, callbacks, memory operations of streams, captures.
#include <cstdint>

#include "translate.h"

using namespace cudahip;

namespace {

hipError_t create(hipStream_t* stream, unsigned flags, int priority) {
  if (stream == nullptr) return hipErrorInvalidValue;
  return translate(driver().cuStreamCreateWithPriority(out<cu::Stream*>(stream), flags, priority));
}

hipError_t device_of(cu::Stream* stream, int* ordinal) {
  if (ordinal == nullptr) return hipErrorInvalidValue;
  cu::Context* context = nullptr;
  const cu::Result result = driver().cuStreamGetCtx(stream, &context);
  if (result != cu::kSuccess) return translate(result);
  *ordinal = ordinal_of(context);
  return *ordinal >= 0 ? hipSuccess : hipErrorInvalidContext;
}

/// HIP masks what it waits for; CUDA cannot.
template <typename Value, typename Call>
hipError_t wait_value(Value mask, Call&& call) {
  return mask != static_cast<Value>(-1) ? hipErrorNotSupported : translate(call());
}

hipError_t update_dependencies(hipStream_t stream, hipGraphNode_t* nodes, std::size_t count, unsigned flags) {
  return translate(driver().cuStreamUpdateCaptureDependencies(stream_of(stream), out<cu::Node*>(nodes), count, flags));
}

cu::Result capture_info(cu::Stream* stream, hipStreamCaptureStatus* status, unsigned long long* id, hipGraph_t* graph,
                        const hipGraphNode_t** nodes, std::size_t* count) {
  return driver().cuStreamGetCaptureInfo_v2(stream, out<int>(status), id, out<cu::Graph*>(graph),
                                            reinterpret_cast<cu::Node* const**>(nodes), count);
}

/// HIP gives the handle of the stream back as the program wrote it, and its own error code.
struct Callback {
  hipStreamCallback_t function;
  hipStream_t stream;
  void* data;

  static void run(cu::Stream*, cu::Result result, void* self) {
    auto* callback = static_cast<Callback*>(self);
    callback->function(callback->stream, translate(result), callback->data);
    delete callback;
  }
};

hipError_t add_callback(cu::Stream* stream, hipStream_t handle, hipStreamCallback_t function, void* data,
                        unsigned flags) {
  if (function == nullptr || flags != 0) return hipErrorInvalidValue;
  auto* callback = new Callback{function, handle, data};
  const cu::Result result = driver().cuStreamAddCallback(stream, &Callback::run, callback, 0);
  if (result != cu::kSuccess) delete callback;
  return translate(result);
}

}  // namespace

HIP_EXPORT hipError_t hipStreamCreate(hipStream_t* stream) {
  return api([&] { return create(stream, 0, 0); });
}
HIP_EXPORT hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned flags) {
  return api([&] { return create(stream, flags, 0); });
}
HIP_EXPORT hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned flags, int priority) {
  return api([&] { return create(stream, flags, priority); });
}
HIP_EXPORT hipError_t hipStreamDestroy(hipStream_t stream) {
  return api([&] {
    if (stream == nullptr || stream == hipStreamPerThread) return hipErrorInvalidHandle;
    return translate(driver().cuStreamDestroy_v2(stream_of(stream)));
  });
}

HIP_EXPORT hipError_t hipStreamQuery(hipStream_t stream) {
  return api([&] { return driver().cuStreamQuery(stream_of(stream)); });
}
HIP_EXPORT hipError_t hipStreamQuery_spt(hipStream_t stream) {
  return api([&] { return driver().cuStreamQuery(stream_of_thread(stream)); });
}
HIP_EXPORT hipError_t hipStreamSynchronize(hipStream_t stream) {
  return api([&] { return driver().cuStreamSynchronize(stream_of(stream)); });
}
HIP_EXPORT hipError_t hipStreamSynchronize_spt(hipStream_t stream) {
  return api([&] { return driver().cuStreamSynchronize(stream_of_thread(stream)); });
}
HIP_EXPORT hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags) {
  return api([&] {
    return event == nullptr ? cu::Result{400} : driver().cuStreamWaitEvent(stream_of(stream), event_of(event), flags);
  });
}
HIP_EXPORT hipError_t hipStreamWaitEvent_spt(hipStream_t stream, hipEvent_t event, unsigned flags) {
  return api([&] {
    return event == nullptr ? cu::Result{400}
                            : driver().cuStreamWaitEvent(stream_of_thread(stream), event_of(event), flags);
  });
}
HIP_EXPORT hipError_t hipStreamGetFlags(hipStream_t stream, unsigned* flags) {
  return api([&] { return driver().cuStreamGetFlags(stream_of(stream), flags); });
}
HIP_EXPORT hipError_t hipStreamGetFlags_spt(hipStream_t stream, unsigned* flags) {
  return api([&] { return driver().cuStreamGetFlags(stream_of_thread(stream), flags); });
}
HIP_EXPORT hipError_t hipStreamGetPriority(hipStream_t stream, int* priority) {
  return api([&] { return driver().cuStreamGetPriority(stream_of(stream), priority); });
}
HIP_EXPORT hipError_t hipStreamGetPriority_spt(hipStream_t stream, int* priority) {
  return api([&] { return driver().cuStreamGetPriority(stream_of_thread(stream), priority); });
}
HIP_EXPORT hipError_t hipStreamGetDevice(hipStream_t stream, hipDevice_t* ordinal) {
  return api([&] { return device_of(stream_of(stream), ordinal); });
}
HIP_EXPORT int hipGetStreamDeviceId(hipStream_t stream) {
  int ordinal = -1;
  return enter() == hipSuccess && device_of(stream_of(stream), &ordinal) == hipSuccess ? ordinal : -1;
}
HIP_EXPORT hipError_t hipStreamGetId(hipStream_t stream, unsigned long long* id) {
  return api([&] { return driver().cuStreamGetId(stream_of(stream), id); });
}
HIP_EXPORT hipError_t hipStreamCopyAttributes(hipStream_t dst, hipStream_t src) {
  return api([&] { return driver().cuStreamCopyAttributes(stream_of(dst), stream_of(src)); });
}

// --- Events ---
HIP_EXPORT hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) {
  return api([&] {
    return event == nullptr ? cu::kInvalidValue : driver().cuEventCreate(out<cu::Event*>(event), event_flags(flags));
  });
}
HIP_EXPORT hipError_t hipEventCreate(hipEvent_t* event) { return hipEventCreateWithFlags(event, 0); }
HIP_EXPORT hipError_t hipEventDestroy(hipEvent_t event) {
  return api([&] { return driver().cuEventDestroy_v2(event_of(event)); });
}
HIP_EXPORT hipError_t hipEventQuery(hipEvent_t event) {
  return api([&] { return driver().cuEventQuery(event_of(event)); });
}
HIP_EXPORT hipError_t hipEventSynchronize(hipEvent_t event) {
  return api([&] { return driver().cuEventSynchronize(event_of(event)); });
}
HIP_EXPORT hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  return api([&] { return driver().cuEventRecord(event_of(event), stream_of(stream)); });
}
HIP_EXPORT hipError_t hipEventRecord_spt(hipEvent_t event, hipStream_t stream) {
  return api([&] { return driver().cuEventRecord(event_of(event), stream_of_thread(stream)); });
}
HIP_EXPORT hipError_t hipEventRecordWithFlags(hipEvent_t event, hipStream_t stream, unsigned flags) {
  return api([&] { return driver().cuEventRecordWithFlags(event_of(event), stream_of(stream), flags); });
}
HIP_EXPORT hipError_t hipEventElapsedTime(float* ms, hipEvent_t start, hipEvent_t stop) {
  return api([&] { return driver().cuEventElapsedTime(ms, event_of(start), event_of(stop)); });
}
HIP_EXPORT hipError_t hipIpcGetEventHandle(hipIpcEventHandle_t* handle, hipEvent_t event) {
  return api([&] { return driver().cuIpcGetEventHandle(reinterpret_cast<cu::IpcHandle*>(handle), event_of(event)); });
}
HIP_EXPORT hipError_t hipIpcOpenEventHandle(hipEvent_t* event, hipIpcEventHandle_t handle) {
  return api([&] {
    return driver().cuIpcOpenEventHandle(out<cu::Event*>(event), reinterpret_cast<const cu::IpcHandle&>(handle));
  });
}

// --- Host functions ---
HIP_EXPORT hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void* data) {
  return api([&] { return driver().cuLaunchHostFunc(stream_of(stream), function, data); });
}
HIP_EXPORT hipError_t hipLaunchHostFunc_spt(hipStream_t stream, hipHostFn_t function, void* data) {
  return api([&] { return driver().cuLaunchHostFunc(stream_of_thread(stream), function, data); });
}
HIP_EXPORT hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t function, void* data,
                                           unsigned flags) {
  return api([&] { return add_callback(stream_of(stream), stream, function, data, flags); });
}
HIP_EXPORT hipError_t hipStreamAddCallback_spt(hipStream_t stream, hipStreamCallback_t function, void* data,
                                               unsigned flags) {
  return api([&] { return add_callback(stream_of_thread(stream), stream, function, data, flags); });
}

// --- Memory operations of streams ---
HIP_EXPORT hipError_t hipStreamWaitValue32(hipStream_t stream, void* place, std::uint32_t value, unsigned flags,
                                           std::uint32_t mask) {
  return api([&] {
    return wait_value(mask,
                      [&] { return driver().cuStreamWaitValue32_v2(stream_of(stream), address(place), value, flags); });
  });
}
HIP_EXPORT hipError_t hipStreamWaitValue64(hipStream_t stream, void* place, std::uint64_t value, unsigned flags,
                                           std::uint64_t mask) {
  return api([&] {
    return wait_value(mask,
                      [&] { return driver().cuStreamWaitValue64_v2(stream_of(stream), address(place), value, flags); });
  });
}
HIP_EXPORT hipError_t hipStreamWriteValue32(hipStream_t stream, void* place, std::uint32_t value, unsigned) {
  return api([&] { return driver().cuStreamWriteValue32_v2(stream_of(stream), address(place), value, 0); });
}
HIP_EXPORT hipError_t hipStreamWriteValue64(hipStream_t stream, void* place, std::uint64_t value, unsigned) {
  return api([&] { return driver().cuStreamWriteValue64_v2(stream_of(stream), address(place), value, 0); });
}
/// The operations are the driver's: of one kind, layout and numbering.
HIP_EXPORT hipError_t hipStreamBatchMemOp(hipStream_t stream, unsigned count, void* operations, unsigned flags) {
  return api([&] { return driver().cuStreamBatchMemOp_v2(stream_of(stream), count, operations, flags); });
}

// --- Semaphores and memory of others ---
namespace {

template <typename Call>
hipError_t external(Call&& call) {
  const hipError_t error = same_external_layout();
  return error == hipSuccess ? translate(call()) : error;
}

}  // namespace

HIP_EXPORT hipError_t hipImportExternalSemaphore(hipExternalSemaphore_t* semaphore,
                                                 const hipExternalSemaphoreHandleDesc* handle) {
  return api([&] { return external([&] { return driver().cuImportExternalSemaphore(semaphore, handle); }); });
}
HIP_EXPORT hipError_t hipSignalExternalSemaphoresAsync(const hipExternalSemaphore_t* semaphores,
                                                       const hipExternalSemaphoreSignalParams* params, unsigned count,
                                                       hipStream_t stream) {
  return api([&] {
    return external(
        [&] { return driver().cuSignalExternalSemaphoresAsync(semaphores, params, count, stream_of(stream)); });
  });
}
HIP_EXPORT hipError_t hipWaitExternalSemaphoresAsync(const hipExternalSemaphore_t* semaphores,
                                                     const hipExternalSemaphoreWaitParams* params, unsigned count,
                                                     hipStream_t stream) {
  return api([&] {
    return external(
        [&] { return driver().cuWaitExternalSemaphoresAsync(semaphores, params, count, stream_of(stream)); });
  });
}
HIP_EXPORT hipError_t hipDestroyExternalSemaphore(hipExternalSemaphore_t semaphore) {
  return api([&] { return driver().cuDestroyExternalSemaphore(semaphore); });
}
HIP_EXPORT hipError_t hipImportExternalMemory(hipExternalMemory_t* memory, const hipExternalMemoryHandleDesc* handle) {
  return api([&] { return external([&] { return driver().cuImportExternalMemory(memory, handle); }); });
}
HIP_EXPORT hipError_t hipExternalMemoryGetMappedBuffer(void** place, hipExternalMemory_t memory,
                                                       const hipExternalMemoryBufferDesc* buffer) {
  return api([&] {
    return external([&] { return driver().cuExternalMemoryGetMappedBuffer(out<cu::Address>(place), memory, buffer); });
  });
}
HIP_EXPORT hipError_t hipDestroyExternalMemory(hipExternalMemory_t memory) {
  return api([&] { return driver().cuDestroyExternalMemory(memory); });
}
HIP_EXPORT hipError_t hipStreamAttachMemAsync(hipStream_t stream, void* pointer, std::size_t bytes, unsigned flags) {
  return api([&] { return driver().cuStreamAttachMemAsync(stream_of(stream), address(pointer), bytes, flags); });
}

// --- Captures ---
HIP_EXPORT hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
  return api([&] { return driver().cuStreamBeginCapture_v2(stream_of(stream), static_cast<int>(mode)); });
}
HIP_EXPORT hipError_t hipStreamBeginCapture_spt(hipStream_t stream, hipStreamCaptureMode mode) {
  return api([&] { return driver().cuStreamBeginCapture_v2(stream_of_thread(stream), static_cast<int>(mode)); });
}
HIP_EXPORT hipError_t hipStreamBeginCaptureToGraph(hipStream_t stream, hipGraph_t graph, const hipGraphNode_t* after,
                                                   const void* edges, std::size_t count, hipStreamCaptureMode mode) {
  return api([&] {
    if (edges != nullptr) return cu::kNotSupported;  // ports: CUDA's have another meaning
    return driver().cuStreamBeginCaptureToGraph(stream_of(stream), graph_of(graph), nodes_of(after), nullptr, count,
                                                static_cast<int>(mode));
  });
}
HIP_EXPORT hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* graph) {
  return api([&] {
    return graph == nullptr ? cu::kInvalidValue
                            : driver().cuStreamEndCapture(stream_of(stream), out<cu::Graph*>(graph));
  });
}
HIP_EXPORT hipError_t hipStreamEndCapture_spt(hipStream_t stream, hipGraph_t* graph) {
  return api([&] {
    return graph == nullptr ? cu::kInvalidValue
                            : driver().cuStreamEndCapture(stream_of_thread(stream), out<cu::Graph*>(graph));
  });
}
HIP_EXPORT hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus* status) {
  return api([&] { return driver().cuStreamIsCapturing(stream_of(stream), out<int>(status)); });
}
HIP_EXPORT hipError_t hipStreamIsCapturing_spt(hipStream_t stream, hipStreamCaptureStatus* status) {
  return api([&] { return driver().cuStreamIsCapturing(stream_of_thread(stream), out<int>(status)); });
}
HIP_EXPORT hipError_t hipStreamGetCaptureInfo(hipStream_t stream, hipStreamCaptureStatus* status,
                                              unsigned long long* id) {
  return api([&] { return capture_info(stream_of(stream), status, id, nullptr, nullptr, nullptr); });
}
HIP_EXPORT hipError_t hipStreamGetCaptureInfo_spt(hipStream_t stream, hipStreamCaptureStatus* status,
                                                  unsigned long long* id) {
  return api([&] { return capture_info(stream_of_thread(stream), status, id, nullptr, nullptr, nullptr); });
}
HIP_EXPORT hipError_t hipStreamGetCaptureInfo_v2(hipStream_t stream, hipStreamCaptureStatus* status,
                                                 unsigned long long* id, hipGraph_t* graph,
                                                 const hipGraphNode_t** nodes, std::size_t* count) {
  return api([&] { return capture_info(stream_of(stream), status, id, graph, nodes, count); });
}
HIP_EXPORT hipError_t hipStreamGetCaptureInfo_v2_spt(hipStream_t stream, hipStreamCaptureStatus* status,
                                                     unsigned long long* id, hipGraph_t* graph,
                                                     const hipGraphNode_t** nodes, std::size_t* count) {
  return api([&] { return capture_info(stream_of_thread(stream), status, id, graph, nodes, count); });
}
HIP_EXPORT hipError_t hipStreamUpdateCaptureDependencies(hipStream_t stream, hipGraphNode_t* nodes, std::size_t count,
                                                         unsigned flags) {
  return api([&] { return update_dependencies(stream, nodes, count, flags); });
}
HIP_EXPORT hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode* mode) {
  return api([&] { return driver().cuThreadExchangeStreamCaptureMode(out<int>(mode)); });
}
