// Without a GPU AMD's own runtime answers nearly everything with an error: always the same one.
#include "host.h"

int main() {
  int value = 0;
  // Debian's 5.2.3 crashes when hipMalloc is the first call of a process without a GPU.
  say("count", hipGetDeviceCount(&value));
  say("init", hipInit(0));
  say("version", hipRuntimeGetVersion(&value));
  say("is", value);
  say("set device", hipSetDevice(0));
  void* pointer = nullptr;
  size_t bytes = 0;
  say("malloc", hipMalloc(&pointer, 100));
  say("last error", hipGetLastError());
  say("pitched", hipMallocPitch(&pointer, &bytes, 100, 3));
  say("host", hipHostMalloc(&pointer, 100, 0));
  say("managed", hipMallocManaged(&pointer, 100));
  say("free", hipFree(nullptr));
  size_t all = 0;
  say("memory", hipMemGetInfo(&bytes, &all));
  hipStream_t stream = nullptr;
  say("stream", hipStreamCreate(&stream));
  hipEvent_t event = nullptr;
  say("event", hipEventCreate(&event));
  hipGraph_t graph = nullptr;
  say("graph", hipGraphCreate(&graph, 0));
  say("begin", hipStreamBeginCapture(nullptr, hipStreamCaptureModeGlobal));
  hipModule_t module = nullptr;
  say("module", hipModuleLoad(&module, "/nonexistent"));
  char byte = 0;
  say("copy", hipMemcpy(&byte, &byte, 1, hipMemcpyDefault));
  say("synchronise", hipDeviceSynchronize());
  say("last error", hipGetLastError());
  say("peek", hipPeekAtLastError());
  std::printf("%s\n", hipGetErrorName(hipErrorNoDevice));
}
