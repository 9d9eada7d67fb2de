// staged_launch.cpp: what feeding a graph through a slot costs, by the size of the buffer: microseconds a launch of a
// graph of one small kernel that reads the buffer, launches back to back, and of one copy of that size on the device.
// Under the library with a rule that stages the buffer, what a launch takes longer than natively is the staging.
#include <string>

#include "kernel.h"

namespace {

/// The median over batches of so many calls, waited for at the end of each.
template <typename Call>
double us_per_call(hipStream_t stream, std::size_t bytes, Call&& call) {
  constexpr int kBatches = 15;
  const int calls = bytes < (std::size_t{16} << 20) ? 50 : 5;
  std::vector<double> results;
  for (int batch = -2; batch < kBatches; ++batch) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    bench::check(hipStreamSynchronize(stream));
    const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
    if (batch >= 0) results.push_back(elapsed.count() / calls);
  }
  return bench::median(results);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t most = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1024) << 20;
  const hipFunction_t function = bench::compile_touch();
  hipStream_t stream = nullptr;
  float* out = nullptr;
  bench::check(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  bench::check(hipMalloc(reinterpret_cast<void**>(&out), 256));
  // A graph is staged for buffers of the size it was recorded with: each size has a block size, and so a graph, of its
  // own.
  unsigned threads = 1;
  for (std::size_t bytes = 4096; bytes <= most; bytes *= 4, ++threads) {
    void *buffer = nullptr, *copy = nullptr;
    bench::check(hipMalloc(&buffer, bytes));
    bench::check(hipMalloc(&copy, bytes));
    bench::check(hipMemset(buffer, 0, bytes));
    const hipGraphExec_t exec =
        bench::captured(stream, [&] { bench::launch_threads(threads, function, stream, out, buffer, 1); });
    const std::string size =
        bytes < (1 << 20) ? std::to_string(bytes >> 10) + " KiB" : std::to_string(bytes >> 20) + " MiB";
    bench::print((size + ": launch").c_str(),
                 us_per_call(stream, bytes, [&] { bench::check(hipGraphLaunch(exec, stream)); }), "us");
    bench::print(
        (size + ": bare copy").c_str(),
        us_per_call(stream, bytes,
                    [&] { bench::check(hipMemcpyAsync(copy, buffer, bytes, hipMemcpyDeviceToDevice, stream)); }),
        "us");
    bench::check(hipGraphExecDestroy(exec));
    bench::check(hipFree(buffer));
    bench::check(hipFree(copy));
  }
  return 0;
}
