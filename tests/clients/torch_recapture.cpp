// PyTorch: torch.cuda.graph(...) made anew in every step, each time with a private pool of its own. Its caching
// allocator allocates segments inside the capture, with the thread in relaxed mode, and frees those of the former graph
// before the next capture begins.
#include <set>

#include "client.h"

using namespace program;

constexpr char kSource[] = R"(
extern "C" __global__ void scale(float* out, const float* in, float by, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = in[i] * by;
}
extern "C" __global__ void add(float* out, const float* in, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] += in[i];
}
)";

/// The segments of one graph's private pool.
class PrivatePool {
 public:
  float* segment(hipStream_t capturing, std::size_t bytes) {
    hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
    CHECK(hipStreamIsCapturing(capturing, &status));
    const Relaxed relaxed;
    segments_.push_back(allocate<char>(bytes));
    seen_.insert(segments_.back());
    return reinterpret_cast<float*>(segments_.back());
  }
  void empty_cache() {
    for (char* const segment : segments_) CHECK(hipFree(segment));
    segments_.clear();
  }
  std::size_t addresses() const { return seen_.size(); }

 private:
  std::vector<char*> segments_;
  std::set<char*> seen_;
};

int main(int argc, char** argv) {
  const Options options(argc, argv, {{"steps", "40"}, {"replays", "2"}, {"mode", "0"}});
  const auto mode = static_cast<hipStreamCaptureMode>(options.number("mode"));
  constexpr int kCount = 1024;
  constexpr std::size_t kMiB = 1 << 20;
  const Kernels kernels(kSource);
  const hipFunction_t scale = kernels.get("scale"), add = kernels.get("add");
  hipStream_t current = nullptr, side = nullptr;
  CHECK(hipStreamCreateWithPriority(&current, hipStreamNonBlocking, 0));
  CHECK(hipStreamCreateWithPriority(&side, hipStreamNonBlocking, 0));
  auto* const input = reinterpret_cast<float*>(allocate<char>(5 * kMiB));
  std::vector<float> host(kCount);
  for (int i = 0; i < kCount; ++i) host[static_cast<std::size_t>(i)] = static_cast<float>(i);
  PrivatePool pool;
  hipGraphExec_t exec = nullptr;
  std::uint64_t sum = checksum(host);
  for (int step = 0; step < options.number("steps"); ++step) {
    if (exec != nullptr) {
      const Relaxed relaxed;
      CHECK(hipGraphExecDestroy(exec));
    }
    CHECK(hipDeviceSynchronize());
    pool.empty_cache();

    CHECK(hipStreamBeginCapture(side, mode));
    {
      const Relaxed relaxed;
      hipStreamCaptureStatus status = hipStreamCaptureStatusNone;
      unsigned long long id = 0;
      CHECK(hipStreamGetCaptureInfo(side, &status, &id));
    }
    float* const small = pool.segment(side, 2 * kMiB);
    float* const large = pool.segment(side, 20 * kMiB);
    launch(scale, blocks_for(kCount), dim3(kThreads), side, small, static_cast<const float*>(input), 2.0f, kCount);
    launch(scale, blocks_for(kCount), dim3(kThreads), side, large, static_cast<const float*>(small), 3.0f, kCount);
    launch(add, blocks_for(kCount), dim3(kThreads), side, large, static_cast<const float*>(input), kCount);
    hipGraph_t graph = nullptr;
    CHECK(hipStreamEndCapture(side, &graph));
    std::size_t nodes = 0;
    CHECK(hipGraphGetNodes(graph, nullptr, &nodes));
    CHECK(hipGraphInstantiateWithFlags(&exec, graph, hipGraphInstantiateFlagAutoFreeOnLaunch));
    CHECK(hipGraphDestroy(graph));

    for (int replay = 0; replay < options.number("replays"); ++replay) {
      host[0] = static_cast<float>(step + replay);
      CHECK(hipMemcpyAsync(input, host.data(), kCount * sizeof(float), hipMemcpyHostToDevice, current));
      CHECK(hipGraphLaunch(exec, current));
      CHECK(hipStreamSynchronize(current));
      sum = checksum(download(large, kCount), sum);
    }
    std::printf("%d nodes %zu sum %016" PRIx64 "\n", step, nodes, sum);
  }
  figure("addresses", static_cast<long long>(pool.addresses()));
}
