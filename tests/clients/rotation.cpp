// Streaming inference and data loaders: sets of buffers are used in turn, and each step captures its graph anew.
#include "client.h"

using namespace program;

constexpr char kSource[] = R"(
extern "C" __global__ void mix(float* out, const float* in, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = out[i] * 0.5f + in[i];
}
)";

int main(int argc, char** argv) {
  const Options options(argc, argv, {{"sets", "40"}, {"steps", "400"}, {"kernels", "200"}});
  constexpr int kCount = 64;
  const Kernels kernels(kSource);
  const hipFunction_t mix = kernels.get("mix");
  const hipStream_t stream = new_stream();
  std::vector<float*> sets;
  for (int i = 0; i < options.number("sets"); ++i) {
    sets.push_back(allocate<float>(kCount));
    const std::vector<float> numbers(kCount, static_cast<float>(i));
    CHECK(hipMemcpy(sets.back(), numbers.data(), kCount * sizeof(float), hipMemcpyHostToDevice));
  }
  float* const out = allocate<float>(kCount);
  CHECK(hipMemset(out, 0, kCount * sizeof(float)));
  for (int step = 0; step < options.number("steps"); ++step) {
    const float* const in = sets[static_cast<std::size_t>(step) % sets.size()];
    CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
    for (int i = 0; i < options.number("kernels"); ++i)
      launch(mix, blocks_for(kCount), dim3(kThreads), stream, out, in, kCount);
    hipGraph_t graph = nullptr;
    CHECK(hipStreamEndCapture(stream, &graph));
    run_and_destroy(graph, stream);
  }
  std::printf("%016" PRIx64 "\n", checksum(download(out, kCount)));
  for (float* const set : sets) CHECK(hipFree(set));
  CHECK(hipFree(out));
  CHECK(hipStreamDestroy(stream));
}
