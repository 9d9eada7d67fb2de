// ring.cpp: one graph launched on two streams at once: how long until both launches are complete. Its kernel holds the
// device for a fixed time, so the figure is that time once where the launches overlap, and twice where they do not.
#include "kernel.h"

namespace {

constexpr char kSource[] = R"(
extern "C" __global__ void hold(int* out, long long ticks) {
  long long start = wall_clock64();
  while (wall_clock64() - start < ticks) {}
  *out = 1;
}
)";

double elapsed_us(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - since).count();
}

}  // namespace

int main() {
  constexpr double kHoldUs = 20000;  // long against what a busy machine takes to start a thread
  constexpr int kRounds = 9;
  const hipFunction_t function = bench::compile(kSource, "hold");
  hipStream_t streams[2];
  for (hipStream_t& stream : streams) bench::check(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  int* out = nullptr;
  bench::check(hipMalloc(reinterpret_cast<void**>(&out), 4096));

  // Ticks of the device's clock, by what a known number of them takes.
  long long ticks = 10'000'000;
  bench::launch(function, streams[0], out, 1LL);
  bench::check(hipStreamSynchronize(streams[0]));
  const auto calibration = std::chrono::steady_clock::now();
  bench::launch(function, streams[0], out, ticks);
  bench::check(hipStreamSynchronize(streams[0]));
  ticks = static_cast<long long>(static_cast<double>(ticks) * kHoldUs / elapsed_us(calibration));

  const hipGraphExec_t exec = bench::captured(streams[0], [&] { bench::launch(function, streams[0], out, ticks); });
  std::vector<double> rounds;
  for (int i = 0; i < kRounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (hipStream_t stream : streams) bench::check(hipGraphLaunch(exec, stream));
    for (hipStream_t stream : streams) bench::check(hipStreamSynchronize(stream));
    rounds.push_back(elapsed_us(start));
  }
  bench::print("two launches of a graph of 20 ms", bench::median(rounds), "us");
  bench::check(hipGraphExecDestroy(exec));
  return 0;
}
