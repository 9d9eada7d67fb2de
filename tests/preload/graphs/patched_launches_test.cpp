// `verify` of execs that were patched, or found again by their binding: they serve the program, a new exec works on
// copies, both must give the same. Defects come from the CPU runtime (CPUHIP_QUIRKS) and from faulty_runtime.cpp; what
// the library says goes to GRAPHPOOL_LOG_FILE. Under the library the policy has every binding patched that can be.
#include <atomic>
#include <memory>
#include <thread>

#include "node_calls.h"
#include "said.h"

namespace captures {
namespace {

constexpr int kSteps = 12;

bool quirk(const char* name) {
  const char* const value = std::getenv("CPUHIP_QUIRKS");
  return value != nullptr && std::strstr(value, name) != nullptr;
}
/// Whether the runtime is known to update nodes other than kernels' correctly.
bool patches_all() {
  int version = 0;
  EXPECT_EQ(hipSuccess, hipRuntimeGetVersion(&version));
  return version < 60000000;
}
bool compares_all() { return verifies("every:1") && !quirk("stale_packets") && !fault("copy"); }

Since exec_calls() {
  return Since({"hipGraphInstantiate", "hipGraphExecKernelNodeSetParams", "hipGraphExecMemsetNodeSetParams",
                "hipGraphExecMemcpyNodeSetParams1D", "hipGraphLaunch"});
}
int patches(const Since& since) {
  return since["hipGraphExecKernelNodeSetParams"] + since["hipGraphExecMemsetNodeSetParams"] +
         since["hipGraphExecMemcpyNodeSetParams1D"];
}

/// Every launch was done twice: by an exec that was patched, or, where the runtime does not update such nodes
/// correctly, by new ones.
void expect_compared(const Since& since, const Said& said, bool patchable) {
  if (!compares_all()) return;
  EXPECT_EQ(patchable, patches(since) != 0);
  EXPECT_EQ(2 * kSteps, since["hipGraphLaunch"]);
  EXPECT_TRUE(said.errors().empty());
  EXPECT_TRUE(said.warnings().empty());
}

/// Makes a graph another than those of other tests, which would have the same recording.
class Distinct {
 public:
  explicit Distinct(int fills) : fills_(fills) {}
  void operator()(hipStream_t stream) const {
    for (int i = 0; i < fills_; ++i) OK(hipMemsetD32Async(buffer_.get(), i, kCount, stream));
  }

 private:
  int fills_;
  Buffer buffer_;
};

TEST(Patched, kernels_are_compared) {
  const Stream stream;
  const std::vector<Buffer> moving(3);
  const Buffer fixed;
  const Said said;
  const Since since = exec_calls();
  int values[3] = {}, fixed_value = 0;
  for (int i = 0; i < kSteps; ++i) {
    const auto which = static_cast<std::size_t>(i % 3);
    step(stream, [&] {
      OK(kernels().mix(stream, moving[which].get(), kCount, i));
      OK(kernels().mix_packed(stream, fixed.get(), kCount, 1000 + i));
      int* p = fixed.get();
      const int* q = moving[which].get();
      int n = kCount;
      void* args[] = {&p, &q, &n};
      const auto blocks = static_cast<unsigned>(2 + i % 2);  // more than are needed
      OK(hipModuleLaunchKernel(kernels().join_function(), blocks, 1, 1, 64, 1, 1, 0, stream, args, nullptr));
    });
    values[which] = mixed(values[which], i);
    fixed_value = joined(mixed(fixed_value, 1000 + i), values[which]);
    for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(values[k], moving[k].value()) << "step " << i << ", buffer " << k;
    EXPECT_EQ(fixed_value, fixed.value()) << "step " << i;
  }
  expect_compared(since, said, true);
}

// The exec had the address before it was patched; natively nothing looks at it any more.
TEST(PatchedBeside, memory_that_another_thread_frees_meanwhile_is_not_looked_at) {
  const Stream stream;
  const Buffer buffer;
  auto former = std::make_unique<Buffer>();
  const auto captured = [&](const Buffer& of) {
    return capture(stream, [&] { OK(kernels().mix(stream, of.get(), kCount, 3)); });
  };
  hipGraph_t first = captured(*former), second = captured(buffer);
  hipGraphExec_t exec = nullptr;
  OK(hipGraphInstantiate(&exec, first, nullptr, nullptr, 0));
  OK(hipGraphLaunch(exec, stream));
  hipGraphNode_t node = nullptr;
  hipGraphExecUpdateResult updated;
  OK(hipGraphExecUpdate(exec, second, &node, &updated));
  OK(hipGraphDestroy(first));
  OK(hipGraphDestroy(second));
  OK(hipStreamSynchronize(stream));
  former.reset();
  const Said said;
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) {
      void* p = nullptr;
      OK(hipMalloc(&p, kCount * sizeof(int)));
      OK(hipFree(p));
    }
  });
  int value = 0;
  for (int i = 0; i < 300; ++i) {
    OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
    value = mixed(value, 3);
  }
  stop = true;
  other.join();
  EXPECT_EQ(value, buffer.value());
  EXPECT_TRUE(said.errors().empty());
  OK(hipGraphExecDestroy(exec));
}

TEST(Patched, fills_are_compared) {
  const Stream stream;
  const std::vector<Buffer> moving(3);
  const Buffer bytes, words;
  const Said said;
  const Since since = exec_calls();
  int values[3] = {};
  for (int i = 0; i < kSteps; ++i) {
    const auto which = static_cast<std::size_t>(i % 3);
    step(stream, [&] {
      OK(hipMemsetD32Async(moving[which].get(), i, kCount, stream));
      OK(hipMemsetAsync(bytes.get(), i, kCount * sizeof(int), stream));
      OK(hipMemsetD16Async(words.get(), static_cast<unsigned short>(0x100 + i), kCount * 2, stream));
      OK(kernels().mix(stream, moving[which].get(), kCount, 5));
    });
    values[which] = mixed(i, 5);
    for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(values[k], moving[k].value()) << "step " << i << ", buffer " << k;
    EXPECT_EQ(i * 0x01010101, bytes.value()) << "step " << i;
    EXPECT_EQ((0x100 + i) * 0x00010001, words.value()) << "step " << i;
  }
  expect_compared(since, said, patches_all());
}

TEST(Patched, copies_are_compared) {
  const Stream stream;
  const std::vector<Buffer> from(3), to(4);
  const Said said;
  const Since since = exec_calls();
  int values[3] = {}, copied[4] = {};
  for (int i = 0; i < kSteps; ++i) {
    const auto which = static_cast<std::size_t>(i % 3), other = static_cast<std::size_t>(i / 3);
    OK(kernels().mix(stream, from[which].get(), kCount, i));
    OK(hipStreamSynchronize(stream));
    values[which] = mixed(values[which], i);
    step(stream, [&] {
      OK(hipMemcpyAsync(to[other].get(), from[which].get(), kCount * sizeof(int), hipMemcpyDeviceToDevice, stream));
    });
    copied[other] = values[which];
    for (std::size_t k = 0; k < 4; ++k) EXPECT_EQ(copied[k], to[k].value()) << "step " << i << ", buffer " << k;
  }
  expect_compared(since, said, patches_all());
}

TEST(Patched, an_exec_found_again_by_its_binding_is_compared) {
  const Stream stream;
  const std::vector<Buffer> buffers(2);
  const Distinct distinct(1);
  const Said said;
  int values[2] = {};
  const auto launches = [&](std::size_t which) {
    const Since since = exec_calls();
    step(stream, [&] {
      distinct(stream);
      OK(kernels().mix(stream, buffers[which].get(), kCount, 3));
    });
    values[which] = mixed(values[which], 3);
    EXPECT_EQ(values[which], buffers[which].value());
    return since["hipGraphLaunch"];
  };
  const int first = launches(0), again = launches(0), patched = launches(1), patched_again = launches(1);
  if (!compares_all()) return;
  EXPECT_EQ(2, first) << "by a new exec";
  EXPECT_EQ(2, again);
  EXPECT_EQ(2, patched);
  EXPECT_EQ(2, patched_again);
  EXPECT_TRUE(said.errors().empty());
}

TEST(Patched, first_counts_launches_of_each_way) {
  const Stream stream;
  const Buffer buffer;
  const Distinct distinct(2);
  std::vector<int> launches;
  int value = 0;
  for (int i = 0; i < 6; ++i) {
    const Since since = exec_calls();
    step(stream, [&] {
      distinct(stream);
      OK(kernels().mix(stream, buffer.get(), kCount, i));
    });
    launches.push_back(since["hipGraphLaunch"]);
    value = mixed(value, i);
    EXPECT_EQ(value, buffer.value());
  }
  if (verifies("first:3") && !quirk("stale_packets")) {
    EXPECT_EQ((std::vector{2, 2, 2, 2, 1, 1}), launches);
  }
}

TEST(Patched, rule_29_what_may_not_run_twice_runs_once) {
  const hipFunction_t follow = compiled(
      "extern \"C\" __global__ void follow(unsigned long long* table, int n, int a) {\n"
      "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  if (i < n) ((int*)table[0])[i] = ((int*)table[0])[i] * 31 + a;\n"
      "}\n",
      "follow");
  const Stream stream;
  const Buffer table, hidden, buffer;
  int* host = nullptr;
  OK(hipHostMalloc(reinterpret_cast<void**>(&host), kCount * sizeof(int), 0));
  std::memset(host, 0, kCount * sizeof(int));
  int* const address = hidden.get();
  OK(hipMemcpy(table.get(), &address, sizeof address, hipMemcpyHostToDevice));
  const Said said;
  int value = 0, ran = 0;
  for (int i = 0; i < kSteps; ++i) {
    step(stream, [&] {  // an address in memory
      int* t = table.get();
      int n = kCount, a = i;
      void* args[] = {&t, &n, &a};
      OK(hipModuleLaunchKernel(follow, 2, 1, 1, 64, 1, 1, 0, stream, args, nullptr));
    });
    step(stream, [&] {  // host memory
      OK(kernels().mix(stream, host, kCount, i));
    });
    step(stream, [&] {  // a host function
      OK(kernels().mix(stream, buffer.get(), kCount, i));
      OK(hipLaunchHostFunc(
          stream, [](void* count) { ++*static_cast<int*>(count); }, &ran));
    });
    value = mixed(value, i);
    EXPECT_EQ(value, hidden.value()) << "step " << i;
    EXPECT_EQ(value, host[0]) << "step " << i;
    EXPECT_EQ(value, buffer.value()) << "step " << i;
    EXPECT_EQ(i + 1, ran);
  }
  if (compares_all()) {
    EXPECT_TRUE(said.errors().empty());
    EXPECT_EQ(3u, said.warnings().size());  // once a graph
  }
  OK(hipHostFree(host));
}

TEST(Patched, addresses_that_the_graph_writes_stand_for_the_programs_memory) {
  const hipFunction_t note = compiled(
      "extern \"C\" __global__ void note(unsigned long long* table, int* p, int a) {\n"
      "  if (blockIdx.x * blockDim.x + threadIdx.x == 0) { table[0] = (unsigned long long)(p + a); table[1] = a; }\n"
      "}\n",
      "note");
  const Stream stream;
  const Buffer buffer, table;
  const Said said;
  const Since since = exec_calls();
  for (int i = 0; i < kSteps; ++i) {
    OK(hipMemset(table.get(), 0, kCount * sizeof(int)));
    step(stream, [&] {
      int *t = table.get(), *p = buffer.get();
      int a = i;
      void* args[] = {&t, &p, &a};
      OK(hipModuleLaunchKernel(note, 1, 1, 1, 64, 1, 1, 0, stream, args, nullptr));
    });
    unsigned long long words[2];
    OK(hipMemcpy(words, table.get(), sizeof words, hipMemcpyDeviceToHost));
    EXPECT_EQ(reinterpret_cast<unsigned long long>(buffer.get() + i), words[0]) << "step " << i;
    EXPECT_EQ(static_cast<unsigned long long>(i), words[1]) << "step " << i;
  }
  expect_compared(since, said, true);
}

/// Which says that the launch is not compared.
void expect_beside(const Said& said) {
  if (!compares_all()) return;
  EXPECT_TRUE(said.errors().empty());
  ASSERT_EQ(1u, said.warnings().size());
  EXPECT_NE(std::string::npos, said.warnings()[0].find("beside other work")) << said.warnings()[0];
}

TEST(Patched, rule_29_a_launch_beside_other_work_is_not_compared) {
  const Stream stream, other;
  const Buffer buffer;
  int* flag = nullptr;
  OK(hipHostMalloc(reinterpret_cast<void**>(&flag), sizeof(int), 0));
  const Said said;
  int value = 0;
  for (int i = 0; i < 3; ++i) {
    *flag = 0;
    OK(kernels().spin(other, flag));  // until after the launch
    const hipGraph_t graph = capture(stream, [&] { OK(kernels().mix(stream, buffer.get(), kCount, i)); });
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipGraphLaunch(exec, stream));
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    OK(hipStreamSynchronize(stream));
    OK(hipStreamSynchronize(other));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
    value = mixed(value, i);
    EXPECT_EQ(value, buffer.value()) << "step " << i;
  }
  OK(hipHostFree(flag));
  expect_beside(said);
}

TEST(Patched, rule_29_a_graph_that_waits_for_what_comes_later_is_not_run_twice) {
  const Stream stream;
  hipStream_t other = nullptr;
  OK(hipStreamCreateWithFlags(&other, hipStreamNonBlocking));
  const std::vector<Buffer> flags(2);
  const Said said;
  for (int i = 0; i < 3; ++i) {
    int* const flag = flags[static_cast<std::size_t>(i % 2)].get();
    OK(hipMemset(flag, 0, sizeof(int)));
    OK(hipDeviceSynchronize());
    const hipGraph_t graph = capture(stream, [&] { OK(kernels().spin(stream, flag)); });
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipGraphLaunch(exec, stream));
    OK(hipMemsetD32Async(flag, 1, 1, other));
    OK(hipStreamSynchronize(stream));
    OK(hipStreamSynchronize(other));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
  }
  OK(hipStreamDestroy(other));
  expect_beside(said);
}

// --- runtimes that update nodes wrongly ---

/// What the library says where a patched exec does not do what it should.
void expect_said_once(const Said& said) {
  const auto lines = said.errors();
  ASSERT_EQ(1u, lines.size());
  EXPECT_NE(std::string::npos, lines[0].find("error: verify: graph")) << lines[0];
  EXPECT_NE(std::string::npos, lines[0].find("patched: byte 0 of buffer")) << lines[0];
  EXPECT_NE(std::string::npos, lines[0].find("its execs are not patched any more")) << lines[0];
}

TEST(PatchFault, a_kernel_that_is_not_updated_is_found_and_the_program_has_the_real_result) {
  const Stream stream;
  const std::vector<Buffer> buffers(3);
  const Said said;
  const Since since = exec_calls();
  int values[3] = {};
  std::vector<int> patched;
  for (int i = 0; i < kSteps; ++i) {
    const auto which = static_cast<std::size_t>(i % 3);
    step(stream, [&] { OK(kernels().mix(stream, buffers[which].get(), kCount, 7)); });
    values[which] = mixed(values[which], 7);
    // The stale exec writes to the buffer of an earlier binding.
    for (std::size_t k = 0; k < 3; ++k) ASSERT_EQ(values[k], buffers[k].value()) << "step " << i << ", buffer " << k;
    patched.push_back(patches(since));
  }
  if (!under_library()) return;
  expect_said_once(said);
  EXPECT_EQ(0, patched[0]);
  for (int i = 1; i < kSteps; ++i) EXPECT_EQ(1, patched[static_cast<std::size_t>(i)]) << "step " << i;
}

TEST(PatchFault, every_exec_that_was_patched_is_replaced) {
  const Stream stream;
  const std::vector<Buffer> buffers(4);
  const Distinct distinct(1);
  const Said said;
  int values[4] = {};
  const auto captured = [&](std::size_t which) {
    return capture(stream, [&] {
      distinct(stream);
      OK(kernels().mix(stream, buffers[which].get(), kCount, 7));
    });
  };
  hipGraphExec_t execs[2] = {};
  for (std::size_t i = 0; i < 2; ++i) {
    const hipGraph_t graph = captured(i);
    OK(hipGraphInstantiate(&execs[i], graph, nullptr, nullptr, 0));
    OK(hipGraphDestroy(graph));
  }
  for (std::size_t i = 0; i < 2; ++i) {  // natively the runtime updates a whole exec, which it does correctly
    const hipGraph_t graph = captured(2 + i);
    hipGraphNode_t node = nullptr;
    hipGraphExecUpdateResult result;
    OK(hipGraphExecUpdate(execs[i], graph, &node, &result));
    OK(hipGraphDestroy(graph));
  }
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < 2; ++i) {
      OK(hipGraphLaunch(execs[i], stream));
      OK(hipStreamSynchronize(stream));
      values[2 + i] = mixed(values[2 + i], 7);
      for (std::size_t k = 0; k < 4; ++k) ASSERT_EQ(values[k], buffers[k].value()) << "round " << round;
    }
  }
  for (const hipGraphExec_t exec : execs) OK(hipGraphExecDestroy(exec));
  if (under_library()) expect_said_once(said);
}

// The fault: the first copy that is patched leaves out the first bytes.
TEST(CopyFault, a_copy_that_is_updated_wrongly_is_found_and_the_program_has_the_real_result) {
  const Stream stream;
  const std::vector<Buffer> from(3);
  const Buffer to;
  const Said said;
  int values[3] = {};
  for (int i = 0; i < kSteps; ++i) {
    const auto which = static_cast<std::size_t>(i % 3);
    OK(kernels().mix(stream, from[which].get(), kCount, 1 + i));
    OK(hipStreamSynchronize(stream));
    values[which] = mixed(values[which], 1 + i);
    step(stream, [&] {
      OK(hipMemcpyAsync(to.get(), from[which].get(), kCount * sizeof(int), hipMemcpyDeviceToDevice, stream));
    });
    ASSERT_EQ(values[which], to.value()) << "step " << i;
  }
  if (under_library()) expect_said_once(said);
}

// What the program's own calls make of its exec is what it would have without the library.
TEST(PatchFault, what_the_program_sets_itself_is_left_as_the_runtime_makes_it) {
  const Stream stream;
  const std::vector<Buffer> buffers(2);
  const Said said;
  NodeGraph graph;
  const hipGraphNode_t node = graph.mix({}, buffers[0].get(), 7);
  const hipGraphExec_t exec = graph.instantiate();
  MixParams params(buffers[1].get(), 7);
  OK(hipGraphExecKernelNodeSetParams(exec, node, &params));
  OK(hipGraphLaunch(exec, stream));
  OK(hipStreamSynchronize(stream));
  EXPECT_EQ(quirk("stale_packets") ? 7 : 0, buffers[0].value());
  EXPECT_EQ(quirk("stale_packets") ? 0 : 7, buffers[1].value());
  OK(hipGraphExecDestroy(exec));
  EXPECT_TRUE(said.errors().empty());
}

}  // namespace
}  // namespace captures
