// A program whose report is known beforehand; report_test.py reads it. What moves, what differs and where: see there.
#include "captures.h"

// Newer than the oldest header.
extern "C" hipError_t hipGraphNodeSetEnabled(hipGraphExec_t exec, hipGraphNode_t node, unsigned int enabled);

namespace captures {
namespace {

/// The allocation that the report names. Not inlined, so that it is a frame of its own.
__attribute__((noinline, visibility("default"))) int* allocate_moving() {
  int* made = nullptr;
  EXPECT_EQ(hipSuccess, hipMalloc(reinterpret_cast<void**>(&made), kCount * sizeof(int)));
  asm volatile("" ::: "memory");
  return made;
}

TEST(Report, host) {
  const Stream stream;
  const Buffer fixed;
  int* const moving[] = {allocate_moving(), allocate_moving()};
  // Recording 1: a kernel whose buffer moves, a fixed one, a copy from what moves.
  const auto body = [&](int i) {
    OK(kernels().mix(stream, moving[i % 2], kCount, 1));
    OK(kernels().mix(stream, fixed.get(), kCount, 2));
    OK(hipMemcpyAsync(fixed.get(), moving[i % 2], 8, hipMemcpyDeviceToDevice, stream));
  };
  for (int i = 0; i < 6; ++i) step(stream, [&] { body(i); });
  // Another kernel as second operation; twice, so that it becomes recording 2 and is then found.
  for (int i = 0; i < 2; ++i)
    step(stream, [&] {
      OK(kernels().mix(stream, moving[0], kCount, 1));
      OK(kernels().join(stream, fixed.get(), moving[0], kCount));
    });
  // The end comes after one operation: recording 3.
  step(stream, [&] { OK(kernels().mix(stream, moving[0], kCount, 1)); });
  // An exec is updated by a graph of the same recording, and launched twice.
  const hipGraph_t first = capture(stream, [&] { body(0); });
  const hipGraph_t second = capture(stream, [&] { body(1); });
  hipGraphExec_t exec = nullptr;
  hipGraphNode_t node = nullptr;
  hipGraphExecUpdateResult result;
  OK(hipGraphInstantiate(&exec, first, nullptr, nullptr, 0));
  OK(hipGraphExecUpdate(exec, second, &node, &result));
  OK(hipGraphLaunch(exec, stream));
  OK(hipGraphLaunch(exec, stream));
  OK(hipStreamSynchronize(stream));
  // Its nodes are asked for.
  hipGraphNode_t nodes[3];
  std::size_t count = 3;
  OK(hipGraphGetNodes(second, nodes, &count));
  EXPECT_EQ(3u, count);
  OK(hipGraphExecDestroy(exec));
  OK(hipGraphDestroy(first));
  OK(hipGraphDestroy(second));
  for (int* const each : moving) OK(hipFree(each));
}

/// Bindings of one buffer, and of another one at the end where the environment says so; on the device that it names.
TEST(Report, stays) {
  if (const char* const device = std::getenv("ON_DEVICE")) OK(hipSetDevice(std::atoi(device)));
  const Stream stream;
  const Buffer buffers[2];
  const auto graph = [&](int i) {
    return capture(stream, [&] { OK(kernels().mix(stream, buffers[i].get(), kCount, 1)); });
  };
  const hipGraph_t first = graph(0), second = graph(1);
  hipGraphExec_t exec = nullptr;
  hipGraphNode_t node = nullptr;
  hipGraphExecUpdateResult result;
  OK(hipGraphInstantiate(&exec, first, nullptr, nullptr, 0));
  for (int i = 0; i < 40; ++i) {
    OK(hipGraphExecUpdate(exec, first, &node, &result));
    OK(hipGraphLaunch(exec, stream));
  }
  OK(hipStreamSynchronize(stream));
  if (std::getenv("STAYS_AND_MOVES") != nullptr) {
    OK(hipGraphExecUpdate(exec, second, &node, &result));
  }
  OK(hipGraphDestroy(first));
  OK(hipGraphDestroy(second));
  OK(hipGraphExecDestroy(exec));
}

/// The module of what moved is gone when the report is written.
TEST(Report, unloads) {
  const Stream stream;
  const Buffer buffers[2];
  hipModule_t module = nullptr;
  hipFunction_t function = nullptr;
  const auto code = compiled_code(R"(extern "C" __global__ void leaving(int* p, int n) { if (n == 1) p[0] += 1; })");
  OK(hipModuleLoadData(&module, code.data()));
  OK(hipModuleGetFunction(&function, module, "leaving"));
  for (int i = 0; i < 4; ++i)
    step(stream, [&] {
      int* p = buffers[i % 2].get();
      int n = 1;
      void* arguments[] = {&p, &n};
      OK(hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
    });
  hipGraph_t graph = nullptr;
  OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
  int* p = buffers[0].get();
  int n = 1;
  void* arguments[] = {&p, &n};
  OK(hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
  OK(hipModuleUnload(module));
  OK(hipStreamEndCapture(stream, &graph));
  OK(hipGraphDestroy(graph));
}

/// Everything that is left to the runtime, each in one way.
TEST(Report, left) {
  const Stream stream;
  const Buffer buffer;
  const auto one = [&] { return capture(stream, [&] { OK(kernels().mix(stream, buffer.get(), kCount, 1)); }); };
  int* p = buffer.get();
  int count = kCount, add = 1;
  void* arguments[] = {&p, &count, &add};
  hipKernelNodeParams params{};
  params.func = reinterpret_cast<void*>(kernels().mix_function());
  params.gridDim = dim3(1);
  params.blockDim = dim3(64);
  params.kernelParams = arguments;
  hipGraphExec_t exec = nullptr;
  hipGraphNode_t node = nullptr, other = nullptr;
  hipGraphExecUpdateResult result;

  // An edge taken from a build; its exec; a node destroyed.
  hipGraph_t built = nullptr;
  OK(hipGraphCreate(&built, 0));
  OK(hipGraphAddKernelNode(&node, built, nullptr, 0, &params));
  OK(hipGraphAddEmptyNode(&other, built, &node, 1));
  OK(hipGraphRemoveDependencies(built, &node, &other, 1));
  OK(hipGraphInstantiate(&exec, built, nullptr, nullptr, 0));
  OK(hipGraphExecDestroy(exec));
  OK(hipGraphDestroy(built));
  OK(hipGraphCreate(&built, 0));
  OK(hipGraphAddEmptyNode(&node, built, nullptr, 0));
  OK(hipGraphDestroyNode(node));
  OK(hipGraphDestroy(built));

  // A captured graph that the program adds to, and a copy of a real one.
  hipGraph_t graph = one(), copy = nullptr;
  OK(hipGraphClone(&copy, graph));
  OK(hipGraphAddEmptyNode(&node, graph, nullptr, 0));
  OK(hipGraphDestroy(copy));
  OK(hipGraphDestroy(graph));

  // An exec with flags, and one whose node the program switches on.
  graph = one();
  if (hipGraphInstantiateWithFlags(&exec, graph, 2) == hipSuccess) OK(hipGraphExecDestroy(exec));
  OK(hipGraphDestroy(graph));
  graph = one();
  std::size_t nodes = 1;
  OK(hipGraphGetNodes(graph, &node, &nodes));
  OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  OK(hipGraphNodeSetEnabled(exec, node, 1));
  OK(hipGraphExecUpdate(exec, graph, &other, &result));
  OK(hipGraphExecDestroy(exec));

  // Updates: by a changed graph, and by one that is refused.
  OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  const hipGraph_t two = capture(stream, [&] {
    for (int i = 0; i < 2; ++i) OK(kernels().mix(stream, buffer.get(), kCount, 1));
  });
  EXPECT_NE(hipSuccess, hipGraphExecUpdate(exec, two, &other, &result));
  static_cast<void>(hipGetLastError());
  OK(hipGraphExecDestroy(exec));
  OK(hipGraphDestroy(two));
  OK(hipGraphDestroy(graph));

  // A thread's own stream.
  OK(hipStreamBeginCapture(hipStreamPerThread, hipStreamCaptureModeThreadLocal));
  OK(kernels().mix(hipStreamPerThread, buffer.get(), kCount, 1));
  OK(hipStreamEndCapture(hipStreamPerThread, &graph));
  OK(hipGraphDestroy(graph));
}

/// Graphs over memory that a rule stages: four that are not, for a reason each, and two that are.
TEST(Report, not_staged) {
  const Stream stream;
  const Buffer buffer, exported, exported_late;
  hipIpcMemHandle_t handle;
  OK(hipIpcGetMemHandle(&handle, exported.get()));
  step(stream, [&] {
    OK(kernels().mix(stream, buffer.get(), kCount, 1));
    OK(hipLaunchHostFunc(
        stream, [](void*) {}, nullptr));
  });
  step(stream, [&] {
    for (int i = 0; i < 2; ++i) OK(kernels().mix(stream, exported.get(), kCount, i));
  });
  const hipFunction_t collective =
      compiled("extern \"C\" __global__ void ncclDevKernel_Sum(int* p) { *p += 1; }", "ncclDevKernel_Sum");
  step(stream, [&] {
    int* at = buffer.get();
    void* arguments[] = {&at};
    OK(hipModuleLaunchKernel(collective, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
  });
  const hipGraph_t graph = capture(stream, [&] { OK(kernels().mix(stream, exported_late.get(), kCount, 1)); });
  hipGraphExec_t exec = nullptr;
  OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  OK(hipGraphLaunch(exec, stream));
  OK(hipIpcGetMemHandle(&handle, exported_late.get()));
  OK(hipGraphLaunch(exec, stream));
  OK(hipStreamSynchronize(stream));
  OK(hipGraphExecDestroy(exec));
  OK(hipGraphDestroy(graph));
  for (int operations = 3; operations <= 4; ++operations)
    step(stream, [&] {
      for (int i = 0; i < operations; ++i) OK(kernels().mix(stream, buffer.get(), kCount, i));
    });
}

}  // namespace
}  // namespace captures
