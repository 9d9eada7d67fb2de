// steady_launch.cpp: what the library adds to a launch of a graph whose binding has not changed: on a runtime that does
// nothing, a captured graph of one memset, launched again and again.
#include "timing.h"

namespace {

hipGraph_t capture(hipStream_t stream, void* memory) {
  hipGraph_t graph = nullptr;
  bench::check(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  bench::check(hipMemsetAsync(memory, 0, 16, stream));
  bench::check(hipStreamEndCapture(stream, &graph));
  return graph;
}

}  // namespace

int main() {
  constexpr int kBatches = 41, kCalls = 20000;
  hipStream_t stream = nullptr;
  bench::check(hipStreamCreate(&stream));
  static char memory[64];
  for (const bool again : {false, true}) {
    const hipGraph_t graph = capture(stream, memory);
    hipGraphExec_t exec = nullptr;
    bench::check(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    bench::print(again ? "launch, graph captured again" : "launch",
                 bench::ns_per_call(kBatches, kCalls, [&] { bench::check(hipGraphLaunch(exec, stream)); }), "ns");
    bench::check(hipStreamSynchronize(stream));
    bench::check(hipGraphExecDestroy(exec));
    bench::check(hipGraphDestroy(graph));
  }
  return 0;
}
