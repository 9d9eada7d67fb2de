// Kernel nodes: captured and added, their parameters, updates, events of launches.
#include <cstdlib>
#include <string>

#include "graph_support.h"
#include "kernel_support.h"

extern "C" hipError_t hipExtModuleLaunchKernel(hipFunction_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t,
                                               uint32_t, size_t, hipStream_t, void**, void**, hipEvent_t, hipEvent_t,
                                               uint32_t);

extern "C" {
void** __hipRegisterFatBinary(const void* data);
void __hipRegisterFunction(void** modules, const void* host_function, char* device_function, const char* device_name,
                           unsigned thread_limit, void* tid, void* bid, void* block, void* grid, int* warp);
void __hipRegisterVar(void** modules, void* variable, char* host_name, char* device_name, int ext, size_t size,
                      int constant, int global);
void __hipUnregisterFatBinary(void** modules);
}

namespace graph_test {
namespace {

const KernelSource kSource = {"graph_kernels",
                              R"(
extern "C" __global__ void set(int* out, int value) { out[blockIdx.x * blockDim.x + threadIdx.x] = value; }
extern "C" __global__ void add(int* out, int value) { out[blockIdx.x * blockDim.x + threadIdx.x] += value; }
extern "C" __global__ void copy(int* out, const int* in, char padded, long long scale) { out[0] = in[0] * (int)scale + padded; }
extern "C" __global__ void wait_for(volatile int* flag) { while (*flag == 0) {} }
extern "C" __global__ void nothing() {}
extern "C" __global__ void __launch_bounds__(64) bounded(int* out, int value) { out[threadIdx.x] = value; }
)",
                              {}};

/// Compiled once for all tests.
class Kernels {
 public:
  static hipFunction_t get(const char* name) {
    static Kernels* const kernels = new Kernels;
    hipFunction_t function = nullptr;
    EXPECT_HIP(hipModuleGetFunction(&function, kernels->module_, name));
    return function;
  }

 private:
  Kernels() {
    const Compiled compiled = compile(kSource);
    EXPECT_EQ(HIPRTC_SUCCESS, compiled.result) << compiled.log;
    EXPECT_HIP(hipModuleLoadData(&module_, compiled.code.data()));
  }
  hipModule_t module_ = nullptr;
};

class KernelNodeTest : public testing::Test {
 protected:
  void SetUp() override {
    (void)Kernels::get("set");
    before_ = statistics();
    ASSERT_HIP(hipGraphCreate(&graph_, 0));
  }
  void TearDown() override {
    if (exec_ != nullptr) {
      EXPECT_HIP(hipGraphExecDestroy(exec_));
    }
    EXPECT_HIP(hipGraphDestroy(graph_));
    (void)hipGetLastError();
    EXPECT_TRUE(eventually([&] { return statistics().launches == 0; }));
    EXPECT_EQ(before_.nodes, statistics().nodes);
    EXPECT_EQ(before_.node_argument_bytes, statistics().node_argument_bytes);
    EXPECT_EQ(before_.exec_argument_bytes, statistics().exec_argument_bytes);
  }

  static hipKernelNodeParams params(const char* function, void** arguments, unsigned threads = 4) {
    hipKernelNodeParams made = {};
    made.func = reinterpret_cast<void*>(Kernels::get(function));
    made.gridDim = dim3(1, 1, 1);
    made.blockDim = dim3(threads, 1, 1);
    made.kernelParams = arguments;
    return made;
  }
  hipGraphNode_t add(const char* function, int* out, int value) {
    void* arguments[] = {&out, &value};
    const hipKernelNodeParams made = params(function, arguments);
    hipGraphNode_t node = nullptr;
    EXPECT_HIP(hipGraphAddKernelNode(&node, graph_, nullptr, 0, &made));
    out = nullptr;  // copied at the call
    value = -1;
    return node;
  }
  static hipError_t launch(hipStream_t stream, const char* function, int* out, int value) {
    void* arguments[] = {&out, &value};
    const hipError_t result =
        hipModuleLaunchKernel(Kernels::get(function), 1, 1, 1, 4, 1, 1, 0, stream, arguments, nullptr);
    out = nullptr;
    value = -1;
    return result;
  }
  void instantiate() { ASSERT_HIP(hipGraphInstantiate(&exec_, graph_, nullptr, nullptr, 0)); }
  void run() {
    EXPECT_HIP(hipGraphLaunch(exec_, stream_));
    EXPECT_HIP(hipStreamSynchronize(stream_));
  }
  int at(std::size_t index) const { return data_.read()[index]; }

  ::Buffer<int> data_{64};
  TestStream stream_;
  hipGraph_t graph_ = nullptr;
  hipGraphExec_t exec_ = nullptr;
  cpuhip_statistics_t before_;
};

TEST_F(KernelNodeTest, CapturedKernelsRunWithTheirArguments) {
  ASSERT_HIP(hipStreamBeginCapture(stream_, hipStreamCaptureModeGlobal));
  EXPECT_HIP(launch(stream_, "set", data_.data(), 5));
  EXPECT_HIP(launch(stream_, "add", data_.data(), 2));
  hipGraph_t graph = nullptr;
  ASSERT_HIP(hipStreamEndCapture(stream_, &graph));
  const auto nodes = nodes_of(graph);
  ASSERT_EQ(2u, nodes.size());
  hipGraphNodeType type;
  EXPECT_HIP(hipGraphNodeGetType(nodes[0], &type));
  EXPECT_EQ(version() < 50300000 ? 1 : 0, static_cast<int>(type));
  hipKernelNodeParams found = {};
  ASSERT_HIP(hipGraphKernelNodeGetParams(nodes[1], &found));
  EXPECT_EQ(reinterpret_cast<void*>(Kernels::get("add")), found.func);
  EXPECT_EQ(4u, found.blockDim.x);
  EXPECT_EQ(data_.data(), *static_cast<int**>(found.kernelParams[0]));
  EXPECT_EQ(2, *static_cast<int*>(found.kernelParams[1]));
  EXPECT_EQ(nullptr, found.extra);
  ASSERT_HIP(hipGraphInstantiate(&exec_, graph, nullptr, nullptr, 0));
  EXPECT_HIP(hipGraphDestroy(graph));
  run();
  EXPECT_EQ(7, at(3));
}

TEST_F(KernelNodeTest, AddingIsChecked) {
  int* out = data_.data();
  int value = 1;
  void* arguments[] = {&out, &value};
  hipGraphNode_t node = nullptr;
  hipKernelNodeParams made = params("set", arguments);
  EXPECT_EQ(hipErrorInvalidValue, hipGraphAddKernelNode(&node, graph_, nullptr, 0, nullptr));
  made.func = nullptr;
  EXPECT_EQ(hipErrorInvalidValue, hipGraphAddKernelNode(&node, graph_, nullptr, 0, &made));
  made.func = &value;
  EXPECT_EQ(hipErrorInvalidDeviceFunction, hipGraphAddKernelNode(&node, graph_, nullptr, 0, &made));
  made = params("set", nullptr);
  EXPECT_EQ(hipErrorInvalidValue, hipGraphAddKernelNode(&node, graph_, nullptr, 0, &made));
  made = params("set", arguments, 4096);
  EXPECT_NE(hipSuccess, hipGraphAddKernelNode(&node, graph_, nullptr, 0, &made));
  made = params("set", arguments, 1024);
  made.gridDim.x = 1u << 31;
  EXPECT_EQ(hipErrorInvalidConfiguration, hipGraphAddKernelNode(&node, graph_, nullptr, 0, &made));
  made = params("nothing", nullptr);
  EXPECT_HIP(hipGraphAddKernelNode(&node, graph_, nullptr, 0, &made));
}

TEST_F(KernelNodeTest, PackedArgumentsComeBackPacked) {
  struct alignas(8) Packed {
    int* out;
    const int* in;
    char padded;
    long long scale;
  } packed = {data_.data() + 1, data_.data(), 3, 10};
  std::size_t bytes = sizeof packed;
  void* extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed, HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   HIP_LAUNCH_PARAM_END};
  hipKernelNodeParams made = params("copy", nullptr, 1);
  made.extra = extra;
  hipGraphNode_t node = nullptr;
  ASSERT_HIP(hipGraphAddKernelNode(&node, graph_, nullptr, 0, &made));
  ASSERT_HIP(hipStreamBeginCapture(stream_, hipStreamCaptureModeGlobal));
  EXPECT_HIP(hipModuleLaunchKernel(Kernels::get("copy"), 1, 1, 1, 1, 1, 1, 0, stream_, nullptr, extra));
  hipGraph_t captured = nullptr;
  ASSERT_HIP(hipStreamEndCapture(stream_, &captured));
  packed.scale = -1;
  for (const hipGraphNode_t each : {node, nodes_of(captured).at(0)}) {
    hipKernelNodeParams found = {};
    ASSERT_HIP(hipGraphKernelNodeGetParams(each, &found));
    EXPECT_EQ(nullptr, found.kernelParams);
    ASSERT_NE(nullptr, found.extra);
    EXPECT_EQ(HIP_LAUNCH_PARAM_BUFFER_POINTER, found.extra[0]);
    EXPECT_EQ(10, static_cast<Packed*>(found.extra[1])->scale);
    EXPECT_EQ(sizeof packed, *static_cast<std::size_t*>(found.extra[3]));
    static_cast<Packed*>(found.extra[1])->scale = 20;
    EXPECT_HIP(hipGraphKernelNodeSetParams(each, &found));  // its own buffer
  }
  EXPECT_HIP(hipGraphDestroy(captured));
  const int two = 2;
  EXPECT_HIP(hipMemcpy(data_.data(), &two, sizeof two, hipMemcpyHostToDevice));
  instantiate();
  run();
  EXPECT_EQ(43, at(1));
}

TEST_F(KernelNodeTest, WritingThroughParametersChangesTheNodeOnly) {
  const auto node = add("set", data_.data(), 1);
  hipGraphExec_t before = nullptr;
  ASSERT_HIP(hipGraphInstantiate(&before, graph_, nullptr, nullptr, 0));
  hipKernelNodeParams found = {};
  ASSERT_HIP(hipGraphKernelNodeGetParams(node, &found));
  *static_cast<int*>(found.kernelParams[1]) = 2;
  hipGraph_t clone = nullptr;
  ASSERT_HIP(hipGraphClone(&clone, graph_));
  instantiate();
  *static_cast<int*>(found.kernelParams[1]) = 3;
  EXPECT_HIP(hipGraphLaunch(before, stream_));
  EXPECT_HIP(hipStreamSynchronize(stream_));
  EXPECT_EQ(1, at(0));
  run();
  EXPECT_EQ(2, at(0));
  hipGraphNode_t copied = nullptr;
  hipKernelNodeParams of_clone = {};
  ASSERT_HIP(hipGraphNodeFindInClone(&copied, node, clone));
  ASSERT_HIP(hipGraphKernelNodeGetParams(copied, &of_clone));
  EXPECT_EQ(2, *static_cast<int*>(of_clone.kernelParams[1]));
  EXPECT_HIP(hipGraphDestroy(clone));
  EXPECT_HIP(hipGraphExecDestroy(before));
}

TEST_F(KernelNodeTest, ParametersThatCameFromTheNodeGoBack) {
  const auto node = add("set", data_.data(), 1);
  hipKernelNodeParams found = {}, again = {};
  ASSERT_HIP(hipGraphKernelNodeGetParams(node, &found));
  int value = 8;
  found.kernelParams[1] = &value;  // HIP's own array, somebody else's argument
  found.blockDim.x = 2;
  EXPECT_HIP(hipGraphKernelNodeSetParams(node, &found));
  value = 0;
  ASSERT_HIP(hipGraphKernelNodeGetParams(node, &again));
  EXPECT_EQ(found.kernelParams, again.kernelParams);
  EXPECT_NE(&value, again.kernelParams[1]);
  instantiate();
  run();
  EXPECT_EQ(8, at(1));
  EXPECT_EQ(0, at(2));
}

TEST_F(KernelNodeTest, SetParametersMayChangeTheFunction) {
  const auto node = add("set", data_.data(), 1);
  int* out = data_.data() + 8;
  const int* in = data_.data();
  char padded = 1;
  long long scale = 1;
  void* arguments[] = {&out, &in, &padded, &scale};
  hipKernelNodeParams made = params("copy", arguments, 1);
  EXPECT_HIP(hipGraphKernelNodeSetParams(node, &made));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphKernelNodeSetParams(node, nullptr));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphKernelNodeGetParams(node, nullptr));
  instantiate();
  run();
  EXPECT_EQ(1, at(8));
}

TEST_F(KernelNodeTest, ExecParametersAndUpdates) {
  const auto node = add("set", data_.data(), 1);
  instantiate();
  const auto held = statistics().exec_argument_bytes;
  EXPECT_GT(held, before_.exec_argument_bytes);
  int* out = data_.data() + 4;
  int value = 6;
  void* arguments[] = {&out, &value};
  const hipKernelNodeParams made = params("set", arguments);
  EXPECT_HIP(hipGraphExecKernelNodeSetParams(exec_, node, &made));
  value = 0;
  run();
  EXPECT_EQ(0, at(0));
  EXPECT_EQ(6, at(4));
  EXPECT_GT(statistics().exec_argument_bytes, held);  // new space until the exec is gone
  hipGraph_t other = nullptr;
  hipGraphNode_t other_node = nullptr, error_node = nullptr;
  hipGraphExecUpdateResult result;
  ASSERT_HIP(hipGraphCreate(&other, 0));
  value = 2;
  const hipKernelNodeParams different = params("add", arguments);
  ASSERT_HIP(hipGraphAddKernelNode(&other_node, other, nullptr, 0, &different));
  EXPECT_HIP(hipGraphExecUpdate(exec_, other, &error_node, &result));
  EXPECT_EQ(hipErrorInvalidValue, hipGraphExecKernelNodeSetParams(exec_, other_node, &made));
  EXPECT_HIP(hipGraphDestroy(other));
  run();
  EXPECT_EQ(8, at(4));
  const hipKernelNodeParams too_large = params("bounded", arguments, 128);
  const bool swallowed = std::getenv("CPUHIP_QUIRKS") != nullptr;  // swallowed_errors
  EXPECT_EQ(swallowed, hipGraphExecKernelNodeSetParams(exec_, node, &too_large) == hipSuccess);
  run();
  EXPECT_EQ(10, at(4));
}

TEST_F(KernelNodeTest, QuirkStalePackets) {
  const char* const quirks = std::getenv("CPUHIP_QUIRKS");
  if (quirks == nullptr || std::string(quirks) != "stale_packets") GTEST_SKIP() << "CPUHIP_QUIRKS is not stale_packets";
  const auto node = add("set", data_.data(), 1);
  instantiate();
  int* out = data_.data() + 4;
  int value = 6;
  void* arguments[] = {&out, &value};
  const hipKernelNodeParams made = params("set", arguments);
  EXPECT_HIP(hipGraphExecKernelNodeSetParams(exec_, node, &made));
  run();
  EXPECT_EQ(1, at(0));
  EXPECT_EQ(0, at(4));
  hipGraphNode_t error_node = nullptr;
  hipGraphExecUpdateResult result;
  EXPECT_HIP(hipGraphKernelNodeSetParams(node, &made));
  EXPECT_HIP(hipGraphExecUpdate(exec_, graph_, &error_node, &result));
  run();
  EXPECT_EQ(6, at(4));
}

TEST_F(KernelNodeTest, QuirkKeptArguments) {
  const char* const quirks = std::getenv("CPUHIP_QUIRKS");
  const bool kept = quirks != nullptr && std::string(quirks) == "kept_arguments";
  const auto node = add("set", data_.data(), 1);
  instantiate();
  int* out = data_.data() + 4;
  int value = 6;
  void* arguments[] = {&out, &value};
  const hipKernelNodeParams made = params("set", arguments);
  EXPECT_HIP(hipGraphExecKernelNodeSetParams(exec_, node, &made));
  value = 7;
  run();
  EXPECT_EQ(kept ? 7 : 6, at(4));
}

TEST_F(KernelNodeTest, DisabledKernelsAreSkipped) {
  const auto node = add("set", data_.data(), 1);
  instantiate();
  EXPECT_HIP(hipGraphNodeSetEnabled(exec_, node, 0));
  run();
  EXPECT_EQ(0, at(0));
}

TEST_F(KernelNodeTest, ASpinningKernelWaitsForAnotherBranch) {
  void* flag = nullptr;
  ASSERT_HIP(hipHostMalloc(&flag, 64, 0));
  std::memset(flag, 0, 64);
  void* arguments[] = {&flag};
  for (int i = 0; i < 6; ++i) {
    hipGraphNode_t node = nullptr;
    const hipKernelNodeParams made = params("wait_for", arguments, 1);
    ASSERT_HIP(hipGraphAddKernelNode(&node, graph_, nullptr, 0, &made));
  }
  const hipHostNodeParams sets{[](void* place) { __atomic_store_n(static_cast<int*>(place), 1, __ATOMIC_SEQ_CST); },
                               flag};
  hipGraphNode_t node = nullptr;
  ASSERT_HIP(hipGraphAddHostNode(&node, graph_, nullptr, 0, &sets));
  instantiate();
  run();
  EXPECT_HIP(hipHostFree(flag));
}

TEST_F(KernelNodeTest, LaunchEventsAreRecordedByTheGraph) {
  TestEvent start, stop;
  int* out = data_.data();
  int value = 4;
  void* arguments[] = {&out, &value};
  ASSERT_HIP(hipStreamBeginCapture(stream_, hipStreamCaptureModeGlobal));
  EXPECT_HIP(
      hipExtModuleLaunchKernel(Kernels::get("set"), 4, 1, 1, 4, 1, 1, 0, stream_, arguments, nullptr, start, stop, 0));
  hipGraph_t graph = nullptr;
  ASSERT_HIP(hipStreamEndCapture(stream_, &graph));
  const auto nodes = nodes_of(graph);
  ASSERT_EQ(2u, nodes.size());
  hipEvent_t event = nullptr;
  EXPECT_HIP(hipGraphEventRecordNodeGetEvent(nodes[0], &event));
  EXPECT_EQ(start, event);
  ASSERT_HIP(hipGraphInstantiate(&exec_, graph, nullptr, nullptr, 0));
  EXPECT_HIP(hipGraphLaunch(exec_, stream_));
  EXPECT_HIP(hipEventSynchronize(stop));
  EXPECT_HIP(hipEventQuery(start));
  EXPECT_EQ(4, at(0));
  EXPECT_HIP(hipStreamSynchronize(stream_));
  // other arguments keep the event
  value = 5;
  const hipKernelNodeParams made = params("set", arguments);
  EXPECT_HIP(hipGraphExecKernelNodeSetParams(exec_, nodes[1], &made));
  EXPECT_HIP(hipGraphLaunch(exec_, stream_));
  EXPECT_HIP(hipEventSynchronize(stop));
  EXPECT_EQ(5, at(0));
  EXPECT_HIP(hipGraphDestroy(graph));
}

TEST_F(KernelNodeTest, HccLaunchesAreNotCaptured) {
  int* out = data_.data();
  int value = 4;
  void* arguments[] = {&out, &value};
  using Launch = hipError_t (*)(hipFunction_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, size_t,
                                hipStream_t, void**, void**, hipEvent_t, hipEvent_t);
  const auto launch_now = reinterpret_cast<Launch>(dlsym(RTLD_DEFAULT, "hipHccModuleLaunchKernel"));
  ASSERT_NE(nullptr, launch_now);
  ASSERT_HIP(hipStreamBeginCapture(stream_, hipStreamCaptureModeRelaxed));
  EXPECT_HIP(launch_now(Kernels::get("set"), 4, 1, 1, 4, 1, 1, 0, stream_, arguments, nullptr, nullptr, nullptr));
  hipGraph_t graph = nullptr;
  ASSERT_HIP(hipStreamEndCapture(stream_, &graph));
  EXPECT_TRUE(nodes_of(graph).empty());
  EXPECT_HIP(hipGraphDestroy(graph));
  EXPECT_HIP(hipStreamSynchronize(stream_));
  EXPECT_EQ(4, at(0));
}

TEST_F(KernelNodeTest, Attributes) {
  const auto node = add("set", data_.data(), 1), other = add("set", data_.data(), 1);
  hipfront::KernelAttributeValue value = {};
  const auto set = [&](hipGraphNode_t which, int attribute) {
    return hipGraphKernelNodeSetAttribute(which, static_cast<hipKernelNodeAttrID>(attribute),
                                          reinterpret_cast<hipKernelNodeAttrValue*>(&value));
  };
  const auto get = [&](hipGraphNode_t which, int attribute) {
    return hipGraphKernelNodeGetAttribute(which, static_cast<hipKernelNodeAttrID>(attribute),
                                          reinterpret_cast<hipKernelNodeAttrValue*>(&value));
  };
  value.cooperative = 1;
  EXPECT_HIP(set(node, hipfront::kAttributeCooperative));
  value.cooperative = 0;
  EXPECT_HIP(get(node, hipfront::kAttributeCooperative));
  EXPECT_EQ(1, value.cooperative);
  EXPECT_EQ(hipErrorInvalidValue, get(node, hipfront::kAttributePriority));  // HIP keeps one
  EXPECT_HIP(hipGraphKernelNodeCopyAttributes(node, other));
  value.cooperative = 0;
  EXPECT_HIP(get(other, hipfront::kAttributeCooperative));
  EXPECT_EQ(1, value.cooperative);
  value.priority = 5;
  EXPECT_EQ(hipErrorInvalidValue, set(node, hipfront::kAttributePriority));
  EXPECT_EQ(hipErrorInvalidValue, set(node, 3));
  value.window = {};
  value.window.hitRatio = 2;
  EXPECT_EQ(hipErrorInvalidValue, set(node, hipfront::kAttributeAccessPolicyWindow));
  value.priority = 1;
  EXPECT_HIP(set(other, hipfront::kAttributePriority));
  EXPECT_EQ(hipErrorInvalidContext, hipGraphKernelNodeCopyAttributes(node, other));
  EXPECT_EQ(hipErrorInvalidValue, set(nullptr, hipfront::kAttributePriority));
}

TEST_F(KernelNodeTest, DebugDotNamesTheKernel) {
  add("set", data_.data(), 1);
  EXPECT_NE(std::string::npos, debug_dot(graph_, 4).find("set\\n(1,1,1),(4,1,1),0"));
}

TEST_F(KernelNodeTest, NothingGrows) {
  const auto cycle = [&] {
    hipGraph_t graph = nullptr;
    hipGraphExec_t exec = nullptr;
    ASSERT_HIP(hipStreamBeginCapture(stream_, hipStreamCaptureModeGlobal));
    EXPECT_HIP(launch(stream_, "set", data_.data(), 5));
    EXPECT_HIP(launch(stream_, "add", data_.data(), 2));
    ASSERT_HIP(hipStreamEndCapture(stream_, &graph));
    ASSERT_HIP(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    EXPECT_HIP(hipGraphLaunch(exec, stream_));
    EXPECT_HIP(hipGraphExecDestroy(exec));
    EXPECT_HIP(hipGraphDestroy(graph));
  };
  for (int i = 0; i < 1000; ++i) {
    cycle();
    // Execs that still run hold memory of the device.
    if (i % 50 == 0) {
      EXPECT_HIP(hipStreamSynchronize(stream_));
    }
  }
  EXPECT_HIP(hipStreamSynchronize(stream_));
  EXPECT_EQ(7, at(0));
  EXPECT_EQ(before_.node_argument_bytes, statistics().node_argument_bytes);
  EXPECT_EQ(before_.exec_argument_bytes, statistics().exec_argument_bytes);
}

// --- Host stubs and variables, as hipcc registers them ---

const KernelSource kProgram = {"graph_program",
                               R"(
__device__ int variable[4];
extern "C" __global__ void bump(int by) { variable[threadIdx.x] += by; }
extern "C" __global__ void show(int* out) { out[threadIdx.x] = variable[threadIdx.x]; }
)",
                               {}};

class Program {
 public:
  Program() {
    const Compiled compiled = compile(kProgram);
    EXPECT_EQ(HIPRTC_SUCCESS, compiled.result) << compiled.log;
    // a bundle of one entry
    const std::string id = "hipv4-x86_64-unknown-linux-gnu--cpu", magic = "__CLANG_OFFLOAD_BUNDLE__";
    const std::uint64_t head[] = {1, 4096, compiled.code.size(), id.size()};
    image_.assign(4096, 0);
    std::memcpy(image_.data(), magic.data(), magic.size());
    std::memcpy(image_.data() + magic.size(), head, sizeof head);
    std::memcpy(image_.data() + magic.size() + sizeof head, id.data(), id.size());
    image_.insert(image_.end(), compiled.code.begin(), compiled.code.end());
    wrapper_.binary = image_.data();
    handle_ = __hipRegisterFatBinary(&wrapper_);
    for (const auto& [stub, name] : {std::pair{&bump_, "bump"}, {&show_, "show"}}) {
      __hipRegisterFunction(handle_, stub, const_cast<char*>(name), name, ~0u, nullptr, nullptr, nullptr, nullptr,
                            nullptr);
    }
    char name[] = "variable";
    __hipRegisterVar(handle_, &variable_, name, name, 0, 4 * sizeof(int), 0, 0);
  }
  ~Program() { __hipUnregisterFatBinary(handle_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  const void* variable() const { return &variable_; }
  void* bump() { return &bump_; }

 private:
  char bump_ = 0, show_ = 0, variable_ = 0;
  std::vector<char> image_;
  struct {
    unsigned magic = 0x48495046, version = 1;
    const void* binary = nullptr;
    const void* unused = nullptr;
  } wrapper_;
  void** handle_ = nullptr;
};

TEST_F(KernelNodeTest, SymbolsAreCopiedToAndFrom) {
  Program program;
  const void* const symbol = program.variable();
  int in[2] = {3, 4}, other_in[2] = {5, 6}, out[2] = {};
  hipGraphNode_t to = nullptr, from = nullptr, node = nullptr;
  EXPECT_EQ(hipErrorInvalidSymbol,
            hipGraphAddMemcpyNodeToSymbol(&node, graph_, nullptr, 0, &in, in, 4, 0, hipMemcpyHostToDevice));
  EXPECT_EQ(hipErrorInvalidValue,
            hipGraphAddMemcpyNodeToSymbol(&node, graph_, nullptr, 0, symbol, in, 8, 12, hipMemcpyHostToDevice));
  EXPECT_EQ(hipErrorInvalidValue,
            hipGraphAddMemcpyNodeToSymbol(&node, graph_, nullptr, 0, symbol, in, 0, 0, hipMemcpyHostToDevice));
  ASSERT_HIP(hipGraphAddMemcpyNodeToSymbol(&to, graph_, nullptr, 0, symbol, in, 8, 8, hipMemcpyHostToDevice));
  ASSERT_HIP(hipGraphAddMemcpyNodeFromSymbol(&from, graph_, &to, 1, out, symbol, 8, 4, hipMemcpyDeviceToHost));
  hipGraphNodeType type;
  EXPECT_HIP(hipGraphNodeGetType(to, &type));
  EXPECT_EQ(version() < 50300000 ? 11 : 1, static_cast<int>(type));
  instantiate();
  run();
  EXPECT_EQ(0, out[0]);
  EXPECT_EQ(3, out[1]);
  EXPECT_HIP(hipGraphExecMemcpyNodeSetParamsToSymbol(exec_, to, symbol, other_in, 8, 4, hipMemcpyHostToDevice));
  EXPECT_HIP(hipGraphExecMemcpyNodeSetParamsFromSymbol(exec_, from, out, symbol, 4, 4, hipMemcpyDeviceToHost));
  EXPECT_EQ(hipErrorInvalidValue,
            hipGraphExecMemcpyNodeSetParamsToSymbol(exec_, from, symbol, other_in, 8, 4, hipMemcpyDeviceToHost));
  EXPECT_EQ(hipErrorInvalidSymbol,
            hipGraphExecMemcpyNodeSetParamsToSymbol(exec_, to, nullptr, other_in, 8, 4, hipMemcpyHostToDevice));
  run();
  EXPECT_EQ(5, out[0]);
  EXPECT_EQ(3, out[1]);
  EXPECT_HIP(hipGraphMemcpyNodeSetParamsFromSymbol(from, out, symbol, 8, 8, hipMemcpyDeviceToHost));
  EXPECT_HIP(hipGraphMemcpyNodeSetParamsToSymbol(to, symbol, in, 4, 0, hipMemcpyHostToDevice));

  ASSERT_HIP(hipStreamBeginCapture(stream_, hipStreamCaptureModeGlobal));
  EXPECT_HIP(hipMemcpyFromSymbolAsync(out, symbol, 4, 0, hipMemcpyDeviceToHost, stream_));
  hipGraph_t captured = nullptr;
  ASSERT_HIP(hipStreamEndCapture(stream_, &captured));
  EXPECT_HIP(hipGraphNodeGetType(nodes_of(captured).at(0), &type));
  EXPECT_EQ(version() < 50300000 ? 10 : 1, static_cast<int>(type));
  EXPECT_HIP(hipGraphDestroy(captured));
}

TEST_F(KernelNodeTest, AStubStandsForTheCodeOfTheDeviceItIsLaunchedOn) {
  int devices = 0;
  EXPECT_HIP(hipGetDeviceCount(&devices));
  ASSERT_GE(devices, 2);
  Program program;
  int by = 7;
  void* arguments[] = {&by};
  hipKernelNodeParams made = {};
  made.func = program.bump();
  made.gridDim = made.blockDim = dim3(1, 1, 1);
  made.kernelParams = arguments;
  hipGraphNode_t node = nullptr;
  ASSERT_HIP(hipGraphAddKernelNode(&node, graph_, nullptr, 0, &made));
  instantiate();
  run();
  EXPECT_HIP(hipSetDevice(1));
  {
    TestStream second;
    for (int i = 0; i < 2; ++i) EXPECT_HIP(hipGraphLaunch(exec_, second));
    EXPECT_HIP(hipStreamSynchronize(second));
  }
  for (const int device : {1, 0}) {
    EXPECT_HIP(hipSetDevice(device));
    int value = 0;
    EXPECT_HIP(hipMemcpyFromSymbol(&value, program.variable(), sizeof value, 0, hipMemcpyDeviceToHost));
    EXPECT_EQ(device == 0 ? 7 : 14, value);
  }
}

TEST_F(KernelNodeTest, StreamsOfTwoDevicesInOneCapture) {
  int devices = 0;
  EXPECT_HIP(hipGetDeviceCount(&devices));
  ASSERT_GE(devices, 2);
  TestEvent fork, join;
  EXPECT_HIP(hipSetDevice(1));
  TestStream second;
  const ::Buffer<int> there(4);
  EXPECT_HIP(hipSetDevice(0));
  ASSERT_HIP(hipStreamBeginCapture(stream_, hipStreamCaptureModeGlobal));
  EXPECT_HIP(hipMemsetAsync(data_.data(), 1, 4, stream_));
  EXPECT_HIP(hipEventRecord(fork, stream_));
  EXPECT_HIP(hipStreamWaitEvent(second, fork, 0));
  EXPECT_HIP(hipMemsetAsync(there.data(), 2, 4, second));  // only its own device may
  EXPECT_HIP(hipEventRecord(join, second));
  EXPECT_HIP(hipStreamWaitEvent(stream_, join, 0));
  hipGraph_t captured = nullptr;
  ASSERT_HIP(hipStreamEndCapture(stream_, &captured));
  ASSERT_HIP(hipGraphInstantiate(&exec_, captured, nullptr, nullptr, 0));
  EXPECT_HIP(hipGraphDestroy(captured));
  run();
  EXPECT_EQ(0x01010101, at(0));
  EXPECT_EQ(0x02020202, there.read()[0]);
}

}  // namespace
}  // namespace graph_test
