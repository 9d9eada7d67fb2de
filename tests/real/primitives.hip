// primitives.hip: hipCUB over rocPRIM: sums, scans, sorts of pairs, selections and a histogram of a whole device, of
// several sizes; eager, then captured anew in each step over fresh memory, with other numbers.
//
// Numbers are whole, so that every result is exact; it is compared with the host's and its checksum printed.
#include <hip/hip_runtime.h>

#include <algorithm>
#include <hipcub/hipcub.hpp>
#include <numeric>

#include "../programs/program.h"

namespace {

constexpr int kSizes[] = {100, 1500, 20000};
constexpr int kBins = 32;
constexpr std::uint32_t kLimit = 1u << 20;  ///< of the numbers

/// Numbers of the host, which stay where they are, and their memory on the device, which is another in each step.
struct Numbers {
  explicit Numbers(int count) : host(static_cast<std::size_t>(count)) {}
  std::size_t bytes() const { return host.size() * sizeof(std::uint32_t); }
  void allocate() { device = program::allocate<std::uint32_t>(host.size()); }
  void free() { CHECK(hipFree(device)); }
  void upload(hipStream_t stream) const {
    CHECK(hipMemcpyAsync(device, host.data(), bytes(), hipMemcpyHostToDevice, stream));
  }
  void download(hipStream_t stream) {
    CHECK(hipMemcpyAsync(host.data(), device, bytes(), hipMemcpyDeviceToHost, stream));
  }
  std::vector<std::uint32_t> host;
  std::uint32_t* device = nullptr;
};

/// An algorithm over `keys` and `values` that writes `results` and `more`.
struct Operands {
  explicit Operands(int count) : keys(count), values(count), results(count), more(count) {}
  Numbers keys, values, results, more;
  int count() const { return static_cast<int>(keys.host.size()); }
  template <typename Function>
  void each(const Function& function) {
    for (Numbers* const numbers : {&keys, &values, &results, &more}) function(*numbers);
  }
};

struct IsOdd {
  __host__ __device__ bool operator()(std::uint32_t number) const { return number % 2 != 0; }
};

// Each has a name, a call of hipCUB, and the host's way to the same results, from which `results` and `more` are zeros.
struct Sum {
  static constexpr const char* kName = "sum";
  static hipError_t run(void* storage, std::size_t& bytes, Operands& of, hipStream_t stream) {
    return hipcub::DeviceReduce::Sum(storage, bytes, of.keys.device, of.results.device, of.count(), stream);
  }
  static void of_host(const Operands& of, std::vector<std::uint32_t>& results, std::vector<std::uint32_t>&) {
    results[0] = std::accumulate(of.keys.host.begin(), of.keys.host.end(), 0u);
  }
};
struct Maximum {
  static constexpr const char* kName = "maximum";
  static hipError_t run(void* storage, std::size_t& bytes, Operands& of, hipStream_t stream) {
    return hipcub::DeviceReduce::Max(storage, bytes, of.keys.device, of.results.device, of.count(), stream);
  }
  static void of_host(const Operands& of, std::vector<std::uint32_t>& results, std::vector<std::uint32_t>&) {
    results[0] = *std::max_element(of.keys.host.begin(), of.keys.host.end());
  }
};
struct Scan {
  static constexpr const char* kName = "scan";
  static hipError_t run(void* storage, std::size_t& bytes, Operands& of, hipStream_t stream) {
    return hipcub::DeviceScan::ExclusiveSum(storage, bytes, of.keys.device, of.results.device, of.count(), stream);
  }
  static void of_host(const Operands& of, std::vector<std::uint32_t>& results, std::vector<std::uint32_t>&) {
    std::exclusive_scan(of.keys.host.begin(), of.keys.host.end(), results.begin(), 0u);
  }
};
struct Sort {
  static constexpr const char* kName = "sort of pairs";
  static hipError_t run(void* storage, std::size_t& bytes, Operands& of, hipStream_t stream) {
    return hipcub::DeviceRadixSort::SortPairs(storage, bytes, of.keys.device, of.results.device, of.values.device,
                                              of.more.device, of.count(), 0, 32, stream);
  }
  static void of_host(const Operands& of, std::vector<std::uint32_t>& results, std::vector<std::uint32_t>& more) {
    std::vector<std::size_t> order(results.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return of.keys.host[a] < of.keys.host[b]; });
    for (std::size_t i = 0; i < order.size(); ++i) {
      results[i] = of.keys.host[order[i]];
      more[i] = of.values.host[order[i]];
    }
  }
};
struct Select {
  static constexpr const char* kName = "selection";
  static hipError_t run(void* storage, std::size_t& bytes, Operands& of, hipStream_t stream) {
    return hipcub::DeviceSelect::If(storage, bytes, of.keys.device, of.results.device, of.more.device, of.count(),
                                    IsOdd{}, stream);
  }
  static void of_host(const Operands& of, std::vector<std::uint32_t>& results, std::vector<std::uint32_t>& more) {
    const auto end = std::copy_if(of.keys.host.begin(), of.keys.host.end(), results.begin(), IsOdd{});
    more[0] = static_cast<std::uint32_t>(end - results.begin());
  }
};
struct Histogram {
  static constexpr const char* kName = "histogram";
  static hipError_t run(void* storage, std::size_t& bytes, Operands& of, hipStream_t stream) {
    return hipcub::DeviceHistogram::HistogramEven(storage, bytes, of.keys.device,
                                                  reinterpret_cast<int*>(of.results.device), kBins + 1, 0u, kLimit,
                                                  of.count(), stream);
  }
  static void of_host(const Operands& of, std::vector<std::uint32_t>& results, std::vector<std::uint32_t>&) {
    for (const std::uint32_t key : of.keys.host) ++results[key / (kLimit / kBins)];
  }
};

/// One algorithm on operands of one size.
template <typename Algorithm>
class Work {
 public:
  Work(int count, hipStream_t stream) : operands_(count), stream_(stream) {}

  /// Returns how many results are wrong.
  std::size_t step(int number, bool captured) {
    program::Random random(static_cast<std::uint64_t>(number) + 1);
    for (std::uint32_t& key : operands_.keys.host) key = random.next() % kLimit;
    for (std::uint32_t& value : operands_.values.host) value = random.next();
    std::vector<std::uint32_t> results(operands_.results.host.size()), more(results.size());
    Algorithm::of_host(operands_, results, more);
    run(captured);
    const auto differ = [](const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
      std::size_t count = 0;
      for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i] ? 1u : 0u;
      return count;
    };
    const std::size_t wrong = differ(operands_.results.host, results) + differ(operands_.more.host, more);
    std::printf("%s of %d, %s, step %d: %zu wrong, checksum %016" PRIx64 "\n", Algorithm::kName, operands_.count(),
                captured ? "graph" : "eager", number, wrong,
                program::checksum(operands_.more.host, program::checksum(operands_.results.host)));
    return wrong;
  }

 private:
  void run(bool captured) {
    operands_.each([](Numbers& numbers) { numbers.allocate(); });
    std::size_t bytes = 0;
    CHECK(Algorithm::run(nullptr, bytes, operands_, stream_));
    auto* const storage = program::allocate<char>(bytes);
    if (captured) {
      hipGraph_t graph = nullptr;
      hipGraphExec_t exec = nullptr;
      CHECK(hipStreamBeginCapture(stream_, hipStreamCaptureModeThreadLocal));
      enqueue(storage, bytes);
      CHECK(hipStreamEndCapture(stream_, &graph));
      CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
      CHECK(hipGraphLaunch(exec, stream_));
      CHECK(hipStreamSynchronize(stream_));
      CHECK(hipGraphExecDestroy(exec));
      CHECK(hipGraphDestroy(graph));
    } else {
      enqueue(storage, bytes);
      CHECK(hipStreamSynchronize(stream_));
    }
    CHECK(hipFree(storage));
    operands_.each([](Numbers& numbers) { numbers.free(); });
  }
  void enqueue(void* storage, std::size_t bytes) {
    operands_.keys.upload(stream_);
    operands_.values.upload(stream_);
    for (Numbers* const numbers : {&operands_.results, &operands_.more})
      CHECK(hipMemsetAsync(numbers->device, 0, numbers->bytes(), stream_));
    CHECK(Algorithm::run(storage, bytes, operands_, stream_));
    operands_.results.download(stream_);
    operands_.more.download(stream_);
  }

  Operands operands_;
  hipStream_t stream_;
};

/// Step 0 eagerly, then `count` steps captured. Returns how many results were wrong.
template <typename Algorithm>
std::size_t steps(int count, hipStream_t stream) {
  std::size_t wrong = 0;
  for (const int size : kSizes) {
    Work<Algorithm> work(size, stream);
    for (int step = 0; step <= count; ++step) wrong += work.step(step, step > 0);
  }
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const program::Options options(argc, argv, {{"steps", "4"}});
  const int count = options.number("steps");
  hipStream_t stream = nullptr;
  CHECK(hipStreamCreate(&stream));
  const std::size_t wrong = steps<Sum>(count, stream) + steps<Maximum>(count, stream) + steps<Scan>(count, stream) +
                            steps<Sort>(count, stream) + steps<Select>(count, stream) + steps<Histogram>(count, stream);
  CHECK(hipStreamDestroy(stream));
  return wrong == 0 ? 0 : 1;
}
