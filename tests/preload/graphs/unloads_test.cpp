// Modules that are unloaded: only what names them is made real and forgotten.
#include <functional>
#include <memory>

#include "registered.h"

// Newer than the oldest header.
extern "C" {
hipError_t hipLibraryLoadData(void** library, const void* code, void* options, void** values, unsigned int count,
                              void* library_options, void** library_values, unsigned int library_count);
hipError_t hipLibraryUnload(void* library);
}

namespace captures {
namespace {

constexpr const char* kSource = R"(
  __device__ int variable[100];
  extern "C" __global__ void thrice(int* p, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = p[i] * 3 + variable[i];
  }
)";

class Module {
 public:
  Module() {
    EXPECT_EQ(hipSuccess, hipModuleLoadData(&module_, compiled_code(kSource).data()));
    EXPECT_EQ(hipSuccess, hipModuleGetFunction(&thrice_, module_, "thrice"));
    std::size_t bytes = 0;
    hipDeviceptr_t at = nullptr;
    EXPECT_EQ(hipSuccess, hipModuleGetGlobal(&at, &bytes, module_, "variable"));
    variable_ = static_cast<int*>(at);
  }
  void unload() const { EXPECT_EQ(hipSuccess, hipModuleUnload(module_)); }
  int* variable() const { return variable_; }
  hipError_t thrice(hipStream_t stream, int* p) const {
    int n = kCount;
    void* args[] = {&p, &n};
    return hipModuleLaunchKernel(thrice_, 2, 1, 1, 64, 1, 1, 0, stream, args, nullptr);
  }

 private:
  hipModule_t module_ = nullptr;
  hipFunction_t thrice_ = nullptr;
  int* variable_ = nullptr;
};

class Unloads : public testing::Test {
 protected:
  /// A step that mixes, known from the second time on.
  hipGraph_t mixing(
      int a, const std::function<void()>& behind = [] {}) {
    hipGraph_t graph = nullptr;
    EXPECT_EQ(hipSuccess, hipStreamBeginCapture(stream_, hipStreamCaptureModeRelaxed));
    EXPECT_EQ(hipSuccess, kernels().mix(stream_, buffer_.get(), kCount, a));
    behind();
    EXPECT_EQ(hipSuccess, hipStreamEndCapture(stream_, &graph));
    return graph;
  }
  void run_and_expect(hipGraph_t graph, int a) {
    run(stream_, graph);
    value_ = mixed(value_, a);
    EXPECT_EQ(value_, buffer_.value());
  }
  void learn() {
    for (int i = 0; i < 2; ++i) run_and_expect(mixing(i), i);
  }

  const Stream stream_;
  const Buffer buffer_;
  int value_ = 0;
};

TEST_F(Unloads, say_nothing_of_graphs_and_captures_of_other_modules) {
  learn();
  for (int round = 0; round < 3; ++round) {
    const Module module;
    const hipGraph_t held = mixing(5);
    const Since since({"hipModuleLaunchKernel", "hipGraphAddKernelNode"});
    const hipGraph_t open = mixing(6, [&] { module.unload(); });
    EXPECT_EQ(compares_captures() ? 0 : 1, since["hipModuleLaunchKernel"]);
    EXPECT_EQ(0, since["hipGraphAddKernelNode"]);
    run_and_expect(held, 5);
    run_and_expect(open, 6);
  }
}

TEST_F(Unloads, a_library_says_nothing_of_other_graphs_either) {
  learn();
  void* library = nullptr;
  OK(hipLibraryLoadData(&library, compiled_code(kSource).data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  const hipGraph_t held = mixing(7);
  const Since since({"hipGraphAddKernelNode"});
  OK(hipLibraryUnload(library));
  EXPECT_EQ(0, since["hipGraphAddKernelNode"]);
  run_and_expect(held, 7);
}

TEST_F(Unloads, rule_07_make_real_what_names_a_function_of_the_module) {
  for (int round = 0; round < 3; ++round) {
    const Module module;
    const auto body = [&] {
      OK(module.thrice(stream_, buffer_.get()));
      OK(kernels().mix(stream_, buffer_.get(), kCount, round));
    };
    run(stream_, capture(stream_, body));
    static_cast<void>(buffer_.value());
    const hipGraph_t held = capture(stream_, body);
    const Since since({"hipGraphAddKernelNode"});
    module.unload();
    EXPECT_EQ(compares_captures() ? 2 : 0, since["hipGraphAddKernelNode"]);
    std::size_t count = 0;
    OK(hipGraphGetNodes(held, nullptr, &count));
    EXPECT_EQ(2u, count);
    OK(hipGraphDestroy(held));
  }
}

TEST_F(Unloads, rule_07_make_real_what_copies_a_variable_of_the_module) {
  for (int round = 0; round < 3; ++round) {
    const Module module;
    const auto body = [&] {
      OK(hipMemcpyAsync(buffer_.get(), module.variable(), kCount * sizeof(int), hipMemcpyDeviceToDevice, stream_));
    };
    run(stream_, capture(stream_, body));
    const hipGraph_t held = capture(stream_, body);
    const Since since({"hipGraphAddMemcpyNode1D"});
    module.unload();
    EXPECT_EQ(compares_captures() ? 1 : 0, since["hipGraphAddMemcpyNode1D"]);
    OK(hipGraphDestroy(held));
  }
}

TEST_F(Unloads, say_nothing_of_copies_of_other_modules_variables) {
  const Module kept;
  const auto body = [&] {
    OK(hipMemcpyAsync(buffer_.get(), kept.variable() + 10, 40, hipMemcpyDeviceToDevice, stream_));
  };
  run(stream_, capture(stream_, body));
  const hipGraph_t held = capture(stream_, body);
  const Since since({"hipGraphAddMemcpyNode1D"});
  for (int round = 0; round < 3; ++round) {
    const Module module;
    module.unload();
  }
  EXPECT_EQ(0, since["hipGraphAddMemcpyNode1D"]);
  kept.unload();
  EXPECT_EQ(compares_captures() ? 1 : 0, since["hipGraphAddMemcpyNode1D"]) << "its own";
  OK(hipGraphDestroy(held));
}

TEST_F(Unloads, rule_07_of_what_an_open_capture_names_leave_it_to_the_runtime) {
  for (const bool known : {false, true}) {
    for (const bool copies : {false, true}) {
      const Module module;
      const auto body = [&] {
        if (copies)
          OK(hipMemcpyAsync(buffer_.get(), module.variable(), kCount * sizeof(int), hipMemcpyDeviceToDevice, stream_));
        else
          OK(module.thrice(stream_, buffer_.get()));
      };
      if (known) run(stream_, capture(stream_, body));
      hipGraph_t graph = nullptr;
      OK(hipStreamBeginCapture(stream_, hipStreamCaptureModeRelaxed));
      body();
      module.unload();
      const Since since({"hipGraphAddKernelNode", "hipGraphAddMemcpyNode1D"});
      OK(hipStreamEndCapture(stream_, &graph));
      std::size_t count = 0;
      OK(hipGraphGetNodes(graph, nullptr, &count));
      EXPECT_EQ(1u, count);
      EXPECT_EQ(0, since["hipGraphAddKernelNode"]);
      EXPECT_EQ(0, since["hipGraphAddMemcpyNode1D"]);
      OK(hipGraphDestroy(graph));
    }
  }
}

TEST_F(Unloads, take_the_execs_of_the_module_with_them) {
  if (under_library() && !compares_captures()) GTEST_SKIP() << "no exec is kept";
  const Module module;
  run(stream_, capture(stream_, [&] { OK(module.thrice(stream_, buffer_.get())); }));
  const Since since({"hipGraphExecDestroy"});
  module.unload();
  EXPECT_EQ(under_library() ? 1 : 0, since["hipGraphExecDestroy"]) << "the one that was kept";
}

/// A compiled program's library: what dlclose() takes away.
class Library {
 public:
  hipError_t thrice(hipStream_t stream, int* p) const {
    int n = kCount;
    void* args[] = {&p, &n};
    return hipLaunchKernel(&stub_, {2, 1, 1}, {64, 1, 1}, args, 0, stream);
  }

 private:
  char stub_ = 0;
  const Registered registered_{kSource, "thrice", &stub_};
};

TEST_F(Unloads, rule_37_of_a_library_whose_kernels_an_open_capture_has_leave_it_to_the_runtime) {
  for (const bool known : {false, true}) {
    auto library = std::make_unique<Library>();
    const auto body = [&] { OK(library->thrice(stream_, buffer_.get())); };
    if (known) run(stream_, capture(stream_, body));
    hipGraph_t graph = nullptr;
    OK(hipStreamBeginCapture(stream_, hipStreamCaptureModeRelaxed));
    body();
    library.reset();
    OK(hipStreamEndCapture(stream_, &graph));
    std::size_t count = 0;
    OK(hipGraphGetNodes(graph, nullptr, &count));
    EXPECT_EQ(1u, count);
    OK(hipGraphDestroy(graph));
    EXPECT_EQ(hipSuccess, hipGetLastError());
  }
}

TEST_F(Unloads, rule_37_a_graph_of_a_librarys_kernels_outlives_it) {
  for (int round = 0; round < 3; ++round) {
    auto library = std::make_unique<Library>();
    const auto body = [&] { OK(library->thrice(stream_, buffer_.get())); };
    run(stream_, capture(stream_, body));
    const hipGraph_t held = capture(stream_, body);
    library.reset();
    std::size_t count = 0;
    OK(hipGraphGetNodes(held, nullptr, &count));
    EXPECT_EQ(1u, count);
    OK(hipGraphDestroy(held));
  }
}

TEST_F(Unloads, questions_about_kernels_cost_an_open_capture_nothing) {
  learn();
  const auto twice = [&] { OK(kernels().mix(stream_, buffer_.get(), kCount, 8)); };
  run(stream_, mixing(8, twice));
  value_ = mixed(mixed(value_, 8), 8);
  const Since since({"hipStreamIsCapturing"});
  const hipGraph_t graph = mixing(9, [&] {
    int blocks = 0, threads = 0;
    OK(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernels().mix_function(), 64, 0));
    OK(hipModuleOccupancyMaxPotentialBlockSize(&blocks, &threads, kernels().mix_function(), 0, 0));
    OK(hipFuncGetAttribute(&blocks, HIP_FUNC_ATTRIBUTE_NUM_REGS, kernels().mix_function()));
    OK(kernels().mix(stream_, buffer_.get(), kCount, 9));
  });
  EXPECT_EQ(0, since["hipStreamIsCapturing"]);
  run(stream_, graph);
  EXPECT_EQ(mixed(mixed(value_, 9), 9), buffer_.value());
}

}  // namespace
}  // namespace captures
