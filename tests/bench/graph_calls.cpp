// graph_calls.cpp: what each call on graphs costs by the number of kernels, by the CPU time of the calling thread; the
// device's work is waited for outside of it. Of a step that captures anew and instantiates ("remade"), of one that
// updates an exec ("updated") and of one that sets each of its nodes ("set"): all kernels' argument moves each step,
// on, or in turn between two addresses. The last argument is the most kernels.
#include <map>
#include <string>

#include "kernel.h"

namespace {

constexpr std::size_t kBytes = std::size_t{64} << 20;

class Calls {
 public:
  explicit Calls(int kernels) : kernels_(kernels), function_(bench::compile_touch()) {
    bench::check(hipStreamCreate(&stream_));
    bench::check(hipMalloc(&memory_, kBytes));
  }
  ~Calls() {
    bench::check(hipFree(memory_));
    bench::check(hipStreamDestroy(stream_));
  }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  /// Captures that are not measured come first: the library weighs a place meanwhile (shim/costs/step_costs.h).
  [[gnu::noinline]] void remade(bool in_turn) {
    const int steps = count();
    for (int step = -before(); step < steps; ++step) {
      move(in_turn);
      hipGraphExec_t exec = nullptr;
      const hipGraph_t graph = capture();
      timed("instantiate", [&] { return hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0); });
      launch(exec, "launch");
      timed("launch again", [&] { return hipGraphLaunch(exec, stream_); });
      bench::check(hipStreamSynchronize(stream_));
      timed("destroy graph", [&] { return hipGraphDestroy(graph); });
      timed("destroy exec", [&] { return hipGraphExecDestroy(exec); });
      if (step < 0) costs_.clear();
    }
    print("remade", in_turn);
  }

  [[gnu::noinline]] void updated(bool in_turn) {
    const int steps = count();
    hipGraphExec_t exec = nullptr;
    for (int step = -before(); step < steps; ++step) {
      move(in_turn);
      const hipGraph_t graph = capture();
      if (exec == nullptr) {
        bench::check(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
      } else {
        timed("update", [&] {
          hipGraphNode_t node = nullptr;
          hipGraphExecUpdateResult result{};
          return hipGraphExecUpdate(exec, graph, &node, &result);
        });
      }
      launch(exec, "launch");
      timed("destroy graph", [&] { return hipGraphDestroy(graph); });
      if (step < 0) costs_.clear();
    }
    bench::check(hipGraphExecDestroy(exec));
    print("updated", in_turn);
  }

  [[gnu::noinline]] void set(bool in_turn) {
    const int steps = count();
    const hipGraph_t graph = capture();
    hipGraphExec_t exec = nullptr;
    bench::check(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    std::size_t nodes = static_cast<std::size_t>(kernels_);
    std::vector<hipGraphNode_t> all(nodes);
    bench::check(hipGraphGetNodes(graph, all.data(), &nodes));
    std::vector<hipKernelNodeParams> params(nodes);
    for (std::size_t i = 0; i < nodes; ++i) bench::check(hipGraphKernelNodeGetParams(all[i], &params[i]));
    for (int step = -kWarmUp; step < steps; ++step) {
      move(in_turn);
      void* out = memory_;
      void* in = moving();
      int number = 1;
      void* arguments[] = {&out, &in, &number};
      timed("set all nodes", [&] {
        for (std::size_t i = 0; i < nodes; ++i) {
          params[i].kernelParams = arguments;
          out = place(static_cast<int>(i));
          bench::check(hipGraphExecKernelNodeSetParams(exec, all[i], &params[i]));
        }
        return hipSuccess;
      });
      launch(exec, "launch");
      if (step < 0) costs_.clear();
    }
    bench::check(hipGraphExecDestroy(exec));
    bench::check(hipGraphDestroy(graph));
    print("set", in_turn);
  }

 private:
  static constexpr int kWeighed = 330, kWarmUp = 8;

  /// Only small captures are weighed.
  int before() const { return kernels_ <= 32 ? kWeighed : kWarmUp; }
  int count() const { return std::max(20, std::min(200, 20000 / kernels_)); }
  void move(bool in_turn) { place_ = in_turn ? 1 - place_ % 2 : place_ + 1; }
  void* place(int index) const { return static_cast<char*>(memory_) + 64 * static_cast<std::size_t>(index); }
  void* moving() const {
    return static_cast<char*>(memory_) + kBytes / 2 + 64 * static_cast<std::size_t>(place_) % (kBytes / 2);
  }

  template <typename Call>
  void timed(const char* name, Call&& call) {
    const double started = bench::thread_ns();
    const hipError_t result = call();
    costs_[name].push_back(bench::thread_ns() - started);
    bench::check(result);
  }

  /// Inlined, so that each way of working is a place of its own to the library.
  [[gnu::always_inline]] inline hipGraph_t capture() {
    hipGraph_t graph = nullptr;
    const double started = bench::thread_ns();
    bench::check(hipStreamBeginCapture(stream_, hipStreamCaptureModeGlobal));
    for (int i = 0; i < kernels_; ++i) bench::launch(function_, stream_, place(i), moving(), 1);
    bench::check(hipStreamEndCapture(stream_, &graph));
    costs_["capture"].push_back(bench::thread_ns() - started);
    return graph;
  }

  void launch(hipGraphExec_t exec, const char* name) {
    timed(name, [&] { return hipGraphLaunch(exec, stream_); });
    bench::check(hipStreamSynchronize(stream_));
  }

  void print(const char* way, bool in_turn) {
    for (auto& [name, values] : costs_) {
      const std::string figure = std::to_string(kernels_) + ' ' + way + (in_turn ? " in turn: " : ": ") + name;
      bench::print(figure.c_str(), bench::median(values) / 1000, "us");
    }
    costs_.clear();
  }

  int kernels_, place_ = 0;
  hipFunction_t function_;
  hipStream_t stream_ = nullptr;
  void* memory_ = nullptr;
  std::map<std::string, std::vector<double>> costs_;
};

}  // namespace

int main(int argc, char** argv) {
  const int most = argc > 1 ? std::atoi(argv[1]) : 4000;
  for (const int kernels : {1, 10, 100, 1000, 4000}) {
    if (kernels > most) break;
    for (const bool in_turn : {false, true}) {
      // An object each: what the library has learnt of one place says nothing of another.
      Calls(kernels).remade(in_turn);
      Calls(kernels).updated(in_turn);
      Calls(kernels).set(in_turn);
    }
  }
  return 0;
}
