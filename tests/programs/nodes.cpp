// nodes.cpp: a graph built node by node (no capture) every step, over fresh buffers: memset, copies, kernels, an empty
// node as a join, a host function; instantiated, launched, destroyed.
#include "program.h"

namespace {

constexpr char kSource[] = R"(
extern "C" __global__ void blend(float* out, const float* a, const float* b, float weight, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] += weight * a[i] + (1.0f - weight) * b[(i + 1) % n];
}
)";

void count_up(void* counter) { ++*static_cast<int*>(counter); }

hipGraphNode_t add_kernel(hipGraph_t graph, const std::vector<hipGraphNode_t>& after, hipFunction_t function, int n,
                          void** arguments) {
  const hipKernelNodeParams params = program::kernel_params(function, n, arguments);
  hipGraphNode_t node = nullptr;
  CHECK(hipGraphAddKernelNode(&node, graph, after.data(), after.size(), &params));
  return node;
}

hipGraphNode_t add_copy(hipGraph_t graph, const std::vector<hipGraphNode_t>& after, void* to, const void* from,
                        std::size_t bytes, hipMemcpyKind kind) {
  hipGraphNode_t node = nullptr;
  CHECK(hipGraphAddMemcpyNode1D(&node, graph, after.data(), after.size(), to, from, bytes, kind));
  return node;
}

}  // namespace

int main(int argc, char** argv) {
  const program::Options options(argc, argv, {{"steps", "8"}, {"elements", "3000"}, {"times", ""}});
  int n = options.number("elements");
  const auto elements = static_cast<std::size_t>(n);
  const std::size_t bytes = elements * sizeof(float);
  const program::Kernels kernels(kSource);
  const hipFunction_t blend = kernels.get("blend");
  hipStream_t stream = nullptr;
  CHECK(hipStreamCreate(&stream));
  std::vector<float> values = program::Random(5).vector(elements, 1);
  int host_calls = 0;

  program::StepTimes times(options.text("times"));
  for (int step = 0; step < options.number("steps"); ++step) {
    times.start();
    float* in = program::allocate<float>(elements);
    float* copy = program::allocate<float>(elements);
    float* left = program::allocate<float>(elements);
    float* right = program::allocate<float>(elements);
    float weight = 0.25F + 0.125F * static_cast<float>(step % 4);

    hipGraph_t graph = nullptr;
    CHECK(hipGraphCreate(&graph, 0));
    const hipGraphNode_t upload = add_copy(graph, {}, in, values.data(), bytes, hipMemcpyHostToDevice);
    hipMemsetParams fill{};
    fill.dst = left;
    fill.elementSize = 4;
    fill.width = elements;
    fill.height = 1;
    hipGraphNode_t clear_left = nullptr, clear_right = nullptr;
    CHECK(hipGraphAddMemsetNode(&clear_left, graph, nullptr, 0, &fill));
    fill.dst = right;
    CHECK(hipGraphAddMemsetNode(&clear_right, graph, nullptr, 0, &fill));
    const hipGraphNode_t duplicate = add_copy(graph, {upload}, copy, in, bytes, hipMemcpyDeviceToDevice);
    void* left_arguments[] = {&left, &in, &copy, &weight, &n};
    void* right_arguments[] = {&right, &copy, &in, &weight, &n};
    const hipGraphNode_t blend_left = add_kernel(graph, {clear_left, duplicate}, blend, n, left_arguments);
    const hipGraphNode_t blend_right = add_kernel(graph, {clear_right, duplicate}, blend, n, right_arguments);
    hipGraphNode_t join = nullptr;
    const hipGraphNode_t halves[] = {blend_left, blend_right};
    CHECK(hipGraphAddEmptyNode(&join, graph, halves, 2));
    void* join_arguments[] = {&in, &left, &right, &weight, &n};
    const hipGraphNode_t merge = add_kernel(graph, {join}, blend, n, join_arguments);
    hipHostNodeParams host{};
    host.fn = count_up;
    host.userData = &host_calls;
    hipGraphNode_t count = nullptr;
    CHECK(hipGraphAddHostNode(&count, graph, &merge, 1, &host));
    add_copy(graph, {count}, values.data(), in, bytes, hipMemcpyDeviceToHost);

    hipGraphExec_t exec = nullptr;
    CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    CHECK(hipGraphLaunch(exec, stream));
    CHECK(hipStreamSynchronize(stream));
    CHECK(hipGraphExecDestroy(exec));
    CHECK(hipGraphDestroy(graph));
    for (float* buffer : {in, copy, left, right}) CHECK(hipFree(buffer));
    times.stop();
    for (float& value : values) value *= 0.5F;
    std::printf("step %d values %016" PRIx64 " host calls %d\n", step, program::checksum(values), host_calls);
  }
  CHECK(hipStreamDestroy(stream));
  return 0;
}
