// streams_threads.cpp: several host threads, each with a stream of its own, all capturing and launching at the same
// time, with allocations and frees in between.
#include <thread>

#include "program.h"

namespace {

constexpr char kSource[] = R"(
extern "C" __global__ void rotate(float* out, const float* in, int by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 0.5f * in[(i + by) % n] + 0.25f * in[i];
}
)";

std::vector<std::uint64_t> work(int thread, int steps, int n, hipFunction_t rotate) {
  const auto elements = static_cast<std::size_t>(n);
  const std::size_t bytes = elements * sizeof(float);
  CHECK(hipSetDevice(0));
  hipStream_t stream = nullptr;
  CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  std::vector<float> values = program::Random(20 + static_cast<std::uint64_t>(thread)).vector(elements, 1);
  std::vector<std::uint64_t> sums;
  for (int step = 0; step < steps; ++step) {
    float* a = program::allocate<float>(elements);
    float* b = program::allocate<float>(elements);
    hipGraph_t graph = nullptr;
    hipGraphExec_t exec = nullptr;
    CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
    CHECK(hipMemcpyAsync(a, values.data(), bytes, hipMemcpyHostToDevice, stream));
    // Threads of different parity run graphs of different length.
    for (int i = 0; i < 2 + thread % 2; ++i) {
      program::launch(rotate, program::blocks_for(n), program::kThreads, stream, i % 2 == 0 ? b : a, i % 2 == 0 ? a : b,
                      1 + i + thread, n);
    }
    CHECK(hipMemcpyAsync(values.data(), thread % 2 == 0 ? a : b, bytes, hipMemcpyDeviceToHost, stream));
    CHECK(hipStreamEndCapture(stream, &graph));
    CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    CHECK(hipGraphDestroy(graph));
    CHECK(hipGraphLaunch(exec, stream));
    CHECK(hipStreamSynchronize(stream));
    CHECK(hipGraphExecDestroy(exec));
    CHECK(hipFree(a));
    CHECK(hipFree(b));
    sums.push_back(program::checksum(values));
  }
  CHECK(hipStreamDestroy(stream));
  return sums;
}

}  // namespace

int main(int argc, char** argv) {
  const program::Options options(argc, argv, {{"steps", "8"}, {"threads", "4"}, {"elements", "1500"}, {"times", ""}});
  const int threads = options.number("threads"), steps = options.number("steps"), n = options.number("elements");
  const program::Kernels kernels(kSource);
  const hipFunction_t rotate = kernels.get("rotate");
  std::vector<std::vector<std::uint64_t>> sums(static_cast<std::size_t>(threads));
  {
    program::StepTimes times(options.text("times"));
    times.start();
    std::vector<std::thread> workers;
    for (int t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] { sums[static_cast<std::size_t>(t)] = work(t, steps, n, rotate); });
    }
    for (std::thread& worker : workers) worker.join();
    times.stop();
  }
  for (int t = 0; t < threads; ++t) {
    for (int step = 0; step < steps; ++step) {
      std::printf("thread %d step %d values %016" PRIx64 "\n", t, step,
                  sums[static_cast<std::size_t>(t)][static_cast<std::size_t>(step)]);
    }
  }
  return 0;
}
