// llama.cpp, ggml_cuda_graph_update_executable: one exec for the life of the process. Each token is captured anew,
// because the place in the cache where its keys go has moved, and the exec is updated by the capture; where the runtime
// refuses that, it is made again. `--copy 1` writes the cache by copies, else by kernels. The graph of the token before
// is destroyed inside the capture, as there. `--waits 0` runs ahead of the device.
#include "client.h"

using namespace program;

namespace {

constexpr char kSource[] = R"(
extern "C" __global__ void multiply(float* out, const float* in, const float* weights, int count, int add) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = in[i] * weights[i % 64] + add;
}
extern "C" __global__ void store(float* cache, const float* in, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) cache[i] = in[i];
}
extern "C" __global__ void attend(float* out, const float* cache, int count, int places) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float sum = 0;
  for (int place = 0; place < places; ++place) sum += cache[place * count + i];
  out[i] = sum / places;
}
)";
constexpr int kCount = 128;

class Model {
 public:
  Model(int layers, int context, bool copies)
      : kernels_(kSource),
        multiply_(kernels_.get("multiply")),
        store_(kernels_.get("store")),
        attend_(kernels_.get("attend")),
        copies_(copies) {
    std::vector<float> weights(64);
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = 0.5F + static_cast<float>(i) / 128;
    CHECK(hipMemcpy(weights_, weights.data(), weights.size() * sizeof(float), hipMemcpyHostToDevice));
    const auto places = static_cast<std::size_t>(kCount) * static_cast<std::size_t>(context);
    for (int layer = 0; layer < layers; ++layer) {
      caches_.push_back(allocate<float>(places));
      CHECK(hipMemset(caches_.back(), 0, places * sizeof(float)));
    }
    // The host does not wait for a fill, nor does a non-blocking stream.
    CHECK(hipDeviceSynchronize());
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model() {
    for (float* const memory : caches_) CHECK(hipFree(memory));
    for (float* const memory : {weights_, in_, out_, between_}) CHECK(hipFree(memory));
  }

  float* in() const { return in_; }
  const float* out() const { return out_; }

  /// The operations of a token at this place of the cache.
  void token(int place, hipStream_t stream) const {
    const int places = (place + 8) / 8 * 8;
    for (std::size_t layer = 0; layer < caches_.size(); ++layer) {
      const float* const from = layer == 0 ? in_ : out_;
      float* const at = caches_[layer] + kCount * place;
      launch(multiply_, blocks_for(kCount), dim3(kThreads), stream, between_, from, static_cast<const float*>(weights_),
             kCount, static_cast<int>(layer));
      if (copies_)
        CHECK(hipMemcpyAsync(at, between_, kCount * sizeof(float), hipMemcpyDeviceToDevice, stream));
      else
        launch(store_, blocks_for(kCount), dim3(kThreads), stream, at, static_cast<const float*>(between_), kCount);
      launch(attend_, blocks_for(kCount), dim3(kThreads), stream, out_, static_cast<const float*>(caches_[layer]),
             kCount, places);
    }
  }

 private:
  const Kernels kernels_;
  const hipFunction_t multiply_, store_, attend_;
  const bool copies_;
  float* const weights_ = allocate<float>(64);
  float* const in_ = allocate<float>(kCount);
  float* const out_ = allocate<float>(kCount);
  float* const between_ = allocate<float>(kCount);
  std::vector<float*> caches_;
};

class Updated {
 public:
  ~Updated() {
    CHECK(hipGraphExecDestroy(exec_));
    CHECK(hipGraphDestroy(graph_));
  }

  void step(const Model& model, int place, hipStream_t stream) {
    CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
    model.token(place, stream);
    if (graph_ != nullptr) CHECK(hipGraphDestroy(graph_));
    CHECK(hipStreamEndCapture(stream, &graph_));
    if (exec_ == nullptr) CHECK(hipGraphInstantiate(&exec_, graph_, nullptr, nullptr, 0));
    hipGraphNode_t node = nullptr;
    hipGraphExecUpdateResult told{};
    const hipError_t updated = hipGraphExecUpdate(exec_, graph_, &node, &told);
    if (updated == hipErrorGraphExecUpdateFailure) {
      static_cast<void>(hipGetLastError());
      CHECK(hipGraphExecDestroy(exec_));
      CHECK(hipGraphInstantiate(&exec_, graph_, nullptr, nullptr, 0));
    } else {
      CHECK(updated);
    }
    CHECK(hipGraphLaunch(exec_, stream));
  }

 private:
  hipGraph_t graph_ = nullptr;
  hipGraphExec_t exec_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  const Options options(argc, argv,
                        {{"steps", "1000"}, {"layers", "3"}, {"context", "64"}, {"copy", "1"}, {"waits", "1"}});
  const int context = options.number("context");
  const hipStream_t stream = new_stream();
  {
    const Model model(options.number("layers"), context, options.number("copy") != 0);
    Updated exec;
    upload_input(model.in(), 1, kCount, stream);
    for (int step = 0; step < options.number("steps"); ++step) {
      if (options.number("waits") != 0) upload_input(model.in(), step, kCount, stream);
      exec.step(model, step % context, stream);
      if (options.number("waits") == 0 && step % 16 != 15) continue;
      CHECK(hipStreamSynchronize(stream));
      print_step(step, model.out(), kCount);
    }
    CHECK(hipStreamSynchronize(stream));
  }
  CHECK(hipStreamDestroy(stream));
}
