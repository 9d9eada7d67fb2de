// vLLM and SGLang: one place of the program captures many different graphs, and after a wake-up all of them again.
#include "client.h"

using namespace program;

int main(int argc, char** argv) {
  const Options options(argc, argv, {{"graphs", "200"}, {"rounds", "5"}, {"operations", "40"}});
  constexpr int kCount = 256;
  const int operations = static_cast<int>(options.number("operations"));
  const Kernels kernels(kTwoKernelsSource);
  const hipFunction_t functions[] = {kernels.get("halve"), kernels.get("quarter")};
  const hipStream_t stream = new_stream();
  float *in = allocate<float>(kCount), *out = allocate<float>(kCount);
  const std::vector<float> ones(kCount, 1);
  CHECK(hipMemcpy(in, ones.data(), kCount * sizeof(float), hipMemcpyHostToDevice));
  std::uint64_t sum = checksum(ones);
  for (int round = 0; round < options.number("rounds"); ++round) {
    for (int graph_number = 0; graph_number < options.number("graphs"); ++graph_number) {
      // The bits of its number choose the kernels: no two graphs are equal.
      CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
      for (int i = 0; i < operations; ++i) {
        launch(functions[i < 31 ? (graph_number >> i) & 1 : 0], blocks_for(kCount), dim3(kThreads), stream, out,
               static_cast<const float*>(i == 0 ? in : out), kCount);
      }
      hipGraph_t graph = nullptr;
      CHECK(hipStreamEndCapture(stream, &graph));
      run_and_destroy(graph, stream);
      sum = checksum(download(out, kCount), sum);
    }
  }
  std::printf("%016" PRIx64 "\n", sum);
  CHECK(hipFree(out));
  CHECK(hipFree(in));
  CHECK(hipStreamDestroy(stream));
}
