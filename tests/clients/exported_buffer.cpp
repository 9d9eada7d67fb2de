// vLLM, register_graph_buffers: IPC handles of the buffers that a graph uses are taken before the capture, after
// instantiate, or not at all; then the graph is launched several times.
#include "program.h"

using namespace program;

constexpr char kSource[] = R"(
extern "C" __global__ void halve(float* out, const float* in, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = in[i] * 0.5f + 1;
}
)";

int main(int argc, char** argv) {
  const Options options(argc, argv, {{"exported", "after"}, {"steps", "6"}});
  constexpr int kCount = 4096;
  const Kernels kernels(kSource);
  const hipFunction_t halve = kernels.get("halve");
  hipStream_t stream = nullptr;
  CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  float *const in = allocate<float>(kCount), *const middle = allocate<float>(kCount),
               *const out = allocate<float>(kCount);
  const auto hand_out = [&] {
    hipIpcMemHandle_t handle;
    CHECK(hipIpcGetMemHandle(&handle, middle));
  };
  if (options.text("exported") == "before") hand_out();
  const std::vector<float> threes(kCount, 3);
  CHECK(hipMemcpy(in, threes.data(), kCount * sizeof(float), hipMemcpyHostToDevice));
  CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
  launch(halve, blocks_for(kCount), dim3(kThreads), stream, middle, static_cast<const float*>(in), kCount);
  launch(halve, blocks_for(kCount), dim3(kThreads), stream, out, static_cast<const float*>(middle), kCount);
  hipGraph_t graph = nullptr;
  hipGraphExec_t exec = nullptr;
  CHECK(hipStreamEndCapture(stream, &graph));
  CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  for (int i = 0; i < options.number("steps"); ++i) {
    if (i == 2 && options.text("exported") == "after") hand_out();
    CHECK(hipGraphLaunch(exec, stream));
  }
  CHECK(hipStreamSynchronize(stream));
  std::printf("%016" PRIx64 "\n", checksum(download(out, kCount)));
  CHECK(hipGraphExecDestroy(exec));
  CHECK(hipGraphDestroy(graph));
  for (float* const memory : {in, middle, out}) CHECK(hipFree(memory));
  CHECK(hipStreamDestroy(stream));
}
