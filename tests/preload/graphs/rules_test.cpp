// The rules about graphs that a program can break by what it does: each runs natively and under the library.
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <semaphore>
#include <thread>

#include "captures.h"
#include "registered.h"

namespace captures {
namespace {

/// A function newer than the oldest header; null where the runtime lacks it.
template <typename Function>
Function newer(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

TEST(Rules, rule_01_the_node_of_an_operation_is_known_not_inferred) {
  // Breadth-first order differs from the order of capture: a patch by position would hit the wrong node.
  const Stream s, t;
  const Buffer a, b, c, d;
  const Event fork, join;
  int values[4] = {};
  for (int i = 0; i < 12; ++i) {
    step(s, [&] {
      OK(kernels().mix(s, a.get(), kCount, i));
      OK(hipEventRecord(fork, s));
      OK(hipStreamWaitEvent(t, fork, 0));
      OK(kernels().mix(s, b.get(), kCount, 100 + i));
      OK(kernels().mix(s, c.get(), kCount, 200 + i));
      OK(kernels().mix(t, d.get(), kCount, 300 + i));
      OK(hipEventRecord(join, t));
      OK(hipStreamWaitEvent(s, join, 0));
    });
    const Buffer* const buffers[] = {&a, &b, &c, &d};
    for (int k = 0; k < 4; ++k) {
      values[k] = mixed(values[k], k * 100 + i);
      EXPECT_EQ(values[k], buffers[k]->value()) << "step " << i << " buffer " << k;
    }
  }
}

/// The only node of a graph, a kernel that mixes, and its parameters with another constant.
struct ChangedKernel {
  ChangedKernel(hipGraph_t graph, const Buffer& buffer, int* constant)
      : pointer(buffer.get()), args{&pointer, &n, constant} {
    std::size_t count = 1;
    EXPECT_EQ(hipSuccess, hipGraphGetNodes(graph, &node, &count));
    EXPECT_EQ(hipSuccess, hipGraphKernelNodeGetParams(node, &params));
    params.kernelParams = args;
  }
  ChangedKernel(const ChangedKernel&) = delete;
  ChangedKernel& operator=(const ChangedKernel&) = delete;

  hipGraphNode_t node = nullptr;
  hipKernelNodeParams params{};
  int* pointer;
  int n = kCount;
  void* args[3];
};

TEST(Rules, rule_02_an_exec_the_program_changed_serves_nobody_else) {
  using SetEnabled = hipError_t (*)(hipGraphExec_t, hipGraphNode_t, unsigned);
  const auto set_enabled = newer<SetEnabled>("hipGraphNodeSetEnabled");
  const Stream s;
  const Buffer buffer;
  int value = 0;
  for (int i = 0; i < 4; ++i) {
    const hipGraph_t graph = capture(s, [&] {
      OK(kernels().mix(s, buffer.get(), kCount, 3));
      OK(kernels().mix(s, buffer.get(), kCount, 4));
    });
    hipGraphExec_t exec;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    bool second = true;
    if (i == 1) {
      std::size_t count = 2;
      hipGraphNode_t nodes[2];
      OK(hipGraphGetNodes(graph, nodes, &count));
      ASSERT_EQ(2u, count);
      if (set_enabled != nullptr && set_enabled(exec, nodes[1], 0) == hipSuccess) second = false;
    }
    OK(hipGraphLaunch(exec, s));
    OK(hipStreamSynchronize(s));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
    value = mixed(value, 3);
    if (second) value = mixed(value, 4);
    EXPECT_EQ(value, buffer.value()) << "step " << i;
  }
}

TEST(Rules, rule_02_parameters_set_by_the_program_stay_with_their_exec) {
  const Stream s;
  const Buffer buffer;
  int value = 0;
  for (int i = 0; i < 6; ++i) {
    const hipGraph_t graph = capture(s, [&] { OK(kernels().mix(s, buffer.get(), kCount, 3)); });
    hipGraphExec_t exec;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    int constant = 3;
    if (i % 3 == 1) {
      constant = 50 + i;
      const ChangedKernel to(graph, buffer, &constant);
      OK(hipGraphExecKernelNodeSetParams(exec, to.node, &to.params));
    }
    OK(hipGraphLaunch(exec, s));
    OK(hipStreamSynchronize(s));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
    value = mixed(value, constant);
    EXPECT_EQ(value, buffer.value()) << "step " << i;
  }
}

TEST(Rules, rule_02_a_changed_graph_is_instantiated_as_it_is) {
  const Stream s;
  const Buffer buffer;
  int value = 0;
  for (int i = 0; i < 4; ++i) {
    const hipGraph_t graph = capture(s, [&] { OK(kernels().mix(s, buffer.get(), kCount, 3)); });
    int constant = 3;
    if (i >= 2) {
      constant = 70 + i;
      const ChangedKernel to(graph, buffer, &constant);
      OK(hipGraphKernelNodeSetParams(to.node, &to.params));
    }
    run(s, graph);
    value = mixed(value, constant);
    EXPECT_EQ(value, buffer.value()) << "step " << i;
  }
}

TEST(Rules, rule_02_handles_of_one_recording_are_independent) {
  const Stream s;
  const Buffer buffer;
  const auto body = [&] { OK(kernels().mix(s, buffer.get(), kCount, 9)); };
  const hipGraph_t first = capture(s, body), second = capture(s, body);
  ASSERT_NE(first, second);
  hipGraphExec_t one, two;
  OK(hipGraphInstantiate(&one, first, nullptr, nullptr, 0));
  OK(hipGraphInstantiate(&two, second, nullptr, nullptr, 0));
  ASSERT_NE(one, two);
  OK(hipGraphDestroy(first));
  OK(hipGraphLaunch(one, s));
  OK(hipGraphExecDestroy(one));
  OK(hipGraphLaunch(two, s));
  OK(hipStreamSynchronize(s));
  OK(hipGraphExecDestroy(two));
  hipGraph_t clone;
  OK(hipGraphClone(&clone, second));
  OK(hipGraphDestroy(second));
  std::size_t count = 0;
  OK(hipGraphGetNodes(clone, nullptr, &count));
  EXPECT_EQ(1u, count);
  OK(hipGraphDestroy(clone));
  EXPECT_EQ(mixed(mixed(0, 9), 9), buffer.value());
}

TEST(Rules, rule_03_launches_of_one_exec_keep_their_order_whatever_serves_them) {
  const Stream s, t;
  const Buffer buffer;
  const auto graph_of = [&](int constant) {
    return capture(s, [&] { OK(kernels().mix(s, buffer.get(), kCount, constant)); });
  };
  const hipGraph_t first = graph_of(1);
  hipGraphExec_t exec;
  OK(hipGraphInstantiate(&exec, first, nullptr, nullptr, 0));
  OK(hipGraphDestroy(first));
  int value = 0;
  const Event done;
  for (int i = 0; i < 20; ++i) {
    const hipStream_t stream = i % 2 == 0 ? s : t;
    // The program orders its launches itself, as HIP 6.3 asks of it.
    OK(hipStreamWaitEvent(stream, done, 0));
    OK(hipGraphLaunch(exec, stream));
    OK(hipEventRecord(done, stream));
    value = mixed(value, i == 0 ? 1 : i % 3);
    const hipGraph_t next = graph_of((i + 1) % 3);
    hipGraphNode_t node = nullptr;
    hipGraphExecUpdateResult result;
    OK(hipGraphExecUpdate(exec, next, &node, &result));
    EXPECT_EQ(hipGraphExecUpdateSuccess, result);
    OK(hipGraphDestroy(next));
  }
  OK(hipStreamSynchronize(s));
  OK(hipStreamSynchronize(t));
  EXPECT_EQ(value, buffer.value());
  OK(hipGraphExecDestroy(exec));
}

/// An exec of a graph that waits for a flag, then mixes 1 into a buffer, and a graph that mixes 2, whose flag is set.
/// The first one's is not until open().
class Gated {
 public:
  explicit Gated(hipStream_t stream) {
    EXPECT_EQ(hipSuccess, hipHostMalloc(reinterpret_cast<void**>(&flags_), 2 * sizeof(int), 0));
    flags_[0] = 0;
    flags_[1] = 1;
    first = graph(stream, 0, 1);
    second = graph(stream, 1, 2);
    EXPECT_EQ(hipSuccess, hipGraphInstantiate(&exec, first, nullptr, nullptr, 0));
  }
  Gated(const Gated&) = delete;
  Gated& operator=(const Gated&) = delete;
  ~Gated() {
    EXPECT_EQ(hipSuccess, hipGraphDestroy(first));
    EXPECT_EQ(hipSuccess, hipGraphDestroy(second));
    EXPECT_EQ(hipSuccess, hipGraphExecDestroy(exec));
    EXPECT_EQ(hipSuccess, hipHostFree(flags_));
  }

  hipGraph_t graph(hipStream_t stream, int which, int constant) const {
    return capture(stream, [&] {
      OK(kernels().spin(stream, flag(which)));
      OK(kernels().mix(stream, buffer.get(), kCount, constant));
    });
  }
  void update(hipGraph_t by) const {
    hipGraphNode_t node = nullptr;
    hipGraphExecUpdateResult result;
    OK(hipGraphExecUpdate(exec, by, &node, &result));
  }
  int* flag(int which) const { return flags_ + which; }
  void open() const { *reinterpret_cast<volatile int*>(flags_) = 1; }
  void close() const { *reinterpret_cast<volatile int*>(flags_) = 0; }

  const Buffer buffer;
  hipGraph_t first = nullptr, second = nullptr;
  hipGraphExec_t exec = nullptr;

 private:
  int* flags_ = nullptr;
};

TEST(Rules, rule_03_the_order_behind_a_launch_outlives_several_changes) {
  // Where the runtime orders the launches of one exec, the third binding comes behind the launch of the first, although
  // the second was never launched.
  const char* const order = std::getenv("CPUHIP_EXEC_ORDER");
  if (order != nullptr && std::strcmp(order, "serial") != 0) GTEST_SKIP() << "launches are not ordered";
  const Stream s, t;
  const Gated gated(s);
  gated.open();
  OK(hipGraphLaunch(gated.exec, s));
  OK(hipStreamSynchronize(s));
  gated.close();
  OK(hipGraphLaunch(gated.exec, s));
  for (const int constant : {2, 3}) {
    const hipGraph_t next = gated.graph(s, 1, constant);
    gated.update(next);
    OK(hipGraphDestroy(next));
  }
  OK(hipGraphLaunch(gated.exec, t));
  EXPECT_TRUE(held_up(t));
  gated.open();
  OK(hipStreamSynchronize(s));
  OK(hipStreamSynchronize(t));
  EXPECT_EQ(mixed(mixed(mixed(0, 1), 1), 3), gated.buffer.value());
}

TEST(Rules, rule_03_a_changed_variant_keeps_its_place_while_a_capture_is_open) {
  const Stream s, t, other;
  const Gated gated(s);
  OK(hipGraphLaunch(gated.exec, s));
  OK(hipStreamBeginCapture(other, hipStreamCaptureModeRelaxed));
  gated.update(gated.second);
  OK(hipGraphLaunch(gated.exec, t));
  EXPECT_TRUE(held_up(t));
  gated.open();
  hipGraph_t nothing = nullptr;
  OK(hipStreamEndCapture(other, &nothing));
  OK(hipStreamSynchronize(s));
  OK(hipStreamSynchronize(t));
  EXPECT_EQ(mixed(mixed(0, 1), 2), gated.buffer.value());
  OK(hipGraphDestroy(nothing));
}

/// A launch of an exec that was changed since its last one, while the stream of that one is being captured.
struct LaunchBesideCapture {
  enum Change { kUpdate, kSet };
  Change change = kUpdate;
  bool captured_first = false;  ///< the capture begins before the change, else after it
  bool joined = false;          ///< the stream takes part in another one's capture

  void expect_in_order_and_at_once() const {
    const Stream s, t, other;
    const Gated gated(s);
    hipGraphNode_t nodes[2] = {};
    std::size_t count = 2;
    OK(hipGraphGetNodes(gated.first, nodes, &count));
    OK(hipGraphLaunch(gated.exec, s));
    hipEvent_t fork = nullptr;
    OK(hipEventCreateWithFlags(&fork, hipEventDisableTiming));
    const auto begin = [&] {
      OK(hipStreamBeginCapture(joined ? other : s, hipStreamCaptureModeRelaxed));
      if (!joined) return;
      OK(hipEventRecord(fork, other));
      OK(hipStreamWaitEvent(s, fork, 0));
    };
    if (captured_first) begin();
    if (change == kUpdate) {
      gated.update(gated.second);
    } else {
      int* flag = gated.flag(1);
      void* arguments[] = {&flag};
      hipKernelNodeParams params{};
      OK(hipGraphKernelNodeGetParams(nodes[0], &params));
      params.kernelParams = arguments;
      OK(hipGraphExecKernelNodeSetParams(gated.exec, nodes[0], &params));
    }
    if (!captured_first) begin();
    const auto before = std::chrono::steady_clock::now();
    OK(hipGraphLaunch(gated.exec, t));
    const auto took = std::chrono::steady_clock::now() - before;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // time enough to run out of order
    gated.open();
    if (joined) {
      OK(hipEventRecord(fork, s));
      OK(hipStreamWaitEvent(other, fork, 0));
    }
    hipGraph_t nothing = nullptr;
    OK(hipStreamEndCapture(joined ? other : s, &nothing));
    OK(hipStreamSynchronize(s));
    OK(hipStreamSynchronize(t));
    EXPECT_EQ(mixed(mixed(0, 1), change == kUpdate ? 2 : 1), gated.buffer.value());
    EXPECT_LT(took, std::chrono::seconds(5)) << "the launch waited";
    OK(hipGraphDestroy(nothing));
    OK(hipEventDestroy(fork));
  }
};

TEST(Rules, rule_16_a_launch_behind_one_whose_stream_has_begun_a_capture_comes_in_order_and_does_not_wait) {
  const char* const order = std::getenv("CPUHIP_EXEC_ORDER");
  if (order != nullptr && std::strcmp(order, "serial") != 0) GTEST_SKIP() << "launches are not ordered";
  for (const auto change : {LaunchBesideCapture::kUpdate, LaunchBesideCapture::kSet})
    for (const bool captured_first : {false, true})
      for (const bool joined : {false, true}) {
        SCOPED_TRACE(testing::Message() << "change " << change << (captured_first ? " in" : " before")
                                        << (joined ? " another stream's capture" : " its capture"));
        LaunchBesideCapture{change, captured_first, joined}.expect_in_order_and_at_once();
      }
}

TEST(Rules, rule_03_a_thread_comes_behind_the_launch_that_one_before_it_left_on_its_own_stream) {
  const char* const order = std::getenv("CPUHIP_EXEC_ORDER");
  if (order != nullptr && std::strcmp(order, "serial") != 0) GTEST_SKIP() << "launches are not ordered";
  const Stream s;
  const Gated gated(s);
  // The second thread has the first one's stack, and all that lies there.
  std::thread([&] { OK(hipGraphLaunch(gated.exec, hipStreamPerThread)); }).join();
  gated.update(gated.second);
  std::thread([&] {
    OK(hipGraphLaunch(gated.exec, hipStreamPerThread));
    EXPECT_TRUE(held_up(hipStreamPerThread));
    gated.open();
  }).join();
  OK(hipDeviceSynchronize());
  EXPECT_EQ(mixed(mixed(0, 1), 2), gated.buffer.value());
}

TEST(Rules, rule_06_a_wait_for_an_event_from_outside_the_capture_reaches_the_runtime) {
  const Stream s, other;
  const Buffer buffer;
  const Event event;
  OK(hipEventRecord(event, other));
  OK(hipStreamSynchronize(other));
  std::vector<hipError_t> results;
  int value = 0;
  for (int i = 0; i < 3; ++i) {
    hipGraph_t graph = nullptr;
    OK(hipStreamBeginCapture(s, hipStreamCaptureModeGlobal));
    OK(kernels().mix(s, buffer.get(), kCount, 1));
    results.push_back(hipStreamWaitEvent(s, event, 0));
    results.push_back(kernels().mix(s, buffer.get(), kCount, 2));
    results.push_back(hipStreamEndCapture(s, &graph));
    if (results.back() == hipSuccess) {
      run(s, graph);
      value = mixed(mixed(value, 1), 2);
    }
    // Every step gets the codes of the first, which was the runtime's own capture.
    for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(results[k], results[static_cast<std::size_t>(i) * 3 + k]);
    EXPECT_EQ(value, buffer.value());
  }
}

TEST(Rules, rule_07_a_temporary_event_may_go_while_the_capture_is_open) {
  const Stream s, t;
  const Buffer left, right;
  int left_value = 0, right_value = 0;
  for (int i = 0; i < 4; ++i) {
    const bool longer = i == 2;
    step(s, [&] {
      OK(kernels().mix(s, left.get(), kCount, 1));
      hipEvent_t fork;
      OK(hipEventCreateWithFlags(&fork, hipEventDisableTiming));
      OK(hipEventRecord(fork, s));
      OK(hipStreamWaitEvent(t, fork, 0));
      OK(hipEventDestroy(fork));
      OK(kernels().mix(t, right.get(), kCount, 2));
      if (longer) OK(kernels().mix(t, right.get(), kCount, 3));
      hipEvent_t join;
      OK(hipEventCreateWithFlags(&join, hipEventDisableTiming));
      OK(hipEventRecord(join, t));
      OK(hipStreamWaitEvent(s, join, 0));
      OK(hipEventDestroy(join));
      OK(kernels().join(s, left.get(), right.get(), kCount));
    });
    right_value = mixed(right_value, 2);
    if (longer) right_value = mixed(right_value, 3);
    left_value = joined(mixed(left_value, 1), right_value);
    EXPECT_EQ(left_value, left.value()) << "step " << i;
  }
}

TEST(Rules, rule_07_memory_freed_in_a_capture_makes_only_those_real_that_name_it) {
  const Stream s;
  const Buffer buffer;
  hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
  OK(hipThreadExchangeStreamCaptureMode(&mode));
  const auto captured = [&](bool names_it) {
    int *unrelated = nullptr, *source = nullptr;
    OK(hipMalloc(reinterpret_cast<void**>(&unrelated), 4096));
    OK(hipMalloc(reinterpret_cast<void**>(&source), kCount * 4));
    hipGraph_t graph = nullptr;
    OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
    OK(kernels().mix(s, buffer.get(), kCount, 1));
    OK(hipMemcpyAsync(buffer.get(), source, kCount * 4, hipMemcpyDeviceToDevice, s));
    OK(hipFree(names_it ? source : unrelated));
    OK(kernels().mix(s, buffer.get(), kCount, 2));
    OK(hipStreamEndCapture(s, &graph));
    std::size_t count = 0;
    if (names_it) OK(hipGraphGetNodes(graph, nullptr, &count));
    EXPECT_EQ(names_it ? 3u : 0u, count);
    OK(hipGraphDestroy(graph));
    OK(hipFree(names_it ? unrelated : source));
  };
  captured(false);
  captured(false);
  for (const bool names_it : {false, true, false}) {
    const Since since = graph_calls();
    captured(names_it);
    if (compares_captures()) {
      EXPECT_EQ(names_it ? 2 : 0, since["hipModuleLaunchKernel"]);
    }
  }
  OK(hipThreadExchangeStreamCaptureMode(&mode));
}

int wrapped_product(int value, int by) {
  return static_cast<int>(static_cast<unsigned>(value) * static_cast<unsigned>(by));
}

/// A module of one kernel, which multiplies.
class OtherModule {
 public:
  explicit OtherModule(int by) {
    const std::string source =
        "extern \"C\" __global__ void times(int* p, int n) {"
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = p[i] * " +
        std::to_string(by) + "; }";
    hiprtcProgram program;
    EXPECT_EQ(HIPRTC_SUCCESS, hiprtcCreateProgram(&program, source.c_str(), "times.hip", 0, nullptr, nullptr));
    EXPECT_EQ(HIPRTC_SUCCESS, hiprtcCompileProgram(program, 0, nullptr));
    std::size_t bytes = 0;
    EXPECT_EQ(HIPRTC_SUCCESS, hiprtcGetCodeSize(program, &bytes));
    std::vector<char> code(bytes);
    EXPECT_EQ(HIPRTC_SUCCESS, hiprtcGetCode(program, code.data()));
    EXPECT_EQ(HIPRTC_SUCCESS, hiprtcDestroyProgram(&program));
    EXPECT_EQ(hipSuccess, hipModuleLoadData(&module_, code.data()));
    EXPECT_EQ(hipSuccess, hipModuleGetFunction(&function_, module_, "times"));
  }
  hipFunction_t function() const { return function_; }
  void unload() const { EXPECT_EQ(hipSuccess, hipModuleUnload(module_)); }

 private:
  hipModule_t module_ = nullptr;
  hipFunction_t function_ = nullptr;
};

/// Device memory that the program maps itself.
class Mapped {
 public:
  Mapped() {
    properties_.type = hipMemAllocationTypePinned;
    properties_.location.type = hipMemLocationTypeDevice;
    EXPECT_EQ(hipSuccess,
              hipMemGetAllocationGranularity(&bytes_, &properties_, hipMemAllocationGranularityRecommended));
    EXPECT_EQ(hipSuccess, hipMemAddressReserve(&at_, bytes_, 0, nullptr, 0));
    map(0);
  }
  ~Mapped() {
    if (mapped_) unmap();
    EXPECT_EQ(hipSuccess, hipMemAddressFree(at_, bytes_));
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  void* get() const { return at_; }
  void map(int device) {
    properties_.location.id = device;
    EXPECT_EQ(hipSuccess, hipMemCreate(&handle_, bytes_, &properties_, 0));
    EXPECT_EQ(hipSuccess, hipMemMap(at_, bytes_, 0, handle_, 0));
    const std::vector<hipMemAccessDesc> access = {{{hipMemLocationTypeDevice, 0}, hipMemAccessFlagsProtReadWrite},
                                                  {{hipMemLocationTypeDevice, 1}, hipMemAccessFlagsProtReadWrite}};
    EXPECT_EQ(hipSuccess, hipMemSetAccess(at_, bytes_, access.data(), access.size()));
    mapped_ = true;
  }
  void unmap() {
    EXPECT_EQ(hipSuccess, hipMemUnmap(at_, bytes_));
    EXPECT_EQ(hipSuccess, hipMemRelease(handle_));
    mapped_ = false;
  }

 private:
  hipMemAllocationProp properties_{};
  void* at_ = nullptr;
  std::size_t bytes_ = 0;
  hipMemGenericAllocationHandle_t handle_{};
  bool mapped_ = false;
};

TEST(Rules, rule_07_memory_unmapped_in_a_capture_or_under_a_graph_that_names_it) {
  const Stream s;
  const Buffer buffer;
  hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
  OK(hipThreadExchangeStreamCaptureMode(&mode));
  for (const bool captured : {false, true}) {
    Mapped source;
    for (int i = 0; i < 4; ++i) {
      hipGraph_t graph = nullptr;
      OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
      OK(kernels().mix(s, buffer.get(), kCount, 1));
      OK(hipMemcpyAsync(buffer.get(), source.get(), kCount * 4, hipMemcpyDeviceToDevice, s));
      if (i == 3 && !captured) {
        const Since since = graph_calls();
        source.unmap();
        // What the program was told had been captured is, while the memory is there.
        EXPECT_EQ(compares_captures() ? 1 : 0, since["hipModuleLaunchKernel"]);
      }
      OK(hipStreamEndCapture(s, &graph));
      if (i == 3 && captured) {
        const Since since = graph_calls();
        source.unmap();
        EXPECT_EQ(compares_captures() ? 1 : 0, since["hipGraphAddKernelNode"]);
      }
      std::size_t count = 0;
      OK(hipGraphGetNodes(graph, nullptr, &count));
      EXPECT_EQ(2u, count) << "step " << i;
      OK(hipGraphDestroy(graph));
    }
  }
  OK(hipThreadExchangeStreamCaptureMode(&mode));
}

TEST(Rules, rule_28_memory_that_is_mapped_anew_is_matched_where_it_is_of_the_kind_it_was) {
  const Stream s;
  const Buffer buffer;
  Mapped source;
  int on = 0;
  const int devices[] = {0, 0, 0, 1, 1, 0, 0};
  for (std::size_t i = 0; i < std::size(devices); ++i) {
    if (i != 0) {
      source.unmap();
      source.map(devices[i]);
    }
    const int value = static_cast<int>(i) * 0x01010101;
    OK(hipMemset(source.get(), static_cast<int>(i), kCount * sizeof value));
    const Since since = graph_calls();
    step(s, [&] {
      OK(hipMemcpyAsync(buffer.get(), source.get(), kCount * sizeof value, hipMemcpyDeviceToDevice, s));
      OK(kernels().mix(s, buffer.get(), kCount, 1));
    });
    EXPECT_EQ(mixed(value, 1), buffer.value()) << "step " << i;
    const bool anew = i == 0 || devices[i] != on;
    EXPECT_EQ(anew || !compares_captures() ? 1 : 0, since["hipModuleLaunchKernel"]) << "step " << i;
    on = devices[i];
  }
}

TEST(Rules, rule_07_memory_closed_or_unregistered_makes_real_what_may_name_it) {
  const Stream s;
  const Buffer buffer;
  std::vector<char> page(8192);
  hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
  OK(hipThreadExchangeStreamCaptureMode(&mode));
  const auto captured = [&](const std::function<void()>& meanwhile) {
    hipGraph_t graph = nullptr;
    OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
    OK(kernels().mix(s, buffer.get(), kCount, 1));
    meanwhile();
    OK(hipStreamEndCapture(s, &graph));
    std::size_t count = 0;
    OK(hipGraphGetNodes(graph, nullptr, &count));
    EXPECT_EQ(1u, count);
    OK(hipGraphDestroy(graph));
  };
  const std::function<void()> gone[] = {[&] { EXPECT_EQ(hipErrorInvalidValue, hipIpcCloseMemHandle(page.data())); },
                                        [&] { OK(hipHostUnregister(page.data())); }};
  OK(hipHostRegister(page.data(), page.size(), 0));
  for (const auto& goes : gone) {
    captured([] {});
    captured([] {});
    Since since = graph_calls();
    captured([] {});
    if (compares_captures()) {
      EXPECT_EQ(0, since["hipModuleLaunchKernel"]);
    }
    since = graph_calls();
    captured(goes);
    EXPECT_EQ(1, since["hipModuleLaunchKernel"]);
    static_cast<void>(hipGetLastError());
  }
  OK(hipThreadExchangeStreamCaptureMode(&mode));
}

TEST(Rules, rule_07_a_module_unloaded_while_a_recording_names_it) {
  const Stream s;
  const Buffer buffer;
  hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
  OK(hipThreadExchangeStreamCaptureMode(&mode));
  int value = 0;
  for (int i = 0; i < 8; ++i) {
    // Handles of modules and functions may come back as others.
    const OtherModule module(i % 2 == 0 ? 3 : 5);
    const auto launch = [&] {
      int* p = buffer.get();
      int n = kCount;
      void* args[] = {&p, &n};
      OK(hipModuleLaunchKernel(module.function(), 2, 1, 1, 64, 1, 1, 0, s, args, nullptr));
    };
    hipGraph_t graph = nullptr;
    hipGraphExec_t exec = nullptr;
    OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
    launch();
    OK(kernels().mix(s, buffer.get(), kCount, i));
    OK(hipStreamEndCapture(s, &graph));
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipGraphLaunch(exec, s));
    OK(hipStreamSynchronize(s));
    value = mixed(wrapped_product(value, i % 2 == 0 ? 3 : 5), i);
    EXPECT_EQ(value, buffer.value()) << "step " << i;
    // Another graph of it is held, and a capture is open that names it, when it goes.
    hipGraph_t held = nullptr, open = nullptr;
    OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
    launch();
    OK(kernels().mix(s, buffer.get(), kCount, i));
    OK(hipStreamEndCapture(s, &held));
    OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
    launch();
    module.unload();
    OK(kernels().mix(s, buffer.get(), kCount, i));
    OK(hipStreamEndCapture(s, &open));
    for (const hipGraph_t each : {held, open}) {
      std::size_t count = 0;
      OK(hipGraphGetNodes(each, nullptr, &count));
      EXPECT_EQ(2u, count) << "step " << i;
      OK(hipGraphDestroy(each));
    }
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
  }
  OK(hipThreadExchangeStreamCaptureMode(&mode));
}

TEST(Rules, rule_08_what_a_capture_refuses_is_refused_in_a_virtual_one_and_invalidates_it) {
  const Stream s;
  const Buffer buffer;
  std::vector<hipError_t> first;
  for (int i = 0; i < 3; ++i) {
    // A complete capture first, so that the next one is virtual under the library.
    step(s, [&] {
      OK(kernels().mix(s, buffer.get(), kCount, 1));
      OK(kernels().mix(s, buffer.get(), kCount, 2));
    });
    std::vector<hipError_t> results;
    hipGraph_t graph = nullptr;
    OK(hipStreamBeginCapture(s, hipStreamCaptureModeGlobal));
    results.push_back(kernels().mix(s, buffer.get(), kCount, 1));
    int flag = 0;
    results.push_back(hipMemcpy(&flag, buffer.get(), sizeof flag, hipMemcpyDeviceToHost));
    results.push_back(kernels().mix(s, buffer.get(), kCount, 2));
    results.push_back(hipStreamEndCapture(s, &graph));
    EXPECT_EQ(nullptr, graph);
    EXPECT_NE(hipSuccess, results[1]);
    EXPECT_EQ(hipErrorStreamCaptureInvalidated, results[3]);
    if (i == 0) first = results;
    EXPECT_EQ(first, results) << "step " << i;
    static_cast<void>(hipGetLastError());
  }
}

TEST(Rules, rule_08_hipmalloc_and_hipfree_in_a_capture_answer_as_the_runtime_does) {
  const Stream s;
  const Buffer buffer;
  void* kept = nullptr;
  OK(hipMalloc(&kept, 4096));
  std::vector<hipError_t> first;
  for (int i = 0; i < 3; ++i) {
    step(s, [&] { OK(kernels().mix(s, buffer.get(), kCount, 1)); });
    for (const bool free : {false, true}) {
      std::vector<hipError_t> results;
      hipGraph_t graph = nullptr;
      OK(hipStreamBeginCapture(s, hipStreamCaptureModeGlobal));
      void* made = nullptr;
      results.push_back(free ? hipFree(kept) : hipMalloc(&made, 4096));
      results.push_back(kernels().mix(s, buffer.get(), kCount, 1));
      results.push_back(hipStreamEndCapture(s, &graph));
      static_cast<void>(hipGetLastError());
      if (i == 0)
        first.insert(first.end(), results.begin(), results.end());
      else
        for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(first[(free ? 3u : 0u) + k], results[k]);
    }
  }
  OK(hipFree(kept));
}

TEST(Rules, rule_08_memory_kept_serves_a_hipmalloc_in_a_capture_where_the_policy_says_so) {
  const char* const wanted = std::getenv("GRAPHPOOL_GRAPH_MALLOC_IN_CAPTURE");
  const bool serves = under_library() && wanted != nullptr && std::strcmp(wanted, "true") == 0;
  constexpr std::size_t kBytes = 12288;  // of no other test
  const Stream s;
  const Buffer buffer;
  int value = 0;
  for (int i = 0; i < 3; ++i) {
    int* kept = nullptr;
    OK(hipMalloc(reinterpret_cast<void**>(&kept), kBytes));
    OK(hipFree(kept));
    int* made = nullptr;
    hipGraph_t graph = nullptr;
    OK(hipStreamBeginCapture(s, hipStreamCaptureModeGlobal));
    OK(kernels().mix(s, buffer.get(), kCount, i));
    const hipError_t result = hipMalloc(reinterpret_cast<void**>(&made), kBytes);
    EXPECT_EQ(serves ? hipSuccess : hipErrorStreamCaptureUnsupported, result);
    if (!serves) {
      EXPECT_EQ(hipErrorStreamCaptureInvalidated, hipStreamEndCapture(s, &graph));
      static_cast<void>(hipGetLastError());
      continue;
    }
    EXPECT_EQ(kept, made);
    OK(hipMemsetAsync(made, 0, kBytes, s));
    OK(kernels().mix(s, made, kCount, i));
    OK(kernels().join(s, buffer.get(), made, kCount));
    OK(hipStreamEndCapture(s, &graph));
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipGraphLaunch(exec, s));
    OK(hipStreamSynchronize(s));
    value = joined(mixed(value, i), mixed(0, i));
    EXPECT_EQ(value, buffer.value());
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
    OK(hipFree(made));
  }
}

TEST(Rules, rule_10_the_threads_own_stream_is_no_shared_stream) {
  const Buffer mine, theirs;
  const auto run = [](const Buffer& buffer, int constant) {
    for (int i = 0; i < 3; ++i) {
      OK(hipStreamBeginCapture(hipStreamPerThread, hipStreamCaptureModeRelaxed));
      OK(kernels().mix(hipStreamPerThread, buffer.get(), kCount, constant));
      hipGraph_t graph;
      OK(hipStreamEndCapture(hipStreamPerThread, &graph));
      hipGraphExec_t exec;
      OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
      OK(hipGraphLaunch(exec, hipStreamPerThread));
      while (hipStreamQuery(hipStreamPerThread) != hipSuccess) std::this_thread::yield();
      OK(hipGraphExecDestroy(exec));
      OK(hipGraphDestroy(graph));
    }
  };
  std::thread other([&] { run(theirs, 5); });
  run(mine, 4);
  other.join();
  EXPECT_EQ(mixed(mixed(mixed(0, 4), 4), 4), mine.value());
  EXPECT_EQ(mixed(mixed(mixed(0, 5), 5), 5), theirs.value());
}

/// Edges of a graph.
std::size_t edges_of(hipGraph_t graph) {
  std::size_t edges = 0;
  EXPECT_EQ(hipSuccess, hipGraphGetEdges(graph, nullptr, nullptr, &edges));
  return edges;
}

TEST(Rules, rule_10_a_thread_that_ends_leaves_no_capture_behind) {
  const Stream s, forked, beside;
  const Event event, fork, join;
  const Buffer buffer, other;
  int value = 0;
  const auto fork_and_join = [&] {
    const hipGraph_t graph = capture(s, [&] {
      OK(kernels().mix(s, buffer.get(), kCount, 1));
      OK(hipEventRecord(fork, s));
      OK(hipStreamWaitEvent(forked, fork, 0));
      OK(kernels().mix(forked, buffer.get(), kCount, 2));
      OK(hipEventRecord(join, forked));
      OK(hipStreamWaitEvent(s, join, 0));
    });
    EXPECT_EQ(1u, edges_of(graph));
    run(s, graph);
    value = mixed(mixed(value, 1), 2);
    EXPECT_EQ(value, buffer.value());
  };
  for (int i = 0; i < 3; ++i) {
    fork_and_join();
    std::thread([&] {
      OK(hipStreamBeginCapture(hipStreamPerThread, hipStreamCaptureModeRelaxed));
      OK(hipEventRecord(event, hipStreamPerThread));
      OK(hipStreamWaitEvent(beside, event, 0));
      OK(kernels().mix(beside, other.get(), kCount, 1));
    }).join();
    // Its own stream is gone, and with it the capture.
    hipStreamCaptureStatus status = hipStreamCaptureStatusActive;
    OK(hipStreamIsCapturing(beside, &status));
    EXPECT_EQ(hipStreamCaptureStatusNone, status);
    OK(hipEventRecord(event, beside));
    OK(hipStreamWaitEvent(forked, event, 0));
    fork_and_join();
  }
  EXPECT_EQ(0, other.value());
}

TEST(Rules, rule_27_what_is_withheld_of_a_threads_own_stream_reaches_no_other_threads) {
  const Stream s;
  const Event fork, join;
  const Buffer a, b, c;
  for (int i = 1; i <= 4; ++i) {
    std::binary_semaphore turn{0}, back{0};
    hipGraph_t graph = nullptr;
    std::thread feeder([&] {
      OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
      OK(kernels().mix(s, a.get(), kCount, 1));
      OK(hipEventRecord(fork, s));
      OK(hipStreamWaitEvent(hipStreamPerThread, fork, 0));
      OK(kernels().mix(hipStreamPerThread, b.get(), kCount, 2));
      if (i < 3) {
        OK(kernels().mix(s, c.get(), kCount, 3));
      } else {
        turn.release();
        back.acquire();
      }
      OK(kernels().mix(hipStreamPerThread, b.get(), kCount, 4));
      OK(hipEventRecord(join, hipStreamPerThread));
      OK(hipStreamWaitEvent(s, join, 0));
      EXPECT_EQ(hipSuccess, hipStreamEndCapture(s, &graph));
    });
    if (i >= 3) {
      turn.acquire();
      OK(kernels().mix(s, c.get(), kCount, 3));
      back.release();
    }
    feeder.join();
    ASSERT_NE(nullptr, graph);
    EXPECT_EQ(3u, edges_of(graph));
    run(s, graph);
    int values[3] = {};
    for (int k = 0; k < i; ++k)
      values[0] = mixed(values[0], 1), values[1] = mixed(mixed(values[1], 2), 4), values[2] = mixed(values[2], 3);
    EXPECT_EQ(values[0], a.value());
    EXPECT_EQ(values[1], b.value()) << i;
    EXPECT_EQ(values[2], c.value());
  }
}

/// The graph holds on to `user`: destroy(user) is called when nobody does any more.
void hold_on(hipGraph_t graph, void* user, hipHostFn_t destroy) {
  using Create = hipError_t (*)(void**, void*, hipHostFn_t, unsigned, unsigned);
  using Retain = hipError_t (*)(hipGraph_t, void*, unsigned, unsigned);
  const auto create = newer<Create>("hipUserObjectCreate");
  const auto retain = newer<Retain>("hipGraphRetainUserObject");
  ASSERT_NE(nullptr, create);
  void* object = nullptr;
  OK(create(&object, user, destroy, 1, 1));
  OK(retain(graph, object, 1, 1));  // moved to the graph
}

TEST(Rules, rule_11_user_objects_go_when_the_program_destroys_what_holds_them) {
  const Stream s;
  const Buffer buffer;
  int destroyed = 0;
  for (int i = 0; i < 4; ++i) {
    const hipGraph_t graph = capture(s, [&] { OK(kernels().mix(s, buffer.get(), kCount, 1)); });
    hold_on(graph, &destroyed, [](void* count) { ++*static_cast<int*>(count); });
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipGraphDestroy(graph));
    EXPECT_EQ(i, destroyed) << "the exec holds it";
    OK(hipGraphLaunch(exec, s));
    OK(hipStreamSynchronize(s));
    OK(hipGraphExecDestroy(exec));
    OK(hipDeviceSynchronize());
    EXPECT_EQ(i + 1, destroyed);
  }
  EXPECT_EQ(mixed(mixed(mixed(mixed(0, 1), 1), 1), 1), buffer.value());
}

TEST(Rules, rule_18_a_user_objects_destructor_calls_back_and_blocks) {
  /// Makes a step of its own inside the destroying call, then waits.
  struct CallsBack {
    static void run(void* user) {
      auto* const it = static_cast<CallsBack*>(user);
      hipGraph_t other = nullptr;
      OK(hipGraphCreate(&other, 0));
      OK(hipGraphDestroy(other));
      for (int i = 0; i < 2; ++i) step(it->stream, [&] { OK(kernels().mix(it->stream, it->buffer.get(), kCount, 7)); });
      it->entered = true;
      while (!it->proceed) std::this_thread::yield();
    }
    const Stream stream;
    const Buffer buffer;
    std::atomic<bool> entered{false}, proceed{false};
  };
  const Stream s;
  const Buffer buffer;
  int value = 0;
  for (const bool held_by_exec : {false, true}) {
    CallsBack calls_back;
    const hipGraph_t graph = capture(s, [&] { OK(kernels().mix(s, buffer.get(), kCount, 1)); });
    hold_on(graph, &calls_back, CallsBack::run);
    hipGraphExec_t exec = nullptr;
    if (held_by_exec) {
      OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
      OK(hipGraphDestroy(graph));
    }
    std::thread destroyer([&] { OK(held_by_exec ? hipGraphExecDestroy(exec) : hipGraphDestroy(graph)); });
    while (!calls_back.entered) std::this_thread::yield();
    // Everybody else goes on meanwhile.
    for (int i = 0; i < 3; ++i) {
      step(s, [&] { OK(kernels().mix(s, buffer.get(), kCount, i)); });
      value = mixed(value, i);
      const Buffer another;
      EXPECT_EQ(value, buffer.value());
    }
    calls_back.proceed = true;
    destroyer.join();
    EXPECT_EQ(mixed(mixed(0, 7), 7), calls_back.buffer.value());
  }
}

TEST(Rules, rule_18_a_user_objects_destructor_uses_what_the_program_made_before) {
  struct Made {
    static void destroy(void* user) {
      auto* const made = static_cast<Made*>(user);
      OK(hipGraphLaunch(made->exec, made->stream));
      OK(hipStreamSynchronize(made->stream));
      int first = 0;
      OK(hipMemcpy(&first, made->memory, sizeof first, hipMemcpyDeviceToHost));
      EXPECT_EQ(mixed(0, 1), first);
      OK(hipGraphExecDestroy(made->exec));
      OK(hipGraphDestroy(made->graph));
      OK(hipFree(made->memory));
      made->destroyed = true;
    }
    const Stream stream;
    int* memory = nullptr;
    hipGraphExec_t exec = nullptr;
    hipGraph_t graph = nullptr;
    bool destroyed = false;
  };
  const Stream s;
  const Buffer buffer;
  for (int i = 0; i < 4; ++i) {
    const bool held_by_exec = i % 2 == 1;
    Made made;
    OK(hipMalloc(reinterpret_cast<void**>(&made.memory), kCount * sizeof(int)));
    OK(hipMemset(made.memory, 0, kCount * sizeof(int)));
    made.graph = capture(s, [&] { OK(kernels().mix(s, made.memory, kCount, 1)); });
    OK(hipGraphInstantiate(&made.exec, made.graph, nullptr, nullptr, 0));
    const hipGraph_t graph = capture(s, [&] { OK(kernels().mix(s, buffer.get(), kCount, 2)); });
    hold_on(graph, &made, Made::destroy);
    hipGraphExec_t exec = nullptr;
    if (held_by_exec) OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipGraphDestroy(graph));
    if (held_by_exec) OK(hipGraphExecDestroy(exec));
    EXPECT_TRUE(made.destroyed);
  }
}

TEST(Rules, rule_11_a_capture_that_allocates_is_captured_as_it_is) {
  const Stream s;
  const Buffer buffer;
  int value = 0;
  std::vector<hipError_t> first;
  for (int i = 0; i < 4; ++i) {
    const Since since = graph_calls();
    int* memory = nullptr;
    std::vector<hipError_t> results;
    hipGraph_t graph = nullptr;
    OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
    OK(kernels().mix(s, buffer.get(), kCount, i));
    results.push_back(hipMallocAsync(reinterpret_cast<void**>(&memory), kCount * sizeof(int), s));
    if (results.back() == hipSuccess) {
      OK(hipMemsetAsync(memory, 0, kCount * sizeof(int), s));
      OK(kernels().mix(s, memory, kCount, 100 + i));
      OK(kernels().join(s, buffer.get(), memory, kCount));
      results.push_back(hipFreeAsync(memory, s));
    }
    results.push_back(hipStreamEndCapture(s, &graph));
    static_cast<void>(hipGetLastError());
    if (i == 0) first = results;
    EXPECT_EQ(first, results) << "step " << i;
    EXPECT_NE(0, since["hipModuleLaunchKernel"]);
    if (results.size() < 3) {  // HIP 5 has no such nodes
      if (graph != nullptr) OK(hipGraphDestroy(graph));
      continue;
    }
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    for (int launch = 0; launch < 2; ++launch) {
      OK(hipGraphLaunch(exec, s));
      value = joined(mixed(value, i), mixed(0, 100 + i));
    }
    OK(hipStreamSynchronize(s));
    EXPECT_EQ(value, buffer.value()) << "step " << i;
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
    EXPECT_EQ(1, since["hipGraphInstantiate"]);
    EXPECT_EQ(1, since["hipGraphExecDestroy"]) << "the exec is the program's own";
  }
}

TEST(Rules, rule_11_nodes_added_by_handle_to_a_capture_make_no_template) {
  const Stream s;
  const Buffer buffer, filled;
  int value = 0;
  for (int i = 0; i < 5; ++i) {
    const bool adds = i >= 2;  // the others are the same without the node
    const Since since = graph_calls();
    hipGraph_t captured = nullptr, graph = nullptr;
    OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
    OK(kernels().mix(s, buffer.get(), kCount, 1));
    if (adds) {
      hipStreamCaptureStatus status{};
      unsigned long long id = 0;
      const hipGraphNode_t* last = nullptr;
      std::size_t count = 0;
      OK(hipStreamGetCaptureInfo_v2(s, &status, &id, &captured, &last, &count));
      hipMemsetParams params{};
      params.dst = filled.get();
      params.elementSize = 4;
      params.value = static_cast<unsigned>(i);
      params.width = kCount;
      params.height = 1;
      hipGraphNode_t node = nullptr;
      OK(hipGraphAddMemsetNode(&node, captured, last, count, &params));
      OK(hipStreamUpdateCaptureDependencies(s, &node, 1, hipStreamSetCaptureDependencies));
    }
    OK(kernels().join(s, buffer.get(), filled.get(), kCount));
    OK(hipStreamEndCapture(s, &graph));
    if (adds) {
      EXPECT_EQ(captured, graph);
      EXPECT_EQ(2, since["hipModuleLaunchKernel"]) << "step " << i;
    }
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipGraphLaunch(exec, s));
    OK(hipStreamSynchronize(s));
    value = joined(mixed(value, 1), adds ? i : 0);
    EXPECT_EQ(value, buffer.value()) << "step " << i;
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
    if (adds) {
      EXPECT_EQ(1, since["hipGraphExecDestroy"]) << "the exec is the program's own";
    }
  }
}

TEST(Rules, rule_13_one_capture_has_one_id) {
  const Stream s;
  const Buffer buffer;
  for (int i = 0; i < 3; ++i) {
    step(s, [&] {
      hipStreamCaptureStatus status;
      unsigned long long before = 0, after = 1;
      OK(hipStreamGetCaptureInfo(s, &status, &before));
      EXPECT_EQ(hipStreamCaptureStatusActive, status);
      OK(kernels().mix(s, buffer.get(), kCount, 1));
      if (i == 2) OK(hipMemsetAsync(buffer.get(), 0, 4 * kCount, s));  // the withheld capture becomes real
      OK(kernels().mix(s, buffer.get(), kCount, 1));
      OK(hipStreamGetCaptureInfo(s, &status, &after));
      EXPECT_EQ(before, after);
    });
  }
  EXPECT_EQ(1, buffer.value());
}

TEST(Rules, rule_14_the_devices_of_call_and_stream_are_told_apart) {
  // The node goes where the stream is, whatever device was current: an update by the same graph, captured with another
  // device current, is one the runtime takes.
  const Stream s;
  const Buffer buffer;
  const auto graph_of = [&](int current, int constant) {
    return capture(s, [&] {
      OK(hipMemsetAsync(buffer.get(), 0, 4, s));
      OK(hipSetDevice(current));
      OK(hipMemsetAsync(buffer.get(), constant, 4, s));
      OK(hipSetDevice(0));
    });
  };
  const hipGraph_t first = graph_of(1, 1);
  hipGraphExec_t exec;
  OK(hipGraphInstantiate(&exec, first, nullptr, nullptr, 0));
  const hipGraph_t second = graph_of(0, 2);
  hipGraphNode_t node = nullptr;
  hipGraphExecUpdateResult result;
  OK(hipGraphExecUpdate(exec, second, &node, &result));
  OK(hipGraphLaunch(exec, s));
  OK(hipStreamSynchronize(s));
  int value = 0;
  OK(hipMemcpy(&value, buffer.get(), 4, hipMemcpyDeviceToHost));
  EXPECT_EQ(0x02020202, value);
  OK(hipMemset(buffer.get(), 0, 4));
  OK(hipGraphExecDestroy(exec));
  OK(hipGraphDestroy(first));
  OK(hipGraphDestroy(second));
}

TEST(Rules, rule_14_an_update_on_another_device_than_its_kernels_is_refused_as_natively) {
  constexpr int kElsewhere = 5;
  int devices = 0;
  OK(hipGetDeviceCount(&devices));
  if (devices < 2) GTEST_SKIP() << "one device";
  const Stream s;
  const Buffer buffers[] = {Buffer{}, Buffer{}};
  int values[] = {0, 0};
  hipGraphExec_t exec = nullptr;
  int in_exec = 0;  // which capture it does
  for (int i = 0; i < 8; ++i) {
    const hipGraph_t graph = capture(s, [&] { OK(kernels().mix(s, buffers[i % 2].get(), kCount, i)); });
    if (i == 0) {
      OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    } else {
      const bool refused = i == kElsewhere;
      if (refused) OK(hipSetDevice(1));
      hipGraphNode_t node = nullptr, in_graph = nullptr;
      hipGraphExecUpdateResult result = hipGraphExecUpdateError;
      EXPECT_EQ(refused ? hipErrorGraphExecUpdateFailure : hipSuccess, hipGraphExecUpdate(exec, graph, &node, &result))
          << i;
      EXPECT_EQ(refused ? hipErrorGraphExecUpdateFailure : hipSuccess, hipGetLastError()) << i;
      EXPECT_EQ(refused ? hipGraphExecUpdateErrorNotSupported : hipGraphExecUpdateSuccess, result) << i;
      std::size_t count = 1;
      if (refused) OK(hipGraphGetNodes(graph, &in_graph, &count));
      EXPECT_EQ(in_graph, node) << i;
      if (refused) OK(hipSetDevice(0));
      if (!refused) in_exec = i;
    }
    OK(hipGraphDestroy(graph));
    OK(hipGraphLaunch(exec, s));
    OK(hipStreamSynchronize(s));
    values[in_exec % 2] = mixed(values[in_exec % 2], in_exec);
    for (int k : {0, 1}) EXPECT_EQ(values[k], buffers[k].value()) << i;
  }
  OK(hipGraphExecDestroy(exec));
}

TEST(Rules, rule_14_the_end_of_a_refused_capture_leaves_its_error) {
  const Stream s, other;
  hipGraph_t graph = nullptr;
  OK(hipStreamBeginCapture(s, hipStreamCaptureModeGlobal));
  EXPECT_EQ(hipErrorStreamCaptureUnsupported, hipStreamQuery(other));
  EXPECT_EQ(hipErrorStreamCaptureInvalidated, hipStreamEndCapture(s, &graph));
  EXPECT_EQ(hipErrorStreamCaptureInvalidated, hipGetLastError());
}

TEST(Rules, rule_14_a_refused_record_or_wait_in_a_capture_leaves_its_error) {
  const Stream s;
  const Buffer buffer;
  int value = 0;
  const auto captured = [&](auto&& between) {
    return capture(s, [&] {
      OK(kernels().mix(s, buffer.get(), kCount, 1));
      between();
      OK(kernels().mix(s, buffer.get(), kCount, 2));
    });
  };
  const auto ran = [&](hipGraph_t graph) {
    run(s, graph);
    value = mixed(mixed(value, 1), 2);
    EXPECT_EQ(value, buffer.value());
  };
  for (int i = 0; i < 2; ++i) {
    ran(captured([] {}));
    ran(captured([&] {
      EXPECT_EQ(hipErrorInvalidHandle, hipEventRecord(nullptr, s));
      EXPECT_EQ(hipErrorInvalidHandle, hipGetLastError());
    }));
    ran(captured([&] {
      EXPECT_EQ(hipErrorInvalidHandle, hipStreamWaitEvent(s, nullptr, 0));
      EXPECT_EQ(hipErrorInvalidHandle, hipGetLastError());
    }));
  }
}

TEST(Rules, rule_14_a_failed_launch_leaves_its_error) {
  const Buffer buffer;
  const Stream s;
  const hipGraph_t graph = capture(s, [&] { OK(kernels().mix(s, buffer.get(), kCount, 1)); });
  hipGraphExec_t exec = nullptr;
  OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  for (const bool own : {false, true}) {
    int failed = 0;
    for (unsigned long long after = 1; after < 12; ++after) {
      const Stream other;
      cpuhip_fail(after, hipErrorUnknown);
      const hipError_t result = hipGraphLaunch(exec, own ? hipStreamPerThread : static_cast<hipStream_t>(other));
      cpuhip_fail(0, 0);
      EXPECT_EQ(result, hipGetLastError()) << after;
      failed += result == hipSuccess ? 0 : 1;
      OK(hipDeviceSynchronize());
    }
    EXPECT_NE(0, failed);
  }
  OK(hipGraphExecDestroy(exec));
  OK(hipGraphDestroy(graph));
}

TEST(Rules, rule_08_a_stream_of_an_invalidated_capture_begins_another) {
  const Stream s, t;
  const Buffer buffer;
  const Event event;
  OK(hipStreamBeginCapture(s, hipStreamCaptureModeGlobal));
  OK(hipEventRecord(event, s));
  OK(hipStreamWaitEvent(t, event, 0));
  EXPECT_NE(hipSuccess, hipStreamQuery(t));  // invalidates the part of t
  OK(hipStreamBeginCapture(t, hipStreamCaptureModeRelaxed));
  EXPECT_EQ(hipErrorStreamCaptureUnsupported, hipFree(buffer.get()));  // the capture of s is still open
  hipGraph_t graph = nullptr;
  OK(hipStreamEndCapture(t, &graph));
  OK(hipGraphDestroy(graph));
  EXPECT_EQ(hipErrorStreamCaptureInvalidated, hipStreamEndCapture(s, &graph));
  static_cast<void>(hipGetLastError());
}

TEST(Rules, rule_14_internal_calls_leave_device_and_last_error_alone) {
  int devices = 0;
  OK(hipGetDeviceCount(&devices));
  ASSERT_EQ(2, devices);
  const Stream s;
  const Buffer buffer;
  int value = 0;
  for (int i = 0; i < 6; ++i) {
    OK(hipSetDevice(i % 2));
    EXPECT_NE(hipSuccess, hipMemcpy(nullptr, nullptr, 8, hipMemcpyHostToHost));
    EXPECT_EQ(hipErrorInvalidValue, hipPeekAtLastError());
    hipGraph_t graph = nullptr;
    OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
    const hipError_t launched = kernels().mix(s, buffer.get(), kCount, i);
    OK(hipStreamEndCapture(s, &graph));
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    int now = -1;
    OK(hipGetDevice(&now));
    EXPECT_EQ(i % 2, now);
    // A failing call after calls of the library's own: its error, and only its, is found.
    EXPECT_NE(hipSuccess, hipMemcpy(nullptr, nullptr, 8, hipMemcpyHostToHost));
    EXPECT_EQ(hipErrorInvalidValue, hipGetLastError());
    EXPECT_EQ(hipSuccess, hipGetLastError());
    OK(hipSetDevice(0));
    OK(hipGraphLaunch(exec, s));
    OK(hipStreamSynchronize(s));
    if (launched == hipSuccess) value = mixed(value, i);
    EXPECT_EQ(value, buffer.value());
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
  }
}

TEST(Rules, rule_20_an_exec_in_flight_is_not_given_to_another_holder) {
  const Stream s, t;
  const Buffer buffer;
  int* flag = nullptr;
  OK(hipHostMalloc(reinterpret_cast<void**>(&flag), sizeof(int), 0));
  *flag = 1;
  const auto body = [&] { OK(kernels().spin(s, flag)); };
  step(s, body);
  *flag = 0;
  const hipGraph_t first = capture(s, body), second = capture(s, body);
  hipGraphExec_t one, two;
  OK(hipGraphInstantiate(&one, first, nullptr, nullptr, 0));
  OK(hipGraphLaunch(one, s));
  const Since since = graph_calls();
  OK(hipGraphInstantiate(&two, second, nullptr, nullptr, 0));
  if (under_library()) {
    EXPECT_EQ(1, since["hipGraphInstantiate"]);
  }
  OK(hipGraphLaunch(two, t));
  *reinterpret_cast<volatile int*>(flag) = 1;
  OK(hipStreamSynchronize(s));
  OK(hipStreamSynchronize(t));
  OK(hipGraphExecDestroy(one));
  OK(hipGraphExecDestroy(two));
  OK(hipGraphDestroy(first));
  OK(hipGraphDestroy(second));
  OK(hipHostFree(flag));
}

TEST(Rules, rule_26_a_capture_that_stores_an_event_in_a_node_is_never_compared) {
  using Launch =
      hipError_t (*)(hipFunction_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t,
                     std::uint32_t, std::size_t, hipStream_t, void**, void**, hipEvent_t, hipEvent_t, std::uint32_t);
  const auto launch = newer<Launch>("hipExtModuleLaunchKernel");
  ASSERT_NE(nullptr, launch);
  const Stream s;
  const Buffer buffer;
  int value = 0;
  for (int i = 0; i < 4; ++i) {
    hipEvent_t event;
    OK(hipEventCreate(&event));
    const Since since({"hipModuleLaunchKernel", "hipExtModuleLaunchKernel"});
    step(s, [&] {
      OK(kernels().mix(s, buffer.get(), kCount, 1));
      int* p = buffer.get();
      int n = kCount, a = 2;
      void* args[] = {&p, &n, &a};
      OK(launch(kernels().mix_function(), 128, 1, 1, 64, 1, 1, 0, s, args, nullptr, nullptr, event, 0));
    });
    EXPECT_EQ(1, since["hipModuleLaunchKernel"]);
    EXPECT_EQ(1, since["hipExtModuleLaunchKernel"]);
    EXPECT_EQ(hipSuccess, hipEventSynchronize(event));
    OK(hipEventDestroy(event));
    value = mixed(mixed(value, 1), 2);
    EXPECT_EQ(value, buffer.value());
  }
}

TEST(Rules, rule_27_what_two_threads_fed_is_captured_as_it_is) {
  const Stream s;
  const Buffer buffer;
  int value = 0;
  for (int i = 0; i < 4; ++i) {
    hipGraph_t graph;
    OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
    OK(kernels().mix(s, buffer.get(), kCount, 1));
    std::thread([&] { OK(kernels().mix(s, buffer.get(), kCount, 2)); }).join();
    OK(kernels().mix(s, buffer.get(), kCount, 3));
    OK(hipStreamEndCapture(s, &graph));
    run(s, graph);
    value = mixed(mixed(mixed(value, 1), 2), 3);
    EXPECT_EQ(value, buffer.value());
  }
}

TEST(Rules, rule_28_an_operation_the_runtime_would_refuse_is_not_taken_for_one_it_accepted) {
  const Stream s;
  const Buffer buffer;
  const auto body = [&](std::size_t bytes, std::vector<hipError_t>* results) {
    hipGraph_t graph = nullptr;
    OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
    results->push_back(hipMemsetAsync(buffer.get(), 0, bytes, s));
    results->push_back(hipStreamEndCapture(s, &graph));
    if (graph != nullptr) OK(hipGraphDestroy(graph));
    static_cast<void>(hipGetLastError());
  };
  std::vector<hipError_t> first, again;
  for (const std::size_t bytes : {std::size_t{kCount * 4}, std::size_t{0}, std::size_t{1} << 40}) body(bytes, &first);
  for (const std::size_t bytes : {std::size_t{kCount * 4}, std::size_t{0}, std::size_t{1} << 40}) body(bytes, &again);
  EXPECT_EQ(first, again);
  EXPECT_EQ(hipSuccess, first[0]);
  EXPECT_NE(hipSuccess, first[4]);
}

TEST(Rules, rule_37_the_first_registration_of_a_stub_wins) {
  // A kernel template in two shared libraries: the second has the stub's address too, and here other parameters.
  static const char stub = 0;
  const Registered first(R"(extern "C" __global__ void shared_kernel(int* p, int n, int a) {
                           int i = blockIdx.x * blockDim.x + threadIdx.x;
                           if (i < n) p[i] = p[i] * 31 + a;
                         })",
                         "shared_kernel", &stub);
  auto second = std::make_unique<Registered>(R"(extern "C" __global__ void shared_kernel(int* p) {
                                               if (threadIdx.x == 0) p[0] = -1;
                                             })",
                                             "shared_kernel", &stub);
  const Stream s;
  const Buffer buffer;
  int value = 0;
  for (int i = 0; i < 8; ++i) {
    if (i == 5) second.reset();  // one of the libraries is closed
    step(s, [&] {
      int *p = buffer.get(), n = kCount, a = 7 * i;
      void* args[] = {&p, &n, &a};
      OK(hipLaunchKernel(&stub, dim3(2), dim3(64), args, 0, s));
    });
    value = mixed(value, 7 * i);
    EXPECT_EQ(value, buffer.value()) << "step " << i;
  }
}

TEST(Rules, rule_38_a_changed_setting_begins_a_new_epoch) {
  const Stream s;
  const Buffer buffer;
  const auto launches = [&] {
    const Since since = graph_calls();
    step(s, [&] { OK(kernels().mix(s, buffer.get(), kCount, 1)); });
    return since["hipModuleLaunchKernel"];
  };
  launches();
  EXPECT_EQ(compares_captures() ? 0 : 1, launches());
  OK(hipDeviceSetCacheConfig(hipFuncCachePreferL1));
  EXPECT_EQ(1, launches()) << "what was captured before says nothing of now";
  EXPECT_EQ(compares_captures() ? 0 : 1, launches());
  OK(hipDeviceSetCacheConfig(hipFuncCachePreferNone));
}

std::size_t execs_held() {
  cpuhip_statistics_t now{};
  cpuhip_statistics(&now);
  return now.execs;
}

/// Recordings that may be kept.
std::size_t most_recordings() {
  const char* const wanted = std::getenv("GRAPHPOOL_GRAPH_RECORDINGS");
  return wanted == nullptr ? 256 : std::strtoul(wanted, nullptr, 10);
}

TEST(Rules, rule_30_an_open_capture_does_not_keep_recordings) {
  const Stream open, stream;
  const Buffer left, right;
  int left_value = 0, right_value = 0;
  const auto both = [&] {
    OK(kernels().mix(open, left.get(), kCount, 1));
    OK(kernels().mix(open, left.get(), kCount, 2));
    left_value = mixed(mixed(left_value, 1), 2);
  };
  for (int i = 0; i < 2; ++i) step(open, both);
  OK(hipStreamSynchronize(open));
  const std::size_t before = execs_held();
  // A capture that is known as far as it has come, and stays open.
  hipGraph_t graph = nullptr;
  hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
  OK(hipThreadExchangeStreamCaptureMode(&mode));
  OK(hipStreamBeginCapture(open, hipStreamCaptureModeGlobal));
  OK(kernels().mix(open, left.get(), kCount, 1));
  for (int length = 1; length <= 40; ++length) {
    step(stream, [&] {
      for (int i = 0; i < length; ++i) OK(kernels().mix(stream, right.get(), kCount, 100 + i));
    });
    for (int i = 0; i < length; ++i) right_value = mixed(right_value, 100 + i);
    EXPECT_GE(before + most_recordings() + 1, execs_held()) << "step " << length;
  }
  OK(kernels().mix(open, left.get(), kCount, 2));
  OK(hipStreamEndCapture(open, &graph));
  OK(hipThreadExchangeStreamCaptureMode(&mode));
  hipGraphExec_t exec = nullptr;
  OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  OK(hipGraphLaunch(exec, open));
  OK(hipStreamSynchronize(open));
  left_value = mixed(mixed(left_value, 1), 2);
  EXPECT_EQ(left_value, left.value());
  EXPECT_EQ(right_value, right.value());
  OK(hipGraphExecDestroy(exec));
  OK(hipGraphDestroy(graph));
}

TEST(Rules, rule_30_captures_that_overlap_do_not_keep_recordings) {
  const Stream streams[2];
  const Buffer buffers[2];
  int values[2] = {};
  OK(hipDeviceSynchronize());
  const std::size_t before = execs_held();
  hipStreamCaptureMode mode = hipStreamCaptureModeRelaxed;
  OK(hipThreadExchangeStreamCaptureMode(&mode));
  const auto begin = [&](std::size_t which, int number) {
    OK(hipStreamBeginCapture(streams[which], hipStreamCaptureModeGlobal));
    for (int bit = 0; bit < 6; ++bit) {
      if ((number >> bit & 1) != 0) {
        OK(hipMemsetAsync(buffers[which].get(), bit, kCount * 4, streams[which]));
      } else {
        OK(kernels().mix(streams[which], buffers[which].get(), kCount, number));
      }
    }
  };
  const auto end = [&](std::size_t which, int number) {
    hipGraph_t graph = nullptr;
    hipGraphExec_t exec = nullptr;
    OK(hipStreamEndCapture(streams[which], &graph));
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipGraphLaunch(exec, streams[which]));
    OK(hipStreamSynchronize(streams[which]));
    OK(hipGraphExecDestroy(exec));
    OK(hipGraphDestroy(graph));
    for (int bit = 0; bit < 6; ++bit)
      values[which] = (number >> bit & 1) != 0 ? bit * 0x01010101 : mixed(values[which], number);
  };
  begin(0, 0);
  for (int number = 1; number < 60; ++number) {
    const auto which = static_cast<std::size_t>(number % 2);
    begin(which, number);
    end(1 - which, number - 1);
    EXPECT_GE(before + most_recordings() + 1, execs_held()) << "capture " << number;
  }
  end(1, 59);
  OK(hipThreadExchangeStreamCaptureMode(&mode));
  for (std::size_t which : {0u, 1u}) EXPECT_EQ(values[which], buffers[which].value());
}

TEST(Rules, an_empty_capture_instantiates_and_launches) {
  const Stream s;
  for (int i = 0; i < 3; ++i) step(s, [] {});
}

TEST(Rules, an_empty_graph_is_launched_on_streams_without_a_handle_of_their_own) {
  const auto upload = newer<hipError_t (*)(hipGraphExec_t, hipStream_t)>("hipGraphUpload");
  ASSERT_NE(nullptr, upload);
  const Stream s;
  const hipGraph_t graph = capture(s, [] {});
  hipGraphExec_t exec = nullptr;
  OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  const auto legacy = reinterpret_cast<hipStream_t>(1);
  for (const hipStream_t stream : {hipStream_t{nullptr}, legacy, hipStreamPerThread, hipStream_t{s}}) {
    EXPECT_EQ(hipSuccess, hipGraphLaunch(exec, stream)) << stream;
    EXPECT_EQ(hipSuccess, hipGetLastError());
    EXPECT_EQ(hipSuccess, upload(exec, stream)) << stream;
    EXPECT_EQ(hipSuccess, hipGetLastError());
  }
  OK(hipGraphExecDestroy(exec));
  OK(hipGraphDestroy(graph));
}

}  // namespace
}  // namespace captures
