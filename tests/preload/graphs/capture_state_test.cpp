// What the runtime keeps of captures that are over or made real: nodes of events, dependencies that were replaced,
// streams that still capture. By version (meson.build).
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <mutex>
#include <semaphore>
#include <thread>
#include <utility>
#include <vector>

#include "registered.h"

extern "C" hipError_t hipExtLaunchKernel(const void* function, dim3 grid, dim3 block, void** args, std::size_t shared,
                                         hipStream_t stream, hipEvent_t start, hipEvent_t stop, int flags);

namespace captures {
namespace {

/// A fork of `t` from `s` and back. `between` comes between the record of the fork and its wait.
class Fork {
 public:
  template <typename Between>
  void operator()(hipStream_t s, hipStream_t t, const Buffer& a, const Buffer& b, Between&& between) const {
    OK(kernels().mix(s, a.get(), kCount, 1));
    OK(hipEventRecord(fork_, s));
    between();
    OK(hipStreamWaitEvent(t, fork_, 0));
    OK(kernels().join(t, b.get(), a.get(), kCount));
    OK(hipEventRecord(join_, t));
    OK(hipStreamWaitEvent(s, join_, 0));
    OK(kernels().join(s, a.get(), b.get(), kCount));
  }

 private:
  const Event fork_, join_;
};

TEST(CaptureState, a_wait_in_a_capture_made_real_comes_behind_what_its_event_stands_for) {
  const Stream s, t;
  const Buffer a, b, c;
  const Fork fork;
  int in_a = 0, in_b = 0, in_c = 0;
  for (int i = 0; i < 12; ++i) {
    // Every third capture leaves its recording between the record and the wait.
    const bool differs = i % 3 == 2;
    step(s, [&] {
      fork(s, t, a, b, [&] {
        if (differs) OK(kernels().mix(s, c.get(), kCount, i));
      });
    });
    in_a = mixed(in_a, 1);
    if (differs) in_c = mixed(in_c, i);
    in_b = joined(in_b, in_a);
    in_a = joined(in_a, in_b);
    ASSERT_EQ(in_a, a.value()) << "step " << i;
    ASSERT_EQ(in_b, b.value()) << "step " << i;
    ASSERT_EQ(in_c, c.value()) << "step " << i;
  }
}

/// The bytes of writable memory that the process has mapped.
std::size_t writable_bytes() {
  std::size_t pages[6] = {};
  std::ifstream statistics("/proc/self/statm");
  for (std::size_t& each : pages) statistics >> each;
  return pages[5] * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

TEST(CaptureState, forks_of_captures_that_come_back_take_no_more_memory_each_time) {
  const Stream s, t;
  const Buffer a, b;
  const Fork fork;
  const Fork again;
  int in_a = 0, in_b = 0;
  rlimit before{};
  ASSERT_EQ(0, getrlimit(RLIMIT_DATA, &before));
  const rlimit limit{writable_bytes() + (std::size_t{1} << 30), before.rlim_max};
  ASSERT_EQ(0, setrlimit(RLIMIT_DATA, &limit));
  for (int i = 0; i < 30; ++i) {
    step(s, [&] {
      for (const Fork* each : {&fork, &again, &fork}) (*each)(s, t, a, b, [] {});
    });
    for (int k = 0; k < 3; ++k) {
      in_a = mixed(in_a, 1);
      in_b = joined(in_b, in_a);
      in_a = joined(in_a, in_b);
    }
    ASSERT_EQ(in_a, a.value()) << "step " << i;
    ASSERT_EQ(in_b, b.value()) << "step " << i;
  }
  ASSERT_EQ(0, setrlimit(RLIMIT_DATA, &before));
}

/// Captures with a branch. The graphs stay, so that no other node gets the address of one of theirs; streams do not,
/// for a capture may still be open when its end has failed.
class Branches {
 public:
  using Errors = std::vector<hipError_t>;

  Branches() = default;
  Branches(const Branches&) = delete;
  Branches& operator=(const Branches&) = delete;
  ~Branches() {
    for (const hipGraph_t graph : graphs_) EXPECT_EQ(hipSuccess, hipGraphDestroy(graph));
  }
  /// What each call of the capture answers. `behind`: the branch comes behind a kernel, else behind nothing.
  Errors capture(const Event& fork, bool behind, hipStreamCaptureMode mode = hipStreamCaptureModeGlobal) {
    const Stream s, t;
    const Event join;
    Errors errors;
    const auto add = [&](hipError_t error) { errors.push_back(error); };
    add(hipStreamBeginCapture(s, mode));
    if (behind) add(kernels().mix(s, a_.get(), kCount, 1));
    add(hipEventRecord(fork, s));
    add(hipStreamWaitEvent(t, fork, 0));
    add(kernels().mix(t, b_.get(), kCount, 2));
    add(hipMemsetAsync(b_.get(), 0, 4, t));
    add(hipEventRecord(join, t));
    add(hipStreamWaitEvent(s, join, 0));
    add(kernels().mix(s, a_.get(), kCount, 3));
    add(hipStreamUpdateCaptureDependencies(t, nullptr, 0, hipStreamSetCaptureDependencies));
    add(kernels().mix(t, b_.get(), kCount, 4));
    add(hipEventRecord(join, t));
    add(hipStreamWaitEvent(s, join, 0));
    add(kernels().mix(s, a_.get(), kCount, 5));
    hipGraph_t graph = nullptr;
    add(hipStreamEndCapture(s, &graph));
    if (errors.back() == hipSuccess) keep(graph);
    static_cast<void>(hipGetLastError());
    return errors;
  }

 private:
  void keep(hipGraph_t graph) {
    graphs_.push_back(graph);
    hipGraphExec_t exec = nullptr;
    OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
    OK(hipGraphExecDestroy(exec));
  }

  const Buffer a_, b_;
  std::vector<hipGraph_t> graphs_;
};

TEST(CaptureState, an_event_that_keeps_nodes_of_an_earlier_capture_is_refused_as_natively) {
  Branches branches;
  const Event natively, in_recording, in_shell, first, second, third;
  // What begins as no capture before is compared with none.
  branches.capture(natively, true, hipStreamCaptureModeThreadLocal);
  const Branches::Errors refused = branches.capture(natively, false, hipStreamCaptureModeRelaxed);  // before HIP 7
  branches.capture(in_recording, true);
  EXPECT_EQ(refused, branches.capture(in_recording, false));
  for (int i = 0; i < 3; ++i) branches.capture(in_shell, true);
  EXPECT_EQ(refused, branches.capture(in_shell, false));
  const Branches::Errors taken = branches.capture(first, false);
  EXPECT_EQ(taken, branches.capture(second, false));
  EXPECT_EQ(taken, branches.capture(third, false));
  EXPECT_EQ(refused, branches.capture(in_recording, false));
  branches.capture(in_shell, true);
  EXPECT_EQ(refused, branches.capture(in_shell, false));
  branches.capture(in_recording, true);
  EXPECT_EQ(refused, branches.capture(in_recording, false));
  for (const Event* each : {&first, &second, &third}) EXPECT_EQ(taken, branches.capture(*each, false));
}

TEST(CaptureState, a_branch_that_nothing_joins_is_told_of_after_captures_were_made_real) {
  // Runtimes take nodes that were replaced in a stream's dependencies for joined, and later ones that have their
  // addresses.
  hipStream_t s = nullptr;
  OK(hipStreamCreate(&s));
  const Stream t;
  const Buffer a, b;
  const Event fork;
  for (int i = 0; i < 40; ++i) {
    step(s, [&] {
      for (int k = 0; k < 4; ++k) OK(kernels().mix(s, a.get(), kCount, k));
      // Each second capture leaves its recording here.
      for (int k = 0; k < i % 2 * i; ++k) OK(kernels().join(s, b.get(), a.get(), kCount));
    });
  }
  OK(hipStreamBeginCapture(s, hipStreamCaptureModeGlobal));
  for (int k = 0; k < 4; ++k) OK(kernels().mix(s, a.get(), kCount, k));
  OK(hipEventRecord(fork, s));
  OK(hipStreamWaitEvent(t, fork, 0));
  OK(kernels().mix(t, b.get(), kCount, 1));
  OK(kernels().mix(s, a.get(), kCount, 4));
  hipGraph_t graph = nullptr;
  EXPECT_EQ(hipErrorStreamCaptureUnjoined, hipStreamEndCapture(s, &graph));
  static_cast<void>(hipGetLastError());
  OK(hipStreamDestroy(s));
}

/// A capture with two ends, begun at one place, and what the program does after its end has failed.
class FailedEnd : public ::testing::Test {
 protected:
  [[gnu::noinline]] void begin() const { OK(hipStreamBeginCapture(s_, hipStreamCaptureModeGlobal)); }

  void end_unjoined() const {
    begin();
    OK(kernels().mix(s_, a_.get(), kCount, 1));
    OK(hipEventRecord(fork_, s_));
    OK(hipStreamWaitEvent(t_, fork_, 0));
    OK(kernels().mix(t_, b_.get(), kCount, 2));
    OK(kernels().mix(s_, a_.get(), kCount, 3));
    hipGraph_t graph = nullptr;
    EXPECT_EQ(hipErrorStreamCaptureUnjoined, hipStreamEndCapture(s_, &graph));
    EXPECT_EQ(hipErrorStreamCaptureUnjoined, hipPeekAtLastError());
  }

  /// No capture is open: what is freed is kept, and what is kept is handed out.
  static void expect_memory_kept() {
    void* memory = nullptr;
    OK(hipMalloc(&memory, 4096));
    OK(hipFree(memory));
    const Since since({"hipMalloc", "hipFree"});
    OK(hipMalloc(&memory, 4096));
    OK(hipFree(memory));
    EXPECT_EQ(under_library() ? 0 : 1, since["hipMalloc"]);
    EXPECT_EQ(under_library() ? 0 : 1, since["hipFree"]);
  }

  const Stream s_, t_;
  const Event fork_;
  const Buffer a_, b_;
};

TEST_F(FailedEnd, a_capture_that_ended_unjoined_is_over_when_the_runtime_says_so) {
  for (int i = 0; i < 3; ++i) {
    end_unjoined();
    EXPECT_EQ(hipErrorStreamCaptureUnjoined, hipGetLastError());
    expect_memory_kept();
    end_unjoined();
    OK(hipStreamSynchronize(t_));
    expect_memory_kept();
    end_unjoined();
    OK(hipDeviceSynchronize());
    expect_memory_kept();
    end_unjoined();
    expect_memory_kept();
  }
}

TEST_F(FailedEnd, so_is_one_that_was_left_alone) {
  for (int i = 0; i < 100; ++i) {  // none comes back
    begin();
    for (int bit = 0; bit < 7; ++bit)
      OK((i >> bit & 1) != 0 ? kernels().mix(s_, a_.get(), kCount, 1) : kernels().join(s_, a_.get(), b_.get(), kCount));
    hipGraph_t graph = nullptr;
    OK(hipStreamEndCapture(s_, &graph));
    OK(hipGraphDestroy(graph));
  }
  end_unjoined();
  expect_memory_kept();
}

TEST_F(FailedEnd, what_has_not_ended_goes_on) {
  hipGraph_t graph = nullptr;
  for (int i = 0; i < 3; ++i) {
    const Event fork, join;
    begin();
    OK(kernels().mix(s_, a_.get(), kCount, 1));
    OK(hipEventRecord(fork, s_));
    OK(hipStreamWaitEvent(t_, fork, 0));
    EXPECT_EQ(hipErrorStreamCaptureUnmatched, hipStreamEndCapture(t_, &graph));
    EXPECT_EQ(hipErrorStreamCaptureUnmatched, hipGetLastError());
    OK(kernels().mix(t_, b_.get(), kCount, 2));
    OK(hipEventRecord(join, t_));
    OK(hipStreamWaitEvent(s_, join, 0));
    OK(hipStreamEndCapture(s_, &graph));
    std::size_t nodes = 0;
    OK(hipGraphGetNodes(graph, nullptr, &nodes));
    EXPECT_EQ(2u, nodes);
    OK(hipGraphDestroy(graph));
  }
}

/// An exec of one kernel, or of two of which the first waits until `gate` is set, launched once and destroyed.
void launch_once(const Stream& origin, hipStream_t on, const Buffer& buffer, int constant, int* gate) {
  const hipGraph_t graph = capture(origin, [&] {
    if (gate != nullptr) OK(kernels().spin(origin, gate));
    OK(kernels().mix(origin, buffer.get(), kCount, constant));
  });
  hipGraphExec_t exec = nullptr;
  OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  OK(hipGraphLaunch(exec, on));
  OK(hipGraphExecDestroy(exec));
  OK(hipGraphDestroy(graph));
}

// Each exec is asked whether it is idle when the next of its graph is made.
TEST(CaptureState, rule_08_an_unload_is_refused_and_spoils_it_as_natively) {
  constexpr int kRefuses = 70000000, kSteps = 5;
  int version = 0;
  OK(hipRuntimeGetVersion(&version));
  const Stream s;
  const Buffer a;
  const std::vector<char> code = compiled_code(R"(extern "C" __global__ void one(int* p) { p[0] = 1; })");
  for (int i = 0; i < kSteps; ++i) {
    const bool unloads = i + 1 == kSteps, refused = unloads && version >= kRefuses;
    hipModule_t module = nullptr;
    hipGraph_t graph = nullptr;
    OK(hipModuleLoadData(&module, code.data()));
    OK(hipStreamBeginCapture(s, hipStreamCaptureModeGlobal));
    OK(kernels().mix(s, a.get(), kCount, i));
    if (unloads) {
      EXPECT_EQ(refused ? hipErrorStreamCaptureUnsupported : hipSuccess, hipModuleUnload(module));
    }
    const hipError_t spoilt = refused ? hipErrorStreamCaptureInvalidated : hipSuccess;
    EXPECT_EQ(spoilt, kernels().mix(s, a.get(), kCount, i)) << i;
    EXPECT_EQ(spoilt, hipStreamEndCapture(s, &graph)) << i;
    if (!refused) OK(hipGraphDestroy(graph));
    if (!unloads || refused) OK(hipModuleUnload(module));
  }
  static_cast<void>(hipGetLastError());
}

TEST(DestroyedStream, its_events_are_not_asked) {
  const Stream s;
  const Buffer buffers[] = {Buffer{}, Buffer{}};
  int values[] = {0, 0};
  int* gate = nullptr;
  OK(hipHostMalloc(reinterpret_cast<void**>(&gate), sizeof(int), 0));
  for (int i = 0; i < 20; ++i) {
    hipStream_t stream = nullptr;
    OK(hipStreamCreate(&stream));
    *gate = 0;
    launch_once(s, stream, buffers[i % 2], i, i < 10 ? gate : nullptr);
    values[i % 2] = mixed(values[i % 2], i);
    std::atomic<bool> destroyed{false};
    std::thread opener([&] {
      static_cast<void>(call_waits(destroyed));
      *reinterpret_cast<volatile int*>(gate) = 1;
    });
    OK(hipStreamDestroy(stream));
    destroyed = true;
    opener.join();
  }
  OK(hipDeviceSynchronize());
  for (int i : {0, 1}) EXPECT_EQ(values[i], buffers[i].value());
  OK(hipHostFree(gate));
}

TEST(DestroyedStream, events_of_a_threads_own_are_not_asked_when_it_has_ended) {
  const Stream s;
  const Buffer buffers[] = {Buffer{}, Buffer{}};
  int values[] = {0, 0};
  for (int i = 0; i < 20; ++i) {
    std::thread([&] {
      const Event done;
      launch_once(s, hipStreamPerThread, buffers[i % 2], i, nullptr);
      OK(hipEventRecord(done, hipStreamPerThread));
      OK(hipEventSynchronize(done));
    }).join();
    values[i % 2] = mixed(values[i % 2], i);
  }
  OK(hipDeviceSynchronize());
  for (int i : {0, 1}) EXPECT_EQ(values[i], buffers[i].value());
}

TEST(LaunchedAtOnce, a_kernel_that_the_runtime_does_not_capture_runs_once_a_capture) {
  // Nothing is compared with what was captured, nor is memory kept for it, where the runtime does so.
  const Stream s;
  const Buffer a, b;
  int in_a = 0;
  for (int i = 0; i < 6; ++i) {
    const Since since({"hipMalloc", "hipFree", "hipModuleLaunchKernel", "hipMemsetAsync", "hipGraphAddMemsetNode"});
    step(s, [&] {
      OK(hipMemsetAsync(b.get(), i, kCount * sizeof(int), s));
      OK(kernels().mix(s, a.get(), kCount, i));
      OK(kernels().mix(s, a.get(), kCount, 7));
    });
    in_a = mixed(mixed(in_a, i), 7);
    ASSERT_EQ(in_a, a.value()) << "step " << i;
    ASSERT_EQ(0x01010101 * i, b.value()) << "step " << i;
    void* memory = nullptr;
    OK(hipMalloc(&memory, 4096));
    OK(hipFree(memory));
    EXPECT_EQ(1, since["hipMalloc"]);
    EXPECT_EQ(1, since["hipFree"]);
    EXPECT_EQ(2, since["hipModuleLaunchKernel"]);
    EXPECT_EQ(1, since["hipMemsetAsync"]);
    EXPECT_EQ(0, since["hipGraphAddMemsetNode"]);
  }
}

TEST(LastError, captured_calls_leave_it_or_take_it_away_as_natively) {
  int version = 0;
  OK(hipRuntimeGetVersion(&version));
  const Stream s;
  const Buffer a;
  const auto after = [](hipError_t (*call)(hipStream_t, int*), hipStream_t on, int* to) {
    static_cast<void>(hipGetLastError());
    EXPECT_EQ(hipErrorInvalidValue, hipGetDevice(nullptr));
    EXPECT_EQ(hipSuccess, call(on, to));
    return hipGetLastError();
  };
  for (int i = 0; i < 5; ++i) {
    step(s, [&] {
      OK(kernels().mix(s, a.get(), kCount, i));
      EXPECT_EQ(hipErrorInvalidValue,
                after([](hipStream_t on, int* to) { return hipMemsetD32Async(to, 1, kCount, on); }, s, a.get()))
          << "step " << i;
      EXPECT_EQ(version < 70000000 ? hipSuccess : hipErrorInvalidValue,
                after([](hipStream_t on, int* to) { return hipMemsetAsync(to, 1, kCount, on); }, s, a.get()))
          << "step " << i;
    });
  }
  EXPECT_EQ(version < 70000000 ? hipSuccess : hipErrorInvalidValue,
            after([](hipStream_t on, int* to) { return hipMemsetD32Async(to, 1, kCount, on); }, s, a.get()));
}

TEST(LastError, captured_launches_by_stub_and_memory_in_order_leave_it_as_natively) {
  static const char stub = 0;
  const Registered registered(R"(extern "C" __global__ void one(int* p) { p[0] = 1; })", "one", &stub);
  const Stream s;
  const Buffer a;
  const auto left_by = [](const std::function<hipError_t()>& call) {
    EXPECT_EQ(hipErrorInvalidValue, hipGetDevice(nullptr));
    static_cast<void>(call());  // HIP 5 may not capture it
    return hipGetLastError();
  };
  hipMemPool_t pool = nullptr;
  OK(hipDeviceGetDefaultMemPool(&pool, 0));
  void* made[] = {nullptr, nullptr};
  hipGraph_t graph = nullptr;
  OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
  OK(kernels().mix(s, a.get(), kCount, 1));
  EXPECT_EQ(hipErrorInvalidValue, left_by([&] {
              int* p = a.get();
              void* arguments[] = {&p};
              return hipExtLaunchKernel(&stub, dim3(1), dim3(1), arguments, 0, s, nullptr, nullptr, 0);
            }));
  EXPECT_EQ(hipErrorInvalidValue, left_by([&] { return hipMallocAsync(&made[0], 4096, s); }));
  EXPECT_EQ(hipErrorInvalidValue, left_by([&] { return hipMallocFromPoolAsync(&made[1], 4096, pool, s); }));
  for (void* const memory : made) {
    if (memory != nullptr) {
      EXPECT_EQ(hipErrorInvalidValue, left_by([&] { return hipFreeAsync(memory, s); }));
    }
  }
  OK(hipStreamEndCapture(s, &graph));
  OK(hipGraphDestroy(graph));
}

TEST(LastError, what_another_thread_has_pending_from_before_the_capture_is_left_as_natively) {
  const Stream s;
  const Buffer a;
  std::binary_semaphore failed{0}, capturing{0};
  hipError_t left = hipSuccess;
  std::thread other([&] {
    EXPECT_EQ(hipErrorInvalidDevice, hipSetDevice(99));
    failed.release();
    capturing.acquire();
    EXPECT_EQ(hipSuccess, hipMemsetD32Async(a.get(), 1, kCount, s));
    left = hipGetLastError();
  });
  failed.acquire();
  hipGraph_t graph = nullptr;
  OK(hipStreamBeginCapture(s, hipStreamCaptureModeRelaxed));
  capturing.release();
  other.join();
  OK(hipStreamEndCapture(s, &graph));
  OK(hipGraphDestroy(graph));
  EXPECT_EQ(hipErrorInvalidDevice, left);
}

TEST(LastError, calls_that_a_capture_refuses_leave_it_as_natively) {
  int version = 0;
  OK(hipRuntimeGetVersion(&version));
  const Stream s, other;
  const Buffer a;
  OK(hipStreamBeginCapture(s, hipStreamCaptureModeGlobal));
  OK(kernels().mix(s, a.get(), kCount, 1));
  void* memory = nullptr;
  ASSERT_EQ(hipErrorStreamCaptureUnsupported, hipMalloc(&memory, 4096));
  // On another stream: refused where the runtime holds that back, too.
  const hipError_t refused = hipMallocAsync(&memory, 4096, other);
  const bool replaced = refused == hipSuccess && version < 70000000;
  EXPECT_EQ(replaced ? hipSuccess : hipErrorStreamCaptureUnsupported, hipPeekAtLastError());
  if (refused == hipSuccess) OK(hipFreeAsync(memory, other));
  static_cast<void>(hipGetLastError());
  if (version >= 60000000) {  // 5.7.1 captures on
    EXPECT_EQ(hipErrorInvalidValue, hipGetDevice(nullptr));
    EXPECT_EQ(hipErrorStreamCaptureInvalidated, hipMemsetD32Async(a.get(), 1, kCount, s));
    EXPECT_EQ(hipErrorInvalidValue, hipGetLastError());
  }
  hipGraph_t graph = nullptr;
  static_cast<void>(hipStreamEndCapture(s, &graph));
  if (graph != nullptr) OK(hipGraphDestroy(graph));
  static_cast<void>(hipGetLastError());
}

/// Frees and allocates in the order of a stream beside a capture of another, with an error pending.
class OrderedMemory : public testing::TestWithParam<unsigned> {
 protected:
  void SetUp() override {
    OK(hipRuntimeGetVersion(&version_));
    OK(hipStreamCreateWithFlags(&capturing_, GetParam()));
  }
  void TearDown() override { OK(hipStreamDestroy(capturing_)); }

  /// What the call answers, and what is the last error then.
  std::pair<hipError_t, hipError_t> with_error_pending(const std::function<hipError_t()>& call) const {
    EXPECT_EQ(hipErrorInvalidValue, hipGetDevice(nullptr));
    const hipError_t answer = call();
    return {answer, hipGetLastError()};
  }

  int version_ = 0;
  hipStream_t capturing_ = nullptr;
};

TEST_P(OrderedMemory, rule_08_is_refused_beside_the_capture_of_a_blocking_stream_as_natively) {
  constexpr int kRefuses = 60000000, kLeavesSuccess = 60000000, kKeeps = 70000000;
  const Stream other;
  const Buffer a;
  // AMD's hipMemset returns before device memory is filled, and a non-blocking stream does not come behind it.
  OK(hipDeviceSynchronize());
  void *memory = nullptr, *ordered = nullptr, *made = nullptr;
  OK(hipMalloc(&memory, 4096));
  OK(hipMallocAsync(&ordered, 4096, other));
  OK(hipDeviceSynchronize());  // for the fill of `a`, too: a non-blocking stream does not come behind it
  const bool refused = GetParam() == hipStreamDefault && version_ >= kRefuses;
  const hipError_t answer = refused ? hipErrorStreamCaptureUnsupported : hipSuccess;
  const hipError_t kept = refused || version_ >= kKeeps ? hipErrorInvalidValue : hipSuccess;
  hipGraph_t graph = nullptr;
  for (const hipStreamCaptureMode mode : {hipStreamCaptureModeGlobal, hipStreamCaptureModeRelaxed}) {
    OK(hipStreamBeginCapture(capturing_, mode));
    OK(kernels().mix(capturing_, a.get(), kCount, 1));
    const bool first = mode == hipStreamCaptureModeGlobal;
    if (first || refused) {
      const hipError_t left = version_ >= kLeavesSuccess ? hipErrorInvalidValue : hipSuccess;
      EXPECT_EQ(std::pair(answer, left), with_error_pending([&] { return hipFreeAsync(memory, other); }));
      EXPECT_EQ(std::pair(answer, kept), with_error_pending([&] { return hipFreeAsync(ordered, other); }));
    }
    EXPECT_EQ(std::pair(answer, kept), with_error_pending([&] { return hipMallocAsync(&made, 4096, other); }));
    if (!refused) OK(hipFreeAsync(made, other));
    OK(hipStreamEndCapture(capturing_, &graph));
    run(capturing_, graph);
  }
  EXPECT_EQ(mixed(mixed(0, 1), 1), a.value());
  OK(hipStreamSynchronize(other));
  // What was refused is still there. (AMD's 5.7.1 frees what its pool has kept.)
  EXPECT_EQ(refused ? hipSuccess : hipErrorInvalidValue, hipFree(memory));
  if (refused) OK(hipFree(ordered));
  static_cast<void>(hipGetLastError());
}

INSTANTIATE_TEST_SUITE_P(Captures, OrderedMemory, testing::Values(hipStreamDefault, hipStreamNonBlocking));

TEST(SharedNodeIds, threads_that_capture_in_turn_and_instantiate_at_once_lose_no_node) {
  // Natively no two threads make nodes at the same time. The library makes some where a graph is instantiated.
  constexpr int kThreads = 4, kSteps = 120, kLength = 24;
  std::mutex capturing;
  const auto work = [&](int thread, hipStream_t s, const Buffer& a) {
    int in_a = 0;
    for (int i = 0; i < kSteps; ++i) {
      hipGraph_t graph = nullptr;
      {
        const std::scoped_lock turn(capturing);
        ASSERT_EQ(in_a, a.value()) << "thread " << thread << " step " << i;
        OK(hipStreamBeginCapture(s, hipStreamCaptureModeThreadLocal));
        for (int k = 0; k < kLength + thread; ++k) OK(kernels().mix(s, a.get(), kCount, i + k));
        OK(hipStreamEndCapture(s, &graph));
      }
      for (int k = 0; k < kLength + thread; ++k) in_a = mixed(in_a, i + k);
      run(s, graph);
    }
  };
  static_cast<void>(kernels());
  const Stream streams[kThreads];
  const Buffer buffers[kThreads];
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back(work, thread, streams[thread].operator hipStream_t(), std::cref(buffers[thread]));
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace captures
