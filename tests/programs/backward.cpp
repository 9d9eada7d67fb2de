// backward.cpp: a training step of two threads, as automatic differentiation has it: the forward pass is captured by
// one thread on its stream, the backward pass is fed by another one on a stream of its own, forked from the first and
// joined at the end. The parameters are kept, activations and gradients are allocated anew in each step.
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "program.h"

namespace {

constexpr char kSource[] = R"(
extern "C" __global__ void forward(float* out, const float* in, const float* weights, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * weights[i] + 0.25f;
}
extern "C" __global__ void backward(float* gradients, const float* from, const float* weights, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) gradients[i] = from[i] * weights[n - 1 - i] - 0.125f;
}
extern "C" __global__ void apply(float* weights, const float* gradients, float rate, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) weights[i] = weights[i] - rate * gradients[i];
}
)";

/// Does what the forward thread gives it, one thing at a time.
class BackwardThread {
 public:
  BackwardThread() : thread_([this] { serve(); }) {}
  BackwardThread(const BackwardThread&) = delete;
  BackwardThread& operator=(const BackwardThread&) = delete;
  ~BackwardThread() {
    give(nullptr, true);
    thread_.join();
  }
  void begin(std::function<void()> work) { give(std::move(work), false); }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !work_; });
  }

 private:
  void give(std::function<void()> work, bool stop) {
    const std::scoped_lock lock(mutex_);
    work_ = std::move(work);
    stop_ = stop;
    changed_.notify_all();
  }
  void serve() {
    CHECK(hipSetDevice(0));
    for (std::unique_lock lock(mutex_); !stop_;) {
      if (!work_) {
        changed_.wait(lock);
        continue;
      }
      const std::function<void()> work = work_;
      lock.unlock();
      work();
      lock.lock();
      work_ = nullptr;
      changed_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace

int main(int argc, char** argv) {
  const program::Options options(argc, argv, {{"steps", "8"}, {"layers", "4"}, {"elements", "1500"}, {"times", ""}});
  const int steps = options.number("steps"), layers = options.number("layers"), n = options.number("elements");
  const auto elements = static_cast<std::size_t>(n);
  const program::Kernels kernels(kSource);
  const hipFunction_t forward = kernels.get("forward"), backward = kernels.get("backward"),
                      apply = kernels.get("apply");
  BackwardThread other;
  hipStream_t stream = nullptr, backward_stream = nullptr;
  CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  CHECK(hipStreamCreateWithFlags(&backward_stream, hipStreamNonBlocking));
  hipEvent_t forked = nullptr, joined = nullptr;
  CHECK(hipEventCreateWithFlags(&forked, hipEventDisableTiming));
  CHECK(hipEventCreateWithFlags(&joined, hipEventDisableTiming));
  std::vector<float*> weights;
  for (int layer = 0; layer < layers; ++layer) {
    weights.push_back(program::allocate<float>(elements));
    const std::vector<float> values = program::Random(static_cast<std::uint64_t>(layer)).vector(elements, 1);
    CHECK(hipMemcpy(weights.back(), values.data(), elements * sizeof(float), hipMemcpyHostToDevice));
  }
  float* const in = program::allocate<float>(elements);
  const dim3 blocks = program::blocks_for(n), threads = program::kThreads;

  program::StepTimes times(options.text("times"));
  for (int step = 0; step < steps; ++step) {
    std::vector<float> values = program::Random(100 + static_cast<std::uint64_t>(step)).vector(elements, 1);
    CHECK(hipMemcpy(in, values.data(), elements * sizeof(float), hipMemcpyHostToDevice));
    times.start();
    float* const activations = program::allocate<float>(elements);
    float* const gradients = program::allocate<float>(elements);
    hipGraph_t graph = nullptr;
    hipGraphExec_t exec = nullptr;
    CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    for (int layer = 0; layer < layers; ++layer)
      program::launch(forward, blocks, threads, stream, activations,
                      static_cast<const float*>(layer == 0 ? in : activations),
                      static_cast<const float*>(weights[static_cast<std::size_t>(layer)]), n);
    CHECK(hipEventRecord(forked, stream));
    other.begin([&] {
      CHECK(hipStreamWaitEvent(backward_stream, forked, 0));
      for (int layer = layers; layer-- > 0;) {
        float* const at = weights[static_cast<std::size_t>(layer)];
        program::launch(backward, blocks, threads, backward_stream, gradients,
                        static_cast<const float*>(layer == layers - 1 ? activations : gradients),
                        static_cast<const float*>(at), n);
        program::launch(apply, blocks, threads, backward_stream, at, static_cast<const float*>(gradients), 0.0625F, n);
      }
      CHECK(hipEventRecord(joined, backward_stream));
    });
    other.wait();
    CHECK(hipStreamWaitEvent(stream, joined, 0));
    program::launch(forward, blocks, threads, stream, activations, static_cast<const float*>(gradients),
                    static_cast<const float*>(weights.front()), n);
    CHECK(hipStreamEndCapture(stream, &graph));
    CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    CHECK(hipGraphLaunch(exec, stream));
    CHECK(hipStreamSynchronize(stream));
    CHECK(hipGraphExecDestroy(exec));
    CHECK(hipGraphDestroy(graph));
    times.stop();
    std::printf("step %d activations %016" PRIx64 " weights %016" PRIx64 "\n", step,
                program::checksum(program::download(activations, elements)),
                program::checksum(program::download(weights.back(), elements)));
    CHECK(hipFree(gradients));
    CHECK(hipFree(activations));
  }
  for (float* const each : weights) CHECK(hipFree(each));
  CHECK(hipFree(in));
  CHECK(hipEventDestroy(forked));
  CHECK(hipEventDestroy(joined));
  CHECK(hipStreamDestroy(stream));
  CHECK(hipStreamDestroy(backward_stream));
}
