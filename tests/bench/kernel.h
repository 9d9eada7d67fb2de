// kernel.h: a kernel for a benchmark, compiled by hipRTC. A failure ends the program.
#pragma once

#include <hip/hiprtc.h>

#include "timing.h"

namespace bench {

inline hipFunction_t compile(const char* source, const char* name) {
  hiprtcProgram program = nullptr;
  hipModule_t module = nullptr;
  hipFunction_t function = nullptr;
  std::size_t bytes = 0;
  const auto done = [](hiprtcResult result) { check(result == HIPRTC_SUCCESS ? hipSuccess : hipErrorUnknown); };
  done(hiprtcCreateProgram(&program, source, name, 0, nullptr, nullptr));
  done(hiprtcCompileProgram(program, 0, nullptr));
  done(hiprtcGetCodeSize(program, &bytes));
  std::vector<char> code(bytes);
  done(hiprtcGetCode(program, code.data()));
  done(hiprtcDestroyProgram(&program));
  check(hipModuleLoadData(&module, code.data()));
  check(hipModuleGetFunction(&function, module, name));
  return function;
}

/// touch(float* out, const float* in, int n): a kernel that names two buffers and, with n >= 0, touches neither.
inline hipFunction_t compile_touch() {
  return compile(R"(
extern "C" __global__ void touch(float* out, const float* in, int n) {
  if (n < 0) out[0] = in[0];
}
)",
                 "touch");
}

/// One block.
template <typename... Arguments>
void launch_threads(unsigned threads, hipFunction_t function, hipStream_t stream, Arguments... arguments) {
  void* pointers[] = {&arguments...};
  check(hipModuleLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, stream, pointers, nullptr));
}

/// One block of one thread.
template <typename... Arguments>
void launch(hipFunction_t function, hipStream_t stream, Arguments... arguments) {
  launch_threads(1, function, stream, arguments...);
}

/// What `body` enqueues on the stream, as an exec.
template <typename Body>
hipGraphExec_t captured(hipStream_t stream, Body&& body) {
  hipGraph_t graph = nullptr;
  hipGraphExec_t exec = nullptr;
  check(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  body();
  check(hipStreamEndCapture(stream, &graph));
  check(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  check(hipGraphDestroy(graph));
  return exec;
}

}  // namespace bench
