// A framework that captures all its graphs in one function: one of them comes back again and again, all others were
// never captured before and never come back.
#include "client.h"

using namespace program;

int main(int argc, char** argv) {
  const Options options(
      argc, argv, {{"captures", "1600"}, {"others", "31"}, {"operations", "400"}, {"same", "0"}, {"forked", "0"}});
  constexpr int kCount = 256;
  const int operations = static_cast<int>(options.number("operations"));
  const int cycle = static_cast<int>(options.number("others")) + 1;
  const int same = static_cast<int>(options.number("same"));  // operations with which all graphs begin
  const Kernels kernels(kTwoKernelsSource);
  const hipFunction_t functions[] = {kernels.get("halve"), kernels.get("quarter")};
  const bool forked = options.number("forked") != 0;  // the fourth operation and on in another stream
  const hipStream_t stream = new_stream(), other = new_stream();
  hipEvent_t fork = nullptr, join = nullptr;
  for (hipEvent_t* const event : {&fork, &join}) CHECK(hipEventCreateWithFlags(event, hipEventDisableTiming));
  float *in = allocate<float>(kCount), *out = allocate<float>(kCount);
  const std::vector<float> ones(kCount, 1);
  CHECK(hipMemcpy(in, ones.data(), kCount * sizeof(float), hipMemcpyHostToDevice));
  std::uint64_t sum = checksum(ones);
  for (int capture = 0; capture < options.number("captures"); ++capture) {
    // The bits of its number choose the kernels: no two graphs are equal but those of number 0.
    const int graph_number = capture % cycle == 0 ? 0 : 2 * capture + 1;
    CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
    for (int i = 0; i < operations; ++i) {
      if (forked && i == 3) {
        CHECK(hipEventRecord(fork, stream));
        CHECK(hipStreamWaitEvent(other, fork, 0));
      }
      const int bit = i - same;
      const hipFunction_t function = functions[bit >= 0 && bit < 31 ? (graph_number >> bit) & 1 : 0];
      launch(function, blocks_for(kCount), dim3(kThreads), forked && i >= 3 ? other : stream, out,
             static_cast<const float*>(i == 0 ? in : out), kCount);
    }
    if (forked) {
      CHECK(hipEventRecord(join, other));
      CHECK(hipStreamWaitEvent(stream, join, 0));
    }
    hipGraph_t graph = nullptr;
    CHECK(hipStreamEndCapture(stream, &graph));
    run_and_destroy(graph, stream);
    sum = checksum(download(out, kCount), sum);
  }
  std::printf("%016" PRIx64 "\n", sum);
  CHECK(hipFree(out));
  CHECK(hipFree(in));
  for (const hipEvent_t event : {fork, join}) CHECK(hipEventDestroy(event));
  for (const hipStream_t used : {stream, other}) CHECK(hipStreamDestroy(used));
}
