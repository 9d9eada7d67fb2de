// client.h: what several clients do alike.
#pragma once

#include "program.h"

namespace program {

/// A layer: reads `count` floats, writes as many.
constexpr char kLayerSource[] = R"(
extern "C" __global__ void layer(float* out, const float* in, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = in[i] * 0.5f + 1;
}
)";

/// Two kernels that differ in what they compute only: which of them a graph has makes it another graph.
constexpr char kTwoKernelsSource[] = R"(
extern "C" __global__ void halve(float* out, const float* in, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = in[i] * 0.5f + 1;
}
extern "C" __global__ void quarter(float* out, const float* in, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = in[i] * 0.25f + 1;
}
)";

/// Fills `in` with the input of a step, in order with the stream's work.
inline void upload_input(float* in, int step, int count, hipStream_t stream) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i)
    values[static_cast<std::size_t>(i)] = static_cast<float>(step) + static_cast<float>(i) * 0.5F;
  CHECK(hipMemcpyAsync(in, values.data(), values.size() * sizeof(float), hipMemcpyHostToDevice, stream));
  CHECK(hipStreamSynchronize(stream));
}

/// Instantiates the graph, launches it once, waits, destroys both.
inline void run_and_destroy(hipGraph_t graph, hipStream_t stream) {
  hipGraphExec_t exec = nullptr;
  CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  CHECK(hipGraphLaunch(exec, stream));
  CHECK(hipStreamSynchronize(stream));
  CHECK(hipGraphExecDestroy(exec));
  CHECK(hipGraphDestroy(graph));
}

inline hipStream_t new_stream() {
  hipStream_t stream = nullptr;
  CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  return stream;
}

inline void print_step(int step, const float* out, int count) {
  std::printf("step %d sum %016" PRIx64 "\n", step, checksum(download(out, static_cast<std::size_t>(count))));
}

/// The thread may make calls that a capture forbids while one of these lives.
class Relaxed {
 public:
  Relaxed() { CHECK(hipThreadExchangeStreamCaptureMode(&mode_)); }
  ~Relaxed() { CHECK(hipThreadExchangeStreamCaptureMode(&mode_)); }
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;

 private:
  hipStreamCaptureMode mode_ = hipStreamCaptureModeRelaxed;
};

}  // namespace program
