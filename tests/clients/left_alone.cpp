// A program that captures many graphs once at the place where it then captures the same few again and again. The
// library stops to look into what is captured there; later it looks again. Meanwhile captures fork and join, one is
// invalidated, and an exec that was served from recordings is updated by graphs that the library has not looked into.
#include <functional>

#include "client.h"

using namespace program;

namespace {

constexpr int kCount = 256;

hipFunction_t g_layer = nullptr;

/// The one place. Null: the capture was invalidated.
[[gnu::noinline]] hipGraph_t capture(hipStream_t stream, const std::function<void()>& body) {
  CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
  body();
  hipGraph_t graph = nullptr;
  const hipError_t result = hipStreamEndCapture(stream, &graph);
  if (result != hipSuccess) std::printf("the capture ended: %s\n", hipGetErrorName(result));
  return graph;
}

void layer(hipStream_t stream, float* out, const float* in) {
  launch(g_layer, blocks_for(kCount), dim3(kThreads), stream, out, in, kCount);
}

void update_and_launch(hipGraphExec_t exec, hipGraph_t graph, hipStream_t stream) {
  hipGraphNode_t node = nullptr;
  hipGraphExecUpdateResult result{};
  CHECK(hipGraphExecUpdate(exec, graph, &node, &result));
  CHECK(hipGraphLaunch(exec, stream));
  CHECK(hipStreamSynchronize(stream));
  CHECK(hipGraphDestroy(graph));
}

}  // namespace

int main(int argc, char** argv) {
  const Options options(argc, argv, {{"once", "64"}, {"steps", "300"}});
  const Kernels kernels(kLayerSource);
  g_layer = kernels.get("layer");
  const hipStream_t stream = new_stream(), other = new_stream();
  hipEvent_t forked = nullptr, joined = nullptr;
  for (hipEvent_t* const event : {&forked, &joined}) CHECK(hipEventCreateWithFlags(event, hipEventDisableTiming));
  float *in = allocate<float>(kCount), *middle = allocate<float>(kCount);
  float* const outs[] = {allocate<float>(kCount), allocate<float>(kCount)};
  upload_input(in, 0, kCount, stream);

  const auto one = [&](float* out) { return capture(stream, [&] { layer(stream, out, in); }); };
  hipGraph_t first = one(outs[0]);
  hipGraphExec_t exec = nullptr;
  CHECK(hipGraphInstantiate(&exec, first, nullptr, nullptr, 0));
  CHECK(hipGraphDestroy(first));
  for (int kernels_more = 2; kernels_more <= options.number("once"); ++kernels_more)
    CHECK(hipGraphDestroy(capture(stream, [&] {
      for (int i = 0; i < kernels_more; ++i) layer(stream, middle, in);
    })));

  for (int step = 0; step < options.number("steps"); ++step) {
    upload_input(in, step, kCount, stream);
    float* const out = outs[step % 2];
    update_and_launch(exec, one(out), stream);
    print_step(step, out, kCount);
    run_and_destroy(capture(stream,
                            [&] {
                              layer(stream, middle, in);
                              CHECK(hipEventRecord(forked, stream));
                              CHECK(hipStreamWaitEvent(other, forked, 0));
                              layer(other, out, middle);
                              CHECK(hipEventRecord(joined, other));
                              CHECK(hipStreamWaitEvent(stream, joined, 0));
                            }),
                    stream);
    print_step(step, out, kCount);
    if (step % 50 == 20) {
      const hipGraph_t none = capture(stream, [&] {
        layer(stream, middle, in);
        std::printf("waiting in a capture: %s\n", hipGetErrorName(hipStreamSynchronize(stream)));
      });
      if (none != nullptr) CHECK(hipGraphDestroy(none));
      // Both streams serve outside of captures as before.
      layer(other, middle, in);
      CHECK(hipStreamSynchronize(other));
      print_step(step, middle, kCount);
    }
  }
  CHECK(hipGraphExecDestroy(exec));
  for (float* const memory : {in, middle, outs[0], outs[1]}) CHECK(hipFree(memory));
  for (const hipEvent_t event : {forked, joined}) CHECK(hipEventDestroy(event));
  for (const hipStream_t used : {stream, other}) CHECK(hipStreamDestroy(used));
}
