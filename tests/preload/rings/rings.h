// rings.h: what the tests of staged graphs share: memory by the rules of rings.toml, gates, streams, execs; and what
// the environment says of the run.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../graphs/captures.h"

namespace captures {

inline constexpr int kInOut = 100, kIn = 200, kOut = 300, kFull = 400, kTemp = 500,
                     kRange = 4000;  // ints, see rings.toml

inline const char* said(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? "" : text;
}
inline int sets() { return std::max(1, std::atoi(said("GRAPHPOOL_GRAPH_SLOTS"))); }
inline bool overlap() { return std::string(said("GRAPHPOOL_GRAPH_OVERLAP")) == "true"; }
/// Whether launches of one exec are in order: natively that is the runtime's choice, the library keeps it (rule 3).
inline bool launches_in_order() {
  return under_library() ? !overlap() : std::string(said("CPUHIP_EXEC_ORDER")) != "overlap";
}
/// Whether the runtime updates copy nodes correctly (rule 9).
inline bool copies_patched() {
  int version = 0;
  EXPECT_EQ(hipSuccess, hipRuntimeGetVersion(&version));
  return version < 60000000;
}

/// Whether the stream's work is behind what a gate holds. Where all streams share a queue the gate holds that.
inline bool behind_the_gate(hipStream_t stream) {
  if (*said("CPUHIP_QUEUES") != '\0') return hipStreamQuery(stream) == hipErrorNotReady;
  return held_up(stream);
}

/// What the library has written so far; runs before this one too.
inline std::vector<std::string> log_lines() {
  std::ifstream log(said("GRAPHPOOL_LOG_FILE"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(log, line);) lines.push_back(line);
  return lines;
}

/// Device memory of so many ints, all of one value.
class Memory {
 public:
  explicit Memory(int count, int value = 0, bool by_other_function = false) : count_(count) {
    void** const at = reinterpret_cast<void**>(&at_);
    EXPECT_EQ(hipSuccess, by_other_function ? hipExtMallocWithFlags(at, bytes(), 0) : hipMalloc(at, bytes()));
    fill(value);
  }
  ~Memory() { EXPECT_EQ(hipSuccess, hipFree(at_)); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  int* get() const { return at_; }
  std::size_t bytes() const { return static_cast<std::size_t>(count_) * sizeof(int); }
  void fill(int value) {
    const std::vector<int> host(static_cast<std::size_t>(count_), value);
    EXPECT_EQ(hipSuccess, hipMemcpy(at_, host.data(), bytes(), hipMemcpyHostToDevice));
  }
  std::vector<int> ints() const {
    std::vector<int> host(static_cast<std::size_t>(count_));
    EXPECT_EQ(hipSuccess, hipMemcpy(host.data(), at_, bytes(), hipMemcpyDeviceToHost));
    return host;
  }
  /// Every element, which all must be equal.
  int value() const {
    const std::vector<int> host = ints();
    for (const int element : host) EXPECT_EQ(host[0], element);
    return host[0];
  }

 private:
  const int count_;
  int* at_ = nullptr;
};

/// Work of a stream that does not end before the test opens the gate.
class Gate {
 public:
  Gate() {
    EXPECT_EQ(hipSuccess, hipHostMalloc(reinterpret_cast<void**>(&flag_), sizeof(int), 0));
    *flag_ = 0;
  }
  ~Gate() {
    open();
    EXPECT_EQ(hipSuccess, hipDeviceSynchronize());
    EXPECT_EQ(hipSuccess, hipHostFree(flag_));
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void close(hipStream_t stream) { EXPECT_EQ(hipSuccess, kernels().spin(stream, flag_)); }
  void open() { __atomic_store_n(flag_, 1, __ATOMIC_RELEASE); }
  int* flag() const { return flag_; }

 private:
  int* flag_ = nullptr;
};

/// A stream that does not wait for the null stream, which the library's copies of this file's own checks use.
class FreeStream {
 public:
  FreeStream() { EXPECT_EQ(hipSuccess, hipStreamCreateWithFlags(&at_, hipStreamNonBlocking)); }
  ~FreeStream() { EXPECT_EQ(hipSuccess, hipStreamDestroy(at_)); }
  FreeStream(const FreeStream&) = delete;
  FreeStream& operator=(const FreeStream&) = delete;
  operator hipStream_t() const { return at_; }  // NOLINT: stands for the handle

 private:
  hipStream_t at_ = nullptr;
};

/// What takes longer never happens.
inline constexpr std::chrono::seconds kPatience{60};

inline bool idle_soon(hipStream_t stream) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (hipStreamQuery(stream) == hipErrorNotReady) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

class Exec {
 public:
  explicit Exec(hipGraph_t graph) {
    EXPECT_EQ(hipSuccess, hipGraphInstantiate(&at_, graph, nullptr, nullptr, 0));
    EXPECT_EQ(hipSuccess, hipGraphDestroy(graph));
  }
  ~Exec() { destroy(); }
  Exec(const Exec&) = delete;
  Exec& operator=(const Exec&) = delete;
  operator hipGraphExec_t() const { return at_; }  // NOLINT: stands for the handle

  void update(hipGraph_t graph) const {
    hipGraphNode_t node = nullptr;
    hipGraphExecUpdateResult result;
    EXPECT_EQ(hipSuccess, hipGraphExecUpdate(at_, graph, &node, &result));
    EXPECT_EQ(hipSuccess, hipGraphDestroy(graph));
  }
  void destroy() {
    if (at_ != nullptr) {
      EXPECT_EQ(hipSuccess, hipGraphExecDestroy(at_));
    }
    at_ = nullptr;
  }

 private:
  hipGraphExec_t at_ = nullptr;
};

inline hipGraph_t mixing(hipStream_t stream, const Memory& memory, int constant) {
  return capture(stream, [&] { OK(kernels().mix(stream, memory.get(), kInOut, constant)); });
}

// --- where a launch ran ---

inline constexpr int kNote = 2;  ///< ints at the beginning of a buffer in which a launch notes where it ran

inline hipFunction_t note() {
  static const hipFunction_t function =
      compiled(R"(extern "C" __global__ void note(unsigned long long* p) { *p = (unsigned long long)p; })", "note");
  return function;
}

inline hipError_t write_note(hipStream_t stream, int* at) {
  void* args[] = {&at};
  return hipModuleLaunchKernel(note(), 1, 1, 1, 1, 1, 1, 0, stream, args, nullptr);
}

inline bool verified() { return *said("GRAPHPOOL_GRAPH_VERIFY") != 0; }

/// Whether the last launch ran on other memory than this.
inline bool copied(const Memory& memory) {
  std::uint64_t note = 0;
  const std::vector<int> ints = memory.ints();
  std::memcpy(&note, ints.data(), sizeof note);
  return note != reinterpret_cast<std::uint64_t>(memory.get());
}

}  // namespace captures
