// batch_sizes.cpp: a graph for each batch size, sizes chosen in changing order, buffers as large as the batch and fresh
// every step. The graph of a small batch is the beginning of the graph of a larger one, which has more operations.
//
// --mode recapture  captured every step (the default)
//        cached     captured at the first batch of a size, over buffers kept for it, as inference servers do
#include <array>

#include "program.h"

namespace {

constexpr char kSource[] = R"(
extern "C" __global__ void layer(float* out, const float* in, const float* weight, int batch, int dim) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  if (x >= batch * dim) return;
  int row = x / dim, column = x % dim;
  float sum = 0;
  for (int k = 0; k < dim; ++k) sum += in[row * dim + k] * weight[k * dim + column];
  out[x] = sum > 0 ? sum : 0.1f * sum;
}
extern "C" __global__ void row_maximum(float* out, const float* in, int batch, int dim) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= batch) return;
  float maximum = in[row * dim];
  for (int k = 1; k < dim; ++k) maximum = in[row * dim + k] > maximum ? in[row * dim + k] : maximum;
  out[row] = maximum;
}
)";

constexpr std::array<int, 5> kSizes = {1, 4, 8, 3, 16};

struct Batch {
  int rows = 0;
  float *a = nullptr, *b = nullptr, *maximum = nullptr;
  hipGraphExec_t exec = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  const program::Options options(argc, argv, {{"steps", "15"}, {"dim", "32"}, {"mode", "recapture"}, {"times", ""}});
  const bool cached = options.text("mode") == "cached";
  if (!cached && options.text("mode") != "recapture") {
    std::fprintf(stderr, "--mode %s: expected recapture or cached\n", options.text("mode").c_str());
    return 2;
  }
  const int dim = options.number("dim");
  const auto width = static_cast<std::size_t>(dim);
  const program::Kernels kernels(kSource);
  const hipFunction_t layer = kernels.get("layer"), row_maximum = kernels.get("row_maximum");
  hipStream_t stream = nullptr;
  CHECK(hipStreamCreate(&stream));
  program::Random random(4);
  float* weight = program::allocate<float>(width * width);
  CHECK(hipMemcpy(weight, random.vector(width * width, 0.3F).data(), width * width * sizeof(float),
                  hipMemcpyHostToDevice));

  const auto prepare = [&](int rows) {
    const auto elements = static_cast<std::size_t>(rows) * width;
    Batch batch{rows, program::allocate<float>(elements), program::allocate<float>(elements),
                program::allocate<float>(static_cast<std::size_t>(rows)), nullptr};
    hipGraph_t graph = nullptr;
    CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    const dim3 blocks = program::blocks_for(rows * dim);
    program::launch(layer, blocks, program::kThreads, stream, batch.b, batch.a, weight, rows, dim);
    program::launch(layer, blocks, program::kThreads, stream, batch.a, batch.b, weight, rows, dim);
    if (rows >= 8) {
      program::launch(layer, blocks, program::kThreads, stream, batch.b, batch.a, weight, rows, dim);
      program::launch(layer, blocks, program::kThreads, stream, batch.a, batch.b, weight, rows, dim);
    }
    program::launch(row_maximum, program::blocks_for(rows), program::kThreads, stream, batch.maximum, batch.a, rows,
                    dim);
    CHECK(hipStreamEndCapture(stream, &graph));
    CHECK(hipGraphInstantiate(&batch.exec, graph, nullptr, nullptr, 0));
    CHECK(hipGraphDestroy(graph));
    return batch;
  };
  const auto release = [](const Batch& batch) {
    CHECK(hipGraphExecDestroy(batch.exec));
    for (float* buffer : {batch.a, batch.b, batch.maximum}) CHECK(hipFree(buffer));
  };

  std::map<int, Batch> kept;
  program::StepTimes times(options.text("times"));
  for (int step = 0; step < options.number("steps"); ++step) {
    const int rows = kSizes[static_cast<std::size_t>(step * step + step / 5) % kSizes.size()];
    const std::vector<float> input = random.vector(static_cast<std::size_t>(rows) * width, 1);
    times.start();
    if (cached && kept.find(rows) == kept.end()) kept.emplace(rows, prepare(rows));
    const Batch batch = cached ? kept.at(rows) : prepare(rows);
    CHECK(hipMemcpyAsync(batch.a, input.data(), input.size() * sizeof(float), hipMemcpyHostToDevice, stream));
    CHECK(hipGraphLaunch(batch.exec, stream));
    std::vector<float> maximum(static_cast<std::size_t>(rows));
    CHECK(hipMemcpyAsync(maximum.data(), batch.maximum, maximum.size() * sizeof(float), hipMemcpyDeviceToHost, stream));
    CHECK(hipStreamSynchronize(stream));
    if (!cached) release(batch);
    times.stop();
    std::printf("step %d batch %d maxima %016" PRIx64 "\n", step, rows, program::checksum(maximum));
  }
  for (const auto& [rows, batch] : kept) release(batch);
  CHECK(hipFree(weight));
  CHECK(hipStreamDestroy(stream));
  return 0;
}
