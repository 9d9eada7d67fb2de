// update.cpp: captures every step and updates one executable graph with the result, in which one scalar differs and one
// buffer moved. Every fourth step starts a new executable graph, sets the parameters of one of its nodes and launches
// it once more.
#include "program.h"

namespace {

constexpr char kSource[] = R"(
extern "C" __global__ void decay(float* state, const float* input, float rate, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) state[i] = state[i] * rate + input[i];
}
extern "C" __global__ void mix(float* state, float* summary, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) summary[i] = 0.5f * (state[i] + state[n - 1 - i]);
}
)";

}  // namespace

int main(int argc, char** argv) {
  const program::Options options(argc, argv, {{"steps", "8"}, {"elements", "4000"}, {"times", ""}});
  int n = options.number("elements");
  const auto elements = static_cast<std::size_t>(n);
  const std::size_t bytes = elements * sizeof(float);
  const program::Kernels kernels(kSource);
  const hipFunction_t decay = kernels.get("decay"), mix = kernels.get("mix");
  hipStream_t stream = nullptr;
  CHECK(hipStreamCreate(&stream));
  float* state = program::allocate<float>(elements);
  float* summary = program::allocate<float>(elements);
  CHECK(hipMemset(state, 0, bytes));
  CHECK(hipMemset(summary, 0, bytes));
  program::Random random(6);

  hipGraphExec_t exec = nullptr;
  program::StepTimes times(options.text("times"));
  for (int step = 0; step < options.number("steps"); ++step) {
    const std::vector<float> values = random.vector(elements, 1);
    times.start();
    float* input = program::allocate<float>(elements);
    float rate = 0.9F - 0.0625F * static_cast<float>(step % 8);
    CHECK(hipMemcpyAsync(input, values.data(), bytes, hipMemcpyHostToDevice, stream));
    hipGraph_t graph = nullptr;
    CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
    program::launch(decay, program::blocks_for(n), program::kThreads, stream, state, input, rate, n);
    program::launch(mix, program::blocks_for(n), program::kThreads, stream, state, summary, n);
    CHECK(hipStreamEndCapture(stream, &graph));
    hipGraphNode_t failed = nullptr;
    hipGraphExecUpdateResult result = hipGraphExecUpdateSuccess;
    const bool set_node = step % 4 == 3;
    if (exec != nullptr && set_node) {
      CHECK(hipGraphExecDestroy(exec));
      exec = nullptr;
    }
    if (exec == nullptr) {
      CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    } else {
      CHECK(hipGraphExecUpdate(exec, graph, &failed, &result));
    }
    CHECK(hipGraphLaunch(exec, stream));
    CHECK(hipStreamSynchronize(stream));
    times.stop();

    if (set_node) {
      std::size_t roots = 1;
      hipGraphNode_t first = nullptr;
      CHECK(hipGraphGetRootNodes(graph, &first, &roots));
      float half = 0.5F;
      void* arguments[] = {&state, &input, &half, &n};
      const hipKernelNodeParams params = program::kernel_params(decay, n, arguments);
      CHECK(hipGraphExecKernelNodeSetParams(exec, first, &params));
      CHECK(hipGraphLaunch(exec, stream));
      CHECK(hipStreamSynchronize(stream));
    }
    CHECK(hipGraphDestroy(graph));
    CHECK(hipFree(input));
    std::printf("step %d update %d state %016" PRIx64 " summary %016" PRIx64 "\n", step, static_cast<int>(result),
                program::checksum(program::download(state, elements)),
                program::checksum(program::download(summary, elements)));
  }
  if (exec != nullptr) CHECK(hipGraphExecDestroy(exec));
  CHECK(hipFree(state));
  CHECK(hipFree(summary));
  CHECK(hipStreamDestroy(stream));
  return 0;
}
