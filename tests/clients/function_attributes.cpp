// vLLM, FlashInfer: hipFuncSetAttribute(MaxDynamicSharedMemorySize) before launches, its value by the size of the
// problem. --in-capture 1: between the first launch of a capture and the others; --unrelated 1: of a kernel that no
// graph has.
#include "client.h"

using namespace program;

namespace {

constexpr int kCount = 256, kLayers = 4;
constexpr char kOtherSource[] = R"(
extern "C" __global__ void other(float* out, const float* in, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = in[i] * 0.25f + 1;
}
)";

}  // namespace

int main(int argc, char** argv) {
  const Options options(
      argc, argv, {{"steps", "40"}, {"alternate", "1"}, {"in-capture", "1"}, {"unrelated", "0"}, {"shared", "0"}});
  const Kernels kernels(kLayerSource), others(kOtherSource);
  const hipFunction_t layer = kernels.get("layer"), other = others.get("other");
  const void* const changed = reinterpret_cast<const void*>(options.number("unrelated") != 0 ? other : layer);
  const bool shared = options.number("shared") != 0;
  const hipStream_t stream = new_stream();
  float *x = allocate<float>(kCount), *y = allocate<float>(kCount);
  for (int step = 0; step < options.number("steps"); ++step) {
    upload_input(x, step, kCount, stream);
    const int bytes = options.number("alternate") != 0 && step % 2 == 0 ? 8192 : 4096;
    const auto set = [&] { CHECK(hipFuncSetAttribute(changed, hipFuncAttributeMaxDynamicSharedMemorySize, bytes)); };
    const auto launch_layer = [&](const float* from) {
      int count = kCount;
      void* arguments[] = {&y, &from, &count};
      CHECK(hipModuleLaunchKernel(layer, blocks_for(kCount).x, 1, 1, kThreads, 1, 1,
                                  shared ? static_cast<unsigned>(bytes) : 0, stream, arguments, nullptr));
    };
    if (options.number("in-capture") == 0) set();
    CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
    if (options.number("in-capture") != 0) {
      launch(layer, blocks_for(kCount), dim3(kThreads), stream, y, static_cast<const float*>(x), kCount);
      set();
    } else {
      launch_layer(x);
    }
    for (int i = 0; i < kLayers; ++i) launch_layer(y);
    hipGraph_t graph = nullptr;
    CHECK(hipStreamEndCapture(stream, &graph));
    run_and_destroy(graph, stream);
    print_step(step, y, kCount);
  }
  return 0;
}
