// costs.cpp: which of two ways costs the host less. The sign is asked for, not the size: of several tries most decide.
#include <algorithm>
#include <array>
#include <chrono>

#include "tests/probes/probe.h"

namespace probes {
namespace {

constexpr int kNodes = 200, kTries = 7;

/// The median of what `call` takes, in microseconds. `after`: what is done between two tries.
double median_us(const std::function<void()>& call, const std::function<void()>& after) {
  std::array<double, kTries> took{};
  for (double& each : took) {
    const auto started = std::chrono::steady_clock::now();
    call();
    each = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - started).count();
    after();
  }
  std::sort(took.begin(), took.end());
  return took[kTries / 2];
}

Finding is_less(double less_us, double more_us) {
  return holds_if(less_us < more_us, std::to_string(std::max(1L, static_cast<long>(less_us))) + " us against " +
                                         std::to_string(static_cast<long>(more_us)) + " us");
}

/// A graph of many kernels, as it is captured.
class Many {
 public:
  Many() : put_(kernel_named("put")) {}
  hipGraph_t captured() {
    return capture(stream_, [&] {
      for (int i = 0; i < kNodes; ++i) WORKS(KernelCall(put_, word_.at(), i).launch(stream_));
    });
  }
  hipStream_t stream() const { return stream_; }
  KernelCall call(int value) const { return {put_, word_.at(), value}; }

 private:
  hipFunction_t put_;
  Stream stream_;
  Word word_;
};

Finding setting_costs_less_than_an_exec() {
  Many many;
  const hipGraph_t graph = many.captured();
  const std::vector<hipGraphNode_t> nodes = nodes_of(graph);
  if (nodes.empty()) throw Unknown("kernels are not captured");
  hipGraphExec_t exec = instantiate(graph), made = nullptr;
  run(exec, many.stream());
  const double set_us = median_us(
      [&] {
        for (int i = 0; i < 4; ++i) {
          KernelCall call = many.call(i);
          const hipKernelNodeParams params = call.node_params();
          WORKS(hip::hipGraphExecKernelNodeSetParams(exec, nodes[0], &params));
        }
      },
      [&] { run(exec, many.stream()); });
  const double made_us = median_us([&] { made = instantiate(graph); },
                                   [&] {
                                     run(made, many.stream());
                                     WORKS(hip::hipGraphExecDestroy(made));
                                   });
  return is_less(set_us, made_us);
}

Finding launch_costs_less_than_capture() {
  Many many;
  const hipGraph_t graph = many.captured();
  if (nodes_of(graph).empty()) throw Unknown("kernels are not captured");
  const hipGraphExec_t exec = instantiate(graph);
  run(exec, many.stream());
  const auto wait = [&] { WORKS(hip::hipStreamSynchronize(many.stream())); };
  const double launch_us = median_us([&] { WORKS(hip::hipGraphLaunch(exec, many.stream())); }, wait);
  hipGraphExec_t made = nullptr;
  const double again_us = median_us(
      [&] {
        made = instantiate(many.captured());
        WORKS(hip::hipGraphLaunch(made, many.stream()));
      },
      wait);
  return is_less(launch_us, again_us);
}

constexpr Probe kProbes[] = {
    {"setting_costs_less_than_an_exec", "To set four kernels of an exec costs less than to make one of two hundred.",
     setting_costs_less_than_an_exec, Kind::kMeasured},
    {"launch_costs_less_than_capture", "To launch an exec again costs less than to capture and instantiate anew.",
     launch_costs_less_than_capture, Kind::kMeasured},
};

}  // namespace

std::span<const Probe> cost_probes() { return kProbes; }

}  // namespace probes
