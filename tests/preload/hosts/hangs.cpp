// A few captured steps, then a wait for work that never ends.
#include <unistd.h>

#include "host.h"

int main() {
  hipStream_t stream = nullptr;
  void* memory = nullptr;
  if (hipStreamCreate(&stream) != hipSuccess || hipMalloc(&memory, 4096) != hipSuccess) return 1;
  for (int step = 0; step < 3; ++step) {
    hipGraph_t graph = nullptr;
    hipGraphExec_t exec = nullptr;
    static_cast<void>(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    static_cast<void>(hipMemsetAsync(memory, step, 4096, stream));
    static_cast<void>(hipStreamEndCapture(stream, &graph));
    static_cast<void>(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    static_cast<void>(hipGraphLaunch(exec, stream));
    static_cast<void>(hipGraphExecDestroy(exec));
    static_cast<void>(hipGraphDestroy(graph));
  }
  const auto never_ends = [](hipStream_t, hipError_t, void*) {
    for (;;) pause();
  };
  if (hipStreamAddCallback(stream, never_ends, nullptr, 0) != hipSuccess) return 2;
  std::printf("hangs now\n");
  std::fflush(stdout);
  static_cast<void>(hipStreamSynchronize(stream));
  return 3;
}
