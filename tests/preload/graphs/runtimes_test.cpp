// What only some runtimes do: each test asks for a switch of the CPU runtime, natively and under the library.
#include <memory>

#include "captures.h"
#include "registered.h"

namespace captures {
namespace {

bool has_quirk(const char* name) {
  const char* const quirks = std::getenv("CPUHIP_QUIRKS");
  return quirks != nullptr && std::strstr(quirks, name) != nullptr;
}

/// A buffer at another address than the others, as long as they are there.
using Buffers = std::vector<std::unique_ptr<Buffer>>;

TEST(Runtimes, rule_14_a_stub_stands_for_the_code_of_the_current_device_or_of_the_streams) {
  // Each device has its own `sum`, and the kernel says what it has become.
  static const char stub = 0;
  const Registered registered(R"(__device__ int sum; extern "C" __global__ void add(int* out, int a) {
      sum += a;
      out[0] = sum;
    })",
                              "add", &stub);
  const auto add = [](hipStream_t stream, int* out, int a) {
    void* args[] = {&out, &a};
    return hipLaunchKernel(&stub, dim3(1), dim3(1), args, 0, stream);
  };
  const auto read = [](const int* from) {
    int value = 0;
    EXPECT_EQ(hipSuccess, hipMemcpy(&value, from, sizeof value, hipMemcpyDeviceToHost));
    return value;
  };
  const Stream s;
  const bool by_current = has_quirk("current_device_stubs");
  int sums[2] = {};
  Buffers buffers;
  for (int i = 0; i < 12; ++i) {
    if (i % 3 == 0) buffers.push_back(std::make_unique<Buffer>());
    int* const out = buffers.back()->get();
    const int current = i < 4 ? 0 : i % 2;
    const Since since({"hipGraphInstantiate"});
    step(s, [&] {
      OK(hipSetDevice(current));
      OK(add(s, out, 1 + i % 2));
      OK(hipSetDevice(0));
    });
    int& sum = sums[by_current ? current : 0];
    sum += 1 + i % 2;
    EXPECT_EQ(sum, read(out)) << "step " << i;
  }
}

TEST(Runtimes, arguments_of_a_patched_node_are_nobody_elses) {
  // Addresses move each step. What a runtime keeps of the library's arrays would be something else by then.
  const Stream s;
  Buffers buffers;
  std::vector<int> values(4, 0);
  for (std::size_t i = 0; i < values.size(); ++i) buffers.push_back(std::make_unique<Buffer>());
  for (int i = 0; i < 40; ++i) {
    const std::size_t at = static_cast<std::size_t>(i) % 4, other = static_cast<std::size_t>(i / 4) % 4;
    step(s, [&] {
      OK(kernels().mix(s, buffers[at]->get(), kCount, i));
      OK(kernels().join(s, buffers[at]->get(), buffers[other]->get(), kCount));
    });
    values[at] = mixed(values[at], i);
    values[at] = joined(values[at], values[other]);
    EXPECT_EQ(values[at], buffers[at]->value()) << "step " << i;
  }
}

TEST(Runtimes, rule_30_what_patched_nodes_take_of_argument_memory_is_bounded) {
  // Every update of a node takes new memory, which comes back with the exec.
  const Stream s;
  Buffers buffers;
  for (int i = 0; i < 8; ++i) buffers.push_back(std::make_unique<Buffer>());
  std::vector<int> values(buffers.size(), 0);
  const auto held = [] {
    cpuhip_statistics_t now{};
    cpuhip_statistics(&now);
    return now.exec_argument_bytes;
  };
  // Of this and no more than is kept by the variants: an exec with a budget of patches, each of one kernel.
  constexpr std::size_t kArgumentBytes = 24, kNodes = 1;
  const char* const budget = std::getenv("GRAPHPOOL_GRAPH_PATCH_BUDGET");
  const char* const variants = std::getenv("GRAPHPOOL_GRAPH_VARIANTS");
  const std::size_t patches = budget == nullptr ? 0 : std::strtoull(budget, nullptr, 10);
  const std::size_t execs = variants == nullptr ? 1 : std::strtoull(variants, nullptr, 10) + 1;
  const std::size_t before = held();
  for (int i = 0; i < 200; ++i) {
    const auto at = static_cast<std::size_t>(i * i % 7 + i % 2) % buffers.size();
    step(s, [&] { OK(kernels().mix(s, buffers[at]->get(), kCount, i)); });
    values[at] = mixed(values[at], i);
    ASSERT_EQ(values[at], buffers[at]->value()) << "step " << i;
    if (!under_library() || budget != nullptr) {
      EXPECT_LE(held() - before, execs * (patches + kNodes) * kArgumentBytes) << "step " << i;
    }
  }
}

TEST(Runtimes, the_first_free_after_an_exec_was_destroyed_is_the_runtimes_where_execs_end_late) {
  const Stream s;
  int version = 0;
  OK(hipRuntimeGetVersion(&version));
  const char* const reuse = std::getenv("GRAPHPOOL_GRAPH_REUSE");
  const bool ends_late = version >= 70'000'000 && reuse != nullptr && std::strcmp(reuse, "false") == 0;
  for (int i = 0; i < 3; ++i) {
    Buffers buffers;
    for (int k = 0; k < 3; ++k) buffers.push_back(std::make_unique<Buffer>());
    const hipGraph_t graph = capture(s, [&] { OK(kernels().mix(s, buffers[0]->get(), kCount, i)); });
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipGraphLaunch(exec, s));
    OK(hipStreamSynchronize(s));
    EXPECT_EQ(mixed(0, i), buffers[0]->value());
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
    const int before = calls("hipFree");
    buffers.clear();
    if (under_library()) {
      EXPECT_EQ(ends_late ? 1 : 0, calls("hipFree") - before) << "step " << i;
    }
  }
}

TEST(Runtimes, rule_09_no_patch_takes_memory_that_may_not_be_there) {
  // The device's memory is used up while the exec of a step is kept, whose arguments change each time: such a step may
  // be refused for memory, as natively, but the process goes on.
  const char* const memory = std::getenv("CPUHIP_MEMORY");
  if (memory == nullptr) GTEST_SKIP() << "takes as long as the memory is large";
  const Stream s;
  const Buffer buffer;
  int value = 0, steps = 0;
  const auto one = [&](int number) {
    const hipGraph_t graph = capture(s, [&] { OK(kernels().mix(s, buffer.get(), kCount, number)); });
    hipGraphExec_t exec = nullptr;
    const hipError_t made = hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0);
    OK(hipGraphDestroy(graph));
    if (made != hipSuccess) {
      EXPECT_EQ(hipErrorOutOfMemory, made);
      static_cast<void>(hipGetLastError());
      return;
    }
    OK(hipGraphLaunch(exec, s));
    OK(hipStreamSynchronize(s));
    OK(hipGraphExecDestroy(exec));
    value = mixed(value, number);
    ++steps;
    ASSERT_EQ(value, buffer.value()) << "step " << number;
  };
  for (int i = 0; i < 10; ++i) one(i);
  const hipGraph_t graph = capture(s, [&] { OK(kernels().mix(s, buffer.get(), kCount, 10)); });
  hipGraphExec_t held = nullptr;
  OK(hipGraphInstantiate(&held, graph, nullptr, nullptr, 0));
  OK(hipGraphDestroy(graph));
  std::vector<void*> all;
  for (std::size_t bytes = std::size_t{1} << 20; bytes >= 4096; bytes /= 2) {
    void* more = nullptr;
    while (hipMalloc(&more, bytes) == hipSuccess) all.push_back(more);
    static_cast<void>(hipGetLastError());
  }
  OK(hipGraphExecDestroy(held));
  for (int i = 10; i < 1500; ++i) one(i);
  EXPECT_GE(steps, 1490) << "there is room for one exec";
  for (void* const address : all) OK(hipFree(address));
  const int before = steps;
  for (int i = 1500; i < 1510; ++i) one(i);
  EXPECT_EQ(before + 10, steps);
}

TEST(Runtimes, rule_14_nodes_are_patched_on_their_own_device) {
  // Captured on one device, instantiated with another one current.
  int devices = 0;
  OK(hipGetDeviceCount(&devices));
  if (devices < 2) GTEST_SKIP() << "one device";
  OK(hipSetDevice(1));
  const hipFunction_t mix = compiled(R"(extern "C" __global__ void mix(int* p, int n, int a) {
      int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) p[i] = p[i] * 31 + a;
    })",
                                     "mix");
  {
    const Stream s;
    const Buffer buffer;
    int value = 0;
    for (int i = 0; i < 20; ++i) {
      OK(hipSetDevice(1));
      const hipGraph_t graph = capture(s, [&] {
        int* p = buffer.get();
        int n = kCount, a = i;
        void* args[] = {&p, &n, &a};
        OK(hipModuleLaunchKernel(mix, (kCount + 63) / 64, 1, 1, 64, 1, 1, 0, s, args, nullptr));
      });
      OK(hipSetDevice(0));
      hipGraphExec_t exec = nullptr;
      OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
      OK(hipSetDevice(1));
      OK(hipGraphLaunch(exec, s));
      OK(hipStreamSynchronize(s));
      OK(hipGraphExecDestroy(exec));
      OK(hipGraphDestroy(graph));
      value = mixed(value, i);
      ASSERT_EQ(value, buffer.value()) << "step " << i;
    }
  }
  OK(hipSetDevice(0));
}

TEST(Runtimes, rule_37_a_function_handle_that_comes_back_is_another_function) {
  const Stream s;
  const Buffer buffer;
  int value = 0;
  for (int i = 0; i < 8; ++i) {
    const bool twice = i % 2 != 0;
    const char* const source = twice ? "extern \"C\" __global__ void same(int* p, int n) { p[threadIdx.x] *= 3; }"
                                     : "extern \"C\" __global__ void same(int* p, int n) { p[threadIdx.x] += n; }";
    hipModule_t module = nullptr;
    hipFunction_t function = nullptr;
    OK(hipModuleLoadData(&module, compiled_code(source).data()));
    OK(hipModuleGetFunction(&function, module, "same"));
    for (int again = 0; again < 2; ++again) {
      step(s, [&] {
        int* p = buffer.get();
        int n = 5;
        void* args[] = {&p, &n};
        OK(hipModuleLaunchKernel(function, 1, 1, 1, kCount, 1, 1, 0, s, args, nullptr));
      });
      value = static_cast<int>(twice ? static_cast<unsigned>(value) * 3 : static_cast<unsigned>(value) + 5);
      EXPECT_EQ(value, buffer.value()) << "module " << i;
    }
    OK(hipModuleUnload(module));
  }
}

TEST(Runtimes, rule_23_memory_allocated_after_a_peer_was_enabled_is_within_its_reach) {
  // The kernel's only argument is a structure with the address in it, which no runtime looks into.
  struct Inside {
    int* p;
    int n;
  };
  OK(hipSetDevice(1));
  const hipFunction_t function = compiled(
      "struct Inside { int* p; int n; }; extern \"C\" __global__ void inside(Inside x) { x.p[0] = x.n; }", "inside");
  const Stream t;
  const auto launch = [&](int* p, int n) {
    Inside argument{p, n};
    void* args[] = {&argument};
    return hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, t, args, nullptr);
  };
  constexpr std::size_t kBytes = 8192;
  for (int round = 0; round < 3; ++round) {
    OK(hipSetDevice(0));
    // Natively what is freed here is gone when the peer is enabled.
    void *first = nullptr, *second = nullptr;
    OK(hipMalloc(&first, kBytes));
    OK(hipMalloc(&second, kBytes));
    OK(hipFree(first));
    OK(hipSetDevice(1));
    OK(hipDeviceEnablePeerAccess(0, 0));
    OK(hipSetDevice(0));
    OK(hipFree(second));
    int* p = nullptr;
    for (int i = 0; i < 3; ++i) {
      OK(hipMalloc(reinterpret_cast<void**>(&p), kBytes));
      OK(hipSetDevice(1));
      OK(launch(p, 40 + i));
      OK(hipStreamSynchronize(t));
      OK(hipSetDevice(0));
      int value = 0;
      OK(hipMemcpy(&value, p, sizeof value, hipMemcpyDeviceToHost));
      EXPECT_EQ(40 + i, value);
      OK(hipFree(p));
    }
    OK(hipSetDevice(1));
    OK(hipDeviceDisablePeerAccess(0));
  }
  OK(hipSetDevice(0));
}

}  // namespace
}  // namespace captures
