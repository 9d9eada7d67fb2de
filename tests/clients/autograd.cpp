// PyTorch: a whole training step is captured; the forward pass comes from the main thread, the backward pass from
// autograd's thread of the device. `--threads 0`: both from the main thread.
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "client.h"

using namespace program;

/// A thread that does one piece of work at a time for another, which waits for it.
class Worker {
 public:
  Worker() : thread_([this] { serve(); }) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    run([this] { stop_ = true; });
    thread_.join();
  }
  void run(const std::function<void()>& work) {
    std::unique_lock lock(mutex_);
    work_ = &work;
    changed_.notify_all();
    changed_.wait(lock, [this] { return work_ == nullptr; });
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      changed_.wait(lock, [this] { return work_ != nullptr; });
      (*work_)();
      work_ = nullptr;
      changed_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* work_ = nullptr;
  bool stop_ = false;
  std::thread thread_;
};

int main(int argc, char** argv) {
  const Options options(argc, argv, {{"steps", "40"}, {"threads", "1"}, {"layers", "8"}});
  constexpr int kCount = 256;
  const Kernels kernels(kLayerSource);
  const hipFunction_t layer = kernels.get("layer");
  Worker autograd;
  const hipStream_t stream = new_stream();
  float* in = allocate<float>(kCount);
  const auto pass = [&](float* out, const float* from) {
    for (int i = 0; i < options.number("layers"); ++i) {
      launch(layer, blocks_for(kCount), dim3(kThreads), stream, out, static_cast<const float*>(i == 0 ? from : out),
             kCount);
    }
  };
  for (int step = 0; step < options.number("steps"); ++step) {
    float *activations = allocate<float>(kCount), *gradients = allocate<float>(kCount);
    upload_input(in, step, kCount, stream);
    CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    pass(activations, in);
    const auto backward = [&] { pass(gradients, activations); };
    if (options.number("threads") != 0) {
      autograd.run(backward);
    } else {
      backward();
    }
    hipGraph_t graph = nullptr;
    CHECK(hipStreamEndCapture(stream, &graph));
    run_and_destroy(graph, stream);
    print_step(step, gradients, kCount);
    CHECK(hipFree(gradients));
    CHECK(hipFree(activations));
  }
  CHECK(hipFree(in));
  CHECK(hipStreamDestroy(stream));
}
