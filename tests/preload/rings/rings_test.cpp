// Staged graphs, whatever the size of their ring: the bytes of a native run. The policy is rings.toml; the environment
// says how many slot sets (GRAPHPOOL_GRAPH_SLOTS), whether launches are independent (GRAPHPOOL_GRAPH_OVERLAP), and what
// the runtime is like. What a test expects of the journal it expects only under the library.
#include "rings.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

namespace captures {
namespace {

/// Sets `out` to `in`, element by element: a graph whose launches do not depend on each other.
hipGraph_t copying(hipStream_t stream, const Memory& out, const Memory& in) {
  return capture(stream, [&] {
    OK(hipMemsetAsync(out.get(), 0, out.bytes(), stream));
    OK(kernels().join(stream, out.get(), in.get(), kIn));
  });
}

/// What the program enqueues or makes of its own accord is counted too, so tests count around launches only.
Since stream_calls() {
  return Since({"hipGraphLaunch",
                "hipMemcpyAsync",
                "hipEventRecord",
                "hipStreamWaitEvent",
                "hipStreamWriteValue64",
                "hipStreamWaitValue64",
                "hipStreamWaitValue32",
                "hipEventQuery",
                "hipStreamQuery",
                "hipStreamSynchronize",
                "hipDeviceSynchronize",
                "hipEventSynchronize",
                "hipGraphInstantiate",
                "hipMalloc",
                "hipMemMap",
                "hipFree",
                "hipGraphExecMemcpyNodeSetParams1D",
                "hipGraphExecKernelNodeSetParams",
                "hipEventCreateWithFlags",
                "hipMemcpy"});
}

// --- right bytes, whatever moves ---

TEST(Rings, buffers_that_move_every_step_on_several_streams) {
  const Stream streams[3];
  hipEvent_t done;
  OK(hipEventCreateWithFlags(&done, hipEventDisableTiming));
  auto memory = std::make_unique<Memory>(kInOut, 7);
  std::unique_ptr<Memory> keep[4];
  std::unique_ptr<Exec> exec;
  int value = 7;
  for (int i = 0; i < 24; ++i) {
    const hipStream_t stream = streams[i % 3];
    // The value goes on in other memory; the old one stays in use for a while, so that addresses really change.
    auto moved = std::make_unique<Memory>(kInOut, -1);
    OK(hipStreamWaitEvent(stream, done, 0));
    OK(hipMemcpyAsync(moved->get(), memory->get(), memory->bytes(), hipMemcpyDeviceToDevice, stream));
    keep[i % 4] = std::move(memory);
    memory = std::move(moved);
    const hipGraph_t graph = mixing(stream, *memory, 3);
    if (exec == nullptr)
      exec = std::make_unique<Exec>(graph);
    else
      exec->update(graph);
    OK(hipGraphLaunch(*exec, stream));
    OK(hipEventRecord(done, stream));
    value = mixed(value, 3);
  }
  OK(hipDeviceSynchronize());
  EXPECT_EQ(value, memory->value());
  OK(hipEventDestroy(done));
}

TEST(Rings, every_role_leaves_what_the_graph_leaves) {
  const Stream s;
  for (int i = 0; i < 6; ++i) {
    Memory inout(kInOut, i), in(kIn, 10 + i), out(kOut, 20 + i), full(kFull, 30 + i), temp(kTemp, 40);
    step(s, [&] {
      OK(hipMemsetAsync(temp.get(), 0, temp.bytes(), s));
      OK(kernels().join(s, temp.get(), in.get(), kIn));  // temp = in
      OK(kernels().join(s, inout.get(), temp.get(), kInOut));
      OK(kernels().mix(s, out.get() + 100, 100, 5));  // only these of it
      OK(hipMemsetAsync(full.get(), 0, full.bytes(), s));
      OK(kernels().join(s, full.get(), in.get(), kIn));
    });
    EXPECT_EQ(i * 17 + 10 + i, inout.value());
    EXPECT_EQ(10 + i, in.value());
    const std::vector<int> outs = out.ints(), fulls = full.ints();
    for (int k = 0; k < kOut; ++k)
      EXPECT_EQ(k >= 100 && k < 200 ? mixed(20 + i, 5) : 20 + i, outs[static_cast<std::size_t>(k)]) << k;
    for (int k = 0; k < kFull; ++k) EXPECT_EQ(k < kIn ? 10 + i : 0, fulls[static_cast<std::size_t>(k)]) << k;
  }
}

TEST(Rings, operands_that_overlap_in_one_buffer_keep_their_relation) {
  const Stream s;
  for (int i = 0; i < 5; ++i) {
    Memory memory(kInOut, 1 + i);
    step(s, [&] {
      // The second half from the first, the first from both: one buffer, four operands.
      OK(kernels().mix(s, memory.get(), 50, i));
      OK(kernels().join(s, memory.get() + 50, memory.get(), 50));
      OK(kernels().join(s, memory.get() + 10, memory.get() + 60, 40));
      OK(hipMemcpyAsync(memory.get() + 90, memory.get(), 5 * sizeof(int), hipMemcpyDeviceToDevice, s));
    });
    const int first = mixed(1 + i, i), second = joined(1 + i, first);
    const std::vector<int> ints = memory.ints();
    for (std::size_t k = 0; k < kInOut; ++k)
      EXPECT_EQ(k < 10 ? first : k < 50 ? joined(first, second) : k >= 90 && k < 95 ? first : second, ints[k]) << k;
  }
}

TEST(Rings, addresses_of_staged_buffers_inside_structures_find_what_the_graph_works_on) {
  struct View {
    int n;
    int* p;
  };
  const hipFunction_t add = compiled(
      R"(struct View { int n; int* p; };
      extern "C" __global__ void add(View out, View in) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < out.n) out.p[i] += in.p[i];
      })",
      "add");
  const Stream s;
  std::unique_ptr<Memory> keep[2];  // addresses really change
  for (int i = 0; i < 6; ++i) {
    auto memory = std::make_unique<Memory>(kInOut, i);
    const Memory in(kIn, 10 + i), elsewhere(kInOut, 100 * i);
    const auto steps = [&](const int* from) {
      step(s, [&] {
        OK(kernels().mix(s, memory->get(), kInOut, 5));
        View out{kInOut, memory->get()}, others{kInOut, const_cast<int*>(from)};
        void* args[] = {&out, &others};
        OK(hipModuleLaunchKernel(add, 1, 1, 1, 128, 1, 1, 0, s, args, nullptr));
        OK(kernels().join(s, memory->get(), in.get(), kInOut));
      });
    };
    int value = i;
    for (const Memory* const from : {&in, &elsewhere, &in}) {
      steps(from->get());
      value = joined(mixed(value, 5) + from->value(), 10 + i);
      EXPECT_EQ(value, memory->value());
      EXPECT_EQ(10 + i, in.value());
    }
    keep[i % 2] = std::move(memory);
  }
}

TEST(Rings, a_copy_of_a_whole_buffer_stays_inside_the_allocation) {
  const Stream s;
  for (const std::size_t bytes : {4097u, 4098u, 4099u}) {
    char* memory = nullptr;
    OK(hipMalloc(reinterpret_cast<void**>(&memory), bytes));
    OK(hipMemset(memory, 1, bytes));
    for (int i = 0; i < 3; ++i) step(s, [&] { OK(hipMemsetAsync(memory + bytes - 3, 5 + i, 3, s)); });
    std::vector<char> host(bytes);
    OK(hipMemcpy(host.data(), memory, bytes, hipMemcpyDeviceToHost));
    for (std::size_t k = 0; k < bytes; ++k) EXPECT_EQ(k < bytes - 3 ? 1 : 7, host[k]) << k;
    OK(hipFree(memory));
  }
}

TEST(Rings, streams_that_are_destroyed_between_launches) {
  const Stream origin;
  Memory memory(kInOut, 2);
  const Exec exec(mixing(origin, memory, 9));
  int value = 2;
  for (int i = 0; i < 12; ++i) {
    const Stream stream;
    OK(hipGraphLaunch(exec, stream));
    if (i % 3 == 0) OK(hipStreamSynchronize(stream));
    value = mixed(value, 9);
  }
  OK(hipDeviceSynchronize());
  EXPECT_EQ(value, memory.value());
}

TEST(Rings, an_exec_launched_by_two_threads) {
  if (!launches_in_order()) GTEST_SKIP() << "this runtime adds no order";
  Memory memory(kInOut, 1);
  std::unique_ptr<Exec> exec;
  {
    const Stream origin;
    exec = std::make_unique<Exec>(mixing(origin, memory, 4));
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      const Stream stream;
      for (int i = 0; i < 50; ++i) OK(hipGraphLaunch(*exec, stream));
      OK(hipStreamSynchronize(stream));
    });
  for (std::thread& thread : threads) thread.join();
  int value = 1;
  for (int i = 0; i < 100; ++i) value = mixed(value, 4);
  EXPECT_EQ(value, memory.value());
}

TEST(Rings, two_threads_with_execs_of_one_graph) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([t] {
      const FreeStream stream;
      int* memory = nullptr;
      OK(hipMalloc(reinterpret_cast<void**>(&memory), kInOut * sizeof(int)));
      OK(hipMemsetAsync(memory, 0, kInOut * sizeof(int), stream));
      int value = 0;
      for (int i = 0; i < 20; ++i) {
        hipGraph_t graph;
        hipGraphExec_t exec;
        OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
        OK(kernels().mix(stream, memory, kInOut, t + 1));
        OK(hipStreamEndCapture(stream, &graph));
        OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
        for (int k = 0; k < 3; ++k) {
          OK(hipGraphLaunch(exec, stream));
          value = mixed(value, t + 1);
        }
        OK(hipGraphExecDestroy(exec));
        OK(hipGraphDestroy(graph));
      }
      std::vector<int> host(kInOut);
      OK(hipMemcpyAsync(host.data(), memory, kInOut * sizeof(int), hipMemcpyDeviceToHost, stream));
      EXPECT_TRUE(idle_soon(stream));
      EXPECT_EQ(value, host[0]);
    });
  for (std::thread& thread : threads) thread.join();
}

/// The kernel node of an exec is set after memory that a copy of it names was freed, which natively is no hindrance.
/// Before that other memory was freed so often.
void set_after_its_memory_was_freed(int frees, bool updated) {
  const Stream stream;
  const Memory memory(kInOut, 5);
  const auto managed = [] {
    int* at = nullptr;
    EXPECT_EQ(hipSuccess, hipMallocManaged(reinterpret_cast<void**>(&at), 4096, hipMemAttachGlobal));
    return at;
  };
  const auto taking = [&](int* from) {
    return capture(stream, [&] {
      OK(hipMemcpyAsync(memory.get(), from, memory.bytes(), hipMemcpyDefault, stream));
      OK(kernels().mix(stream, memory.get(), kInOut, 1));
    });
  };
  const auto free_others = [&] {
    for (int i = 0; i < frees; ++i) OK(hipFree(managed()));
  };
  int *const first = managed(), *const second = managed();
  const hipGraph_t graph = taking(first);
  hipGraphExec_t exec = nullptr;
  OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  free_others();
  int* named = first;
  if (updated) {
    const hipGraph_t other = taking(named = second);
    hipGraphNode_t failed = nullptr;
    hipGraphExecUpdateResult result{};
    OK(hipGraphExecUpdate(exec, other, &failed, &result));
    OK(hipGraphDestroy(other));
    free_others();
  }
  hipGraphNode_t nodes[2];
  std::size_t count = 2;
  OK(hipGraphGetNodes(graph, nodes, &count));
  OK(hipFree(named));
  int* at = memory.get();
  int n = kInOut, constant = 6;
  void* args[] = {&at, &n, &constant};
  hipKernelNodeParams params{};
  params.func = reinterpret_cast<void*>(kernels().mix_function());
  params.gridDim = dim3(2);
  params.blockDim = dim3(64);
  params.kernelParams = args;
  EXPECT_EQ(hipSuccess, hipGraphExecKernelNodeSetParams(exec, nodes[1], &params)) << frees << " frees before";
  OK(hipGraphExecDestroy(exec));
  OK(hipGraphDestroy(graph));
  OK(hipFree(named == first ? second : first));
}

TEST(Rings, an_exec_is_made_of_its_binding_when_memory_goes_however_often_it_was_looked_at) {
  for (const int frees : {0, 1, 15, 16, 17, 40})
    for (const bool updated : {false, true}) set_after_its_memory_was_freed(frees, updated);
}

TEST(Rings, buffers_that_move_while_another_thread_frees) {
  const FreeStream stream;
  const Memory first(kInOut, 1), second(kInOut, 2);
  const hipGraph_t graphs[] = {mixing(stream, first, 3), mixing(stream, second, 3)};
  const Exec exec(mixing(stream, first, 3));
  std::atomic<bool> done = false;
  std::thread freeing([&] {
    while (!done) {
      void* memory = nullptr;
      EXPECT_EQ(hipSuccess, hipHostMalloc(&memory, 64, 0));
      EXPECT_EQ(hipSuccess, hipHostFree(memory));
    }
  });
  int values[] = {1, 2}, failed = 0;
  for (int i = 0; i < 1000; ++i) {
    hipGraphNode_t node = nullptr;
    hipGraphExecUpdateResult result;
    EXPECT_EQ(hipSuccess, hipGraphExecUpdate(exec, graphs[i % 2], &node, &result));
    failed += hipGraphLaunch(exec, stream) == hipSuccess ? 0 : 1;
    EXPECT_EQ(hipSuccess, hipStreamSynchronize(stream));
    values[i % 2] = mixed(values[i % 2], 3);
  }
  done = true;
  freeing.join();
  EXPECT_EQ(0, failed);
  EXPECT_EQ(values[0], first.value());
  EXPECT_EQ(values[1], second.value());
  for (const hipGraph_t graph : graphs) OK(hipGraphDestroy(graph));
}

TEST(Rings, a_launch_while_another_thread_captures) {
  const Stream s, t;
  Memory memory(kInOut, 3), other(kInOut, 1);
  const Exec exec(mixing(s, memory, 6));
  int value = 3;
  const hipGraph_t graph = capture(t, [&] {
    OK(kernels().mix(t, other.get(), kInOut, 1));
    for (int i = 0; i < 2 * sets() + 1; ++i) {
      OK(hipGraphLaunch(exec, s));
      value = mixed(value, 6);
    }
    OK(kernels().mix(t, other.get(), kInOut, 2));
  });
  OK(hipGraphDestroy(graph));
  OK(hipStreamSynchronize(s));
  EXPECT_EQ(value, memory.value());
}

TEST(Rings, rule_03_a_launch_while_the_stream_of_the_last_one_captures) {
  if (!launches_in_order()) GTEST_SKIP() << "launches are independent here";
  // With a range, work elsewhere is no reason not to stage.
  for (const int count : {kInOut, kRange}) {
    const FreeStream s, t;
    Memory memory(count, 3), other(kInOut, 1);
    const Exec exec(mixing(s, memory, 6));
    const auto begun = std::chrono::steady_clock::now();
    int value = 3;
    for (int i = 0; i < 4; ++i) {
      Gate gate;
      gate.close(s);
      OK(hipGraphLaunch(exec, s));
      value = mixed(value, 6);
      const hipGraph_t graph = capture(s, [&] {
        OK(kernels().mix(s, other.get(), kInOut, 1));
        for (int k = 0; k < 2; ++k) {
          OK(hipGraphLaunch(exec, t));
          value = mixed(value, 6);
        }
        OK(kernels().mix(s, other.get(), kInOut, 2));
      });
      OK(hipGraphDestroy(graph));
      EXPECT_TRUE(behind_the_gate(t));
      gate.open();
      EXPECT_TRUE(idle_soon(s));
      EXPECT_TRUE(idle_soon(t));
      EXPECT_EQ(value, memory.ints()[0]) << i;
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20)) << "no launch waited";
  }
}

/// A set is not asked for by an event of its stream where that might be captured.
TEST(Rings, rule_17_a_set_comes_free_while_another_stream_captures) {
  if (launches_in_order()) GTEST_SKIP() << "launches stay in order here";
  const FreeStream s, t, capturing;
  Memory memory(kRange, 3), other(kInOut, 1);
  const Exec exec(mixing(s, memory, 6));
  const auto begun = std::chrono::steady_clock::now();
  const int launches = 2 * sets() + 2;
  std::atomic<int> done{0};
  int value = 3;
  hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
  OK(hipThreadExchangeStreamCaptureMode(&mode));
  OK(hipStreamBeginCapture(capturing, hipStreamCaptureModeRelaxed));
  OK(kernels().mix(capturing, other.get(), kInOut, 1));
  for (int i = 0; i < launches; ++i) {
    const hipStream_t stream = i % 2 == 0 ? s : t;
    OK(hipGraphLaunch(exec, stream));
    OK(hipLaunchHostFunc(
        stream, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &done));
    while (done <= i) std::this_thread::yield();  // which tells nobody else
    value = mixed(value, 6);
  }
  OK(kernels().mix(capturing, other.get(), kInOut, 2));
  hipGraph_t graph = nullptr;
  OK(hipStreamEndCapture(capturing, &graph));
  OK(hipThreadExchangeStreamCaptureMode(&mode));
  std::size_t nodes = 0;
  OK(hipGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_EQ(2u, nodes);
  OK(hipGraphDestroy(graph));
  EXPECT_TRUE(idle_soon(s));
  EXPECT_TRUE(idle_soon(t));
  EXPECT_EQ(value, memory.ints()[0]);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20)) << "no launch waited";
}

TEST(Rings, an_exec_launched_by_two_threads_whose_streams_capture) {
  if (!launches_in_order()) GTEST_SKIP() << "launches are independent here";
  for (int i = 0; i < 20; ++i) {
    Memory memory(kInOut, 3);
    const Stream origin;
    const Exec exec(mixing(origin, memory, i));
    std::atomic<int> capturing{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t)
      threads.emplace_back([&] {
        const Stream stream;
        OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
        for (++capturing; capturing < 2;) {
        }
        OK(hipGraphLaunch(exec, stream));
        hipGraph_t graph = nullptr;
        OK(hipStreamEndCapture(stream, &graph));
        OK(hipGraphDestroy(graph));
      });
    for (std::thread& thread : threads) thread.join();
    OK(hipGraphLaunch(exec, origin));
    OK(hipStreamSynchronize(origin));
    EXPECT_EQ(mixed(mixed(mixed(3, i), i), i), memory.value());  // the runtime ran them at once
  }
  // What streams had when they were destroyed is known to be over, or the next graphs might not be staged beside it.
  OK(hipDeviceSynchronize());
}

// --- the rules ---

TEST(Rings, rule_03_launches_of_one_exec_stay_in_order) {
  if (!launches_in_order()) GTEST_SKIP() << "launches are independent here";
  const FreeStream s, t;
  Memory memory(kInOut, 5);
  const Exec exec(mixing(s, memory, 2));
  Gate gate;
  gate.close(s);
  int value = 5;
  for (int i = 0; i < 2 * sets() + 2; ++i) {
    OK(hipGraphLaunch(exec, i % 2 == 0 ? s : t));
    value = mixed(value, 2);
  }
  EXPECT_TRUE(behind_the_gate(t));
  gate.open();
  EXPECT_TRUE(idle_soon(s));
  EXPECT_TRUE(idle_soon(t));
  EXPECT_EQ(value, memory.value());
}

TEST(Rings, rule_03_order_holds_when_no_event_can_be_recorded) {
  if (!launches_in_order()) GTEST_SKIP() << "launches are independent here";
  const FreeStream s, t;
  Memory first(kInOut, 5), second(kInOut, 6);
  const Exec exec(mixing(s, first, 2));
  exec.update(mixing(s, second, 2));
  int value = 6;
  for (int i = 0; i < 20; ++i) {
    OK(hipGraphLaunch(exec, i % 2 == 0 ? s : t));
    EXPECT_EQ(hipSuccess, hipGetLastError());
    value = mixed(value, 2);
  }
  EXPECT_TRUE(idle_soon(s));
  EXPECT_TRUE(idle_soon(t));
  EXPECT_EQ(value, second.value());
}

TEST(Rings, rule_03_an_update_in_flight_leaves_the_launch_before_it_alone) {
  const FreeStream s, t;
  Memory first(kInOut, 5), second(kInOut, 6), third(kInOut, 7);
  const Exec exec(mixing(s, first, 2));
  Gate gate;
  gate.close(s);
  OK(hipGraphLaunch(exec, s));
  exec.update(mixing(t, second, 2));
  OK(hipGraphLaunch(exec, s));
  exec.update(mixing(t, third, 2));
  OK(hipGraphLaunch(exec, s));
  gate.open();
  EXPECT_TRUE(idle_soon(s));
  EXPECT_EQ(mixed(5, 2), first.value());
  EXPECT_EQ(mixed(6, 2), second.value());
  EXPECT_EQ(mixed(7, 2), third.value());
}

TEST(Rings, rule_03_independent_launches_run_at_the_same_time) {
  if (launches_in_order() || (under_library() && sets() < 2)) GTEST_SKIP() << "launches stay in order here";
  const FreeStream s, t;
  Memory in(kIn, 11), out(kFull, 1);
  const Exec exec(copying(s, out, in));
  Gate gate;
  gate.close(s);
  OK(hipGraphLaunch(exec, s));
  OK(hipGraphLaunch(exec, t));
  EXPECT_TRUE(idle_soon(t)) << "does not wait for the launch that the gate holds";
  EXPECT_EQ(hipErrorNotReady, hipStreamQuery(s));
  std::vector<int> host(kIn);
  OK(hipMemcpyAsync(host.data(), out.get(), kIn * sizeof(int), hipMemcpyDeviceToHost, t));
  EXPECT_TRUE(idle_soon(t));
  for (const int element : host) EXPECT_EQ(11, element);
  gate.open();
  EXPECT_TRUE(idle_soon(s));
}

TEST(Rings, rule_03_independent_launches_with_buffers_of_their_own) {
  if (launches_in_order()) GTEST_SKIP() << "launches stay in order here";
  const FreeStream streams[3];
  std::vector<std::unique_ptr<Memory>> ins, outs;
  for (int i = 0; i < 12; ++i) {
    ins.push_back(std::make_unique<Memory>(kIn, 100 + i));
    outs.push_back(std::make_unique<Memory>(kFull, -1));
  }
  const Exec exec(copying(streams[0], *outs[0], *ins[0]));
  for (std::size_t i = 0; i < ins.size(); ++i) {
    if (i != 0) exec.update(copying(streams[0], *outs[i], *ins[i]));
    OK(hipGraphLaunch(exec, streams[i % 3]));
  }
  for (const FreeStream& stream : streams) EXPECT_TRUE(idle_soon(stream));
  for (std::size_t i = 0; i < ins.size(); ++i) EXPECT_EQ(static_cast<int>(100 + i), outs[i]->ints()[0]) << i;
}

/// Launches the exec on both streams while the first stream is held up: the second launch has to come behind the first.
void expect_in_order(const Exec& exec, const FreeStream& first, const FreeStream& second) {
  Gate gate;
  gate.close(first);
  OK(hipGraphLaunch(exec, first));
  OK(hipGraphLaunch(exec, second));
  EXPECT_TRUE(behind_the_gate(second));
  gate.open();
  EXPECT_TRUE(idle_soon(second));
}

TEST(Rings, rule_03_a_graph_that_writes_elsewhere_stays_in_order) {
  if (!under_library() || !overlap()) GTEST_SKIP() << "only where the rules say overlap";
  const FreeStream s, t;
  Memory in(kIn, 11), out(kFull, 1);
  Memory elsewhere(150, 1);  // no rule
  const Exec exec(capture(s, [&] {
    OK(hipMemsetAsync(out.get(), 0, out.bytes(), s));
    OK(kernels().join(s, out.get(), in.get(), kIn));
    OK(kernels().mix(s, elsewhere.get(), 150, 1));
  }));
  expect_in_order(exec, s, t);
  EXPECT_EQ(mixed(mixed(1, 1), 1), elsewhere.value());
  std::ifstream log(said("GRAPHPOOL_LOG_FILE"));
  const std::string text(std::istreambuf_iterator<char>(log), {});
  EXPECT_NE(std::string::npos, text.find("overlap has no effect on a staged graph that may also write"));
}

TEST(Rings, rule_03_a_graph_that_may_write_a_variable_by_a_structure_stays_in_order) {
  if (!under_library() || !overlap()) GTEST_SKIP() << "only where the rules say overlap";
  // The graph is not staged, so its launches are in order as the runtime's are.
  if (std::string(said("CPUHIP_EXEC_ORDER")) == "overlap") GTEST_SKIP() << "the runtime does not order launches";
  struct View {
    int n;
    int* p;
  };
  const char* const source = R"(struct View { int n; int* p; };
      __device__ int counts[150];
      extern "C" __global__ void mix(View view, int a) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < view.n) view.p[i] = (int)((unsigned)view.p[i] * 31 + (unsigned)a);
      })";
  hipModule_t module = nullptr;
  hipFunction_t mix = nullptr;
  OK(hipModuleLoadData(&module, compiled_code(source).data()));
  OK(hipModuleGetFunction(&mix, module, "mix"));
  hipDeviceptr_t counts = nullptr;
  std::size_t bytes = 0;
  OK(hipModuleGetGlobal(&counts, &bytes, module, "counts"));
  const FreeStream s, t;
  Memory in(kIn, 11), out(kFull, 1);
  const Exec exec(capture(s, [&] {
    OK(hipMemsetAsync(out.get(), 0, out.bytes(), s));
    OK(kernels().join(s, out.get(), in.get(), kIn));
    View view{150, static_cast<int*>(counts)};
    int a = 1;
    void* args[] = {&view, &a};
    OK(hipModuleLaunchKernel(mix, 2, 1, 1, 128, 1, 1, 0, s, args, nullptr));
  }));
  expect_in_order(exec, s, t);
}

TEST(Rings, rule_04_only_what_the_rule_names_is_copied_out) {
  const FreeStream s, t;
  Memory memory(kRange, 1);
  Gate gate;
  // The graph writes the first 100 elements. While it runs, another stream writes behind them.
  const Exec exec(capture(s, [&] {
    OK(kernels().mix(s, memory.get(), 100, 3));
    OK(kernels().spin(s, gate.flag()));
  }));
  OK(hipGraphLaunch(exec, s));
  OK(kernels().mix(t, memory.get() + 2000, 1000, 8));
  EXPECT_TRUE(idle_soon(t));
  EXPECT_EQ(hipErrorNotReady, hipStreamQuery(s));
  gate.open();
  EXPECT_TRUE(idle_soon(s));
  const std::vector<int> ints = memory.ints();
  for (std::size_t k = 0; k < ints.size(); ++k)
    EXPECT_EQ(k < 100 ? mixed(1, 3) : k >= 2000 && k < 3000 ? mixed(1, 8) : 1, ints[k]) << k;
}

/// A graph that adds to the first 100 of a buffer's `count` elements and runs until the gate opens, launched while `t`
/// has something to write behind them: `given` enqueues that. Returns how many launches were staged.
/// `spins`: makes the graph one that no test before has recorded, over other buffers.
template <typename Given>
int launched_while_written(int count, int spins, Given given) {
  const FreeStream s, t;
  Memory memory(count, 1);
  Gate first, gate;
  const Exec exec(capture(s, [&] {
    OK(kernels().mix(s, memory.get(), 50, 3));
    for (int i = 0; i < spins; ++i) OK(kernels().spin(s, gate.flag()));
  }));
  given(s, t, memory, first);
  const Since since = stream_calls();
  EXPECT_EQ(hipSuccess, hipGraphLaunch(exec, s));
  const int made = since["hipGraphInstantiate"];
  first.open();
  EXPECT_TRUE(idle_soon(t));
  gate.open();
  EXPECT_TRUE(idle_soon(s));
  const std::vector<int> ints = memory.ints();
  for (int k = 0; k < count; ++k)
    EXPECT_EQ(k < 50 ? mixed(1, 3) : k >= 60 && k < 100 ? mixed(1, 8) : 1, ints[static_cast<std::size_t>(k)]) << k;
  return made == 0 ? 1 : 0;
}

TEST(Rings, rule_04_what_another_stream_writes_meanwhile_survives_where_no_range_is_said) {
  const int staged =
      launched_while_written(kInOut, 2, [](hipStream_t, hipStream_t t, const Memory& memory, Gate& first) {
        first.close(t);
        OK(kernels().mix(t, memory.get() + 60, 40, 8));
      });
  EXPECT_EQ(under_library() ? 0 : 1, staged);
}

TEST(Rings, rule_04_a_kernel_in_another_stream_that_has_the_address_in_a_structure_is_seen) {
  struct View {
    int n;
    int* p;
  };
  const hipFunction_t mix = compiled(
      R"(struct View { int n; int* p; };
      extern "C" __global__ void mix(View view, int a) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < view.n) view.p[i] = (int)((unsigned)view.p[i] * 31 + (unsigned)a);
      })",
      "mix");
  const int staged =
      launched_while_written(kInOut, 9, [mix](hipStream_t, hipStream_t t, const Memory& memory, Gate& first) {
        first.close(t);
        View view{40, memory.get() + 60};
        int a = 8;
        void* args[] = {&view, &a};
        OK(hipModuleLaunchKernel(mix, 1, 1, 1, 64, 1, 1, 0, t, args, nullptr));
      });
  EXPECT_EQ(under_library() ? 0 : 1, staged);
}

TEST(Rings, rule_04_work_of_a_null_stream_that_cannot_be_destroyed_is_still_seen) {
  const int staged =
      launched_while_written(kInOut, 12, [](hipStream_t, hipStream_t, const Memory& memory, Gate& first) {
        first.close(nullptr);
        OK(kernels().mix(nullptr, memory.get() + 60, 40, 8));
        EXPECT_NE(hipSuccess, hipStreamDestroy(nullptr));
        static_cast<void>(hipGetLastError());
      });
  EXPECT_EQ(under_library() ? 0 : 1, staged);
}

TEST(Rings, rule_04_a_launch_of_a_graph_in_another_stream_is_seen) {
  std::unique_ptr<Exec> other;
  const int staged =
      launched_while_written(kInOut, 3, [&](hipStream_t, hipStream_t t, const Memory& memory, Gate& first) {
        other = std::make_unique<Exec>(capture(t, [&] {
          OK(kernels().mix(t, memory.get() + 60, 40, 8));
          OK(hipLaunchHostFunc(
              t, [](void*) {}, nullptr));  // not staged
        }));
        first.close(t);
        OK(hipGraphLaunch(*other, t));
      });
  EXPECT_EQ(under_library() ? 0 : 1, staged);
}

TEST(Rings, rule_04_values_that_another_stream_writes_in_a_batch_survive) {
  struct Operation {  // hipStreamBatchMemOpParams
    int kind;
    void* address;
    std::uint64_t value;
    unsigned flags;
    void* alias;
    std::uint64_t reserved;
  };
  using Batch = hipError_t (*)(hipStream_t, unsigned, Operation*, unsigned);
  const auto batch = reinterpret_cast<Batch>(dlsym(RTLD_DEFAULT, "hipStreamBatchMemOp"));
  ASSERT_NE(nullptr, batch);
  const int staged =
      launched_while_written(kInOut, 5, [&](hipStream_t, hipStream_t t, const Memory& memory, Gate& first) {
        constexpr int kWrite32 = 2;
        const auto value = static_cast<std::uint32_t>(mixed(1, 8));
        std::vector<Operation> operations;
        for (int k = 60; k < 100; ++k) operations.push_back({kWrite32, memory.get() + k, value, 0, nullptr, 0});
        first.close(t);
        OK(batch(t, static_cast<unsigned>(operations.size()), operations.data(), 0));
      });
  EXPECT_EQ(under_library() ? 0 : 1, staged);
}

TEST(Rings, rule_04_with_a_range_work_elsewhere_changes_nothing) {
  const FreeStream s, t;
  Memory memory(kRange, 1);
  Gate first;
  const Exec exec(capture(s, [&] { OK(kernels().mix(s, memory.get(), 100, 3)); }));
  first.close(t);
  OK(kernels().mix(t, memory.get() + 2000, 1000, 8));
  const Since since = stream_calls();
  OK(hipGraphLaunch(exec, s));
  EXPECT_EQ(0, since["hipGraphInstantiate"]);
  EXPECT_EQ(0, since["hipEventRecord"]);
  first.open();
  EXPECT_TRUE(idle_soon(t));
  EXPECT_TRUE(idle_soon(s));
  const std::vector<int> ints = memory.ints();
  for (std::size_t k = 0; k < ints.size(); ++k)
    EXPECT_EQ(k < 100 ? mixed(1, 3) : k >= 2000 && k < 3000 ? mixed(1, 8) : 1, ints[k]) << k;
}

TEST(Rings, rule_04_work_that_comes_before_or_elsewhere_is_no_reason) {
  const FreeStream s, t;
  Memory memory(kInOut, 1), elsewhere(kInOut, 1);
  Gate first;
  hipEvent_t event;
  OK(hipEventCreateWithFlags(&event, hipEventDisableTiming));
  const Exec exec(mixing(s, memory, 3));
  const auto launch = [&](const char* why) {
    const Since since = stream_calls();
    OK(hipGraphLaunch(exec, s));
    EXPECT_EQ(0, since["hipGraphInstantiate"]) << why;
  };
  first.close(t);
  OK(kernels().mix(t, elsewhere.get(), kInOut, 8));
  launch("another buffer");
  OK(hipStreamSynchronize(s));
  OK(kernels().mix(t, memory.get(), kInOut, 5));
  OK(hipEventRecord(event, t));
  OK(hipStreamWaitEvent(s, event, 0));
  launch("ordered by an event");
  first.open();
  OK(hipStreamSynchronize(s));
  OK(kernels().mix(t, memory.get(), kInOut, 6));
  EXPECT_TRUE(idle_soon(t));
  launch("complete");
  OK(hipStreamSynchronize(s));
  EXPECT_EQ(mixed(mixed(mixed(mixed(mixed(1, 3), 5), 3), 6), 3), memory.value());
  OK(hipEventDestroy(event));
}

TEST(Rings, rule_04_graphs_with_host_functions_are_not_staged) {
  const Stream s;
  Memory memory(kInOut, 1);
  std::atomic<int> ran{0};
  const hipGraph_t graph = capture(s, [&] {
    OK(kernels().mix(s, memory.get(), kInOut, 3));
    OK(hipLaunchHostFunc(
        s, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &ran));
  });
  const Since since({"hipGraphAddEventRecordNode", "hipGraphAddMemcpyNode1D"});
  const Exec exec(graph);
  OK(hipGraphLaunch(exec, s));
  OK(hipStreamSynchronize(s));
  EXPECT_EQ(1, ran);
  EXPECT_EQ(mixed(1, 3), memory.value());
  EXPECT_EQ(0, since["hipGraphAddEventRecordNode"]);
  EXPECT_EQ(0, since["hipGraphAddMemcpyNode1D"]);
}

TEST(Rings, rule_15_a_launch_makes_nothing_and_waits_for_nothing) {
  const Stream s;
  Memory first(kInOut, 1), second(kInOut, 1);
  const Exec exec(mixing(s, first, 3));
  exec.update(mixing(s, second, 3));
  const Since since = stream_calls();
  for (int i = 0; i < 20; ++i) OK(hipGraphLaunch(exec, s));
  for (const char* const call : {"hipGraphInstantiate", "hipMalloc", "hipMemMap", "hipFree", "hipEventCreateWithFlags",
                                 "hipGraphExecMemcpyNodeSetParams1D", "hipGraphExecKernelNodeSetParams",
                                 "hipStreamSynchronize", "hipDeviceSynchronize", "hipEventSynchronize", "hipMemcpy"})
    EXPECT_EQ(0, since[call]) << call;
  EXPECT_EQ(20, since["hipGraphLaunch"]);
  OK(hipStreamSynchronize(s));
}

TEST(Rings, rule_16_neither_making_nor_launching_waits_for_the_device) {
  const FreeStream held, s, t;
  Memory memory(kInOut, 1), other(kInOut, 2);
  Gate gate;
  gate.close(held);
  {
    const Exec exec(mixing(s, memory, 3));
    OK(hipGraphLaunch(exec, s));
    exec.update(mixing(s, other, 3));
    OK(hipGraphLaunch(exec, s));
    EXPECT_TRUE(idle_soon(s)) << "while the gate is closed";
  }
  EXPECT_EQ(hipErrorNotReady, hipStreamQuery(held));
  gate.open();
  EXPECT_TRUE(idle_soon(held));
  EXPECT_EQ(mixed(1, 3), memory.value());
  EXPECT_EQ(mixed(2, 3), other.value());
}

TEST(Rings, rule_17_no_query_or_wait_on_the_librarys_own_account_while_a_capture_is_open) {
  const FreeStream s, t, capturing;
  Memory memory(kInOut, 1), other(kInOut, 2), captured(kInOut, 1);
  const Exec exec(mixing(s, memory, 3));
  const hipGraph_t next = mixing(s, other, 3);
  OK(hipStreamBeginCapture(capturing, hipStreamCaptureModeGlobal));
  OK(kernels().mix(capturing, captured.get(), kInOut, 3));
  const Since since = stream_calls();
  OK(hipGraphLaunch(exec, s));
  if (launches_in_order()) OK(hipGraphLaunch(exec, t));
  exec.update(next);
  OK(hipGraphLaunch(exec, t));
  for (const char* const call : {"hipEventQuery", "hipStreamQuery", "hipStreamSynchronize", "hipDeviceSynchronize",
                                 "hipEventSynchronize", "hipMemcpy"})
    EXPECT_EQ(0, since[call]) << call;
  hipGraph_t graph = nullptr;
  OK(hipStreamEndCapture(capturing, &graph));
  OK(hipGraphDestroy(graph));
  EXPECT_TRUE(idle_soon(s));
  EXPECT_TRUE(idle_soon(t));
  EXPECT_EQ(mixed(2, 3), other.value());
}

TEST(Rings, rule_19_order_on_the_device_is_by_events) {
  const Stream s, t;
  Memory memory(kInOut, 1);
  const Exec exec(mixing(s, memory, 3));
  const Since since = stream_calls();
  for (int i = 0; i < 10; ++i) {
    OK(hipGraphLaunch(exec, s));
    if (launches_in_order()) OK(hipGraphLaunch(exec, t));
  }
  EXPECT_EQ(0, since["hipStreamWaitValue64"]);
  EXPECT_EQ(0, since["hipStreamWaitValue32"]);
  // The timeline is written only where a ring needs it.
  if (sets() == 1 && !overlap()) {
    EXPECT_EQ(0, since["hipStreamWriteValue64"]);
  }
  OK(hipDeviceSynchronize());
}

TEST(Rings, rule_20_an_exec_destroyed_in_flight_keeps_its_slots) {
  const FreeStream s, t;
  Memory first(kInOut, 1), second(kInOut, 2);
  Gate gate;
  {
    const Exec warm(mixing(s, first, 3));
    OK(hipGraphLaunch(warm, s));
    EXPECT_TRUE(idle_soon(s));
  }
  Exec held(mixing(s, first, 3));
  gate.close(s);
  for (int i = 0; i < sets(); ++i) OK(hipGraphLaunch(held, s));
  held.destroy();
  const Exec other(mixing(t, second, 3));
  OK(hipGraphLaunch(other, t));
  EXPECT_TRUE(idle_soon(t)) << "the other exec does not wait for the one in flight";
  EXPECT_EQ(hipErrorNotReady, hipStreamQuery(s));
  gate.open();
  EXPECT_TRUE(idle_soon(s));
  int value = mixed(1, 3);
  for (int i = 0; i < sets(); ++i) value = mixed(value, 3);
  EXPECT_EQ(value, first.value());
  EXPECT_EQ(mixed(2, 3), second.value());
}

// --- two devices ---

/// A graph of copies, which any device may run, launched in streams of both devices.
TEST(Devices, rule_03_launches_in_streams_of_two_devices_come_in_order) {
  if (!launches_in_order()) GTEST_SKIP() << "launches are independent here";
  const auto copying = [](hipStream_t stream, const Memory& to, const Memory& from) {
    return capture(stream,
                   [&] { OK(hipMemcpyAsync(to.get(), from.get(), to.bytes(), hipMemcpyDeviceToDevice, stream)); });
  };
  for (int round = 0; round < 4; ++round) {
    const bool moved = round % 2 == 1, waits = round >= 2;
    OK(hipSetDevice(0));
    const FreeStream here;
    Memory first(kInOut, 1), second(kInOut, 2), source(kInOut, 3);
    const Exec exec(copying(here, first, source));
    OK(hipGraphLaunch(exec, here));
    // Where the last launch still runs, the next one's copies are enqueued around it.
    std::atomic<bool> let_go{false};
    const auto wait = [](void* until) { static_cast<std::atomic<bool>*>(until)->wait(false); };
    if (moved) {
      OK(hipLaunchHostFunc(here, wait, &let_go));
      OK(hipGraphLaunch(exec, here));
      exec.update(copying(here, second, source));
      let_go = true;
      let_go.notify_all();
    }
    OK(hipStreamSynchronize(here));
    Memory& target = moved ? second : first;
    target.fill(4);
    OK(hipSetDevice(1));
    {
      const FreeStream there;
      OK(hipSetDevice(0));
      let_go = false;
      OK(hipLaunchHostFunc(there, wait, &let_go));
      OK(hipGraphLaunch(exec, there));
      if (waits) OK(hipDeviceSynchronize());  // this device has nothing to do
      const auto begun = std::chrono::steady_clock::now();
      OK(hipGraphLaunch(exec, here));
      EXPECT_TRUE(held_up(here)) << "it comes behind the launch on the other device";
      EXPECT_EQ(4, target.value());
      let_go = true;
      let_go.notify_all();
      EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(20)) << "it did not wait";
      OK(hipStreamSynchronize(here));
      EXPECT_EQ(3, target.value());
      OK(hipStreamSynchronize(there));
    }
  }
}

TEST(Verified, rule_16_a_launch_behind_what_the_program_does_next_returns) {
  if (!launches_in_order()) GTEST_SKIP() << "launches are independent here";
  const FreeStream s, t;
  const std::size_t lines = log_lines().size();
  Memory memory(kInOut, 3);
  const Exec exec(capture(s, [&] {
    for (const int constant : {19, 20, 21}) OK(kernels().mix(s, memory.get(), kInOut, constant));
  }));
  int value = 3;
  const auto launch = [&](hipStream_t stream) {
    OK(hipGraphLaunch(exec, stream));
    for (const int constant : {19, 20, 21}) value = mixed(value, constant);
  };
  launch(s);
  Gate gate;
  gate.close(s);
  for (int i = 0; i < 3; ++i) launch(s);
  launch(t);
  EXPECT_EQ(hipErrorNotReady, hipStreamQuery(s));
  EXPECT_TRUE(behind_the_gate(t)) << "behind the launch that the gate holds";
  gate.open();
  EXPECT_TRUE(idle_soon(s));
  EXPECT_TRUE(idle_soon(t));
  EXPECT_EQ(value, memory.value());
  const auto said_so = [&] {
    int count = 0;
    const std::vector<std::string> all = log_lines();
    for (std::size_t i = lines; i < all.size(); ++i)
      count += all[i].find("was not complete in time; such launches are not compared") != std::string::npos ? 1 : 0;
    return count;
  };
  EXPECT_EQ(verified() && under_library() ? 1 : 0, said_so());
  for (int i = 0; i < 7; ++i) launch(t);
  EXPECT_TRUE(idle_soon(t));
  EXPECT_EQ(value, memory.value());
  EXPECT_EQ(verified() && under_library() ? 1 : 0, said_so());
}

// --- how many submissions ---

TEST(Rings, a_staged_launch_is_one_submission_and_the_value_of_a_ring) {
  const Stream s;
  Memory memory(kInOut, 1), in(kIn, 2), out(kOut, 3);
  const Exec exec(capture(s, [&] {
    OK(kernels().join(s, memory.get(), in.get(), kInOut));
    OK(kernels().mix(s, out.get(), kInOut, 3));
  }));
  const Since since = stream_calls();
  for (int i = 0; i < 10; ++i) OK(hipGraphLaunch(exec, s));
  EXPECT_EQ(10, since["hipGraphLaunch"]);
  EXPECT_EQ(0, since["hipMemcpyAsync"]);
  EXPECT_EQ(0, since["hipEventRecord"]);
  EXPECT_EQ(0, since["hipStreamWaitEvent"]);
  const bool ring = under_library() && (sets() > 1 || overlap()) && *said("RINGS_NO_VALUES") == 0;
  EXPECT_EQ(ring ? 10 : 0, since["hipStreamWriteValue64"]);
  OK(hipStreamSynchronize(s));
}

TEST(Rings, copies_follow_buffers_that_moved) {
  const Stream s;
  std::vector<std::unique_ptr<Memory>> memories;
  for (int i = 0; i < 6; ++i) memories.push_back(std::make_unique<Memory>(kInOut, i));
  const Exec exec(mixing(s, *memories[0], 77));
  std::vector<hipGraph_t> graphs;
  for (const auto& memory : memories) graphs.push_back(mixing(s, *memory, 77));
  const Since since = stream_calls();
  for (std::size_t i = 0; i < memories.size(); ++i) {
    exec.update(graphs[i]);
    OK(hipGraphLaunch(exec, s));
    OK(hipStreamSynchronize(s));
  }
  for (int i = 0; i < 6; ++i) EXPECT_EQ(mixed(i, 77), memories[static_cast<std::size_t>(i)]->value()) << i;
  if (!under_library()) return;
  if (copies_patched()) {
    // Copy in and copy out of each set, at each move.
    EXPECT_EQ(5 * 2 * sets(), since["hipGraphExecMemcpyNodeSetParams1D"]);
    EXPECT_EQ(0, since["hipMemcpyAsync"]);
    EXPECT_EQ(0, since["hipGraphInstantiate"]);
  } else {
    EXPECT_EQ(0, since["hipGraphExecMemcpyNodeSetParams1D"]);
    EXPECT_EQ(5 * 2, since["hipMemcpyAsync"]);
    EXPECT_EQ(sets(), since["hipGraphInstantiate"]) << "one for each set, at the first move";
  }
}

// --- waiting ---

/// For the run with one slot set, independent launches and a short time-out.
TEST(Timeout, the_launch_takes_the_programs_own_path) {
  const FreeStream s, t;
  const std::size_t lines_before = log_lines().size();
  Memory in(kIn, 21), out(kFull, 1);
  const Exec exec(copying(s, out, in));
  Gate gate;
  gate.close(s);
  OK(hipGraphLaunch(exec, s));
  const auto start = std::chrono::steady_clock::now();
  OK(hipGraphLaunch(exec, t));
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_GE(took, std::chrono::milliseconds(100));
  EXPECT_TRUE(idle_soon(t)) << "while the gate holds the set";
  std::vector<int> host(kIn);
  OK(hipMemcpyAsync(host.data(), out.get(), kIn * sizeof(int), hipMemcpyDeviceToHost, t));
  EXPECT_TRUE(idle_soon(t));
  for (const int element : host) EXPECT_EQ(21, element);
  const std::vector<std::string> lines = log_lines();
  ASSERT_EQ(lines_before + 1, lines.size());
  EXPECT_NE(std::string::npos,
            lines.back().find("no slot set of a staged graph came free in 100 ms: it takes the program's own path"));
  // It stays there: nobody waits again, for which so many would take as many times the time-out.
  constexpr int kLaunches = 300;
  const auto again = std::chrono::steady_clock::now();
  for (int i = 0; i < kLaunches; ++i) OK(hipGraphLaunch(exec, t));
  EXPECT_LT(std::chrono::steady_clock::now() - again, kLaunches * std::chrono::milliseconds(100));
  EXPECT_EQ(lines_before + 1, log_lines().size());
  EXPECT_TRUE(idle_soon(t)) << "both launches write to the same memory";
  gate.open();
  EXPECT_TRUE(idle_soon(s));
  EXPECT_EQ(21, out.ints()[0]);
}

/// The same with a long one.
TEST(LongTimeout, a_set_that_comes_free_in_time_is_taken) {
  const FreeStream s, t;
  Memory in(kIn, 22), out(kFull, 1);
  const Exec exec(copying(s, out, in));
  Gate gate;
  gate.close(s);
  OK(hipGraphLaunch(exec, s));
  const Since since({"hipGraphInstantiate", "hipEventQuery"});
  std::atomic<bool> launched{false};
  std::thread opener([&] {
    // A launch that waits asks for the set's event again and again; where values tell, nobody sees it wait.
    const bool events = *said("RINGS_NO_VALUES") != 0;
    while (events && !launched && since["hipEventQuery"] < 2) std::this_thread::yield();
    gate.open();
  });
  OK(hipGraphLaunch(exec, t));
  launched = true;
  opener.join();
  EXPECT_TRUE(idle_soon(t));
  EXPECT_EQ(0, since["hipGraphInstantiate"]);
  EXPECT_EQ(22, out.ints()[0]);
}

/// For the run with one slot set, independent launches, no time-out to speak of, and a report written while it runs.
TEST(WaitTimeout, the_report_says_what_a_launch_waits_for) {
  const FreeStream s, t;
  Memory in(kIn, 23), out(kFull, 1);
  const Exec exec(copying(s, out, in));
  Gate gate;
  gate.close(s);
  OK(hipGraphLaunch(exec, s));
  // Replaced as a whole each time.
  const auto report_has = [](const std::string& text) {
    std::ifstream file(said("GRAPHPOOL_REPORT"));
    return std::string(std::istreambuf_iterator<char>(file), {}).find(text) != std::string::npos;
  };
  const auto soon = [&](const std::string& text) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!report_has(text) && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return report_has(text);
  };
  bool told = false;
  std::thread opener([&] {
    told = soon("\"waiting\":[{\"for\":\"a free slot set\",\"graph\":1,\"thread\":");
    gate.open();
  });
  OK(hipGraphLaunch(exec, t));
  opener.join();
  EXPECT_TRUE(told);
  EXPECT_TRUE(soon("\"waiting\":[]"));
  EXPECT_TRUE(idle_soon(t));
  EXPECT_EQ(23, out.ints()[0]);
}

/// With a short one, and every second launch is verified.
TEST(VerifiedTimeout, rule_29_a_launch_whose_second_run_finds_no_slots_is_made_once) {
  const FreeStream s, t;
  const std::size_t lines_before = log_lines().size();
  Memory inout(kInOut, 3);
  const Exec exec(capture(s, [&] { OK(kernels().mix(s, inout.get(), kInOut, 5)); }));
  OK(hipGraphLaunch(exec, s));
  Gate gate;
  gate.close(s);
  OK(hipGraphLaunch(exec, s));
  std::thread opener([&] {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (log_lines().size() == lines_before && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    gate.open();
  });
  OK(hipGraphLaunch(exec, t));  // behind what the gate holds, on the device
  opener.join();
  EXPECT_TRUE(idle_soon(t));
  EXPECT_EQ(mixed(mixed(mixed(3, 5), 5), 5), inout.value());
  const std::vector<std::string> lines = log_lines();
  ASSERT_EQ(lines_before + 1, lines.size());
  EXPECT_NE(std::string::npos, lines.back().find("was not run both ways: no slot set came free in time"))
      << lines.back();
  // It is staged as before, and verified again.
  const Since since({"hipGraphLaunch"});
  for (int i = 0; i < 2; ++i) OK(hipGraphLaunch(exec, t));
  EXPECT_EQ(3, since["hipGraphLaunch"]);
  EXPECT_TRUE(idle_soon(t));
  EXPECT_EQ(lines_before + 1, log_lines().size());
}

}  // namespace
}  // namespace captures
