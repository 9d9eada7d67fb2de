// weak_parts.cpp: stand-ins for the graph and kernel halves of the runtime.
#include "capture.h"
#include "kernel.h"

#define WEAK __attribute__((weak))

namespace cpuhip {

WEAK hipError_t capture_operation(Stream&, Operation) { return hipErrorNotSupported; }
WEAK hipError_t capture_event_record(Stream&, ihipEvent_t&) { return hipErrorNotSupported; }
WEAK hipError_t capture_wait_event(Stream&, ihipEvent_t&, bool* captured) { return *captured = false, hipSuccess; }
WEAK hipError_t capture_malloc(Stream&, void**, std::size_t) { return hipErrorNotSupported; }
WEAK hipError_t capture_free(Stream&, void*) { return hipErrorNotSupported; }
WEAK hipError_t check_capture_unsafe_call() { return hipSuccess; }
WEAK hipError_t check_capture_device_synchronize() { return hipSuccess; }
WEAK hipError_t check_capture_implicit() { return hipSuccess; }
WEAK hipError_t check_capture_stream_query(Stream&) { return hipSuccess; }
WEAK hipError_t check_capture_event_query(ihipEvent_t&) { return hipSuccess; }
WEAK void capture_stream_destroyed(Stream&) {}
WEAK void capture_event_destroyed(ihipEvent_t&) {}

WEAK std::shared_ptr<const Kernel> find_kernel(const void*) { return nullptr; }
WEAK std::shared_ptr<const Kernel> find_kernel(const void*, Device&) { return nullptr; }
WEAK hipError_t resolve_symbol(const void*, Device&, void**, std::size_t*) { return hipErrorInvalidSymbol; }
WEAK hipError_t check_launch(const Kernel&, dim3, dim3, std::size_t) { return hipSuccess; }
WEAK hipError_t pack_arguments(const Kernel&, void**, void**, std::vector<std::byte>*) { return hipErrorNotSupported; }
WEAK void run_kernel(const KernelWork&) {}

}  // namespace cpuhip
