// errors.cpp: HIP programs whose kernel a device cannot go on with; errors.py runs them. Each says what the calls
// answer from then on.
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>

#include <cstdio>
#include <cstring>
#include <vector>

namespace {

const char* const kSource = R"(
extern "C" __global__ void store(int* to, int value) { to[threadIdx.x] = value; }
extern "C" __global__ void trap(int* to, int value) { if (to[0] != value) __builtin_trap(); }
)";

void say(const char* what, hipError_t error) {
  std::printf("%s: %d %s\n", what, static_cast<int>(error), hipGetErrorName(error));
  std::fflush(stdout);
}

hipFunction_t kernel(const char* name) {
  hiprtcProgram program;
  if (hiprtcCreateProgram(&program, kSource, "errors.hip", 0, nullptr, nullptr) != HIPRTC_SUCCESS) return nullptr;
  if (hiprtcCompileProgram(program, 0, nullptr) != HIPRTC_SUCCESS) return nullptr;
  std::size_t bytes = 0;
  if (hiprtcGetCodeSize(program, &bytes) != HIPRTC_SUCCESS) return nullptr;
  std::vector<char> code(bytes);
  hipModule_t module = nullptr;
  hipFunction_t function = nullptr;
  if (hiprtcGetCode(program, code.data()) != HIPRTC_SUCCESS || hipModuleLoadData(&module, code.data()) != hipSuccess ||
      hipModuleGetFunction(&function, module, name) != hipSuccess)
    return nullptr;
  return function;
}

hipError_t launch(hipFunction_t function, hipStream_t stream, void* to) {
  int value = 7;
  void* arguments[] = {&to, &value};
  return hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, stream, arguments, nullptr);
}

}  // namespace

int main(int, char** argv) {
  const bool traps = std::strstr(argv[1], "trap") != nullptr, captured = std::strstr(argv[1], "graph") != nullptr;
  const hipFunction_t function = kernel(traps ? "trap" : "store");
  hipStream_t stream = nullptr;
  int* memory = nullptr;
  if (function == nullptr || hipStreamCreate(&stream) != hipSuccess ||
      hipMalloc(reinterpret_cast<void**>(&memory), 4096) != hipSuccess)
    return 2;
  say("fill", hipMemset(memory, 0, 4096));
  void* const to = traps ? memory : reinterpret_cast<void*>(0x1000);
  if (captured) {
    hipGraph_t graph = nullptr;
    hipGraphExec_t exec = nullptr;
    say("begin", hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    say("captured", launch(function, stream, to));
    say("end", hipStreamEndCapture(stream, &graph));
    say("instantiate", hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    static_cast<void>(hipGraphLaunch(exec, stream));
  } else {  // a launch may answer the error already, or not
    static_cast<void>(launch(function, stream, to));
  }
  say("wait", hipStreamSynchronize(stream));
  say("last error", hipGetLastError());
  say("allocate", hipMalloc(reinterpret_cast<void**>(&memory), 4096));
  say("copy", hipMemcpy(memory, argv[1], 1, hipMemcpyHostToDevice));
  say("device", hipDeviceSynchronize());
  std::fflush(nullptr);
  _Exit(0);
}
