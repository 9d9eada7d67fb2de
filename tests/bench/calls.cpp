// calls.cpp: what single calls cost on a real runtime, by the CPU time of the calling thread: a kernel launched, a
// stream asked, memory allocated and freed, a graph launched whose binding has not changed. The device's work is waited
// for outside of the time.
#include "kernel.h"

namespace {

/// Few calls a batch, so that no queue of the device fills up.
template <typename Call>
double cpu_ns_per_call(Call&& call) {
  constexpr int kBatches = 201, kCalls = 100;
  std::vector<double> results;
  for (int batch = 0; batch < kBatches; ++batch) {
    const double start = bench::thread_ns();
    for (int i = 0; i < kCalls; ++i) call();
    results.push_back((bench::thread_ns() - start) / kCalls);
    bench::check(hipDeviceSynchronize());
  }
  return bench::median(results);
}

}  // namespace

int main() {
  const hipFunction_t function = bench::compile_touch();
  hipStream_t stream = nullptr;
  float* memory = nullptr;
  bench::check(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  bench::check(hipMalloc(reinterpret_cast<void**>(&memory), 4096));
  bench::print("launch", cpu_ns_per_call([&] { bench::launch(function, stream, memory, memory, 1); }), "ns");
  bench::print("query", cpu_ns_per_call([&] { static_cast<void>(hipStreamQuery(stream)); }), "ns");
  bench::print("malloc + free, 4 KiB", cpu_ns_per_call([] {
                 void* pointer = nullptr;
                 bench::check(hipMalloc(&pointer, 4096));
                 bench::check(hipFree(pointer));
               }),
               "ns");
  for (const int nodes : {1, 20}) {
    const hipGraphExec_t exec = bench::captured(stream, [&] {
      for (int i = 0; i < nodes; ++i) bench::launch(function, stream, memory, memory, 1);
    });
    bench::print(nodes == 1 ? "launch of a graph of 1 node" : "launch of a graph of 20 nodes",
                 cpu_ns_per_call([&] { bench::check(hipGraphLaunch(exec, stream)); }), "ns");
    bench::check(hipGraphExecDestroy(exec));
  }
  return 0;
}
