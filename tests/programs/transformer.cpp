// transformer.cpp: training steps of a small transformer: embedding, layers of attention and MLP, cross entropy, the
// whole backward pass, AdamW. Prints the losses and a checksum of all weights; the same for every mode.
//
// --mode     eager: operations are issued to the stream; recapture (the default): captured, instantiated, launched and
//            destroyed every step; update: captured every step, the executable graph of the first step updated; static:
//            captured once over buffers that stay, what a careful programmer writes by hand
// --buffers  fresh (the default): activations are allocated and freed every step; kept: allocated once
// --wait-every N  so many steps are issued before the stream is waited for
#include "program.h"
#include "transformer_kernels.h"

namespace {

using program::blocks_for;
using program::Kernels;
using program::kThreads;
using program::Options;
using program::Random;

struct Sizes {
  int layers, batch, sequence, heads, width, vocabulary;
  int rows() const { return batch * sequence; }
  int dim() const { return heads * width; }
};

/// A weight tensor with its gradient of the step and AdamW's moments.
struct Parameter {
  int elements = 0;
  float* value = nullptr;
  float* first = nullptr;
  float* second = nullptr;
  float* gradient = nullptr;
  float decay = 0;
};

Parameter make_parameter(const std::vector<float>& values, float decay) {
  Parameter parameter;
  parameter.elements = static_cast<int>(values.size());
  parameter.decay = decay;
  const std::size_t bytes = values.size() * sizeof(float);
  for (float** buffer : {&parameter.value, &parameter.first, &parameter.second}) {
    *buffer = program::allocate<float>(values.size());
    CHECK(hipMemset(*buffer, 0, bytes));
  }
  CHECK(hipMemcpy(parameter.value, values.data(), bytes, hipMemcpyHostToDevice));
  return parameter;
}

struct Layer {
  Parameter norm1_gain, norm1_bias, qkv, qkv_bias, project, project_bias;
  Parameter norm2_gain, norm2_bias, expand, expand_bias, contract, contract_bias;
  std::vector<Parameter*> parameters() {
    return {&norm1_gain, &norm1_bias, &qkv,    &qkv_bias,    &project,  &project_bias,
            &norm2_gain, &norm2_bias, &expand, &expand_bias, &contract, &contract_bias};
  }
};

struct LayerActivations {
  float *norm1, *mean1, *inverse1, *qkv, *probabilities, *attended, *middle;
  float *norm2, *mean2, *inverse2, *expanded, *activated, *out;
};

class Transformer {
 public:
  Transformer(const Sizes& sizes, hipStream_t stream)
      : sizes_(sizes), stream_(stream), kernels_(kTransformerKernels), layers_(static_cast<std::size_t>(sizes.layers)) {
    Random random(1);
    const auto dim = static_cast<std::size_t>(sizes.dim());
    const auto matrix = [&](std::size_t in, std::size_t out) {
      return make_parameter(random.vector(in * out, 0.1F), 0.01F);
    };
    const auto constant = [](std::size_t n, float value) { return make_parameter(std::vector<float>(n, value), 0.0F); };
    table_ = matrix(static_cast<std::size_t>(sizes.vocabulary), dim);
    positions_ = matrix(static_cast<std::size_t>(sizes.sequence), dim);
    head_ = matrix(dim, static_cast<std::size_t>(sizes.vocabulary));
    for (Layer& layer : layers_) {
      layer = {constant(dim, 1),     constant(dim, 0),     matrix(dim, 3 * dim), constant(3 * dim, 0),
               matrix(dim, dim),     constant(dim, 0),     constant(dim, 1),     constant(dim, 0),
               matrix(dim, 4 * dim), constant(4 * dim, 0), matrix(4 * dim, dim), constant(dim, 0)};
    }
    parameters_ = {&table_, &positions_, &head_};
    for (Layer& layer : layers_) {
      for (Parameter* parameter : layer.parameters()) parameters_.push_back(parameter);
    }
    const float schedule[] = {0.01F, 1, 1};
    schedule_ = program::allocate<float>(3);
    CHECK(hipMemcpy(schedule_, schedule, sizeof schedule, hipMemcpyHostToDevice));
    CHECK(hipHostMalloc(reinterpret_cast<void**>(&host_tokens_), token_bytes(), hipHostMallocDefault));
    CHECK(hipHostMalloc(reinterpret_cast<void**>(&host_loss_), sizeof(float), hipHostMallocDefault));
  }
  Transformer(const Transformer&) = delete;
  Transformer& operator=(const Transformer&) = delete;
  ~Transformer() {
    for (Parameter* parameter : parameters_) {
      for (float* buffer : {parameter->value, parameter->first, parameter->second}) CHECK(hipFree(buffer));
    }
    CHECK(hipFree(schedule_));
    CHECK(hipHostFree(host_tokens_));
    CHECK(hipHostFree(host_loss_));
  }

  /// The tokens of a step and, behind them, the tokens that follow each: the task to learn.
  void make_batch(int step) {
    const int vocabulary = sizes_.vocabulary;
    for (int row = 0; row < sizes_.rows(); ++row) {
      const int start = (step * 7 + row / sizes_.sequence * 5) % vocabulary, i = row % sizes_.sequence;
      host_tokens_[row] = (start + 3 * i) % vocabulary;
      host_tokens_[sizes_.rows() + row] = (start + 3 * (i + 1)) % vocabulary;
    }
  }

  /// Allocates all that lives for one step.
  void allocate() {
    const int rows = sizes_.rows(), dim = sizes_.dim();
    const int scores = sizes_.batch * sizes_.heads * sizes_.sequence * sizes_.sequence;
    tokens_ = buffer<int>(2 * rows);
    embedded_ = buffer(rows * dim);
    activations_.clear();
    for (int layer = 0; layer < sizes_.layers; ++layer) {
      activations_.push_back({buffer(rows * dim), buffer(rows), buffer(rows), buffer(rows * 3 * dim), buffer(scores),
                              buffer(rows * dim), buffer(rows * dim), buffer(rows * dim), buffer(rows), buffer(rows),
                              buffer(rows * 4 * dim), buffer(rows * 4 * dim), buffer(rows * dim)});
    }
    logits_ = buffer(rows * sizes_.vocabulary);
    d_logits_ = buffer(rows * sizes_.vocabulary);
    losses_ = buffer(rows);
    loss_ = buffer(1);
    scores_ = buffer(scores);
    d_scores_ = buffer(scores);
    d_out_ = buffer(rows * dim);
    d_middle_ = buffer(rows * dim);
    d_narrow_ = buffer(rows * dim);
    d_wide_ = buffer(rows * 4 * dim);
    d_activated_ = buffer(rows * 4 * dim);
    for (Parameter* parameter : parameters_) parameter->gradient = buffer(parameter->elements);
  }
  void release() {
    for (void* pointer : step_buffers_) CHECK(hipFree(pointer));
    step_buffers_.clear();
  }

  /// Issues one whole step to the stream.
  void step() {
    operations_ = 0;
    CHECK(hipMemcpyAsync(tokens_, host_tokens_, token_bytes(), hipMemcpyHostToDevice, stream_));
    CHECK(hipMemsetAsync(table_.gradient, 0, static_cast<std::size_t>(table_.elements) * sizeof(float), stream_));
    CHECK(hipMemsetAsync(losses_, 0, static_cast<std::size_t>(sizes_.rows()) * sizeof(float), stream_));
    forward();
    backward();
    run(advance_, dim3(1), schedule_);
    for (const Parameter* p : parameters_) {
      run(adamw_, blocks_for(p->elements), p->value, p->first, p->second, p->gradient, schedule_, p->decay,
          p->elements);
    }
    CHECK(hipMemcpyAsync(host_loss_, loss_, sizeof(float), hipMemcpyDeviceToHost, stream_));
    operations_ += 4;
  }

  float loss() const { return *host_loss_; }
  int operations() const { return operations_; }
  std::uint64_t weights_checksum() const {
    std::uint64_t sum = program::checksum(nullptr, 0);
    for (const Parameter* parameter : parameters_) {
      sum = program::checksum(program::download(parameter->value, static_cast<std::size_t>(parameter->elements)), sum);
    }
    return sum;
  }

 private:
  template <typename Element = float>
  Element* buffer(int elements) {
    Element* pointer = program::allocate<Element>(static_cast<std::size_t>(elements));
    step_buffers_.push_back(pointer);
    return pointer;
  }
  std::size_t token_bytes() const { return 2 * static_cast<std::size_t>(sizes_.rows()) * sizeof(int); }

  template <typename... Arguments>
  void run(hipFunction_t function, dim3 grid, Arguments... arguments) {
    program::launch(function, grid, dim3(kThreads), stream_, arguments...);
    ++operations_;
  }
  void multiply(float* c, const float* a, const float* b, const float* bias, const float* residual, int m, int n, int k,
                int a_row, int a_column, int b_row, int b_column) {
    const dim3 block(16, 16), grid = dim3(blocks_for(n, block.x).x, blocks_for(m, block.y).x);
    program::launch(matmul_, grid, block, stream_, c, a, b, bias, residual, m, n, k, a_row, a_column, b_row, b_column);
    ++operations_;
  }
  /// y[rows, out] = x[rows, in] weight[in, out] + bias + residual
  void linear(float* y, const float* x, const Parameter& weight, const float* bias, const float* residual, int in,
              int out) {
    multiply(y, x, weight.value, bias, residual, sizes_.rows(), out, in, in, 1, out, 1);
  }
  /// The gradients of linear(): of the input, unless null, of the weight, and of the bias if there is one.
  void linear_backward(float* d_x, const float* d_y, const float* x, const Parameter& weight, const Parameter* bias,
                       int in, int out) {
    multiply(weight.gradient, x, d_y, nullptr, nullptr, in, out, sizes_.rows(), 1, in, out, 1);
    if (bias != nullptr) run(column_sum_, blocks_for(out), bias->gradient, d_y, sizes_.rows(), out);
    multiply(d_x, d_y, weight.value, nullptr, nullptr, sizes_.rows(), in, out, out, 1, 1, out);
  }

  void forward() {
    const auto [layers, batch, sequence, heads, width, vocabulary] = sizes_;
    const int rows = sizes_.rows(), dim = sizes_.dim(), matrices = batch * heads * sequence;
    const auto row_blocks = dim3(static_cast<unsigned>(rows));
    run(embed_, blocks_for(rows * dim), embedded_, tokens_, table_.value, positions_.value, rows, sequence, dim);
    const float* in = embedded_;
    for (int i = 0; i < layers; ++i) {
      const Layer& layer = layers_[static_cast<std::size_t>(i)];
      const LayerActivations& a = activations_[static_cast<std::size_t>(i)];
      run(layer_norm_, row_blocks, a.norm1, a.mean1, a.inverse1, in, layer.norm1_gain.value, layer.norm1_bias.value,
          dim);
      linear(a.qkv, a.norm1, layer.qkv, layer.qkv_bias.value, nullptr, dim, 3 * dim);
      run(attention_scores_, blocks_for(matrices * sequence), scores_, a.qkv, batch, sequence, heads, width, scale());
      run(softmax_, dim3(static_cast<unsigned>(matrices)), a.probabilities, scores_, sequence);
      run(attend_, blocks_for(rows * dim), a.attended, a.probabilities, a.qkv, batch, sequence, heads, width);
      linear(a.middle, a.attended, layer.project, layer.project_bias.value, in, dim, dim);
      run(layer_norm_, row_blocks, a.norm2, a.mean2, a.inverse2, a.middle, layer.norm2_gain.value,
          layer.norm2_bias.value, dim);
      linear(a.expanded, a.norm2, layer.expand, layer.expand_bias.value, nullptr, dim, 4 * dim);
      run(gelu_, blocks_for(rows * 4 * dim), a.activated, a.expanded, rows * 4 * dim);
      linear(a.out, a.activated, layer.contract, layer.contract_bias.value, a.middle, 4 * dim, dim);
      in = a.out;
    }
    linear(logits_, in, head_, nullptr, nullptr, dim, vocabulary);
    run(cross_entropy_, row_blocks, d_logits_, losses_, logits_, tokens_ + rows, vocabulary,
        1.0F / static_cast<float>(rows));
    run(mean_, dim3(1), loss_, losses_, rows);
  }

  void backward() {
    const auto [layers, batch, sequence, heads, width, vocabulary] = sizes_;
    const int rows = sizes_.rows(), dim = sizes_.dim(), matrices = batch * heads * sequence;
    const std::size_t bytes = static_cast<std::size_t>(rows * dim) * sizeof(float);
    linear_backward(d_out_, d_logits_, layers == 0 ? embedded_ : activations_.back().out, head_, nullptr, dim,
                    vocabulary);
    for (int i = layers - 1; i >= 0; --i) {
      const Layer& layer = layers_[static_cast<std::size_t>(i)];
      const LayerActivations& a = activations_[static_cast<std::size_t>(i)];
      const float* in = i == 0 ? embedded_ : activations_[static_cast<std::size_t>(i) - 1].out;
      linear_backward(d_activated_, d_out_, a.activated, layer.contract, &layer.contract_bias, 4 * dim, dim);
      run(gelu_backward_, blocks_for(rows * 4 * dim), d_wide_, d_activated_, a.expanded, rows * 4 * dim);
      linear_backward(d_narrow_, d_wide_, a.norm2, layer.expand, &layer.expand_bias, dim, 4 * dim);
      norm_backward(d_middle_, d_narrow_, a.middle, a.mean2, a.inverse2, layer.norm2_gain, layer.norm2_bias, d_out_);
      linear_backward(d_narrow_, d_middle_, a.attended, layer.project, &layer.project_bias, dim, dim);
      run(attend_backward_, blocks_for(matrices * sequence), scores_, d_narrow_, a.qkv, batch, sequence, heads, width);
      run(softmax_backward_, dim3(static_cast<unsigned>(matrices)), d_scores_, scores_, a.probabilities, sequence,
          scale());
      run(qkv_backward_, blocks_for(rows * 3 * dim), d_wide_, d_scores_, a.probabilities, d_narrow_, a.qkv, batch,
          sequence, heads, width);
      linear_backward(d_narrow_, d_wide_, a.norm1, layer.qkv, &layer.qkv_bias, dim, 3 * dim);
      norm_backward(d_out_, d_narrow_, in, a.mean1, a.inverse1, layer.norm1_gain, layer.norm1_bias, d_middle_);
    }
    CHECK(hipMemcpyAsync(d_narrow_, d_out_, bytes, hipMemcpyDeviceToDevice, stream_));
    ++operations_;
    run(embed_backward_, blocks_for(table_.elements), table_.gradient, tokens_, d_narrow_, rows, vocabulary, dim);
    run(position_backward_, blocks_for(positions_.elements), positions_.gradient, d_narrow_, batch, sequence, dim);
  }
  void norm_backward(float* d_in, const float* d_y, const float* in, const float* mean, const float* inverse,
                     const Parameter& gain, const Parameter& bias, const float* residual) {
    run(layer_norm_backward_, dim3(static_cast<unsigned>(sizes_.rows())), d_in, d_y, in, mean, inverse, gain.value,
        residual, sizes_.dim());
    run(layer_norm_backward_parameters_, blocks_for(sizes_.dim()), gain.gradient, bias.gradient, d_y, in, mean, inverse,
        sizes_.rows(), sizes_.dim());
  }
  /// 1 / sqrt(width) for the widths that are powers of four; close to it for the others.
  float scale() const {
    float root = 1;
    while (root * root < static_cast<float>(sizes_.width)) root *= 2;
    return 1 / root;
  }

  Sizes sizes_;
  hipStream_t stream_;
  Kernels kernels_;
  std::vector<Layer> layers_;
  Parameter table_, positions_, head_;
  std::vector<Parameter*> parameters_;
  float* schedule_ = nullptr;
  int* host_tokens_ = nullptr;
  float* host_loss_ = nullptr;

  std::vector<void*> step_buffers_;
  int* tokens_ = nullptr;
  std::vector<LayerActivations> activations_;
  float *embedded_ = nullptr, *logits_ = nullptr, *losses_ = nullptr, *loss_ = nullptr, *scores_ = nullptr;
  float *d_logits_ = nullptr, *d_scores_ = nullptr, *d_out_ = nullptr, *d_middle_ = nullptr, *d_narrow_ = nullptr;
  float *d_wide_ = nullptr, *d_activated_ = nullptr;
  int operations_ = 0;

  hipFunction_t embed_ = kernels_.get("embed"), embed_backward_ = kernels_.get("embed_backward");
  hipFunction_t position_backward_ = kernels_.get("position_backward"), layer_norm_ = kernels_.get("layer_norm");
  hipFunction_t layer_norm_backward_ = kernels_.get("layer_norm_backward");
  hipFunction_t layer_norm_backward_parameters_ = kernels_.get("layer_norm_backward_parameters");
  hipFunction_t matmul_ = kernels_.get("matmul"), column_sum_ = kernels_.get("column_sum");
  hipFunction_t attention_scores_ = kernels_.get("attention_scores"), softmax_ = kernels_.get("softmax");
  hipFunction_t softmax_backward_ = kernels_.get("softmax_backward"), attend_ = kernels_.get("attend");
  hipFunction_t attend_backward_ = kernels_.get("attend_backward"), qkv_backward_ = kernels_.get("qkv_backward");
  hipFunction_t gelu_ = kernels_.get("gelu"), gelu_backward_ = kernels_.get("gelu_backward");
  hipFunction_t cross_entropy_ = kernels_.get("cross_entropy"), mean_ = kernels_.get("mean");
  hipFunction_t advance_ = kernels_.get("advance"), adamw_ = kernels_.get("adamw");
};

/// How a step reaches the device; owns the executable graph that lives longer than a step.
class Runner {
 public:
  Runner(Transformer& model, hipStream_t stream) : model_(model), stream_(stream) {}
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  ~Runner() {
    if (exec_ != nullptr) CHECK(hipGraphExecDestroy(exec_));
  }

  /// Waits for the steps run so far.
  void wait() {
    CHECK(hipStreamSynchronize(stream_));
    for (hipGraphExec_t exec : launched_) CHECK(hipGraphExecDestroy(exec));
    launched_.clear();
  }

  void eager() { model_.step(); }
  void recapture() {
    hipGraph_t graph = capture();
    hipGraphExec_t exec = nullptr;
    CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    CHECK(hipGraphDestroy(graph));
    CHECK(hipGraphLaunch(exec, stream_));
    launched_.push_back(exec);
  }
  void update() {
    hipGraph_t graph = capture();
    hipGraphNode_t node = nullptr;
    hipGraphExecUpdateResult result = hipGraphExecUpdateSuccess;
    if (exec_ == nullptr) {
      CHECK(hipGraphInstantiate(&exec_, graph, nullptr, nullptr, 0));
    } else {
      CHECK(hipGraphExecUpdate(exec_, graph, &node, &result));
    }
    CHECK(hipGraphDestroy(graph));
    CHECK(hipGraphLaunch(exec_, stream_));
  }
  void replay() {
    if (exec_ == nullptr) {
      hipGraph_t graph = capture();
      CHECK(hipGraphInstantiate(&exec_, graph, nullptr, nullptr, 0));
      CHECK(hipGraphDestroy(graph));
    }
    CHECK(hipGraphLaunch(exec_, stream_));
  }

 private:
  hipGraph_t capture() {
    hipGraph_t graph = nullptr;
    CHECK(hipStreamBeginCapture(stream_, hipStreamCaptureModeGlobal));
    model_.step();
    CHECK(hipStreamEndCapture(stream_, &graph));
    return graph;
  }
  Transformer& model_;
  hipStream_t stream_;
  hipGraphExec_t exec_ = nullptr;
  std::vector<hipGraphExec_t> launched_;  ///< destroyed when waited for
};

}  // namespace

int main(int argc, char** argv) {
  const Options options(argc, argv,
                        {{"steps", "6"},
                         {"mode", "recapture"},
                         {"layers", "2"},
                         {"batch", "2"},
                         {"sequence", "8"},
                         {"heads", "2"},
                         {"width", "16"},
                         {"vocabulary", "24"},
                         {"buffers", "fresh"},
                         {"wait-every", "1"},
                         {"times", ""}});
  const std::string& mode = options.text("mode");
  void (Runner::*run)() = mode == "eager"       ? &Runner::eager
                          : mode == "recapture" ? &Runner::recapture
                          : mode == "update"    ? &Runner::update
                          : mode == "static"    ? &Runner::replay
                                                : nullptr;
  if (run == nullptr) {
    std::fprintf(stderr, "--mode %s: expected eager, recapture, update or static\n", mode.c_str());
    return 2;
  }
  const std::string& buffers = options.text("buffers");
  const int group = options.number("wait-every");
  if ((buffers != "fresh" && buffers != "kept") || group < 1) {
    std::fprintf(stderr, "--buffers %s, --wait-every %d: expected fresh or kept, and 1 or more\n", buffers.c_str(),
                 group);
    return 2;
  }
  const bool fresh = mode != "static" && buffers == "fresh";
  const Sizes sizes{options.number("layers"), options.number("batch"), options.number("sequence"),
                    options.number("heads"),  options.number("width"), options.number("vocabulary")};

  hipStream_t stream = nullptr;
  CHECK(hipStreamCreate(&stream));
  {
    Transformer model(sizes, stream);
    Runner runner(model, stream);
    program::StepTimes times(options.text("times"));
    if (!fresh) model.allocate();
    // The steps of a group work on one batch; with --wait-every 1 each step is waited for.
    for (int step = 0; step < options.number("steps"); step += group) {
      model.make_batch(step);
      times.start();
      for (int i = 0; i < group; ++i) {
        if (fresh) model.allocate();
        (runner.*run)();
        if (group == 1) runner.wait();
        if (fresh) model.release();
      }
      if (group > 1) runner.wait();
      times.stop(group);
      std::printf("step %d loss %.9g\n", step + group - 1, static_cast<double>(model.loss()));
    }
    if (!fresh) model.release();
    std::printf("operations a step %d\nweights %016" PRIx64 "\n", model.operations(), model.weights_checksum());
  }
  CHECK(hipStreamDestroy(stream));
  return 0;
}
