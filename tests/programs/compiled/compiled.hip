// compiled.hip: a program as hipcc builds it: kernels registered from its offload bundle, launched by <<<>>>, a
// __device__ variable, a kernel template. Captures and launches every step.
#include "../program.h"
#include "kernels.hip"

int main(int argc, char** argv) {
  const program::Options options(argc, argv, {{"steps", "6"}, {"elements", "1000"}, {"times", ""}});
  const int n = options.number("elements");
  const auto elements = static_cast<std::size_t>(n);
  hipStream_t stream = nullptr;
  CHECK(hipStreamCreate(&stream));
  program::Random random(8);
  std::vector<float> values = random.vector(elements, 1);
  std::vector<unsigned> counts(elements, 1);

  program::StepTimes times(options.text("times"));
  for (int step = 0; step < options.number("steps"); ++step) {
    const std::vector<float> polynomial_of_step = random.vector(4, 0.5F);
    CHECK(hipMemcpyToSymbol(HIP_SYMBOL(coefficients), polynomial_of_step.data(), 4 * sizeof(float)));
    times.start();
    float* in = program::allocate<float>(elements);
    float* out = program::allocate<float>(elements);
    unsigned* numbers = program::allocate<unsigned>(elements);
    hipGraph_t graph = nullptr;
    hipGraphExec_t exec = nullptr;
    CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    CHECK(hipMemcpyAsync(in, values.data(), elements * sizeof(float), hipMemcpyHostToDevice, stream));
    CHECK(hipMemcpyAsync(numbers, counts.data(), elements * sizeof(unsigned), hipMemcpyHostToDevice, stream));
    polynomial<<<program::blocks_for(n), program::kThreads, 0, stream>>>(out, in, n);
    weigh<<<program::blocks_for(n), program::kThreads, 0, stream>>>(
        step % 2 == 0 ? '\1' : '\xff', out, Range{step, n - step, 0.5F}, static_cast<short>(1 + step % 3), n);
    block_prefix<float, 64><<<program::blocks_for(n), 64, 0, stream>>>(in, out, n);
    block_prefix<unsigned, 32><<<program::blocks_for(n, 32), 32, 0, stream>>>(numbers, numbers, n);
    CHECK(hipGetLastError());
    CHECK(hipMemcpyAsync(values.data(), in, elements * sizeof(float), hipMemcpyDeviceToHost, stream));
    CHECK(hipMemcpyAsync(counts.data(), numbers, elements * sizeof(unsigned), hipMemcpyDeviceToHost, stream));
    CHECK(hipStreamEndCapture(stream, &graph));
    CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    CHECK(hipGraphDestroy(graph));
    CHECK(hipGraphLaunch(exec, stream));
    CHECK(hipStreamSynchronize(stream));
    CHECK(hipGraphExecDestroy(exec));
    for (void* buffer : {static_cast<void*>(in), static_cast<void*>(out), static_cast<void*>(numbers)})
      CHECK(hipFree(buffer));
    times.stop();
    for (float& value : values) value *= 0.0625F;
    std::printf("step %d values %016" PRIx64 " counts %016" PRIx64 "\n", step, program::checksum(values),
                program::checksum(counts));
  }
  float last[4] = {};
  CHECK(hipMemcpyFromSymbol(last, HIP_SYMBOL(coefficients), sizeof last));
  std::printf("coefficients %016" PRIx64 "\n", program::checksum(last, sizeof last));
  CHECK(hipStreamDestroy(stream));
  return 0;
}
