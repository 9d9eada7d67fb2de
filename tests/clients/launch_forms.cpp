// Tensile, hipBLASLt, AITER, MIOpen: launches in a capture with packed arguments (`extra`). `--how module`: by
// hipModuleLaunchKernel; ext: by hipExtModuleLaunchKernel; events: with its start and stop events.
#include <dlfcn.h>

#include "client.h"

using namespace program;

using ExtLaunch = hipError_t (*)(hipFunction_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t,
                                 std::uint32_t, std::uint32_t, std::size_t, hipStream_t, void**, void**, hipEvent_t,
                                 hipEvent_t, std::uint32_t);

int main(int argc, char** argv) {
  const Options options(argc, argv, {{"steps", "20"}, {"how", "ext"}});
  const std::string& how = options.text("how");
  constexpr int kCount = 256;
  const Kernels kernels(kLayerSource);
  const hipFunction_t layer = kernels.get("layer");
  const auto ext_launch = reinterpret_cast<ExtLaunch>(dlsym(RTLD_DEFAULT, "hipExtModuleLaunchKernel"));
  const hipStream_t stream = new_stream();
  hipEvent_t start = nullptr, stop = nullptr;
  if (how == "events") {
    CHECK(hipEventCreate(&start));
    CHECK(hipEventCreate(&stop));
  }
  float* in = allocate<float>(kCount);
  for (int step = 0; step < options.number("steps"); ++step) {
    float* out = allocate<float>(kCount);
    upload_input(in, step, kCount, stream);
    CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
    for (int i = 0; i < 4; ++i) {
      struct {
        float* out;
        const float* in;
        int count;
      } arguments{out, i == 0 ? in : out, kCount};
      std::size_t bytes = sizeof arguments;
      void* extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &arguments, HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                       HIP_LAUNCH_PARAM_END};
      if (how == "module") {
        CHECK(hipModuleLaunchKernel(layer, 4, 1, 1, kThreads, 1, 1, 0, stream, nullptr, extra));
      } else {
        CHECK(ext_launch(layer, kCount, 1, 1, kThreads, 1, 1, 0, stream, nullptr, extra, start, stop, 0));
      }
    }
    hipGraph_t graph = nullptr;
    CHECK(hipStreamEndCapture(stream, &graph));
    run_and_destroy(graph, stream);
    print_step(step, out, kCount);
    CHECK(hipFree(out));
  }
  if (how == "events") {
    CHECK(hipEventDestroy(stop));
    CHECK(hipEventDestroy(start));
  }
  CHECK(hipFree(in));
  CHECK(hipStreamDestroy(stream));
}
