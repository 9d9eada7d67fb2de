// A server of a language model: one graph for each size of its batches, captured when it starts and kept. Requests come
// in turn, or most of them for a few sizes; `--update 1` gives a graph other buffers now and then. The largest number
// of execs that the runtime had at once is told where the CPU runtime serves.
#include <dlfcn.h>

#include <algorithm>

#include "../runtimes/cpu/cpuhip_statistics.h"
#include "client.h"

using namespace program;

namespace {

constexpr int kCount = 256;

std::size_t execs_alive() {
  using Function = void (*)(cpuhip_statistics_t*);
  cpuhip_statistics_t now = {};
  if (const auto ask = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, "cpuhip_statistics"))) ask(&now);
  return now.execs;
}

/// The graphs and what they work on.
class Server {
 public:
  Server(int sizes, int layers) : kernels_(kLayerSource), layer_(kernels_.get("layer")), layers_(layers) {
    upload_input(in_, 1, kCount, stream_);
    for (int size = 1; size <= sizes; ++size) execs_.push_back(instantiated(size, out_));
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server() {
    for (const hipGraphExec_t exec : execs_) CHECK(hipGraphExecDestroy(exec));
    for (float* const memory : {in_, out_, other_}) CHECK(hipFree(memory));
    CHECK(hipStreamDestroy(stream_));
  }

  std::uint64_t answer(int size, std::uint64_t sum) {
    CHECK(hipGraphLaunch(execs_[static_cast<std::size_t>(size - 1)], stream_));
    CHECK(hipStreamSynchronize(stream_));
    most_ = std::max(most_, execs_alive());
    return checksum(download(other_, kCount), checksum(download(out_, kCount), sum));
  }
  void move(int size) {
    const hipGraph_t graph = captured(size, other_);
    hipGraphNode_t node = nullptr;
    hipGraphExecUpdateResult told{};
    CHECK(hipGraphExecUpdate(execs_[static_cast<std::size_t>(size - 1)], graph, &node, &told));
    CHECK(hipGraphDestroy(graph));
  }
  std::size_t most_execs() const { return most_; }

 private:
  /// The number of layers tells the sizes apart, too: each has a recording of its own.
  hipGraph_t captured(int size, float* out) const {
    CHECK(hipStreamBeginCapture(stream_, hipStreamCaptureModeThreadLocal));
    CHECK(hipMemsetAsync(out, size, kCount * sizeof(float), stream_));
    for (int layer = 0; layer < layers_ + size; ++layer)
      launch(layer_, blocks_for(std::min(size * 4, kCount)), dim3(kThreads), stream_, out,
             static_cast<const float*>(layer == 0 ? in_ : out), std::min(size * 4, kCount));
    hipGraph_t graph = nullptr;
    CHECK(hipStreamEndCapture(stream_, &graph));
    return graph;
  }
  hipGraphExec_t instantiated(int size, float* out) {
    const hipGraph_t graph = captured(size, out);
    hipGraphExec_t exec = nullptr;
    CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    CHECK(hipGraphDestroy(graph));
    most_ = std::max(most_, execs_alive());
    return exec;
  }

  const Kernels kernels_;
  const hipFunction_t layer_;
  const int layers_;
  const hipStream_t stream_ = new_stream();
  float *const in_ = allocate<float>(kCount), *const out_ = allocate<float>(kCount),
               *const other_ = allocate<float>(kCount);
  std::vector<hipGraphExec_t> execs_;
  std::size_t most_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const Options options(argc, argv,
                        {{"sizes", "67"}, {"requests", "670"}, {"layers", "10"}, {"skewed", "0"}, {"update", "0"}});
  const int sizes = options.number("sizes");
  Server server(sizes, options.number("layers"));
  std::uint64_t sum = 0;
  for (int request = 0; request < options.number("requests"); ++request) {
    // Skewed: nine of ten are for four sizes.
    const bool seldom = options.number("skewed") == 0 || request % 10 == 9;
    const int size = 1 + (seldom ? request * 7 : request % 4) % sizes;
    if (options.number("update") != 0 && request % 5 == 4) server.move(size);
    sum = server.answer(size, sum);
  }
  std::printf("%016" PRIx64 "\n", sum);
  figure("execs", static_cast<long long>(server.most_execs()));
}
