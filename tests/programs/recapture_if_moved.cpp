// recapture_if_moved.cpp: a program that keeps its graph as long as its buffers stay: each step allocates them afresh,
// compares the addresses with those in the graph, and captures again only when one moved.
#include "program.h"

namespace {

constexpr char kSource[] = R"(
extern "C" __global__ void expand(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 2 * n) out[i] = in[i / 2] * (i % 2 ? 0.75f : 1.25f);
}
extern "C" __global__ void contract(float* out, const float* in, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 0.5f * (in[2 * i] + in[(2 * i + 3) % (2 * n)]);
}
)";

}  // namespace

int main(int argc, char** argv) {
  const program::Options options(argc, argv, {{"steps", "8"}, {"elements", "5000"}, {"times", ""}});
  const int n = options.number("elements");
  const auto elements = static_cast<std::size_t>(n);
  const program::Kernels kernels(kSource);
  const hipFunction_t expand = kernels.get("expand"), contract = kernels.get("contract");
  hipStream_t stream = nullptr;
  CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));

  std::vector<float> values = program::Random(3).vector(elements, 1);
  std::vector<float*> captured;
  hipGraphExec_t exec = nullptr;
  program::StepTimes times(options.text("times"));
  for (int step = 0; step < options.number("steps"); ++step) {
    times.start();
    const std::vector<float*> buffers = {program::allocate<float>(elements), program::allocate<float>(2 * elements),
                                         program::allocate<float>(elements)};
    CHECK(hipMemcpyAsync(buffers[0], values.data(), elements * sizeof(float), hipMemcpyHostToDevice, stream));
    if (buffers != captured) {
      if (exec != nullptr) CHECK(hipGraphExecDestroy(exec));
      hipGraph_t graph = nullptr;
      CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
      program::launch(expand, program::blocks_for(2 * n), program::kThreads, stream, buffers[1], buffers[0], n);
      program::launch(contract, program::blocks_for(n), program::kThreads, stream, buffers[2], buffers[1], n);
      CHECK(hipStreamEndCapture(stream, &graph));
      CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
      CHECK(hipGraphDestroy(graph));
      captured = buffers;
    }
    CHECK(hipGraphLaunch(exec, stream));
    CHECK(hipMemcpyAsync(values.data(), buffers[2], elements * sizeof(float), hipMemcpyDeviceToHost, stream));
    CHECK(hipStreamSynchronize(stream));
    for (float* buffer : buffers) CHECK(hipFree(buffer));
    times.stop();
    std::printf("step %d values %016" PRIx64 "\n", step, program::checksum(values));
  }
  if (exec != nullptr) CHECK(hipGraphExecDestroy(exec));
  CHECK(hipStreamDestroy(stream));
  return 0;
}
