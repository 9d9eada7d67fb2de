// exec_limit_test.cpp: more execs than have room by graph.exec_memory: some are given back to the runtime and made
// again. The limit here is that of two execs. Natively all of them exist.
#include <algorithm>
#include <memory>

#include "node_calls.h"

extern "C" {  // newer than the oldest header
hipError_t hipGraphNodeSetEnabled(hipGraphExec_t exec, hipGraphNode_t node, unsigned int enabled);
hipError_t hipGraphUpload(hipGraphExec_t exec, hipStream_t stream);
hipError_t hipUserObjectCreate(void** object, void* pointer, hipHostFn_t destroy, unsigned references, unsigned flags);
hipError_t hipGraphRetainUserObject(hipGraph_t graph, void* object, unsigned count, unsigned flags);
}

namespace captures {
namespace {

constexpr std::size_t kRoom = 2;

/// How many the runtime has, with those that are destroyed and still run.
std::size_t execs_alive() {
  cpuhip_statistics_t now{};
  cpuhip_statistics(&now);
  return now.execs;
}

/// An exec that fills a buffer, mixes numbers into it and copies it: one that begins with another number of kernels has
/// another recording.
class Filled {
 public:
  Filled(hipStream_t stream, int kernels, int value = 1) : stream_(stream), kernels_(kernels), value_(value) {
    const hipGraph_t graph = captured(value);
    EXPECT_EQ(hipSuccess, hipGraphInstantiate(&exec_, graph, nullptr, nullptr, 0));
    EXPECT_EQ(hipSuccess, hipGraphDestroy(graph));
  }
  ~Filled() {
    if (exec_ != nullptr) destroy();
  }
  Filled(const Filled&) = delete;
  Filled& operator=(const Filled&) = delete;

  hipGraph_t captured(int value) const { return captured(value, *buffer_, *copy_); }
  hipGraph_t captured(int value, const Buffer& buffer, const Buffer& copy) const {
    return capture(stream_, [&] {
      OK(hipMemsetAsync(buffer.get(), 0, kCount * sizeof(int), stream_));
      for (int i = 0; i < kernels_; ++i) OK(captures::kernels().mix(stream_, buffer.get(), kCount, value));
      OK(hipMemcpyAsync(copy.get(), buffer.get(), kCount * sizeof(int), hipMemcpyDeviceToDevice, stream_));
    });
  }
  hipError_t launch() const { return hipGraphLaunch(exec_, stream_); }
  void run() const {
    OK(launch());
    OK(hipStreamSynchronize(stream_));
    check();
  }
  void check() const {
    int expected = 0;
    for (int i = 0; i < kernels_; ++i) expected = mixed(expected, value_);
    EXPECT_EQ(expected, copy_->value());
  }
  hipError_t update(hipGraph_t graph, int value) {
    hipGraphNode_t node = nullptr;
    hipGraphExecUpdateResult told{};
    const hipError_t result = hipGraphExecUpdate(exec_, graph, &node, &told);
    EXPECT_EQ(hipSuccess, hipGraphDestroy(graph));
    if (result == hipSuccess) value_ = value;
    return result;
  }
  /// Works on others from now on.
  void move_to(std::unique_ptr<Buffer> buffer, std::unique_ptr<Buffer> copy) {
    OK(update(captured(value_, *buffer, *copy), value_));
    buffer_ = std::move(buffer);
    copy_ = std::move(copy);
  }
  void free_memory() {
    buffer_.reset();
    copy_.reset();
  }
  void destroy() { OK(hipGraphExecDestroy(std::exchange(exec_, nullptr))); }
  hipGraphExec_t exec() const { return exec_; }
  const Buffer& buffer() const { return *buffer_; }

 private:
  const hipStream_t stream_;
  const int kernels_;
  int value_;
  std::unique_ptr<Buffer> buffer_ = std::make_unique<Buffer>(), copy_ = std::make_unique<Buffer>();
  hipGraphExec_t exec_ = nullptr;
};

/// Execs enough for all others to be given back.
class Others {
 public:
  explicit Others(hipStream_t stream) {
    for (int kernels = 20; kernels < 24; ++kernels) all_.push_back(std::make_unique<Filled>(stream, kernels));
  }
  void run() const {
    for (const auto& each : all_) each->run();
  }

 private:
  std::vector<std::unique_ptr<Filled>> all_;
};

TEST(ExecLimit, execs_are_made_again_at_their_launch) {
  const Stream stream;
  std::vector<std::unique_ptr<Filled>> all;
  for (int kernels = 1; kernels <= 6; ++kernels) all.push_back(std::make_unique<Filled>(stream, kernels));
  const Since since = graph_calls();
  for (int round = 0; round < 3; ++round)
    for (const auto& each : all) {
      each->run();
      EXPECT_EQ(under_library() ? kRoom : all.size(), execs_alive());
    }
  EXPECT_EQ(under_library() ? 18 : 0, since["hipGraphInstantiate"]);
}

TEST(ExecLimit, what_is_launched_often_stays) {
  const Stream stream;
  const Filled often(stream, 1), second(stream, 2), third(stream, 3);
  const Since since = graph_calls();
  for (int round = 0; round < 10; ++round) {
    often.run();
    (round % 2 == 0 ? second : third).run();
  }
  EXPECT_LE(since["hipGraphInstantiate"], 12);
}

TEST(ExecLimit, an_update_gives_another_exec_at_once) {
  const Stream stream;
  Filled given_back(stream, 3);
  const Others others(stream);
  for (int value = 1; value < 5; ++value) {
    others.run();
    OK(given_back.update(given_back.captured(value), value));  // the first changes nothing
    given_back.run();
    given_back.run();
  }
  others.run();
  const Filled another(stream, 4);
  EXPECT_NE(hipSuccess, given_back.update(another.captured(1), 1));
  static_cast<void>(hipGetLastError());
  given_back.run();
}

TEST(ExecLimit, nodes_of_it_are_set) {
  const Stream stream;
  NodeGraph graph;
  const Buffer buffer, other, copied;
  const hipGraphNode_t mix = graph.mix({}, buffer.get(), 1);
  const hipGraphNode_t copy = graph.copy({mix}, copied.get(), buffer.get());
  const hipGraphExec_t exec = graph.instantiate();
  const Others others(stream);
  int expected = 0, others_expected = 0;
  for (int round = 0; round < 6; ++round) {
    others.run();
    const bool first = round % 2 == 0;
    int* const at = first ? buffer.get() : other.get();
    MixParams params(at, 5 + round);
    OK(hipGraphExecKernelNodeSetParams(exec, mix, &params));
    if (round == 3) others.run();
    OK(hipGraphExecMemcpyNodeSetParams1D(exec, copy, copied.get(), at, kCount * sizeof(int), hipMemcpyDeviceToDevice));
    OK(hipGraphLaunch(exec, stream));
    OK(hipStreamSynchronize(stream));
    int& value = first ? expected : others_expected;
    value = mixed(value, 5 + round);
    EXPECT_EQ(value, copied.value());
  }
  others.run();
  OK(hipGraphNodeSetEnabled(exec, copy, 0));
  others.run();
  OK(hipGraphLaunch(exec, stream));
  OK(hipStreamSynchronize(stream));
  EXPECT_EQ(others_expected, copied.value()) << "the copy was switched off";
  OK(hipGraphExecDestroy(exec));
}

TEST(ExecLimit, it_is_destroyed_and_uploaded) {
  const Stream stream;
  Filled given_back(stream, 3), uploaded(stream, 4);
  const Others others(stream);
  OK(hipGraphUpload(uploaded.exec(), stream));
  const Since since = graph_calls();
  given_back.destroy();
  EXPECT_EQ(under_library() ? 0 : 1, since["hipGraphExecDestroy"]);
  uploaded.run();
}

/// Natively the exec was made before its memory was freed, and does not care.
TEST(ExecLimit, memory_is_freed_while_it_is_given_back) {
  const Stream stream;
  Filled destroyed(stream, 3), updated(stream, 4), set(stream, 5);
  const Others others(stream);
  const std::size_t before = execs_alive();
  destroyed.free_memory();
  updated.free_memory();
  const char* const pool = std::getenv("GRAPHPOOL_POOL_ENABLED");
  if (under_library() && pool != nullptr && std::strcmp(pool, "false") == 0) {
    EXPECT_EQ(before + 2, execs_alive());
  }
  others.run();
  destroyed.destroy();
  updated.move_to(std::make_unique<Buffer>(), std::make_unique<Buffer>());
  updated.run();
  others.run();
  updated.run();
  set.run();
}

/// A copy that names memory which is gone is set to another before the launch.
TEST(ExecLimit, a_node_over_freed_memory_is_set_while_it_is_given_back) {
  const Stream stream;
  NodeGraph graph;
  auto from = std::make_unique<Buffer>();
  const Buffer copied, other;
  const hipGraphNode_t copy = graph.copy({}, copied.get(), from->get());
  const hipGraphExec_t exec = graph.instantiate();
  const Others others(stream);
  OK(hipMemset(other.get(), 3, kCount * sizeof(int)));
  from.reset();
  others.run();
  OK(hipGraphExecMemcpyNodeSetParams1D(exec, copy, copied.get(), other.get(), kCount * sizeof(int),
                                       hipMemcpyDeviceToDevice));
  OK(hipGraphLaunch(exec, stream));
  OK(hipStreamSynchronize(stream));
  EXPECT_EQ(0x03030303, copied.value());
  OK(hipGraphExecDestroy(exec));
}

TEST(ExecLimit, a_module_is_unloaded_while_it_is_given_back) {
  const Stream stream;
  const Buffer buffer;
  hipModule_t module = nullptr;
  hipFunction_t function = nullptr;
  OK(hipModuleLoadData(&module, compiled_code(R"(
    extern "C" __global__ void five(int* p, int n) {
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) p[i] = 5;
    })")
                                    .data()));
  OK(hipModuleGetFunction(&function, module, "five"));
  const hipGraph_t graph = capture(stream, [&] {
    int* at = buffer.get();
    int count = kCount;
    void* arguments[] = {&at, &count};
    OK(hipModuleLaunchKernel(function, 2, 1, 1, 64, 1, 1, 0, stream, arguments, nullptr));
  });
  hipGraphExec_t exec = nullptr;
  OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  OK(hipGraphLaunch(exec, stream));
  OK(hipStreamSynchronize(stream));
  EXPECT_EQ(5, buffer.value());
  OK(hipGraphDestroy(graph));
  const Others others(stream);
  others.run();
  OK(hipModuleUnload(module));
  others.run();
  OK(hipGraphExecDestroy(exec));
}

/// What still runs is not waited for: there are more for a while.
TEST(ExecLimit, execs_that_run_stay) {
  const Stream stream, other;
  int* flag = nullptr;
  OK(hipHostMalloc(reinterpret_cast<void**>(&flag), sizeof(int), 0));
  *flag = 0;
  std::vector<std::unique_ptr<Filled>> all;
  for (int kernels = 1; kernels <= 5; ++kernels) all.push_back(std::make_unique<Filled>(stream, kernels));
  OK(kernels().spin(stream, flag));
  for (const auto& each : all) OK(each->launch());
  EXPECT_EQ(all.size(), execs_alive());
  *flag = 1;
  OK(hipStreamSynchronize(stream));
  for (const auto& each : all) each->check();
  OK(hipStreamSynchronize(stream));
  EXPECT_EQ(under_library() ? kRoom : all.size(), execs_alive());
  OK(hipHostFree(flag));
}

/// The program never waits for what it launches: an event behind its work tells.
TEST(ExecLimit, rule_20_the_end_of_a_launch_is_known_without_a_wait) {
  const Stream stream;
  std::vector<std::unique_ptr<Filled>> all;
  for (int kernels = 1; kernels <= 8; ++kernels) all.push_back(std::make_unique<Filled>(stream, kernels));
  std::size_t alive = all.size();
  for (int round = 0; round < 200 && alive > kRoom + 1; ++round) {
    for (const auto& each : all) OK(each->launch());
    while (hipStreamQuery(stream) == hipErrorNotReady) std::this_thread::yield();
    alive = execs_alive();
  }
  if (under_library()) {
    EXPECT_LE(alive, all.size());
  }
  OK(hipStreamSynchronize(stream));
  for (const auto& each : all) each->check();
}

/// Captures and what waits for the device take turns; launches do not.
TEST(ExecLimit, threads_launch_their_own) {
  constexpr int kThreads = 4;
  std::mutex turn;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&turn, thread] {
      std::unique_lock<std::mutex> lock(turn);
      const Stream stream;
      std::vector<std::unique_ptr<Filled>> mine;
      for (int kernels = 1; kernels <= 3; ++kernels)
        mine.push_back(std::make_unique<Filled>(stream, 5 * thread + kernels, thread));
      for (int round = 0; round < 60; ++round) {
        Filled& one = *mine[static_cast<std::size_t>(round) % mine.size()];
        if (round % 7 == 6) OK(one.update(one.captured(round), round));
        lock.unlock();
        for (int i = 0; i < 3; ++i) OK(one.launch());
        lock.lock();
        OK(hipStreamSynchronize(stream));
        one.check();
        if (round % 13 == 12) mine[0] = std::make_unique<Filled>(stream, 5 * thread + 1, round);
      }
      mine.clear();
    });
  for (std::thread& thread : threads) thread.join();
}

/// Two threads launch one exec that was given back.
TEST(ExecLimit, threads_launch_one) {
  const Stream one, two;
  const Buffer left;
  const hipGraph_t graph = capture(one, [&] { OK(hipMemsetAsync(left.get(), 7, kCount * sizeof(int), one)); });
  hipGraphExec_t exec = nullptr;
  OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  const Others others(one);
  for (int round = 0; round < 20; ++round) {
    others.run();
    std::thread thread([&] { OK(hipGraphLaunch(exec, two)); });
    OK(hipGraphLaunch(exec, one));
    thread.join();
    OK(hipDeviceSynchronize());
    EXPECT_EQ(0x07070707, left.value());
  }
  OK(hipGraphExecDestroy(exec));
  OK(hipGraphDestroy(graph));
}

/// Only here a launch may fail for memory: as an instantiate would have.
TEST(ExecLimitNoMemory, a_launch_answers_that_there_is_no_memory) {
  const Stream stream;
  Filled given_back(stream, 3), updated(stream, 4);
  given_back.run();
  std::vector<std::unique_ptr<Filled>> others;
  for (int kernels = 20; kernels < 24; ++kernels) others.push_back(std::make_unique<Filled>(stream, kernels));
  // Those that have an exec run, so that none can go.
  int* flag = nullptr;
  OK(hipHostMalloc(reinterpret_cast<void**>(&flag), sizeof(int), 0));
  *flag = 0;
  OK(kernels().spin(stream, flag));
  for (std::size_t i = others.size() - kRoom; i < others.size(); ++i) OK(others[i]->launch());
  std::vector<void*> all;
  for (std::size_t bytes = std::size_t{8} << 20; bytes >= 4096; bytes /= 2)
    for (void* memory = nullptr; hipMalloc(&memory, bytes) == hipSuccess;) all.push_back(memory);
  static_cast<void>(hipGetLastError());
  const Stream second;
  const hipError_t launched = hipGraphLaunch(given_back.exec(), second);
  EXPECT_EQ(under_library() ? hipErrorOutOfMemory : hipSuccess, launched);
  static_cast<void>(hipGetLastError());
  *flag = 1;
  OK(hipDeviceSynchronize());
  for (void* const memory : all) OK(hipFree(memory));
  given_back.run();
  updated.run();
  for (const auto& each : others) each->run();
  OK(hipHostFree(flag));
}

/// User objects of a graph live as long as its execs: those stay.
TEST(ExecLimit, rule_11_execs_with_user_objects_stay) {
  const Stream stream;
  static int destroyed;
  destroyed = 0;
  const Filled other(stream, 9);
  hipGraph_t graph = other.captured(1);
  constexpr unsigned kNoDestructorSync = 1, kMove = 1;
  void* object = nullptr;
  OK(hipUserObjectCreate(
      &object, &destroyed, [](void* count) { ++*static_cast<int*>(count); }, 1, kNoDestructorSync));
  OK(hipGraphRetainUserObject(graph, object, 1, kMove));
  hipGraphExec_t exec = nullptr;
  OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  OK(hipGraphDestroy(graph));
  const Others others(stream);
  others.run();
  EXPECT_EQ(0, destroyed);
  OK(hipGraphLaunch(exec, stream));
  OK(hipStreamSynchronize(stream));
  OK(hipGraphExecDestroy(exec));
  OK(hipDeviceSynchronize());
  others.run();
  EXPECT_EQ(1, destroyed);
}

}  // namespace
}  // namespace captures
