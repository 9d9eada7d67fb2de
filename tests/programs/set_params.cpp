// set_params.cpp: one executable graph, built node by node in the first step; every step allocates its input anew, sets
// the parameters of each node and launches. One scalar changes every other step.
#include "program.h"

namespace {

constexpr char kSource[] = R"(
extern "C" __global__ void decay(float* state, const float* input, float rate, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) state[i] = state[i] * rate + input[i];
}
extern "C" __global__ void add(float* summary, const float* state, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) summary[i] += 0.5f * (state[i] + state[n - 1 - i]);
}
)";

}  // namespace

int main(int argc, char** argv) {
  const program::Options options(argc, argv, {{"steps", "8"}, {"elements", "4000"}, {"times", ""}});
  int n = options.number("elements");
  const auto elements = static_cast<std::size_t>(n);
  const std::size_t bytes = elements * sizeof(float);
  const program::Kernels kernels(kSource);
  const hipFunction_t decay = kernels.get("decay"), add = kernels.get("add");
  hipStream_t stream = nullptr;
  CHECK(hipStreamCreate(&stream));
  float* state = program::allocate<float>(elements);
  float* summary = program::allocate<float>(elements);
  CHECK(hipMemset(state, 0, bytes));
  program::Random random(7);
  std::vector<float> values(elements);

  hipGraph_t graph = nullptr;
  hipGraphExec_t exec = nullptr;
  hipGraphNode_t upload = nullptr, clear = nullptr, decayed = nullptr, added = nullptr;
  program::StepTimes times(options.text("times"));
  for (int step = 0; step < options.number("steps"); ++step) {
    for (float& value : values) value = random.uniform(1);
    times.start();
    float* input = program::allocate<float>(elements);
    float rate = 0.9F - 0.0625F * static_cast<float>(step / 2 % 8);
    void* decay_arguments[] = {&state, &input, &rate, &n};
    void* add_arguments[] = {&summary, &state, &n};
    const hipKernelNodeParams decay_params = program::kernel_params(decay, n, decay_arguments);
    const hipKernelNodeParams add_params = program::kernel_params(add, n, add_arguments);
    hipMemsetParams fill{};
    fill.dst = summary;
    fill.elementSize = 4;
    fill.width = elements;
    fill.height = 1;
    if (exec == nullptr) {
      CHECK(hipGraphCreate(&graph, 0));
      CHECK(hipGraphAddMemcpyNode1D(&upload, graph, nullptr, 0, input, values.data(), bytes, hipMemcpyHostToDevice));
      CHECK(hipGraphAddMemsetNode(&clear, graph, nullptr, 0, &fill));
      CHECK(hipGraphAddKernelNode(&decayed, graph, &upload, 1, &decay_params));
      const hipGraphNode_t both[] = {decayed, clear};
      CHECK(hipGraphAddKernelNode(&added, graph, both, 2, &add_params));
      CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    }
    CHECK(hipGraphExecMemcpyNodeSetParams1D(exec, upload, input, values.data(), bytes, hipMemcpyHostToDevice));
    CHECK(hipGraphExecMemsetNodeSetParams(exec, clear, &fill));
    CHECK(hipGraphExecKernelNodeSetParams(exec, decayed, &decay_params));
    CHECK(hipGraphExecKernelNodeSetParams(exec, added, &add_params));
    CHECK(hipGraphLaunch(exec, stream));
    CHECK(hipStreamSynchronize(stream));
    times.stop();
    CHECK(hipFree(input));
    std::printf("step %d state %016" PRIx64 " summary %016" PRIx64 "\n", step,
                program::checksum(program::download(state, elements)),
                program::checksum(program::download(summary, elements)));
  }
  if (exec != nullptr) CHECK(hipGraphExecDestroy(exec));
  if (graph != nullptr) CHECK(hipGraphDestroy(graph));
  CHECK(hipFree(state));
  CHECK(hipFree(summary));
  CHECK(hipStreamDestroy(stream));
  return 0;
}
