// probe.h: what a probe is, and what probes share.
//
// A probe asks the runtime one thing that the library relies on, or knows it must not. Its sentence is what would be
// good; the answer says whether it holds. It runs in a process of its own, which has a device and has made no graph: so
// it may end in a crash or hang, which is an answer. A failing call that is not what is asked throws Unknown. What
// cannot be seen without a kernel, a fill or a copy that has run says needs_device_work(), or compiles one.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tests/probes/hip.h"

namespace probes {

enum class Answer { kHolds, kFails, kUnknown };

struct Finding {
  Answer answer = Answer::kUnknown;
  std::string value;  ///< what was seen, in a few words; the same in every run, but for what is measured
};
inline Finding holds_if(bool holds, std::string value = {}) {
  return {holds ? Answer::kHolds : Answer::kFails, std::move(value)};
}

enum class Kind {
  kPlain,
  kMeasured,  ///< times decide
  kRisky,     ///< a runtime that fails may take more than the process with it: asked only on request
};

struct Probe {
  const char* id;
  const char* sentence;
  Finding (*ask)();
  Kind kind = Kind::kPlain;
};

std::span<const Probe> capture_probes();
std::span<const Probe> graph_probes();
std::span<const Probe> memory_probes();
std::span<const Probe> cost_probes();

/// A call that has to work before the question can be asked.
void works(hipError_t result, const char* call);
#define WORKS(call) ::probes::works(call, #call)

int runtime_version();
constexpr int version_of(int major, int minor) { return major * 10'000'000 + minor * 100'000; }
std::string error_name(hipError_t error);

/// Throws Unknown where fills and copies do nothing.
void needs_device_work();

class Stream {
 public:
  Stream() { WORKS(hip::hipStreamCreate(&stream_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();
  operator hipStream_t() const { return stream_; }
  void wait() const { WORKS(hip::hipStreamSynchronize(stream_)); }
  /// It was destroyed by other means.
  void gone() { stream_ = nullptr; }

 private:
  hipStream_t stream_ = nullptr;
};

/// One int of device memory that starts as 0, with room behind it.
class Word {
 public:
  static constexpr std::size_t kBytes = 4096;
  Word();
  Word(const Word&) = delete;
  Word& operator=(const Word&) = delete;
  ~Word();
  int* at() const { return at_; }
  int value() const;
  void set(int value) const;

 private:
  int* at_ = nullptr;
};

/// `void put(int* at, int value)` and `void add(int* at, int value)`, compiled once in the process. Throws Unknown
/// where hipRTC or the kernel does not work.
hipFunction_t kernel_named(const char* name);
/// What is shared by all that was compiled: the code object.
const std::vector<char>& compiled_code();

/// The parameters of a launch of one thread, for as long as it lives.
class KernelCall {
 public:
  KernelCall(hipFunction_t function, int* at, int value) : function_(function), at_(at), value_(value) {}
  KernelCall(const KernelCall&) = delete;
  KernelCall& operator=(const KernelCall&) = delete;
  hipError_t launch(hipStream_t stream);
  hipKernelNodeParams node_params();
  /// Makes what the runtime was given something else, as a program's stack does.
  void scribble();

 private:
  hipFunction_t function_;
  int* at_;
  int value_;
  void* arguments_[2] = {&at_, &value_};
};

/// What fill() captures and nodes do: so many ints of a value.
hipMemsetParams fill_params(int* at, int value);

/// A capture in global mode of what `calls` does; the graph. Throws Unknown if it fails.
hipGraph_t capture(hipStream_t stream, const std::function<void()>& calls);
std::vector<hipGraphNode_t> nodes_of(hipGraph_t graph);
hipGraphExec_t instantiate(hipGraph_t graph);
void run(hipGraphExec_t exec, hipStream_t stream);

/// While it lives and is not released, work given to the stream waits, some seconds at most.
class Blocked {
 public:
  /// Released by another thread after so many milliseconds.
  Blocked(hipStream_t stream, int release_after_ms);
  Blocked(const Blocked&) = delete;
  Blocked& operator=(const Blocked&) = delete;
  ~Blocked();
  bool released() const;

 private:
  struct State;
  static void wait_for_release(void* given);

  State* state_;
};

}  // namespace probes
