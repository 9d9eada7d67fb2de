// pooled.cpp: tensors cut from large segments by an allocator of the program's own, as PyTorch has one; kernels whose
// pointers are inside a structure. Each step captures its graph over memory of the allocator, which may take a new
// segment inside the capture, counts the nodes, instantiates to free on launch, launches twice.
//
// Every other step another tensor is alive, so that the others lie elsewhere in the segment.
#include <memory>

#include "program.h"

namespace {

constexpr char kSource[] = R"(
struct Views { float* out; const float* in[2]; };
extern "C" __global__ void blend(int n, Views views) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) views.out[i] = 0.75f * views.in[0][i] + 0.5f * views.in[1][n - 1 - i];
}
extern "C" __global__ void clip(float* x, float most, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && x[i] > most) x[i] = most;
}
)";

struct Views {
  float* out;
  const float* in[2];
};

/// Hands out parts of segments, lowest address first, and joins those that come back.
class Allocator {
 public:
  explicit Allocator(std::size_t segment_bytes) : segment_bytes_(segment_bytes) {}
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;
  ~Allocator() {
    for (char* const segment : segments_) CHECK(hipFree(segment));
  }

  std::shared_ptr<float> tensor(int elements) {
    const std::size_t bytes = (static_cast<std::size_t>(elements) * sizeof(float) + 511) / 512 * 512;
    auto part = free_.begin();
    while (part != free_.end() && part->second < bytes) ++part;
    if (part == free_.end()) part = new_segment();
    char* const at = part->first;
    const std::size_t rest = part->second - bytes;
    free_.erase(part);
    if (rest != 0) free_.emplace(at + bytes, rest);
    return {reinterpret_cast<float*>(at), [this, at, bytes](float*) { give_back(at, bytes); }};
  }

 private:
  using Parts = std::map<char*, std::size_t>;

  /// Allowed inside a capture of the thread in relaxed mode.
  Parts::iterator new_segment() {
    hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
    CHECK(hipThreadExchangeStreamCaptureMode(&mode));
    segments_.push_back(program::allocate<char>(segment_bytes_));
    CHECK(hipThreadExchangeStreamCaptureMode(&mode));
    return free_.emplace(segments_.back(), segment_bytes_).first;
  }
  void give_back(char* at, std::size_t bytes) {
    auto part = free_.emplace(at, bytes).first;
    const auto next = std::next(part);
    if (next != free_.end() && part->first + part->second == next->first) {
      part->second += next->second;
      free_.erase(next);
    }
    if (part == free_.begin()) return;
    const auto before = std::prev(part);
    if (before->first + before->second != part->first) return;
    before->second += part->second;
    free_.erase(part);
  }

  const std::size_t segment_bytes_;
  std::vector<char*> segments_;
  Parts free_;
};

}  // namespace

int main(int argc, char** argv) {
  const program::Options options(argc, argv, {{"steps", "8"}, {"elements", "3000"}, {"layers", "6"}, {"times", ""}});
  const int n = options.number("elements");
  const auto elements = static_cast<std::size_t>(n);
  const program::Kernels kernels(kSource);
  const hipFunction_t blend = kernels.get("blend"), clip = kernels.get("clip");
  hipStream_t stream = nullptr;
  CHECK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  {
    Allocator allocator(elements * sizeof(float) * 5);  // a step needs more
    const std::shared_ptr<float> weight = allocator.tensor(n);
    program::Random random(11);
    const std::vector<float> weights = random.vector(elements, 1);
    CHECK(hipMemcpy(weight.get(), weights.data(), elements * sizeof(float), hipMemcpyHostToDevice));
    program::StepTimes times(options.text("times"));
    for (int step = 0; step < options.number("steps"); ++step) {
      const std::vector<float> values = random.vector(elements, 1);
      times.start();
      const std::shared_ptr<float> other = step % 2 == 0 ? nullptr : allocator.tensor(n / 2);
      std::shared_ptr<float> input = allocator.tensor(n), x = input;
      CHECK(hipMemcpyAsync(input.get(), values.data(), elements * sizeof(float), hipMemcpyHostToDevice, stream));
      CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
      std::shared_ptr<float> last = weight;
      for (int layer = 0; layer < options.number("layers"); ++layer) {
        const std::shared_ptr<float> out = allocator.tensor(n);
        program::launch(blend, program::blocks_for(n), dim3(program::kThreads), stream, n,
                        Views{out.get(), {x.get(), last.get()}});
        program::launch(clip, program::blocks_for(n), dim3(program::kThreads), stream, out.get(), 1.5F, n);
        last = x;
        x = out;
      }
      hipGraph_t graph = nullptr;
      CHECK(hipStreamEndCapture(stream, &graph));
      hipGraphExec_t exec = nullptr;
      CHECK(hipGraphInstantiateWithFlags(&exec, graph, hipGraphInstantiateFlagAutoFreeOnLaunch));
      std::size_t nodes = 0;
      CHECK(hipGraphGetNodes(graph, nullptr, &nodes));
      CHECK(hipGraphDestroy(graph));
      std::uint64_t sum = 0;
      for (int launch = 0; launch < 2; ++launch) {
        std::vector<float> result(elements);
        CHECK(hipGraphLaunch(exec, stream));
        CHECK(hipMemcpyAsync(result.data(), x.get(), elements * sizeof(float), hipMemcpyDeviceToHost, stream));
        CHECK(hipMemcpyAsync(input.get(), x.get(), elements * sizeof(float), hipMemcpyDeviceToDevice, stream));
        CHECK(hipStreamSynchronize(stream));
        sum = program::checksum(result, sum);
      }
      CHECK(hipGraphExecDestroy(exec));
      times.stop();
      std::printf("step %d nodes %zu result %016" PRIx64 "\n", step, nodes, sum);
    }
  }
  CHECK(hipStreamDestroy(stream));
  return 0;
}
