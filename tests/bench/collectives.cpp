// collectives.cpp: what a captured step costs the host by the number of its all-reduces, each behind a kernel: made
// with the calls that RCCL 2.27 makes in a capture (tests/clients/peer_collectives.h), without the rest of RCCL's host
// code. By instantiating and destroying an exec each step ("remade"), and by updating one ("updated"); in buffers that
// stay, and in others each step ("moved"). CPU time of the calling thread; the step's work is waited for outside of it.
// The one rank is its own peer. The last argument is the most all-reduces.
//
// Each part begins its captures at a place of its own, and first makes so many that the library has weighed the place
// (shim/costs/step_costs.h).
//
// "all-reduce" is the part of the step from its first kernel to its last all-reduce, for one of them.
#include <string>
#include <utility>

#include "../clients/peer_collectives.h"
#include "kernel.h"

namespace {

/// Begins a capture, each part at a place of its own.
template <int kPart>
[[gnu::noinline]] void begin_at(hipStream_t stream) {
  bench::check(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
  asm volatile("" ::"i"(kPart));  // the functions are not one
}
using Begin = void (*)(hipStream_t stream);

class Steps {
 public:
  Steps() : touch_(bench::compile_touch()), communicator_(0, 1 << 20) {
    peers::Communicator::connect(communicator_, communicator_);
    bench::check(hipStreamCreateWithFlags(&stream_, hipStreamNonBlocking));
    bench::check(hipMalloc(reinterpret_cast<void**>(&memory_), kElements * sizeof(float)));
  }
  ~Steps() {
    bench::check(hipFree(memory_));
    bench::check(hipStreamDestroy(stream_));
  }
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;

  void measure(Begin begin, int reduces, bool update, bool moved) {
    const int weighed = reduces > 100 ? 80 : 320, steps = weighed + (reduces > 100 ? 40 : 200);
    std::vector<double> whole, each;
    hipGraphExec_t exec = nullptr;
    for (int step = 0; step < steps; ++step) {
      if (moved) place_ = (place_ + 2 * kMost) % (kElements - 4 * kMost);
      const double started = bench::thread_ns();
      begin(stream_);
      const double first = bench::thread_ns();
      for (int i = 0; i < reduces; ++i) reduce(static_cast<std::size_t>(i));
      const double last = bench::thread_ns();
      hipGraph_t graph = nullptr;
      bench::check(hipStreamEndCapture(stream_, &graph));
      make(graph, &exec);
      bench::check(hipGraphLaunch(exec, stream_));
      double elapsed = bench::thread_ns() - started;
      bench::check(hipStreamSynchronize(stream_));
      const double destroying = bench::thread_ns();
      bench::check(hipGraphDestroy(graph));
      if (!update) bench::check(hipGraphExecDestroy(std::exchange(exec, nullptr)));
      elapsed += bench::thread_ns() - destroying;
      if (step < weighed) continue;
      whole.push_back(elapsed);
      each.push_back((last - first) / reduces);
    }
    if (exec != nullptr) bench::check(hipGraphExecDestroy(exec));
    const std::string name = std::to_string(reduces) + (update ? " updated" : " remade") + (moved ? ", moved" : "");
    bench::print((name + ": step").c_str(), bench::median(whole) / 1000, "us");
    bench::print((name + ": all-reduce").c_str(), bench::median(each), "ns");
  }

  static constexpr int kMost = 500;

 private:
  static constexpr std::size_t kElements = std::size_t{1} << 22;

  void reduce(std::size_t index) {
    float* const in = memory_ + place_ + 2 * index;
    const void* const untouched = memory_;
    bench::launch(touch_, stream_, static_cast<void*>(in), untouched, 1);
    communicator_.all_reduce(in + 1, in, 1, stream_);
  }
  static void make(hipGraph_t graph, hipGraphExec_t* exec) {
    if (*exec == nullptr) {
      bench::check(hipGraphInstantiate(exec, graph, nullptr, nullptr, 0));
    } else {
      hipGraphNode_t node = nullptr;
      hipGraphExecUpdateResult result{};
      bench::check(hipGraphExecUpdate(*exec, graph, &node, &result));
    }
  }

  const hipFunction_t touch_;
  peers::Communicator communicator_;
  hipStream_t stream_ = nullptr;
  float* memory_ = nullptr;
  std::size_t place_ = 0;
};

template <int kPart>
void measure_all(Steps& steps, int reduces) {
  steps.measure(begin_at<kPart>, reduces, false, false);
  steps.measure(begin_at<kPart + 1>, reduces, false, true);
  steps.measure(begin_at<kPart + 2>, reduces, true, false);
  steps.measure(begin_at<kPart + 3>, reduces, true, true);
}

}  // namespace

int main(int argc, char** argv) {
  const int most = argc > 1 ? std::atoi(argv[1]) : Steps::kMost;
  Steps steps;
  measure_all<0>(steps, 5);
  if (most >= 50) measure_all<4>(steps, 50);
  if (most >= Steps::kMost) measure_all<8>(steps, Steps::kMost);
  return 0;
}
