// Kernels launched as libraries of kernels do it, by the functions beside hipLaunchKernel and hipModuleLaunchKernel:
// captured like any other where nothing but a launch is asked for.
#include <dlfcn.h>

#include <array>
#include <cstdint>

#include "captures.h"
#include "registered.h"

namespace captures {
namespace {

constexpr unsigned kBlock = 64, kBlocks = (kCount + kBlock - 1) / kBlock;

/// A function newer than the oldest header.
template <typename Function>
Function newer(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

using ExtModuleLaunch = hipError_t (*)(hipFunction_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t,
                                       std::uint32_t, std::uint32_t, std::size_t, hipStream_t, void**, void**,
                                       hipEvent_t, hipEvent_t, std::uint32_t);

/// The host stub of a kernel that does what mix() does.
const void* mix_stub() {
  static const char stub = 0;
  static const Registered* const registered =
      new Registered(R"(extern "C" __global__ void mix_by_stub(int* p, int n, int a) {
                          int i = blockIdx.x * blockDim.x + threadIdx.x;
                          if (i < n) p[i] = p[i] * 31 + a;
                        })",
                     "mix_by_stub", &stub);
  static_cast<void>(registered);
  return &stub;
}

/// What mix() is launched with.
struct Arguments {
  explicit Arguments(int* to, int constant) : p(to), a(constant) {}
  int* p;
  int n = kCount, a;
  std::array<void*, 3> each{&p, &n, &a};
};

/// One way to launch mix(p, kCount, a).
struct Form {
  const char* function;
  hipError_t (*launch)(hipStream_t stream, int* p, int a);
  bool packed;  ///< the node has its arguments as one buffer
};

/// hipLaunchConfig_t of HIP 7, and HIP_LAUNCH_CONFIG.
struct Config {
  dim3 grid, block;
  std::size_t shared_bytes;
  hipStream_t stream;
  const void* attributes;
  unsigned attribute_count;
};
struct DriverConfig {
  unsigned grid[3], block[3], shared_bytes;
  hipStream_t stream;
  const void* attributes;
  unsigned attribute_count;
};

const Form kForms[] = {
    {"hipExtModuleLaunchKernel",
     [](hipStream_t stream, int* p, int a) {
       Arguments arguments(p, a);
       return newer<ExtModuleLaunch>("hipExtModuleLaunchKernel")(kernels().mix_function(), kBlocks * kBlock, 1, 1,
                                                                 kBlock, 1, 1, 0, stream, arguments.each.data(),
                                                                 nullptr, nullptr, nullptr, 0);
     },
     false},
    {"hipExtModuleLaunchKernel",
     [](hipStream_t stream, int* p, int a) {
       struct {
         int* p;
         int n, a;
       } arguments{p, kCount, a};
       std::size_t bytes = sizeof arguments;
       void* extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &arguments, HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                        HIP_LAUNCH_PARAM_END};
       return newer<ExtModuleLaunch>("hipExtModuleLaunchKernel")(kernels().mix_function(), kBlocks * kBlock, 1, 1,
                                                                 kBlock, 1, 1, 0, stream, nullptr, extra, nullptr,
                                                                 nullptr, 0);
     },
     true},
    {"hipExtLaunchKernel",
     [](hipStream_t stream, int* p, int a) {
       Arguments arguments(p, a);
       return hipExtLaunchKernel(mix_stub(), dim3(kBlocks), dim3(kBlock), arguments.each.data(), 0, stream, nullptr,
                                 nullptr, 0);
     },
     false},
    {"hipLaunchKernelExC",
     [](hipStream_t stream, int* p, int a) {
       Arguments arguments(p, a);
       const Config config{dim3(kBlocks), dim3(kBlock), 0, stream, nullptr, 0};
       return newer<hipError_t (*)(const void*, const void*, void**)>("hipLaunchKernelExC")(&config, mix_stub(),
                                                                                            arguments.each.data());
     },
     false},
    {"hipDrvLaunchKernelEx",
     [](hipStream_t stream, int* p, int a) {
       Arguments arguments(p, a);
       const DriverConfig config{{kBlocks, 1, 1}, {kBlock, 1, 1}, 0, stream, nullptr, 0};
       return newer<hipError_t (*)(const void*, hipFunction_t, void**, void**)>("hipDrvLaunchKernelEx")(
           &config, kernels().mix_function(), arguments.each.data(), nullptr);
     },
     false}};

class LaunchForms : public testing::TestWithParam<Form> {};

TEST_P(LaunchForms, a_launch_without_events_is_captured_once) {
  const Form& form = GetParam();
  const Stream stream;
  const Buffer buffer;
  int value = 0;
  const auto one = [&](int a) {
    const Since since({form.function});
    step(stream, [&] {
      OK(form.launch(stream, buffer.get(), a));
      OK(kernels().mix(stream, buffer.get(), kCount, 5));
      OK(form.launch(stream, buffer.get(), a + 1));
    });
    value = mixed(mixed(mixed(value, a), 5), a + 1);
    EXPECT_EQ(value, buffer.value());
    return since[form.function];
  };
  EXPECT_EQ(2, one(1));
  for (int a = 1; a < 5; ++a) EXPECT_EQ(compares_captures() ? 0 : 2, one(a));
}

TEST_P(LaunchForms, a_capture_made_real_has_the_nodes_of_the_launches) {
  const Form& form = GetParam();
  const Stream stream;
  const Buffer buffer, other;
  int value = 0;
  const int other_value = 0;
  for (int i = 0; i < 4; ++i) {
    const bool joins = i % 2 == 1;
    const hipGraph_t graph = capture(stream, [&] {
      OK(form.launch(stream, buffer.get(), i));
      if (joins)
        OK(kernels().join(stream, buffer.get(), other.get(), kCount));
      else
        OK(form.launch(stream, buffer.get(), 9));
    });
    value = joins ? joined(mixed(value, i), other_value) : mixed(mixed(value, i), 9);
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
    EXPECT_EQ(value, buffer.value());
    OK(hipGraphExecDestroy(exec));
    hipGraphNode_t node = nullptr;
    std::size_t count = 1;
    OK(hipGraphGetRootNodes(graph, &node, &count));
    hipKernelNodeParams params{};
    OK(hipGraphKernelNodeGetParams(node, &params));
    EXPECT_EQ(kBlocks, params.gridDim.x);
    EXPECT_EQ(kBlock, params.blockDim.x);
    EXPECT_EQ(0u, params.sharedMemBytes);
    EXPECT_EQ(form.packed, params.kernelParams == nullptr);
    EXPECT_EQ(form.packed, params.extra != nullptr);
    OK(hipGraphDestroy(graph));
  }
}

TEST_P(LaunchForms, a_launch_by_another_function_is_another_operation) {
  const Form& form = GetParam();
  if (form.packed) return;
  const Stream stream;
  const Buffer buffer;
  const auto first = [&] { OK(hipMemsetD16Async(buffer.get(), 0, 2 * kCount, stream)); };
  for (int i = 0; i < 2; ++i) {
    step(stream, [&] {
      first();
      OK(kernels().mix(stream, buffer.get(), kCount, 1));
    });
    step(stream, [&] {
      first();
      int *p = buffer.get(), n = kCount, a = 1;
      void* args[] = {&p, &n, &a};
      OK(hipLaunchKernel(mix_stub(), dim3(kBlocks), dim3(kBlock), args, 0, stream));
    });
  }
  const Since since({form.function});
  step(stream, [&] {
    first();
    OK(form.launch(stream, buffer.get(), 1));
  });
  EXPECT_EQ(1, since[form.function]) << "not every runtime captures it";
}

INSTANTIATE_TEST_SUITE_P(All, LaunchForms, testing::ValuesIn(kForms), [](const testing::TestParamInfo<Form>& form) {
  return std::string(form.param.function) + (form.param.packed ? "_packed" : "");
});

TEST(LaunchSizes, what_only_the_runtime_can_judge_is_judged_by_it) {
  const auto launch = newer<ExtModuleLaunch>("hipExtModuleLaunchKernel");
  const Stream stream;
  const Buffer buffer;
  const auto results = [&](std::uint32_t threads, std::uint32_t block) {
    Arguments arguments(buffer.get(), 1);
    std::array<hipError_t, 3> all{};
    hipGraph_t graph = nullptr;
    EXPECT_EQ(hipSuccess, hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
    all[0] = launch(kernels().mix_function(), threads, 1, 1, block, 1, 1, 0, stream, arguments.each.data(), nullptr,
                    nullptr, nullptr, 0);
    all[1] = hipGetLastError();
    all[2] = hipStreamEndCapture(stream, &graph);
    if (graph != nullptr) {
      EXPECT_EQ(hipSuccess, hipGraphDestroy(graph));
    }
    return all;
  };
  const std::array<std::uint32_t, 2> sizes[] = {{128, 64}, {100, 64}, {0, 64}, {128, 0}, {32, 64}};
  std::vector<std::array<hipError_t, 3>> first, again;
  for (const auto& [threads, block] : sizes) first.push_back(results(threads, block));
  for (const auto& [threads, block] : sizes) again.push_back(results(threads, block));
  EXPECT_EQ(first, again);
  EXPECT_EQ(hipSuccess, first[0][0]);
  EXPECT_EQ(hipErrorInvalidValue, first[1][0]);
  EXPECT_EQ(hipErrorInvalidValue, first[2][0]);
  EXPECT_EQ(hipErrorInvalidConfiguration, first[3][0]);
  EXPECT_EQ(hipSuccess, first[4][0]) << "a block is not larger than what is launched";
}

}  // namespace
}  // namespace captures
