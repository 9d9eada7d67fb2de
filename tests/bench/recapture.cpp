// recapture.cpp: what a step costs that captures its graph again: by instantiating and destroying an exec each step,
// and by updating one. Of a graph of so many kernels, none, 1 % or all have an argument that moves to an address never
// used before, or, "in turn", to the other of two. CPU time of the calling thread; the step's work is waited for
// outside of it. "fork": an event of its own recorded in a capture, and another stream waiting for it, so often.
// "exec beside": an exec made and destroyed while so many of the same graph are held.
//
// Each part has a place of its own, as a program's parts have, and begins with captures that are not measured, so many
// that the library has weighed the place (shim/costs/step_costs.h): what it costs meanwhile is a matter of the first
// captures.
//
// "operation" is the time a captured call takes, "allocations" how often the thread asked for host memory meanwhile.
#include <sched.h>

#include <array>
#include <string>
#include <utility>

#include "kernel.h"

extern "C" void* __libc_malloc(std::size_t bytes);

namespace {
thread_local std::size_t t_allocations = 0;
}

// Before the C library's own, for every object of the process. Only counts.
extern "C" void* malloc(std::size_t bytes) {
  ++t_allocations;
  return __libc_malloc(bytes);
}

namespace {

/// Begins a capture, each part at a place of its own.
template <std::size_t kPart>
[[gnu::noinline]] void begin_at(hipStream_t stream) {
  bench::check(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  asm volatile("" ::"i"(kPart));  // the functions are not one
}
using Begin = void (*)(hipStream_t stream);
constexpr std::size_t kParts = 64;
template <std::size_t... kPart>
constexpr std::array<Begin, kParts> places(std::index_sequence<kPart...>) {
  return {begin_at<kPart>...};
}
constexpr std::array<Begin, kParts> kPlaces = places(std::make_index_sequence<kParts>{});

class Steps {
 public:
  Steps() : function_(bench::compile_touch()) {
    bench::check(hipStreamCreate(&stream_));
    bench::check(hipMalloc(&memory_, kBytes));
  }

  enum class Moves { kOn, kInTurn };

  /// Captures before the first that is measured; of so many forks that a few say enough.
  static constexpr int kWeighed = 320, kWeighedOfMany = 80;

  /// One size of graph with so many kernels that move each step.
  void measure(int kernels, int moved, bool update, Moves moves = Moves::kOn) {
    const Begin begin = kPlaces.at(part_++);
    const int first_place = ++place_;
    const int weighed = std::clamp(128000 / kernels, 64, kWeighed);
    const int steps = weighed + std::max(40, std::min(kSteps, 20000 / kernels));
    std::vector<double> whole, per_operation;
    std::size_t allocations = 0, step_allocations = 0;
    hipGraphExec_t exec = nullptr;
    for (int step = 0; step < steps; ++step) {
      if (moved > 0) place_ = moves == Moves::kOn || place_ == first_place ? place_ + 1 : first_place;
      const std::size_t before = t_allocations;
      const double started = bench::thread_ns();
      begin(stream_);
      const std::size_t before_operations = t_allocations;
      const double first = bench::thread_ns();
      for (int i = 0; i < kernels; ++i) launch(i, i < moved);
      const double last = bench::thread_ns();
      const std::size_t after_operations = t_allocations;
      hipGraph_t graph = nullptr;
      bench::check(hipStreamEndCapture(stream_, &graph));
      if (exec == nullptr) {
        bench::check(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
      } else {
        hipGraphNode_t node = nullptr;
        hipGraphExecUpdateResult result{};
        bench::check(hipGraphExecUpdate(exec, graph, &node, &result));
      }
      bench::check(hipGraphLaunch(exec, stream_));
      double elapsed = bench::thread_ns() - started;
      bench::check(hipStreamSynchronize(stream_));
      const double destroying = bench::thread_ns();
      bench::check(hipGraphDestroy(graph));
      if (!update) {
        bench::check(hipGraphExecDestroy(exec));
        exec = nullptr;
      }
      elapsed += bench::thread_ns() - destroying;
      if (step < weighed) continue;
      whole.push_back(elapsed);
      per_operation.push_back((last - first) / kernels);
      allocations += after_operations - before_operations;
      step_allocations += t_allocations - before;
    }
    if (exec != nullptr) bench::check(hipGraphExecDestroy(exec));
    const int counted = steps - weighed;
    const std::string name = std::to_string(kernels) + (update ? " updated, " : " remade, ") + std::to_string(moved) +
                             " moved" + (moves == Moves::kInTurn ? " in turn" : "");
    bench::print((name + ": step").c_str(), bench::median(whole) / 1000, "us");
    bench::print((name + ": operation").c_str(), bench::median(per_operation), "ns");
    bench::print((name + ": allocations an operation").c_str(), double(allocations) / counted / kernels, "1");
    bench::print((name + ": allocations a step").c_str(), double(step_allocations) / counted, "1");
  }

  /// To so many streams in turn.
  void measure_forks(std::size_t forks, std::size_t streams) {
    const Begin begin = kPlaces.at(part_++);
    std::vector<hipStream_t> others(streams);
    std::vector<hipEvent_t> events(forks), joins(streams);
    for (hipStream_t& stream : others) bench::check(hipStreamCreate(&stream));
    for (std::vector<hipEvent_t>* const all : {&events, &joins})
      for (hipEvent_t& event : *all) bench::check(hipEventCreateWithFlags(&event, hipEventDisableTiming));
    std::vector<double> each;
    const std::size_t weighed = forks > 100 ? kWeighedOfMany : kWeighed;
    // So many that a trial, which may fall among them, is a small part.
    const std::size_t steps = weighed + kSteps;
    for (std::size_t step = 0; step < steps; ++step) {
      begin(stream_);
      launch(0, false);
      const double first = bench::thread_ns();
      for (std::size_t i = 0; i < forks; ++i) {
        bench::check(hipEventRecord(events[i], stream_));
        bench::check(hipStreamWaitEvent(others[i % streams], events[i], 0));
      }
      const double last = bench::thread_ns();
      for (std::size_t i = 0; i < streams; ++i) {
        bench::check(hipEventRecord(joins[i], others[i]));
        bench::check(hipStreamWaitEvent(stream_, joins[i], 0));
      }
      hipGraph_t graph = nullptr;
      bench::check(hipStreamEndCapture(stream_, &graph));
      bench::check(hipGraphDestroy(graph));
      if (step >= weighed) each.push_back((last - first) / static_cast<double>(forks));
    }
    for (const std::vector<hipEvent_t>* const all : {&events, &joins})
      for (const hipEvent_t event : *all) bench::check(hipEventDestroy(event));
    for (const hipStream_t stream : others) bench::check(hipStreamDestroy(stream));
    const std::string name = std::to_string(forks) + " forks to " + std::to_string(streams) + " streams";
    bench::print((name + ": fork").c_str(), bench::median(each), "ns");
  }

  void measure_beside(std::size_t held) {
    std::vector<hipGraphExec_t> execs(held);
    const Begin begin = kPlaces.at(part_++);
    const auto make = [&](std::size_t place) __attribute__((noinline)) {
      hipGraph_t graph = nullptr;
      hipGraphExec_t exec = nullptr;
      begin(stream_);
      bench::launch(function_, stream_, static_cast<char*>(memory_) + 64 * place, memory_, 1);
      bench::check(hipStreamEndCapture(stream_, &graph));
      const double first = bench::thread_ns();
      bench::check(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
      const double elapsed = bench::thread_ns() - first;
      bench::check(hipGraphDestroy(graph));
      return std::pair{exec, elapsed};
    };
    for (std::size_t i = 0; i < kWeighed; ++i) bench::check(hipGraphExecDestroy(make(i).first));
    for (std::size_t i = 0; i < held; ++i) execs[i] = make(i).first;
    std::vector<double> each;
    for (std::size_t i = 0; i < 200; ++i) {
      const auto [exec, elapsed] = make(i);
      const double first = bench::thread_ns();
      bench::check(hipGraphExecDestroy(exec));
      each.push_back(elapsed + bench::thread_ns() - first);
    }
    for (const hipGraphExec_t exec : execs) bench::check(hipGraphExecDestroy(exec));
    bench::print(("exec beside " + std::to_string(held)).c_str(), bench::median(each), "ns");
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{64} << 20;
  static constexpr int kSteps = 200;

  void launch(int index, bool moves) {
    auto* const base = static_cast<char*>(memory_);
    void* out = base + 64 * static_cast<std::size_t>(index);
    void* in = base + kBytes / 2 + (moves ? 64 * static_cast<std::size_t>(place_) % (kBytes / 2) : 0);
    bench::launch(function_, stream_, out, in, 1);
  }

  hipFunction_t function_;
  hipStream_t stream_ = nullptr;
  void* memory_ = nullptr;
  int place_ = 0;
  std::size_t part_ = 0;
};

/// On one processor with the runtime's threads: whether a launch has to wake one of them on another is the scheduler's
/// choice, and would be half of what a small step takes.
void stay_on_this_processor() {
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(static_cast<std::size_t>(sched_getcpu()), &here);
  sched_setaffinity(0, sizeof here, &here);
}

}  // namespace

int main(int argc, char** argv) {
  stay_on_this_processor();
  Steps steps;
  const int most = argc > 1 ? std::atoi(argv[1]) : 4000;
  for (const int kernels : {1, 10, 100, 1000, 4000}) {
    if (kernels > most) break;
    for (const bool update : {false, true}) {
      steps.measure(kernels, 0, update);
      if (kernels >= 100) steps.measure(kernels, kernels / 100, update);
      steps.measure(kernels, kernels, update);
      steps.measure(kernels, kernels, update, Steps::Moves::kInTurn);
    }
  }
  for (const std::size_t held : {100, 2500}) steps.measure_beside(held);
  // Last, for 2000 streams leave the C library's heap in pieces, in which all that follows costs more.
  for (const std::size_t forks : {10, 2000})
    for (const std::size_t streams : {std::size_t{2}, forks}) steps.measure_forks(forks, streams);
  return 0;
}
