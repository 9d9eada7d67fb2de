// A program whose report is known beforehand; report_test.py reads it. What moves, what differs and where: see there.
#include "captures.h"

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

/// Bindings of one buffer, and of another one at the end where the environment says so.
TEST(Report, stays) {
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

}  // namespace
}  // namespace captures
