// driver_nodes.cpp: graphs with driver-style nodes and nodes of any kind, which came with HIP 6; memory operations
// where the runtime has them. Each step builds a graph, changes a captured one, sets every node of both and of their
// executable graphs, and launches. Functions newer than the oldest header are looked up.
#include <dlfcn.h>

#include "program.h"

namespace {

constexpr char kSource[] = R"(
extern "C" __global__ void scale(int* out, const int* in, int by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * by + i;
}
)";

/// HIP_MEMCPY3D: with 32-bit sizes before HIP 6, with size_t since.
template <typename Size>
struct Box {
  Size src_x, src_y, src_z, src_level;
  int src_type;
  const void* src_host;
  void* src_device;
  void* src_array;
  Size src_pitch, src_height, dst_x, dst_y, dst_z, dst_level;
  int dst_type;
  void* dst_host;
  void* dst_device;
  void* dst_array;
  Size dst_pitch, dst_height, width, height, depth;
};

struct Fill {  // HIP_MEMSET_NODE_PARAMS
  void* dst;
  std::size_t pitch;
  unsigned value, element_bytes;
  std::size_t width, height;
};

struct AnyNode {  // hipGraphNodeParams; kernels are 0, fills 2, host functions 3
  int type, reserved0[3];
  union {
    long long reserved1[29];
    hipKernelNodeParams kernel;
    hipMemsetParams fill;
    hipHostNodeParams host;
  };
  long long reserved2;
};

struct Operation {  // hipStreamBatchMemOpParams: write a value of 32 bits (2) or of 64 (5), wait for one (4)
  int kind;
  void* address;
  std::uint64_t value;
  unsigned flags;
  void* alias;
  std::uint64_t unused;
};
static_assert(sizeof(Operation) == 48);

struct Batch {  // hipBatchMemOpNodeParams
  hipCtx_t context;
  unsigned count;
  Operation* operations;
  unsigned flags;
};

/// A function of the runtime by its name; hipErrorNotFound from one it does not have.
template <typename... Parameters>
struct Late {
  const char* name;

  hipError_t operator()(Parameters... parameters) const {
    void* const found = dlsym(RTLD_DEFAULT, name);
    using Function = hipError_t (*)(Parameters...);
    return found != nullptr ? reinterpret_cast<Function>(found)(parameters...) : hipErrorNotFound;
  }
};
using Node = hipGraphNode_t;
constexpr Late<Node*, hipGraph_t, const Node*, std::size_t, const void*, hipCtx_t> add_box{"hipDrvGraphAddMemcpyNode"};
constexpr Late<Node, void*> get_box{"hipDrvGraphMemcpyNodeGetParams"};
constexpr Late<Node, const void*> set_box{"hipDrvGraphMemcpyNodeSetParams"};
constexpr Late<hipGraphExec_t, Node, const void*, hipCtx_t> set_box_in_exec{"hipDrvGraphExecMemcpyNodeSetParams"};
constexpr Late<Node*, hipGraph_t, const Node*, std::size_t, const void*, hipCtx_t> add_fill{"hipDrvGraphAddMemsetNode"};
constexpr Late<hipGraphExec_t, Node, const void*, hipCtx_t> set_fill_in_exec{"hipDrvGraphExecMemsetNodeSetParams"};
constexpr Late<Node*, hipGraph_t, const Node*, std::size_t, AnyNode*> add_any{"hipGraphAddNode"};
constexpr Late<Node, AnyNode*> set_any{"hipGraphNodeSetParams"};
constexpr Late<hipGraphExec_t, Node, AnyNode*> set_any_in_exec{"hipGraphExecNodeSetParams"};
constexpr Late<Node*, hipGraph_t, const Node*, std::size_t, const Batch*> add_batch{"hipGraphAddBatchMemOpNode"};
constexpr Late<Node, Batch*> get_batch{"hipGraphBatchMemOpNodeGetParams"};
constexpr Late<Node, const Batch*> set_batch{"hipGraphBatchMemOpNodeSetParams"};
constexpr Late<hipGraphExec_t, Node, const Batch*> set_batch_in_exec{"hipGraphExecBatchMemOpNodeSetParams"};
constexpr Late<hipStream_t, unsigned, Operation*, unsigned> submit_batch{"hipStreamBatchMemOp"};
constexpr Late<Node*, hipGraph_t, const Node*, std::size_t, const void*> add_signals{
    "hipGraphAddExternalSemaphoresSignalNode"};

/// Prints what a call answered; the thread's last error is what it was. True for success.
bool show(const char* what, hipError_t result) {
  std::printf("  %s: %s\n", what, hipGetErrorName(result));
  static_cast<void>(hipGetLastError());
  return result == hipSuccess;
}

int runtime_version() {
  int version = 0;
  CHECK(hipRuntimeGetVersion(&version));
  return version;
}

template <typename Size>
class Program {
 public:
  Program(int width, int rows)
      : n_(width * rows), width_(width), rows_(rows), kernels_(kSource), scale_(kernels_.get("scale")) {
    CHECK(hipStreamCreate(&stream_));
    CHECK(hipDevicePrimaryCtxRetain(&context_, 0));
  }

  void step(int step) {
    std::printf("step %d\n", step);
    const auto elements = static_cast<std::size_t>(n_);
    in_ = program::allocate<int>(elements);
    middle_ = program::allocate<int>(elements);
    out_ = program::allocate<int>(elements);
    word_ = program::allocate<std::uint64_t>(2);
    CHECK(hipMemset(middle_, 0x11, elements * sizeof(int)));
    CHECK(hipMemset(out_, 0x22, elements * sizeof(int)));
    CHECK(hipMemset(word_, 0, 2 * sizeof(std::uint64_t)));
    built(step);
    captured(step);
    in_stream(step);
    for (void* memory :
         {static_cast<void*>(in_), static_cast<void*>(middle_), static_cast<void*>(out_), static_cast<void*>(word_)})
      CHECK(hipFree(memory));
  }

 private:
  /// Rows [from, from + rows) of the input to the same place of the middle.
  Box<Size> box(int from, int rows) const {
    const int on_device = runtime_version() < 60000000 ? 1 : 2;
    Box<Size> made{};
    made.src_type = made.dst_type = on_device;
    made.src_device = in_, made.dst_device = middle_;
    made.src_y = made.dst_y = static_cast<Size>(from);
    made.src_pitch = made.dst_pitch = static_cast<Size>(width_) * 4;
    made.src_height = made.dst_height = static_cast<Size>(rows_);
    made.src_x = made.dst_x = 4;
    made.width = static_cast<Size>(width_) * 4 - 8;
    made.height = static_cast<Size>(rows), made.depth = 1;
    return made;
  }
  Fill fill(unsigned value) const { return {in_, 0, value, 4, static_cast<std::size_t>(n_), 1}; }
  AnyNode kernel(int* by) {
    arguments_[0] = &out_, arguments_[1] = &middle_, arguments_[2] = by, arguments_[3] = &n_;
    AnyNode node{};
    node.kernel.func = reinterpret_cast<void*>(scale_);
    node.kernel.gridDim = program::blocks_for(n_);
    node.kernel.blockDim = dim3(program::kThreads);
    node.kernel.kernelParams = arguments_;
    return node;
  }
  AnyNode runtime_fill(unsigned value) const {
    AnyNode node{};
    node.type = 2;
    node.fill.dst = middle_, node.fill.value = value, node.fill.elementSize = 1;
    node.fill.width = static_cast<std::size_t>(width_), node.fill.height = 1;
    return node;
  }

  void launch(hipGraphExec_t exec, const char* what) {
    CHECK(hipGraphLaunch(exec, stream_));
    CHECK(hipStreamSynchronize(stream_));
    const auto elements = static_cast<std::size_t>(n_);
    std::printf("  %s: middle %016" PRIx64 " out %016" PRIx64 " words %016" PRIx64 "\n", what,
                program::checksum(program::download(middle_, elements)),
                program::checksum(program::download(out_, elements)), program::checksum(program::download(word_, 2)));
  }

  void built(int step) {
    hipGraph_t graph = nullptr;
    CHECK(hipGraphCreate(&graph, 0));
    Node filled = nullptr, copied = nullptr, scaled = nullptr, written = nullptr, signalled = nullptr;
    int by = 3 + step;
    Fill value = fill(0x01020304u + static_cast<unsigned>(step));
    const int rows_copied = 1 + step % 2;  // CUDA sets only copies of one row in an executable graph
    Box<Size> rows = box(1, rows_copied);
    AnyNode node = kernel(&by);
    if (!show("add fill", add_fill(&filled, graph, nullptr, 0, &value, context_))) filled = nullptr;
    show("add copy without context", add_box(&copied, graph, nullptr, 0, &rows, nullptr));
    copied = nullptr;
    const bool has_box = show("add copy", add_box(&copied, graph, &filled, filled != nullptr, &rows, context_));
    const bool has_any = show("add kernel", add_any(&scaled, graph, &copied, copied != nullptr, &node));
    Operation operations[] = {{2, word_, 7, 0, nullptr, 0}, {5, word_ + 1, 0x123456789abcULL, 0, nullptr, 0}};
    Batch batch{context_, 2, operations, 0};
    const bool has_batch =
        show("add memory operations", add_batch(&written, graph, &scaled, scaled != nullptr, &batch));
    show("add signals without any", add_signals(&signalled, graph, nullptr, 0, nullptr));

    if (has_box) {
      Box<Size> found{};
      show("ask copy", get_box(copied, &found));
      std::printf("  copy of %zu x %zu x %zu, pitches %zu %zu, ours %d\n", std::size_t{found.width},
                  std::size_t{found.height}, std::size_t{found.depth}, std::size_t{found.src_pitch},
                  std::size_t{found.dst_pitch}, found.src_device == in_ && found.dst_device == middle_);
    }
    if (has_batch) {
      Batch found{};
      show("ask memory operations", get_batch(written, &found));
      if (found.count == 2)
        std::printf("  operations %d %d, value %" PRIu64 "\n", found.operations[0].kind, found.operations[1].kind,
                    found.operations[1].value);
    }

    hipGraphExec_t exec = nullptr;
    CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    launch(exec, "as built");

    value = fill(0x0a0b0c0du);
    rows = box(0, rows_copied);
    by = 5;
    operations[0].value = 9;
    if (filled != nullptr) show("set fill in exec", set_fill_in_exec(exec, filled, &value, context_));
    if (has_box) show("set copy in exec", set_box_in_exec(exec, copied, &rows, context_));
    if (has_any) show("set kernel in exec", set_any_in_exec(exec, scaled, &node));
    if (has_batch) show("set memory operations in exec", set_batch_in_exec(exec, written, &batch));
    launch(exec, "as set in exec");
    CHECK(hipGraphExecDestroy(exec));

    rows = box(2, rows_copied);
    by = 11;
    operations[1].value = 99;
    if (has_box) show("set copy", set_box(copied, &rows));
    if (has_any) show("set kernel", set_any(scaled, &node));
    if (has_batch) show("set memory operations", set_batch(written, &batch));
    CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    launch(exec, "as set in graph");
    CHECK(hipGraphExecDestroy(exec));
    CHECK(hipGraphDestroy(graph));
  }

  /// The same calls about a graph that was captured.
  void captured(int step) {
    int by = 2;
    hipGraph_t graph = nullptr;
    CHECK(hipStreamBeginCapture(stream_, hipStreamCaptureModeGlobal));
    CHECK(hipMemsetAsync(middle_, 3, static_cast<std::size_t>(n_) * sizeof(int), stream_));
    program::launch(scale_, program::blocks_for(n_), dim3(program::kThreads), stream_, out_,
                    static_cast<const int*>(middle_), by, n_);
    CHECK(hipStreamEndCapture(stream_, &graph));
    if (step % 3 != 2) {  // else nobody looks at it
      std::size_t one = 1;
      Node filled = nullptr, scaled = nullptr, more = nullptr;
      CHECK(hipGraphGetRootNodes(graph, &filled, &one));
      CHECK(hipGraphNodeGetDependentNodes(filled, &scaled, &one));
      by = 17;
      AnyNode node = kernel(&by);
      show("set captured kernel", set_any(scaled, &node));
      node = runtime_fill(5);
      show("set captured fill", set_any(filled, &node));
      const Fill value = fill(77);
      show("add fill to it", add_fill(&more, graph, &filled, 1, &value, context_));
    }
    hipGraphExec_t exec = nullptr;
    CHECK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    launch(exec, "captured");
    CHECK(hipGraphExecDestroy(exec));
    CHECK(hipGraphDestroy(graph));
  }

  void in_stream(int step) {
    const auto value = static_cast<std::uint64_t>(step) + 1000;
    Operation operations[] = {{5, word_, value, 0, nullptr, 0}, {4, word_, value, 1, nullptr, 0}};
    if (!show("memory operations in a stream", submit_batch(stream_, 2, operations, 0))) return;
    CHECK(hipStreamSynchronize(stream_));
    std::printf("  word %" PRIu64 "\n", program::download(word_, 1)[0]);
  }

  int n_, width_, rows_;
  const program::Kernels kernels_;
  const hipFunction_t scale_;
  hipStream_t stream_ = nullptr;
  hipCtx_t context_ = nullptr;
  int *in_ = nullptr, *middle_ = nullptr, *out_ = nullptr;
  std::uint64_t* word_ = nullptr;
  void* arguments_[4] = {};
};

template <typename Size>
void run(const program::Options& options) {
  Program<Size> program(options.number("width"), options.number("rows"));
  for (int step = 0; step < options.number("steps"); ++step) program.step(step);
}

}  // namespace

int main(int argc, char** argv) {
  const program::Options options(argc, argv, {{"steps", "6"}, {"width", "512"}, {"rows", "4"}});
  if (runtime_version() < 60000000) {
    run<unsigned>(options);
  } else {
    run<std::size_t>(options);
  }
  return 0;
}
