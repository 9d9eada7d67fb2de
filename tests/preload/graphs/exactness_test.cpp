// What random programs (tests/property) once saw differ under the library: each runs natively and under it.
#include "captures.h"

namespace captures {
namespace {

TEST(Exactness, an_invalidated_stream_of_a_compared_capture_refuses_while_the_origin_goes_on) {
  const Stream s, t;
  const Buffer a, b;
  hipEvent_t fork, join;
  OK(hipEventCreate(&fork));
  OK(hipEventCreate(&join));
  int first = 0, second = 0;
  for (int i = 0; i < 6; ++i) {
    const bool invalidated = i == 3;
    hipGraph_t graph = nullptr;
    OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
    OK(kernels().mix(s, a.get(), kCount, i));
    OK(hipEventRecord(fork, s));
    OK(hipStreamWaitEvent(t, fork, 0));
    OK(kernels().mix(t, b.get(), kCount, 10 + i));
    OK(hipEventRecord(join, t));
    OK(hipStreamWaitEvent(s, join, 0));
    if (invalidated) {
      EXPECT_EQ(hipErrorStreamCaptureUnsupported, hipStreamQuery(t));
      EXPECT_EQ(hipErrorStreamCaptureInvalidated, kernels().mix(t, b.get(), kCount, 99));
    }
    OK(kernels().mix(s, a.get(), kCount, 20 + i));
    OK(hipStreamEndCapture(s, &graph));
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipGraphLaunch(exec, s));
    OK(hipStreamSynchronize(s));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
    first = mixed(mixed(first, i), 20 + i);
    second = mixed(second, 10 + i);
    EXPECT_EQ(first, a.value()) << "step " << i;
    EXPECT_EQ(second, b.value()) << "step " << i;
  }
  OK(hipEventDestroy(fork));
  OK(hipEventDestroy(join));
}

}  // namespace
}  // namespace captures
