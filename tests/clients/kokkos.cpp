// Kokkos::Experimental::Graph: nodes are added without dependencies, the edges afterwards (hipGraphAddDependencies).
// `--edges at` gives them with the nodes instead.
#include "client.h"

using namespace program;

int main(int argc, char** argv) {
  const Options options(argc, argv, {{"steps", "20"}, {"edges", "after"}, {"nodes", "6"}});
  constexpr int kCount = 4096;
  const bool after = options.text("edges") == "after";
  const Kernels kernels(kLayerSource);
  const hipFunction_t layer = kernels.get("layer");
  const hipStream_t stream = new_stream();
  float *in = allocate<float>(kCount), *out = allocate<float>(kCount);
  for (int step = 0; step < options.number("steps"); ++step) {
    upload_input(in, step, kCount, stream);
    hipGraph_t graph = nullptr;
    CHECK(hipGraphCreate(&graph, 0));
    hipGraphNode_t last = nullptr;
    CHECK(hipGraphAddEmptyNode(&last, graph, nullptr, 0));
    for (int i = 0; i < options.number("nodes"); ++i) {
      const float* from = i == 0 ? in : out;
      int count = kCount;
      void* arguments[] = {&out, &from, &count};
      const hipKernelNodeParams params = kernel_params(layer, kCount, arguments);
      hipGraphNode_t node = nullptr;
      CHECK(hipGraphAddKernelNode(&node, graph, after ? nullptr : &last, after ? 0 : 1, &params));
      if (after) CHECK(hipGraphAddDependencies(graph, &last, &node, 1));
      last = node;
    }
    run_and_destroy(graph, stream);
    print_step(step, out, kCount);
  }
  CHECK(hipFree(out));
  CHECK(hipFree(in));
  CHECK(hipStreamDestroy(stream));
}
