// fork_join.cpp: captures that spread over several streams by events, in several shapes, each captured and launched
// every step over fresh buffers. The order of dependent operations decides the bits, so a lost edge shows.
#include "program.h"

namespace {

constexpr char kSource[] = R"(
extern "C" __global__ void scale(float* x, float factor, float offset, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * factor + offset;
}
extern "C" __global__ void combine(float* out, const float* a, const float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 0.5f * a[i] + 0.25f * b[i] + 0.125f * out[i];
}
)";

constexpr int kStreams = 4;

/// Streams, buffers (one a stream) and kernels of one capture.
class Shape {
 public:
  Shape(const program::Kernels& kernels, int elements)
      : scale_(kernels.get("scale")), combine_(kernels.get("combine")), n_(elements) {
    for (hipStream_t& stream : streams_) CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  }
  Shape(const Shape&) = delete;
  Shape& operator=(const Shape&) = delete;
  ~Shape() {
    for (hipStream_t stream : streams_) CHECK(hipStreamDestroy(stream));
  }

  hipStream_t origin() const { return streams_[0]; }
  void scale(int stream, float factor, float offset) {
    program::launch(scale_, program::blocks_for(n_), program::kThreads, streams_[stream], buffers_[stream], factor,
                    offset, n_);
  }
  void combine(int stream, int a, int b) {
    program::launch(combine_, program::blocks_for(n_), program::kThreads, streams_[stream], buffers_[stream],
                    buffers_[a], buffers_[b], n_);
  }
  void copy(int stream, int to, int from) {
    CHECK(hipMemcpyAsync(buffers_[to], buffers_[from], bytes(), hipMemcpyDeviceToDevice, streams_[stream]));
  }
  void clear(int stream) { CHECK(hipMemsetAsync(buffers_[stream], 0x3f, bytes(), streams_[stream])); }
  /// What `to` does next comes after all that `from` has done. The event is gone before the capture ends.
  void depend(int to, int from) {
    hipEvent_t event = nullptr;
    CHECK(hipEventCreateWithFlags(&event, hipEventDisableTiming));
    CHECK(hipEventRecord(event, streams_[from]));
    CHECK(hipStreamWaitEvent(streams_[to], event, 0));
    CHECK(hipEventDestroy(event));
  }

  /// Captures `body`, launches it `launches` times over fresh buffers and returns the checksum of all buffers.
  std::uint64_t run(void (*body)(Shape&), hipStreamCaptureMode mode, int launches, std::uint64_t seed) {
    program::Random random(seed);
    for (float*& buffer : buffers_) {
      buffer = program::allocate<float>(static_cast<std::size_t>(n_));
      CHECK(hipMemcpy(buffer, random.vector(static_cast<std::size_t>(n_), 1).data(), bytes(), hipMemcpyHostToDevice));
    }
    hipGraph_t graph = nullptr;
    hipGraphExec_t exec = nullptr;
    CHECK(hipStreamBeginCapture(origin(), mode));
    body(*this);
    CHECK(hipStreamEndCapture(origin(), &graph));
    CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    CHECK(hipGraphDestroy(graph));
    for (int i = 0; i < launches; ++i) CHECK(hipGraphLaunch(exec, origin()));
    CHECK(hipStreamSynchronize(origin()));
    CHECK(hipGraphExecDestroy(exec));
    std::uint64_t sum = program::checksum(nullptr, 0);
    for (float* buffer : buffers_) {
      sum = program::checksum(program::download(buffer, static_cast<std::size_t>(n_)), sum);
      CHECK(hipFree(buffer));
    }
    return sum;
  }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(n_) * sizeof(float); }
  hipFunction_t scale_, combine_;
  int n_;
  hipStream_t streams_[kStreams] = {};
  float* buffers_[kStreams] = {};
};

void branches(Shape& s) {
  s.scale(0, 0.5F, 1);
  s.depend(1, 0);
  s.scale(1, 1.5F, 0.25F);
  s.scale(0, 0.75F, 0);
  s.depend(0, 1);
  s.combine(0, 0, 1);
}

void fan(Shape& s) {
  s.scale(0, 0.5F, 1);
  for (int i = 1; i < kStreams; ++i) s.depend(i, 0);
  for (int i = 1; i < kStreams; ++i) {
    s.combine(i, 0, i);
    s.scale(i, 0.5F, static_cast<float>(i));
  }
  for (int i = 1; i < kStreams; ++i) s.depend(0, i);
  for (int i = 1; i < kStreams; ++i) s.combine(0, i, (i + 1) % kStreams);
}

void chain(Shape& s) {
  for (int i = 1; i < kStreams; ++i) {
    s.scale(i - 1, 0.5F, static_cast<float>(i));
    s.depend(i, i - 1);
    s.combine(i, i - 1, i);
  }
  for (int i = kStreams - 1; i > 0; --i) {
    s.depend(i - 1, i);
    s.combine(i - 1, i, i - 1);
  }
}

void crossing(Shape& s) {
  s.clear(0);
  s.depend(1, 0);
  s.depend(2, 0);
  s.scale(1, 0.5F, 1);
  s.scale(2, 0.25F, 2);
  s.depend(2, 1);
  s.combine(2, 1, 2);
  s.scale(0, 0.5F, 3);
  s.depend(1, 2);
  s.combine(1, 2, 1);
  s.depend(0, 1);
  s.depend(0, 2);
  s.copy(0, 3, 1);
  s.combine(0, 3, 2);
}

void empty_branch(Shape& s) {
  s.depend(1, 0);
  s.depend(2, 1);
  s.scale(2, 0.5F, 1);
  s.depend(0, 2);
  s.depend(0, 1);
  s.combine(0, 2, 1);
}

}  // namespace

int main(int argc, char** argv) {
  const program::Options options(argc, argv, {{"steps", "4"}, {"elements", "2000"}, {"times", ""}});
  const program::Kernels kernels(kSource);
  Shape shape(kernels, options.number("elements"));
  const struct {
    const char* name;
    void (*body)(Shape&);
    hipStreamCaptureMode mode;
  } shapes[] = {{"branches", branches, hipStreamCaptureModeGlobal},
                {"fan", fan, hipStreamCaptureModeThreadLocal},
                {"chain", chain, hipStreamCaptureModeRelaxed},
                {"crossing", crossing, hipStreamCaptureModeGlobal},
                {"empty branch", empty_branch, hipStreamCaptureModeThreadLocal}};
  program::StepTimes times(options.text("times"));
  for (int step = 0; step < options.number("steps"); ++step) {
    times.start();
    for (const auto& [name, body, mode] : shapes) {
      std::printf("step %d %s %016" PRIx64 "\n", step, name,
                  shape.run(body, mode, 1 + step % 2, 10 + static_cast<std::uint64_t>(step)));
    }
    times.stop();
  }
  return 0;
}
