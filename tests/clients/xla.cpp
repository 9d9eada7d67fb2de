// XLA on ROCm (command buffers): one graph of explicit kernel, copy and child nodes; at each step the nodes whose
// buffers moved are set in its exec. Libraries' calls (matrix products) are traced into a graph of their own, which
// becomes a child; traces are kept by the addresses they were made with. --move: where donated buffers are (alternate:
// in two places in turn, each: elsewhere at every step); --cache 0: traced anew each time; --children 0: explicit nodes
// only; --smem N: with shared memory, which is set of the function at each update; --queries 1: occupancy is asked for
// while a trace goes on.
#include "client.h"

using namespace program;

namespace {

constexpr int kCount = 256, kCommands = 6;
constexpr std::size_t kSpread = std::size_t{1} << 16, kOutputs = std::size_t{8} << 20,
                      kTemporaries = std::size_t{24} << 20;
constexpr char kSource[] = R"(
extern "C" __global__ void scaled(float* out, const float* in, const float* weights, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] = in[i] * weights[i % 64] + 0.5f;
}
extern "C" __global__ void added(float* out, const float* in, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) out[i] += in[i];
}
)";

enum class Kind { kKernel, kCopy, kTraced };

class CommandBuffer {
 public:
  explicit CommandBuffer(const Options& options)
      : cached_(options.number("cache") != 0),
        children_(options.number("children") != 0),
        queries_(options.number("queries") != 0),
        shared_bytes_(static_cast<unsigned>(options.number("smem"))) {
    const std::vector<float> values(64, 0.75F);
    CHECK(hipMemcpy(weights_, values.data(), values.size() * sizeof(float), hipMemcpyHostToDevice));
  }

  void run(int step, float* in, float* out, float* temporaries, hipStream_t stream) {
    const bool first = exec_ == nullptr;
    if (first) CHECK(hipGraphCreate(&graph_, 0));
    if (first || in != in_ || out != out_) {
      for (int command = 0; command < kCommands; ++command) {
        // What lies between stays where it is.
        if (!first && command != 0 && command != kCommands - 1) continue;
        const auto between = [&](int index) { return temporaries + static_cast<std::ptrdiff_t>(index % 8) * kCount; };
        record(command, command == kCommands - 1 ? out : between(command), command == 0 ? in : between(command - 1));
      }
    }
    if (first) {
      std::size_t count = 0;
      CHECK(hipGraphGetNodes(graph_, nullptr, &count));
      CHECK(hipGraphInstantiate(&exec_, graph_, nullptr, nullptr, 0));
    }
    in_ = in;
    out_ = out;
    CHECK(hipGraphLaunch(exec_, stream));
    CHECK(hipStreamSynchronize(stream));
    print_step(step, out, kCount);
  }

 private:
  struct Trace {
    const float* in;
    float* out;
    hipGraph_t graph;
  };
  struct Command {
    hipGraphNode_t node = nullptr;
    std::vector<Trace> traces;
  };

  Kind kind_of(int command) const {
    if (children_ && command % 3 == 0) return Kind::kTraced;
    return command % 3 == 1 || command == kCommands - 1 ? Kind::kKernel : Kind::kCopy;
  }

  hipGraph_t trace(float* out, const float* in) {
    hipGraph_t empty = nullptr, traced = nullptr;
    std::size_t count = 0;
    CHECK(hipGraphCreate(&empty, 0));
    CHECK(hipGraphGetNodes(empty, nullptr, &count));
    CHECK(hipStreamBeginCapture(tracing_, hipStreamCaptureModeThreadLocal));
    if (queries_) {
      int blocks = 0;
      CHECK(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scaled_, kThreads, 0));
      CHECK(hipFuncGetAttribute(&blocks, HIP_FUNC_ATTRIBUTE_NUM_REGS, scaled_));
    }
    launch(scaled_, blocks_for(kCount), dim3(kThreads), tracing_, out, in, static_cast<const float*>(weights_), kCount);
    launch(added_, blocks_for(kCount), dim3(kThreads), tracing_, out, in, kCount);
    CHECK(hipStreamEndCapture(tracing_, &traced));
    CHECK(hipGraphDestroy(empty));
    return traced;
  }

  void record(int command, float* out, const float* in) {
    Command& recorded = commands_[static_cast<std::size_t>(command)];
    const hipGraphNode_t* const after =
        command == 0 || exec_ != nullptr ? nullptr : &commands_[static_cast<std::size_t>(command) - 1].node;
    const std::size_t count = after == nullptr ? 0 : 1;
    switch (kind_of(command)) {
      case Kind::kKernel: {
        int elements = kCount;
        void* arguments[] = {&out, &in, &weights_, &elements};
        hipKernelNodeParams params{};
        params.func = scaled_;
        params.gridDim = blocks_for(kCount);
        params.blockDim = dim3(kThreads);
        params.sharedMemBytes = shared_bytes_;
        params.kernelParams = arguments;
        if (shared_bytes_ != 0)
          CHECK(hipFuncSetAttribute(reinterpret_cast<const void*>(scaled_), hipFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(shared_bytes_)));
        if (exec_ == nullptr)
          CHECK(hipGraphAddKernelNode(&recorded.node, graph_, after, count, &params));
        else
          CHECK(hipGraphExecKernelNodeSetParams(exec_, recorded.node, &params));
        break;
      }
      case Kind::kCopy:
        if (exec_ == nullptr)
          CHECK(hipGraphAddMemcpyNode1D(&recorded.node, graph_, after, count, out, in, kCount * sizeof(float),
                                        hipMemcpyDeviceToDevice));
        else
          CHECK(hipGraphExecMemcpyNodeSetParams1D(exec_, recorded.node, out, in, kCount * sizeof(float),
                                                  hipMemcpyDeviceToDevice));
        break;
      case Kind::kTraced: {
        hipGraph_t graph = nullptr;
        for (const Trace& trace : recorded.traces)
          if (trace.in == in && trace.out == out) graph = trace.graph;
        const bool anew = graph == nullptr;
        if (anew) graph = trace(out, in);
        if (exec_ == nullptr)
          CHECK(hipGraphAddChildGraphNode(&recorded.node, graph_, after, count, graph));
        else
          CHECK(hipGraphExecChildGraphNodeSetParams(exec_, recorded.node, graph));
        if (anew && cached_) recorded.traces.push_back({in, out, graph});
        if (anew && !cached_) CHECK(hipGraphDestroy(graph));
        if (recorded.traces.size() > 16) {
          CHECK(hipGraphDestroy(recorded.traces.front().graph));
          recorded.traces.erase(recorded.traces.begin());
        }
        break;
      }
    }
  }

  const Kernels kernels_{kSource};
  const hipFunction_t scaled_ = kernels_.get("scaled"), added_ = kernels_.get("added");
  const hipStream_t tracing_ = new_stream();
  float* weights_ = allocate<float>(64);
  const bool cached_, children_, queries_;
  const unsigned shared_bytes_;
  std::vector<Command> commands_{kCommands};
  hipGraph_t graph_ = nullptr;
  hipGraphExec_t exec_ = nullptr;
  const float* in_ = nullptr;
  float* out_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  const Options options(
      argc, argv,
      {{"steps", "200"}, {"move", "alternate"}, {"cache", "1"}, {"children", "1"}, {"smem", "0"}, {"queries", "0"}});
  const hipStream_t stream = new_stream();
  // One allocation, as XLA's allocator has it: buffers are parts of it.
  char* const arena = allocate<char>(std::size_t{64} << 20);
  CommandBuffer commands(options);
  for (int step = 0; step < options.number("steps"); ++step) {
    const int place = options.text("move") == "alternate" ? step % 2 : step % 100;
    const std::size_t offset = static_cast<std::size_t>(place) * kSpread;
    auto* const in = reinterpret_cast<float*>(arena + offset);
    upload_input(in, step, kCount, stream);
    commands.run(step, in, reinterpret_cast<float*>(arena + kOutputs + offset),
                 reinterpret_cast<float*>(arena + kTemporaries), stream);
  }
  return 0;
}
