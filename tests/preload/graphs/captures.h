// captures.h: what the tests of captured graphs share: kernels, buffers, and the CPU runtime's journal, which says what
// really reached HIP. The tests are plain HIP; each runs natively and under the library, and what it expects of the
// journal it expects only where the library is loaded.
#pragma once

#include <gtest/gtest.h>
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../../runtimes/cpu/cpuhip_statistics.h"

namespace captures {

/// In a block of its own: a bare ASSERT_EQ is an if with an else.
#define OK(call)                   \
  do {                             \
    ASSERT_EQ(hipSuccess, (call)); \
  } while (false)

inline bool under_library() {
  const char* const preload = std::getenv("LD_PRELOAD");
  return preload != nullptr && std::strstr(preload, "libgraphpool") != nullptr;
}

/// Whether captures seen before are compared instead of captured.
inline bool compares_captures() {
  const char* const wanted = std::getenv("GRAPHPOOL_GRAPH_COMPARE");
  return under_library() && (wanted == nullptr || std::strcmp(wanted, "false") != 0);
}

/// The runtime appends to the journal's file: what earlier runs have left there goes before this one makes a call.
inline const bool journal_begins = [] {
  const char* const name = std::getenv("CPUHIP_JOURNAL");
  return name != nullptr && truncate(name, 0) == 0;
}();

/// How often a function has reached the runtime in this process. Only what has come since the last call is read.
inline int calls(const std::string& name) {
  static std::mutex lock;
  static std::map<std::string, int> counts;
  static std::streamoff read = 0;
  const std::scoped_lock guard(lock);
  std::ifstream journal(std::getenv("CPUHIP_JOURNAL"));
  journal.seekg(read);
  for (std::string line; std::getline(journal, line) && !journal.eof();) {
    read += static_cast<std::streamoff>(line.size()) + 1;
    ++counts[line.substr(0, line.find(' '))];
  }
  return counts[name];
}

/// True as soon as what the stream does next waits for work of other streams; false once it has done all it had.
inline bool held_up(hipStream_t stream) {
  while (cpuhip_held_up(stream) == 0) {
    if (hipStreamQuery(stream) != hipErrorNotReady) return false;
    std::this_thread::yield();
  }
  return true;
}
/// True as soon as a call, of any thread, waits for work; false once `returned` is set: it did not.
inline bool call_waits(const std::atomic<bool>& returned) {
  for (cpuhip_statistics_t now{}; !returned; std::this_thread::yield()) {
    cpuhip_statistics(&now);
    if (now.waiting_calls != 0) return true;
  }
  return false;
}

/// Counts of what happens between two points.
class Since {
 public:
  explicit Since(std::vector<std::string> names) : names_(std::move(names)) {
    for (const std::string& name : names_) before_.push_back(calls(name));
  }
  int operator[](const std::string& name) const {
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (names_[i] == name) return calls(name) - before_[i];
    ADD_FAILURE() << name << " is not counted";
    return -1;
  }

 private:
  std::vector<std::string> names_;
  std::vector<int> before_;
};

inline Since graph_calls() {
  return Since({"hipModuleLaunchKernel", "hipMemsetAsync", "hipMemcpyAsync", "hipGraphInstantiate", "hipGraphLaunch",
                "hipGraphExecUpdate", "hipGraphExecKernelNodeSetParams", "hipStreamBeginCapture", "hipStreamEndCapture",
                "hipGraphAddKernelNode", "hipGraphExecDestroy", "hipEventRecord", "hipStreamWaitEvent"});
}

/// The code object of a source.
inline std::vector<char> compiled_code(const char* source) {
  hiprtcProgram program;
  EXPECT_EQ(HIPRTC_SUCCESS, hiprtcCreateProgram(&program, source, "test.hip", 0, nullptr, nullptr));
  EXPECT_EQ(HIPRTC_SUCCESS, hiprtcCompileProgram(program, 0, nullptr));
  std::size_t bytes = 0;
  EXPECT_EQ(HIPRTC_SUCCESS, hiprtcGetCodeSize(program, &bytes));
  std::vector<char> code(bytes);
  EXPECT_EQ(HIPRTC_SUCCESS, hiprtcGetCode(program, code.data()));
  EXPECT_EQ(HIPRTC_SUCCESS, hiprtcDestroyProgram(&program));
  return code;
}
/// A kernel of a module of its own, which stays loaded.
inline hipFunction_t compiled(const char* source, const char* name) {
  hipModule_t module = nullptr;
  hipFunction_t function = nullptr;
  EXPECT_EQ(hipSuccess, hipModuleLoadData(&module, compiled_code(source).data()));
  EXPECT_EQ(hipSuccess, hipModuleGetFunction(&function, module, name));
  return function;
}

/// Kernels over ints: each notes in its buffer that it ran, so that a missing, doubled or misordered operation shows.
class Kernels {
 public:
  Kernels() {
    const char* const source = R"(
      extern "C" __global__ void mix(int* p, int n, int a) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) p[i] = p[i] * 31 + a;
      }
      extern "C" __global__ void join(int* p, const int* q, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) p[i] = p[i] * 17 + q[i];
      }
      extern "C" __global__ void spin(volatile int* flag) { while (*flag == 0) {} }
    )";
    EXPECT_EQ(hipSuccess, hipModuleLoadData(&module_, compiled_code(source).data()));
    EXPECT_EQ(hipSuccess, hipModuleGetFunction(&mix_, module_, "mix"));
    EXPECT_EQ(hipSuccess, hipModuleGetFunction(&join_, module_, "join"));
    EXPECT_EQ(hipSuccess, hipModuleGetFunction(&spin_, module_, "spin"));
  }

  hipError_t mix(hipStream_t stream, int* p, int n, int a) const {
    void* args[] = {&p, &n, &a};
    return hipModuleLaunchKernel(mix_, static_cast<unsigned>(n + 63) / 64, 1, 1, 64, 1, 1, 0, stream, args, nullptr);
  }
  /// The same with its arguments as one buffer.
  hipError_t mix_packed(hipStream_t stream, int* p, int n, int a) const {
    struct {
      int* p;
      int n, a;
    } arguments{p, n, a};
    std::size_t bytes = sizeof arguments;
    void* extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &arguments, HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     HIP_LAUNCH_PARAM_END};
    return hipModuleLaunchKernel(mix_, static_cast<unsigned>(n + 63) / 64, 1, 1, 64, 1, 1, 0, stream, nullptr, extra);
  }
  hipError_t join(hipStream_t stream, int* p, const int* q, int n) const {
    void* args[] = {&p, &q, &n};
    return hipModuleLaunchKernel(join_, static_cast<unsigned>(n + 63) / 64, 1, 1, 64, 1, 1, 0, stream, args, nullptr);
  }
  hipFunction_t mix_function() const { return mix_; }
  hipFunction_t join_function() const { return join_; }
  hipFunction_t spin_function() const { return spin_; }

  hipError_t spin(hipStream_t stream, int* flag) const {
    void* args[] = {&flag};
    return hipModuleLaunchKernel(spin_, 1, 1, 1, 1, 1, 1, 0, stream, args, nullptr);
  }

 private:
  hipModule_t module_ = nullptr;
  hipFunction_t mix_ = nullptr, join_ = nullptr, spin_ = nullptr;
};

inline const Kernels& kernels() {
  static const Kernels* const instance = new Kernels;
  return *instance;
}

inline constexpr int kCount = 100;

/// Device memory of kCount ints.
class Buffer {
 public:
  Buffer() {
    EXPECT_EQ(hipSuccess, hipMalloc(reinterpret_cast<void**>(&at_), kCount * sizeof(int)));
    EXPECT_EQ(hipSuccess, hipMemset(at_, 0, kCount * sizeof(int)));
  }
  ~Buffer() { EXPECT_EQ(hipSuccess, hipFree(at_)); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  int* get() const { return at_; }
  /// Every element, which all must be equal.
  int value() const {
    std::vector<int> host(kCount);
    EXPECT_EQ(hipSuccess, hipMemcpy(host.data(), at_, kCount * sizeof(int), hipMemcpyDeviceToHost));
    for (const int element : host) EXPECT_EQ(host[0], element);
    return host[0];
  }

 private:
  int* at_ = nullptr;
};

class Event {
 public:
  Event() { EXPECT_EQ(hipSuccess, hipEventCreate(&at_)); }
  ~Event() { EXPECT_EQ(hipSuccess, hipEventDestroy(at_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator hipEvent_t() const { return at_; }  // NOLINT: stands for the handle

 private:
  hipEvent_t at_ = nullptr;
};

/// What mix() makes of a value, and join() of two. They wrap, as on a device.
inline int mixed(int value, int a) {
  return static_cast<int>(static_cast<unsigned>(value) * 31 + static_cast<unsigned>(a));
}
inline int joined(int value, int other) {
  return static_cast<int>(static_cast<unsigned>(value) * 17 + static_cast<unsigned>(other));
}

class Stream {
 public:
  Stream() { EXPECT_EQ(hipSuccess, hipStreamCreate(&at_)); }
  ~Stream() { EXPECT_EQ(hipSuccess, hipStreamDestroy(at_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator hipStream_t() const { return at_; }  // NOLINT: stands for the handle

 private:
  hipStream_t at_ = nullptr;
};

/// Captures `body` on the stream.
inline hipGraph_t capture(hipStream_t stream, const std::function<void()>& body) {
  hipGraph_t graph = nullptr;
  EXPECT_EQ(hipSuccess, hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  body();
  EXPECT_EQ(hipSuccess, hipStreamEndCapture(stream, &graph));
  return graph;
}

/// Instantiates a graph, launches it, waits, and destroys all.
inline void run(hipStream_t stream, hipGraph_t graph) {
  hipGraphExec_t exec = nullptr;
  OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  OK(hipGraphLaunch(exec, stream));
  OK(hipStreamSynchronize(stream));
  OK(hipGraphExecDestroy(exec));
  OK(hipGraphDestroy(graph));
}

/// A step as programs do it: capture, instantiate, launch, wait, destroy.
inline void step(hipStream_t stream, const std::function<void()>& body) { run(stream, capture(stream, body)); }

}  // namespace captures
