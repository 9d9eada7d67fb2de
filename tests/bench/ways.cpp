// ways.cpp: what a step costs by the way its binding is served: over graphs of so many kernels, of which so many have
// another address than the step before, one never used before or the other of two, in buffers of so many bytes (which
// matter to staging only). Run under the library with the cost model's choice and with each way forced in turn
// (tests/support/ab.py): the policy decides, this program knows nothing of it.
//
// "step" is CPU time of the calling thread, "until done" the time that passes until the device is through.
#include <array>
#include <string>

#include "kernel.h"

namespace {

class Steps {
 public:
  explicit Steps(int steps) : steps_(steps), function_(bench::compile_touch()) {
    bench::check(hipStreamCreate(&stream_));
    bench::check(hipMalloc(reinterpret_cast<void**>(&out_), kOutBytes));
  }

  struct Case {
    int kernels, differing;
    std::size_t bytes;
    bool in_turn;
  };

  void measure(const Case& wanted) {
    std::array<char*, kBuffers> buffers{};
    for (char*& buffer : buffers) bench::check(hipMalloc(reinterpret_cast<void**>(&buffer), wanted.bytes));
    std::vector<double> busy, whole;
    for (int step = 0; step < kWarmUp + steps_; ++step) {
      const int turn = wanted.in_turn ? step % 2 : step % kBuffers;
      const std::size_t places = wanted.bytes / 2 / kPlaceBytes;
      const std::size_t place = wanted.in_turn ? 0 : static_cast<std::size_t>(step / kBuffers) % places;
      char* const moved = buffers[static_cast<std::size_t>(turn)] + place * kPlaceBytes;
      const auto began = std::chrono::steady_clock::now();
      const double started = bench::thread_ns();
      bench::check(hipStreamBeginCapture(stream_, hipStreamCaptureModeGlobal));
      for (int i = 0; i < wanted.kernels; ++i) launch(i, i < wanted.differing ? moved : buffers[kBuffers - 1]);
      hipGraph_t graph = nullptr;
      hipGraphExec_t exec = nullptr;
      bench::check(hipStreamEndCapture(stream_, &graph));
      bench::check(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
      bench::check(hipGraphLaunch(exec, stream_));
      double elapsed = bench::thread_ns() - started;
      bench::check(hipStreamSynchronize(stream_));
      const double destroying = bench::thread_ns();
      bench::check(hipGraphDestroy(graph));
      bench::check(hipGraphExecDestroy(exec));
      elapsed += bench::thread_ns() - destroying;
      const std::chrono::duration<double, std::nano> passed = std::chrono::steady_clock::now() - began;
      if (step < kWarmUp) continue;
      busy.push_back(elapsed);
      whole.push_back(passed.count());
    }
    for (char* const buffer : buffers) bench::check(hipFree(buffer));
    const std::string name = std::to_string(wanted.kernels) + " kernels, " + std::to_string(wanted.differing) +
                             " differ, " + (wanted.in_turn ? "in turn, " : "new, ") +
                             std::to_string(wanted.bytes / 1024) + " KiB";
    bench::print((name + ": step").c_str(), bench::median(busy) / 1000, "us");
    bench::print((name + ": until done").c_str(), bench::median(whole) / 1000, "us");
  }

 private:
  static constexpr std::size_t kOutBytes = std::size_t{1} << 20, kPlaceBytes = 64, kOutPlaces = kOutBytes / kPlaceBytes;
  static constexpr int kBuffers = 8, kWarmUp = 24;

  void launch(int index, char* in) {
    bench::launch(function_, stream_, out_ + kPlaceBytes * (static_cast<std::size_t>(index) % kOutPlaces), in, 1);
  }

  const int steps_;
  hipFunction_t function_;
  hipStream_t stream_ = nullptr;
  char* out_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  Steps steps(argc > 1 ? std::atoi(argv[1]) : 80);
  constexpr std::size_t kKiB = 1024;
  for (const bool in_turn : {false, true}) {
    for (const int differing : {1, 10, 100})
      for (const std::size_t bytes : {4 * kKiB, 1024 * kKiB, 16 * 1024 * kKiB})
        steps.measure({100, differing, bytes, in_turn});
    for (const int differing : {1, 100, 1000}) steps.measure({1000, differing, 4 * kKiB, in_turn});
  }
  return 0;
}
