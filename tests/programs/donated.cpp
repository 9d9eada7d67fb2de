// donated.cpp: parameters that ping-pong. Each step reads the parameters from one set of buffers and writes the new
// ones into the other set, whose content it was given to overwrite; the graph is captured anew, as its addresses
// changed. `--mode static`: by hand, one graph for each direction, captured once. `--wait-every N`: so many steps are
// issued before the stream is waited for.
#include <utility>

#include "program.h"

namespace {

constexpr char kSource[] = R"(
extern "C" __global__ void gradient(float* out, const float* value, const float* target, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int left = i == 0 ? n - 1 : i - 1, right = i == n - 1 ? 0 : i + 1;
  out[i] = value[i] - target[i] + 0.25f * (2.0f * value[i] - value[left] - value[right]);
}
extern "C" __global__ void apply(float* out, float* velocity, const float* value, const float* gradient, float rate, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = 0.5f * velocity[i] + gradient[i];
  velocity[i] = v;
  out[i] = value[i] - rate * v;
}
)";

struct Tensor {
  std::size_t elements = 0;
  float* sets[2] = {};
  float* target = nullptr;
  float* velocity = nullptr;
  float* gradient = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  const program::Options options(argc, argv,
                                 {{"steps", "8"},
                                  {"mode", "recapture"},
                                  {"tensors", "4"},
                                  {"elements", "1000"},
                                  {"wait-every", "1"},
                                  {"times", ""}});
  const bool fixed = options.text("mode") == "static";
  if (!fixed && options.text("mode") != "recapture") {
    std::fprintf(stderr, "--mode %s: expected recapture or static\n", options.text("mode").c_str());
    return 2;
  }
  const program::Kernels kernels(kSource);
  const hipFunction_t gradient = kernels.get("gradient"), apply = kernels.get("apply");
  hipStream_t stream = nullptr;
  CHECK(hipStreamCreate(&stream));

  program::Random random(2);
  std::vector<Tensor> tensors(static_cast<std::size_t>(options.number("tensors")));
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    Tensor& tensor = tensors[t];
    tensor.elements = static_cast<std::size_t>(options.number("elements")) + 13 * t;
    const std::size_t bytes = tensor.elements * sizeof(float);
    for (float** buffer : {&tensor.sets[0], &tensor.sets[1], &tensor.target, &tensor.velocity, &tensor.gradient}) {
      *buffer = program::allocate<float>(tensor.elements);
    }
    CHECK(hipMemcpy(tensor.sets[0], random.vector(tensor.elements, 1).data(), bytes, hipMemcpyHostToDevice));
    CHECK(hipMemcpy(tensor.target, random.vector(tensor.elements, 2).data(), bytes, hipMemcpyHostToDevice));
    CHECK(hipMemset(tensor.velocity, 0, bytes));
  }

  hipGraphExec_t execs[2] = {};
  std::vector<hipGraphExec_t> launched;  // destroyed when waited for
  program::StepTimes times(options.text("times"));
  const int steps = options.number("steps"), group = options.number("wait-every");
  for (int step = 0; step < steps; ++step) {
    const int from = step % 2, to = 1 - from;
    if (step % group == 0) times.start();
    hipGraphExec_t& exec = execs[to];
    if (exec == nullptr) {
      hipGraph_t graph = nullptr;
      CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
      for (const Tensor& t : tensors) {
        const int n = static_cast<int>(t.elements);
        program::launch(gradient, program::blocks_for(n), program::kThreads, stream, t.gradient, t.sets[from], t.target,
                        n);
        program::launch(apply, program::blocks_for(n), program::kThreads, stream, t.sets[to], t.velocity, t.sets[from],
                        t.gradient, 0.1F, n);
      }
      CHECK(hipStreamEndCapture(stream, &graph));
      CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
      CHECK(hipGraphDestroy(graph));
    }
    CHECK(hipGraphLaunch(exec, stream));
    if (!fixed) launched.push_back(std::exchange(exec, nullptr));
    if ((step + 1) % group != 0) continue;
    CHECK(hipStreamSynchronize(stream));
    for (hipGraphExec_t done : launched) CHECK(hipGraphExecDestroy(done));
    launched.clear();
    times.stop(group);
    const Tensor& first = tensors.front();
    std::printf("step %d parameters %016" PRIx64 "\n", step,
                program::checksum(program::download(first.sets[to], first.elements)));
  }
  CHECK(hipStreamSynchronize(stream));
  for (hipGraphExec_t done : launched) CHECK(hipGraphExecDestroy(done));
  for (hipGraphExec_t exec : execs) {
    if (exec != nullptr) CHECK(hipGraphExecDestroy(exec));
  }
  std::uint64_t sum = program::checksum(nullptr, 0);
  for (const Tensor& t : tensors) sum = program::checksum(program::download(t.sets[steps % 2], t.elements), sum);
  std::printf("parameters %016" PRIx64 "\n", sum);
  for (const Tensor& t : tensors) {
    for (float* buffer : {t.sets[0], t.sets[1], t.target, t.velocity, t.gradient}) CHECK(hipFree(buffer));
  }
  CHECK(hipStreamDestroy(stream));
  return 0;
}
