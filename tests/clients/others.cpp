// A server with a thread for each model: while one of them captures (thread-local or relaxed, which leaves others
// alone), the step of another one allocates and frees.
#include <atomic>
#include <thread>

#include "program.h"

using namespace program;

constexpr char kSource[] = R"(
extern "C" __global__ void halve(float* out, const float* in, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = in[i] * 0.5f + 1;
}
)";
constexpr int kCount = 256;

/// Another thread, which holds a capture open when it is told to, and launches it afterwards.
class Capturing {
 public:
  Capturing(hipFunction_t function, hipStreamCaptureMode mode)
      : thread_([this, function, mode] { serve(function, mode); }) {}
  ~Capturing() {
    wanted_ = kEnd;
    thread_.join();
  }
  Capturing(const Capturing&) = delete;
  Capturing& operator=(const Capturing&) = delete;

  void begin() { ask(kOpen); }
  void end() { ask(kClosed); }

 private:
  enum State { kClosed, kOpen, kEnd };

  void ask(State state) {
    wanted_ = state;
    while (state_ != state) std::this_thread::yield();
  }
  State wait_for_other_than(State state) const {
    while (wanted_ == state) std::this_thread::yield();
    return wanted_;
  }
  void serve(hipFunction_t function, hipStreamCaptureMode mode) {
    hipStream_t stream = nullptr;
    CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    float *in = allocate<float>(kCount), *out = allocate<float>(kCount);
    CHECK(hipMemset(in, 0, kCount * sizeof(float)));
    ready_ = true;
    while (wait_for_other_than(kClosed) == kOpen) {
      CHECK(hipStreamBeginCapture(stream, mode));
      launch(function, blocks_for(kCount), dim3(kThreads), stream, out, static_cast<const float*>(in), kCount);
      state_ = kOpen;
      static_cast<void>(wait_for_other_than(kOpen));
      hipGraph_t graph = nullptr;
      hipGraphExec_t exec = nullptr;
      CHECK(hipStreamEndCapture(stream, &graph));
      CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
      CHECK(hipGraphLaunch(exec, stream));
      CHECK(hipStreamSynchronize(stream));
      CHECK(hipGraphExecDestroy(exec));
      CHECK(hipGraphDestroy(graph));
      state_ = kClosed;
    }
    CHECK(hipFree(out));
    CHECK(hipFree(in));
    CHECK(hipStreamDestroy(stream));
  }

 public:
  void wait_until_ready() const {
    while (!ready_) std::this_thread::yield();
  }

 private:
  std::atomic<State> wanted_{kClosed}, state_{kClosed};
  std::atomic<bool> ready_{false};
  std::thread thread_;  // the last member: it uses the others
};

int main(int argc, char** argv) {
  const Options options(argc, argv, {{"steps", "60"}, {"mode", "1"}, {"free_inside", "0"}});
  constexpr std::size_t kBuffers = 4;
  const bool free_inside = options.number("free_inside") != 0;
  const Kernels kernels(kSource);
  const hipFunction_t halve = kernels.get("halve");
  hipStream_t stream = nullptr;
  CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  Capturing other(halve, static_cast<hipStreamCaptureMode>(options.number("mode")));
  other.wait_until_ready();
  std::vector<char*> before(kBuffers);
  int moved = 0;
  std::uint64_t sum = checksum(before);
  for (int step = 0; step < options.number("steps"); ++step) {
    if (step % 2 == 1) other.begin();
    std::vector<char*> buffers(kBuffers);
    for (std::size_t i = 0; i < kBuffers; ++i) {
      buffers[i] = allocate<char>((i + 1) * 4096);
      if (step > 0 && buffers[i] != before[i]) ++moved;
    }
    const std::vector<float> numbers(kCount, static_cast<float>(step));
    auto *const in = reinterpret_cast<float*>(buffers[0]), *const out = reinterpret_cast<float*>(buffers[1]);
    CHECK(hipMemcpyAsync(in, numbers.data(), kCount * sizeof(float), hipMemcpyHostToDevice, stream));
    launch(halve, blocks_for(kCount), dim3(kThreads), stream, out, static_cast<const float*>(in), kCount);
    std::vector<float> result(kCount);
    CHECK(hipMemcpyAsync(result.data(), out, kCount * sizeof(float), hipMemcpyDeviceToHost, stream));
    hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
    CHECK(hipThreadExchangeStreamCaptureMode(&mode));
    CHECK(hipStreamSynchronize(stream));
    CHECK(hipThreadExchangeStreamCaptureMode(&mode));
    sum = checksum(result, sum);
    if (step % 2 == 1 && !free_inside) other.end();
    for (char* const buffer : buffers) CHECK(hipFree(buffer));
    if (step % 2 == 1 && free_inside) other.end();
    before = buffers;
  }
  std::printf("%016" PRIx64 "\n", sum);
  figure("moved", moved);
  CHECK(hipStreamDestroy(stream));
}
