// `verify`: what is served from recordings is also taken the real way, and differences are said once. Faults come from
// faulty_runtime.cpp, which stands behind the library; what the library says goes to GRAPHPOOL_LOG_FILE.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "said.h"

namespace captures {
namespace {

TEST(Verify, so_many_matches_take_the_real_path) {
  const Stream stream;
  const Buffer buffer;
  const Said said;
  int value = 0;
  std::vector<int> captured;
  for (int i = 0; i < 9; ++i) {
    const Since since = graph_calls();
    step(stream, [&] { OK(kernels().mix(stream, buffer.get(), kCount, i)); });
    captured.push_back(since["hipModuleLaunchKernel"]);
    value = mixed(value, i);
    EXPECT_EQ(value, buffer.value());
  }
  if (verifies("first:3")) {
    EXPECT_EQ((std::vector{1, 1, 1, 1, 0, 0, 0, 0, 0}), captured);
  }
  if (verifies("every:4")) {
    EXPECT_EQ((std::vector{1, 1, 0, 0, 0, 1, 0, 0, 0}), captured);
  }
  if (verifies("off")) {
    EXPECT_EQ((std::vector{1, 0, 0, 0, 0, 0, 0, 0, 0}), captured);
  }
  EXPECT_TRUE(said.errors().empty());
}

TEST(Verify, every_kind_of_operation_passes) {
  const Stream stream;
  const Buffer buffer, other;
  const Said said;
  int ran = 0;
  for (int i = 0; i < 6; ++i) {
    step(stream, [&] {
      OK(hipMemsetD32Async(buffer.get(), i, kCount, stream));
      OK(hipMemsetAsync(other.get(), 0x1f0 + i, 16, stream));
      OK(hipMemcpyAsync(other.get(), buffer.get(), kCount * sizeof(int), hipMemcpyDeviceToDevice, stream));
      OK(hipMemcpy2DAsync(other.get(), 16, buffer.get(), 16, 8, 4, hipMemcpyDeviceToDevice, stream));
      OK(kernels().join(stream, buffer.get(), other.get(), kCount));
      OK(hipLaunchHostFunc(
          stream, [](void* count) { ++*static_cast<int*>(count); }, &ran));
    });
    EXPECT_EQ(i * 17 + i, buffer.value());
  }
  EXPECT_EQ(6, ran);  // rule 29: host functions run exactly once
  EXPECT_TRUE(said.errors().empty());
}

// The runtime of this test captures another argument than it was given, from the second capture on.
TEST(VerifyFault, a_binding_that_is_not_what_the_runtime_captured_is_reported) {
  if (!fault("argument")) GTEST_SKIP() << "FAULT=argument only";
  const Stream stream;
  const Buffer buffer;
  const Said said;
  int value = 0;
  for (int i = 0; i < 6; ++i) {
    step(stream, [&] { OK(kernels().mix(stream, buffer.get(), kCount, 7)); });
    value = mixed(value, i == 0 ? 7 : 1007);  // the program has what the runtime makes of it
    EXPECT_EQ(value, buffer.value()) << "step " << i;
  }
  if (!under_library()) return;
  const auto lines = said.errors();
  ASSERT_EQ(1u, lines.size());
  EXPECT_NE(std::string::npos, lines[0].find("error: verify: graph 1, kernel mix: argument 2:")) << lines[0];
  EXPECT_NE(std::string::npos, lines[0].find("captures of it are left to the runtime")) << lines[0];
}

TEST(MemoryOperationsFault, rule_24_operands_of_nodes_are_looked_at) {
  void** const last = static_cast<void**>(dlsym(RTLD_DEFAULT, "last_memory_operand"));
  ASSERT_NE(nullptr, last);
  struct Operation {  // hipStreamBatchMemOpParams
    int kind;
    void* address;
    unsigned long long value;
    unsigned flags;
    void* alias;
    unsigned long long unused;
  };
  struct Node {  // hipBatchMemOpNodeParams
    hipCtx_t context;
    unsigned count;
    Operation* operations;
    unsigned flags;
  };
  int* freed = nullptr;
  const Buffer live;
  OK(hipMalloc(reinterpret_cast<void**>(&freed), kCount * sizeof(int)));
  OK(hipFree(freed));
  hipGraph_t graph = nullptr;
  OK(hipGraphCreate(&graph, 0));
  const auto call = [](const char* name, auto... arguments) {
    using Function = hipError_t (*)(decltype(arguments)...);
    return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name))(arguments...);
  };
  const std::size_t none = 0;
  for (int* const at : {live.get(), freed}) {
    Operation operation{2, at, 1, 0, nullptr, 0};
    const Node node{nullptr, 1, &operation, 0};
    const auto* const params = static_cast<const void*>(&node);
    hipGraphNode_t made = nullptr;
    const auto expect_seen = [&](const char* name) {
      EXPECT_EQ(at == live.get() || !under_library(), *last == at) << name;
      EXPECT_EQ(at, operation.address);
      *last = nullptr;
    };
    OK(call("hipGraphAddBatchMemOpNode", &made, graph, static_cast<const hipGraphNode_t*>(nullptr), none, params));
    expect_seen("hipGraphAddBatchMemOpNode");
    OK(call("hipGraphBatchMemOpNodeSetParams", made, params));
    expect_seen("hipGraphBatchMemOpNodeSetParams");
    OK(call("hipGraphExecBatchMemOpNodeSetParams", hipGraphExec_t{}, made, params));
    expect_seen("hipGraphExecBatchMemOpNodeSetParams");
  }
  OK(hipGraphDestroy(graph));
}

// A library with a fault of its own makes fills anew with the lowest byte of their value only.
TEST(VerifySeeded, a_graph_made_wrongly_of_its_recording_is_found_and_the_program_has_the_real_result) {
  const Stream stream;
  const Buffer buffer, other;
  const Said said;
  const int fill = 0x01020304;
  for (int i = 0; i < 9; ++i) {
    step(stream, [&] {
      OK(hipMemsetD32Async(buffer.get(), fill, kCount, stream));
      OK(kernels().mix(stream, buffer.get(), kCount, 5));
      OK(hipMemcpyAsync(other.get(), buffer.get(), kCount * sizeof(int), hipMemcpyDeviceToDevice, stream));
    });
    EXPECT_EQ(mixed(fill, 5), buffer.value()) << "step " << i;
    EXPECT_EQ(mixed(fill, 5), other.value()) << "step " << i;
  }
  const bool staged = std::getenv("GRAPHPOOL_BUFFERS") != nullptr;
  const auto lines = said.errors();
  ASSERT_EQ(staged ? 2u : 1u, lines.size());
  if (staged) {
    EXPECT_NE(std::string::npos, lines[0].find("not staged any more")) << lines[0];
  }
  EXPECT_NE(std::string::npos, lines.back().find("graph 1, made of its recording: byte ")) << lines.back();
  EXPECT_NE(std::string::npos, lines.back().find("captures of it are left to the runtime")) << lines.back();
}

/// Staging by GRAPHPOOL_BUFFERS: every buffer, copied in and out.
TEST(LaunchFault, rule_20_a_wait_before_a_launch_was_enqueued_says_nothing_of_it) {
  const Stream s;
  int* flag = nullptr;
  OK(hipHostMalloc(reinterpret_cast<void**>(&flag), sizeof(int), 0));
  __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
  const auto spin = [&] { OK(kernels().spin(s, flag)); };
  for (int i = 0; i < 3; ++i) step(s, spin);
  __atomic_store_n(flag, 0, __ATOMIC_RELEASE);
  hipGraphExec_t running = nullptr, other = nullptr;
  hipGraph_t graph = capture(s, spin);
  OK(hipGraphInstantiate(&running, graph, nullptr, nullptr, 0));
  OK(hipGraphDestroy(graph));
  OK(hipGraphLaunch(running, s));  // the fault: another thread has waited for the stream just before
  OK(hipGraphExecDestroy(running));
  const Since since({"hipGraphInstantiate"});
  graph = capture(s, spin);
  OK(hipGraphInstantiate(&other, graph, nullptr, nullptr, 0));
  EXPECT_EQ(1, since["hipGraphInstantiate"]) << "the exec in flight was given to another holder";
  __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
  OK(hipStreamSynchronize(s));
  OK(hipGraphDestroy(graph));
  OK(hipGraphExecDestroy(other));
  OK(hipHostFree(flag));
}

TEST(VerifyStaging, rule_29_staged_launches_run_both_ways_and_write_once) {
  const Stream stream;
  const Buffer buffer, other;
  const Said said;
  int value = 0;
  for (int i = 0; i < 6; ++i) {
    const Since since = graph_calls();
    step(stream, [&] {
      OK(kernels().mix(stream, buffer.get(), kCount, i));
      OK(hipMemcpyAsync(other.get(), buffer.get(), kCount * sizeof(int), hipMemcpyDeviceToDevice, stream));
    });
    value = mixed(value, i);
    EXPECT_EQ(value, buffer.value()) << "step " << i;
    EXPECT_EQ(value, other.value()) << "step " << i;
    if (verifies("first:3") && !fault("copy")) {
      EXPECT_EQ(i < 3 ? 2 : 1, since["hipGraphLaunch"]) << "step " << i;
    }
  }
  if (!under_library()) return;
  const auto lines = said.errors();
  if (!fault("copy")) {
    EXPECT_TRUE(lines.empty());
    return;
  }
  ASSERT_EQ(1u, lines.size());
  EXPECT_NE(std::string::npos, lines[0].find("error: verify: graph")) << lines[0];
  EXPECT_NE(std::string::npos, lines[0].find("(everything): byte 0 differs")) << lines[0];
  EXPECT_NE(std::string::npos, lines[0].find("not staged any more")) << lines[0];
}

TEST(VerifyStaging, rule_29_kernels_of_a_module_with_variables_run_once) {
  const hipFunction_t count = compiled(
      "__device__ int launches;\n"
      "extern \"C\" __global__ void count(int* p, int n) {\n"
      "  if (blockIdx.x * blockDim.x + threadIdx.x == 0) launches = launches + 1;\n"
      "  __syncthreads();\n"
      "  for (int i = threadIdx.x; i < n; i += blockDim.x) p[i] = launches;\n"
      "}\n",
      "count");
  const Stream stream;
  const Buffer buffer;
  for (int i = 0; i < 6; ++i) {
    step(stream, [&] {
      int* p = buffer.get();
      int n = kCount;
      void* args[] = {&p, &n};
      OK(hipModuleLaunchKernel(count, 1, 1, 1, 64, 1, 1, 0, stream, args, nullptr));
    });
    EXPECT_EQ(i + 1, buffer.value());
  }
}

// What a launch does is another thread's sign that it is enqueued, whether the call has returned or not.
class LateReturn : public testing::Test {
 protected:
  LateReturn() {
    char address[32];
    std::snprintf(address, sizeof address, "%llx",
                  static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(&gate_)));
    setenv("FAULT_GATE", address, 1);
    EXPECT_EQ(hipSuccess, hipHostMalloc(reinterpret_cast<void**>(&flag_), sizeof(int), 0));
    *flag_ = 0;
  }
  ~LateReturn() override {
    unsetenv("FAULT_GATE");
    EXPECT_EQ(hipSuccess, hipHostFree(flag_));
  }

  hipGraph_t spinning(int constant) {
    return capture(stream_, [&] {
      OK(kernels().spin(stream_, flag_));
      OK(kernels().mix(stream_, buffer_.get(), kCount, constant));
    });
  }
  hipGraphExec_t instantiated(hipGraph_t graph) {
    hipGraphExec_t exec = nullptr;
    EXPECT_EQ(hipSuccess, hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    EXPECT_EQ(hipSuccess, hipGraphDestroy(graph));
    return exec;
  }
  /// Launches in a thread of its own whose call has not returned when this does.
  std::thread launched(hipGraphExec_t exec) {
    gate_ = 0;
    std::thread launching([this, exec] { EXPECT_EQ(hipSuccess, hipGraphLaunch(exec, stream_)); });
    while (gate_ == 0) std::this_thread::yield();
    return launching;
  }
  void finish(std::thread* launching) {
    gate_ = 2;
    launching->join();
    *static_cast<volatile int*>(flag_) = 1;
    EXPECT_EQ(hipSuccess, hipStreamSynchronize(stream_));
    *flag_ = 0;
  }

  const Stream stream_;
  const Buffer buffer_;
  int* flag_ = nullptr;
  std::atomic<int> gate_{2};
};

TEST_F(LateReturn, rule_20_an_exec_is_destroyed_before_its_launch_has_returned) {
  int value = 0;
  for (int i = 0; i < 6; ++i) {
    const hipGraphExec_t first = instantiated(spinning(2 * i));
    std::thread launching = launched(first);
    OK(hipGraphExecDestroy(first));
    // Another binding while the launch still runs.
    const hipGraphExec_t other = instantiated(spinning(2 * i + 1));
    OK(hipGraphLaunch(other, stream_));
    finish(&launching);
    OK(hipGraphExecDestroy(other));
    value = mixed(mixed(value, 2 * i), 2 * i + 1);
    EXPECT_EQ(value, buffer_.value()) << "round " << i;
  }
}

TEST_F(LateReturn, rule_20_an_exec_is_updated_before_its_launch_has_returned) {
  int value = 0;
  const hipGraphExec_t exec = instantiated(spinning(100));
  for (int i = 0; i < 6; ++i) {
    std::thread launching = launched(exec);
    value = mixed(value, i == 0 ? 100 : 2 * i - 1);
    for (const int constant : {2 * i, 2 * i + 1}) {
      const hipGraph_t graph = spinning(constant);
      hipGraphNode_t node = nullptr;
      hipGraphExecUpdateResult result;
      OK(hipGraphExecUpdate(exec, graph, &node, &result));
      OK(hipGraphDestroy(graph));
      if (constant % 2 != 0) continue;
      OK(hipGraphLaunch(exec, stream_));
      value = mixed(value, constant);
    }
    finish(&launching);
    EXPECT_EQ(value, buffer_.value()) << "round " << i;
  }
  OK(hipGraphExecDestroy(exec));
}

/// The launch is compared.
class LateReturnVerified : public LateReturn {
 protected:
  hipGraph_t mixing(int constant) {
    return capture(stream_, [&] { OK(kernels().mix(stream_, buffer_.get(), kCount, constant)); });
  }
};

TEST_F(LateReturnVerified, an_exec_is_destroyed_before_its_launch_has_returned) {
  int value = 0;
  for (int i = 0; i < 6; ++i) {
    const hipGraphExec_t exec = instantiated(mixing(i));
    std::thread launching = launched(exec);
    OK(hipGraphExecDestroy(exec));
    finish(&launching);
    value = mixed(value, i);
    EXPECT_EQ(value, buffer_.value()) << "round " << i;
  }
}

TEST_F(LateReturnVerified, an_exec_is_updated_before_its_launch_has_returned) {
  const Stream beside;
  const Buffer other;
  int value = 0;
  const hipGraphExec_t exec = instantiated(mixing(0));
  for (int i = 0; i < 6; ++i) {
    std::thread launching = launched(exec);
    value = mixed(value, i);
    const hipGraph_t graph = mixing(i + 1);
    hipGraphNode_t node = nullptr;
    hipGraphExecUpdateResult result;
    OK(hipGraphExecUpdate(exec, graph, &node, &result));
    OK(hipGraphDestroy(graph));
    // What other work may have written is not compared.
    if (i % 2 == 0) OK(kernels().mix(beside, other.get(), kCount, 1));
    finish(&launching);
    EXPECT_EQ(value, buffer_.value()) << "round " << i;
  }
  OK(hipGraphExecDestroy(exec));
}

// A kernel that reads a staged buffer by an address it finds in memory, although the rule promises that every access
// goes through an operand.
TEST(VerifyRule, a_rule_that_is_not_true_is_reported_and_the_program_has_the_real_result) {
  const hipFunction_t peek = compiled(
      "extern \"C\" __global__ void peek(unsigned long long* table, int* out, int n) {\n"
      "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  if (i < n) out[i] = ((int*)table[0])[i];\n"
      "}\n",
      "peek");
  const Stream stream;
  const Buffer table, out, hidden;
  int* const address = hidden.get();
  OK(hipMemcpy(table.get(), &address, sizeof address, hipMemcpyHostToDevice));
  const Said said;
  int value = 0;
  for (int i = 0; i < 6; ++i) {
    step(stream, [&] {
      int* t = table.get();
      int* o = out.get();
      int n = kCount;
      void* args[] = {&t, &o, &n};
      OK(hipModuleLaunchKernel(peek, 2, 1, 1, 64, 1, 1, 0, stream, args, nullptr));
      OK(kernels().mix(stream, hidden.get(), kCount, i));
    });
    EXPECT_EQ(value, out.value()) << "step " << i;
    value = mixed(value, i);
    EXPECT_EQ(value, hidden.value()) << "step " << i;
  }
  if (!under_library()) return;
  const auto lines = said.errors();
  ASSERT_EQ(1u, lines.size());
  EXPECT_NE(std::string::npos, lines[0].find("it is not staged any more")) << lines[0];
}

}  // namespace
}  // namespace captures
