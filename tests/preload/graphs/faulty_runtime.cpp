// faulty_runtime: stands between the library and the runtime and does one thing wrong, as a defective runtime would:
//   FAULT=argument:N   from the Nth kernel launch on, one into a capture has 1000 added to its third argument
//   FAULT=copy:N       the Nth time a copy node of an exec is given other ends, it is set to leave out the first bytes
//   FAULT=wait:N       before the Nth launch of a graph is enqueued another thread of the program waits for its stream
//   FAULT=late:N       from the Nth launch of a graph on, one returns late where FAULT_GATE has the address of a
//                      std::atomic<int> that is 0: it becomes 1 once the launch is enqueued, and is waited for to be 2
#include <dlfcn.h>
#include <hip/hip_runtime_api.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

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

__attribute__((visibility("default"))) hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t exec,
                                                                                    hipGraphNode_t node, void* dst,
                                                                                    const void* src, size_t bytes,
                                                                                    hipMemcpyKind kind) {
  static const auto real = next<decltype(&hipGraphExecMemcpyNodeSetParams1D)>("hipGraphExecMemcpyNodeSetParams1D");
  static std::atomic<long> calls{0};
  const std::size_t left_out = strikes("copy", calls, false) ? sizeof(int) : 0;
  return real(exec, node, static_cast<char*>(dst) + left_out, static_cast<const char*>(src) + left_out,
              bytes - left_out, kind);
}

__attribute__((visibility("default"))) hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t stream) {
  static const auto real = next<decltype(&hipGraphLaunch)>("hipGraphLaunch");
  static std::atomic<long> calls{0};
  const char* const gate_address = std::getenv("FAULT_GATE");
  static std::atomic<long> late_calls{0};
  if (strikes("late", late_calls, true) && gate_address != nullptr) {
    auto& gate = *reinterpret_cast<std::atomic<int>*>(std::strtoull(gate_address, nullptr, 16));
    const hipError_t result = real(exec, stream);
    if (int open = 0; gate.compare_exchange_strong(open, 1))
      while (gate != 2) std::this_thread::yield();
    return result;
  }
  if (strikes("wait", calls, false)) {
    const auto wait = reinterpret_cast<decltype(&hipStreamSynchronize)>(dlsym(RTLD_DEFAULT, "hipStreamSynchronize"));
    std::thread([&] { static_cast<void>(wait(stream)); }).join();
  }
  return real(exec, stream);
}

/// Nodes of memory operations, which the runtime does not have: where the last one is told to write or wait.
__attribute__((visibility("default"))) void* last_memory_operand = nullptr;
struct MemoryOperations {
  hipCtx_t context;
  unsigned count;
  struct {
    int kind;
    void* address;
  } * first;
};
static hipError_t note_operand(const void* params) {
  last_memory_operand = static_cast<const MemoryOperations*>(params)->first->address;
  return hipSuccess;
}
__attribute__((visibility("default"))) hipError_t hipGraphAddBatchMemOpNode(hipGraphNode_t*, hipGraph_t,
                                                                            const hipGraphNode_t*, size_t,
                                                                            const void* params) {
  return note_operand(params);
}
__attribute__((visibility("default"))) hipError_t hipGraphBatchMemOpNodeSetParams(hipGraphNode_t, const void* params) {
  return note_operand(params);
}
__attribute__((visibility("default"))) hipError_t hipGraphExecBatchMemOpNodeSetParams(hipGraphExec_t, hipGraphNode_t,
                                                                                      const void* params) {
  return note_operand(params);
}

}  // extern "C"
