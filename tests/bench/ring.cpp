// ring.cpp: one graph launched on two streams at once: how long until both launches are complete. Its kernel holds the
// device for a fixed time, so the figure is that time once where the launches overlap, and twice where they do not.
#include <hip/hiprtc.h>

#include "tests/bench/timing.h"

namespace {

constexpr char kSource[] = R"(
extern "C" __global__ void hold(int* out, long long ticks) {
  long long start = wall_clock64();
  while (wall_clock64() - start < ticks) {}
  *out = 1;
}
)";

hipFunction_t compile() {
  hiprtcProgram program = nullptr;
  hipModule_t module = nullptr;
  hipFunction_t function = nullptr;
  std::size_t bytes = 0;
  const auto done = [](hiprtcResult result) { bench::check(result == HIPRTC_SUCCESS ? hipSuccess : hipErrorUnknown); };
  done(hiprtcCreateProgram(&program, kSource, "hold.hip", 0, nullptr, nullptr));
  done(hiprtcCompileProgram(program, 0, nullptr));
  done(hiprtcGetCodeSize(program, &bytes));
  std::vector<char> code(bytes);
  done(hiprtcGetCode(program, code.data()));
  done(hiprtcDestroyProgram(&program));
  bench::check(hipModuleLoadData(&module, code.data()));
  bench::check(hipModuleGetFunction(&function, module, "hold"));
  return function;
}

void hold(hipFunction_t function, hipStream_t stream, int* out, long long ticks) {
  void* arguments[] = {&out, &ticks};
  bench::check(hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
}

double elapsed_us(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - since).count();
}

}  // namespace

int main() {
  constexpr double kHoldUs = 20000;  // long against what a busy machine takes to start a thread
  constexpr int kRounds = 9;
  const hipFunction_t function = compile();
  hipStream_t streams[2];
  for (hipStream_t& stream : streams) bench::check(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  int* out = nullptr;
  bench::check(hipMalloc(reinterpret_cast<void**>(&out), 4096));

  // Ticks of the device's clock, by what a known number of them takes.
  long long ticks = 10'000'000;
  hold(function, streams[0], out, 1);
  bench::check(hipStreamSynchronize(streams[0]));
  const auto calibration = std::chrono::steady_clock::now();
  hold(function, streams[0], out, ticks);
  bench::check(hipStreamSynchronize(streams[0]));
  ticks = static_cast<long long>(static_cast<double>(ticks) * kHoldUs / elapsed_us(calibration));

  hipGraph_t graph = nullptr;
  hipGraphExec_t exec = nullptr;
  bench::check(hipStreamBeginCapture(streams[0], hipStreamCaptureModeGlobal));
  hold(function, streams[0], out, ticks);
  bench::check(hipStreamEndCapture(streams[0], &graph));
  bench::check(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  std::vector<double> rounds;
  for (int i = 0; i < kRounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (hipStream_t stream : streams) bench::check(hipGraphLaunch(exec, stream));
    for (hipStream_t stream : streams) bench::check(hipStreamSynchronize(stream));
    rounds.push_back(elapsed_us(start));
  }
  bench::print("two launches of a graph of 20 ms", bench::median(rounds), "us");
  bench::check(hipGraphExecDestroy(exec));
  bench::check(hipGraphDestroy(graph));
  return 0;
}
