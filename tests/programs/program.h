// program.h: what the programs of this folder share: error checks, options, kernels compiled by hipRTC, checksums,
// times.
//
// The programs are plain HIP: whatever serves libamdhip64's names runs them. What they print to stdout is decided by
// their options alone (never a pointer, a time or a count of calls), so two runs can be compared byte by byte.
#pragma once

#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>

#include <chrono>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace program {

inline void check(hipError_t result, const char* call, const char* file, int line) {
  if (result == hipSuccess) return;
  std::fprintf(stderr, "%s:%d: %s: %s\n", file, line, call, hipGetErrorName(result));
  std::exit(1);
}
#define CHECK(call) ::program::check((call), #call, __FILE__, __LINE__)

/// `--name value` options, every one with its default.
class Options {
 public:
  Options(int argc, char** argv, std::map<std::string, std::string> defaults) : values_(std::move(defaults)) {
    for (int i = 1; i < argc; ++i) {
      const std::string name = std::strncmp(argv[i], "--", 2) == 0 ? argv[i] + 2 : "";
      const auto found = values_.find(name);
      if (found == values_.end() || i + 1 == argc) usage(argv[0], argv[i]);
      found->second = argv[++i];
    }
  }
  const std::string& text(const char* name) const { return values_.at(name); }
  int number(const char* name) const {
    const std::string& value = text(name);
    char* end = nullptr;
    const long parsed = std::strtol(value.c_str(), &end, 10);
    if (value.empty() || *end != '\0' || parsed < 0 || parsed > 1 << 30) {
      std::fprintf(stderr, "--%s %s: expected a number from 0 to 2^30\n", name, value.c_str());
      std::exit(2);
    }
    return static_cast<int>(parsed);
  }

 private:
  [[noreturn]] void usage(const char* program, const char* argument) const {
    std::fprintf(stderr, "%s: cannot use '%s'; options and defaults:", program, argument);
    for (const auto& [name, value] : values_) std::fprintf(stderr, " --%s %s", name.c_str(), value.c_str());
    std::fprintf(stderr, "\n");
    std::exit(2);
  }
  std::map<std::string, std::string> values_;
};

/// Kernels compiled from a string by hipRTC and loaded as a module.
class Kernels {
 public:
  explicit Kernels(const char* source) {
    hiprtcProgram compiler = nullptr;
    check_rtc(hiprtcCreateProgram(&compiler, source, "kernels.hip", 0, nullptr, nullptr), "hiprtcCreateProgram");
    const hiprtcResult result = hiprtcCompileProgram(compiler, 0, nullptr);
    if (result != HIPRTC_SUCCESS) {
      std::size_t bytes = 0;
      check_rtc(hiprtcGetProgramLogSize(compiler, &bytes), "hiprtcGetProgramLogSize");
      std::string log(bytes, '\0');
      if (bytes > 0) check_rtc(hiprtcGetProgramLog(compiler, log.data()), "hiprtcGetProgramLog");
      std::fprintf(stderr, "%s\n", log.c_str());
      check_rtc(result, "hiprtcCompileProgram");
    }
    std::size_t bytes = 0;
    check_rtc(hiprtcGetCodeSize(compiler, &bytes), "hiprtcGetCodeSize");
    code_.resize(bytes);
    check_rtc(hiprtcGetCode(compiler, code_.data()), "hiprtcGetCode");
    check_rtc(hiprtcDestroyProgram(&compiler), "hiprtcDestroyProgram");
    CHECK(hipModuleLoadData(&module_, code_.data()));
  }
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;
  ~Kernels() { CHECK(hipModuleUnload(module_)); }

  hipFunction_t get(const char* name) const {
    hipFunction_t function = nullptr;
    CHECK(hipModuleGetFunction(&function, module_, name));
    return function;
  }

 private:
  static void check_rtc(hiprtcResult result, const char* call) {
    if (result == HIPRTC_SUCCESS) return;
    std::fprintf(stderr, "%s: %s\n", call, hiprtcGetErrorString(result));
    std::exit(1);
  }
  std::vector<char> code_;
  hipModule_t module_ = nullptr;
};

/// Launches a kernel; the arguments must have exactly the types of the kernel's parameters.
template <typename... Arguments>
void launch(hipFunction_t function, dim3 grid, dim3 block, hipStream_t stream, Arguments... arguments) {
  void* pointers[] = {&arguments...};
  CHECK(
      hipModuleLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, 0, stream, pointers, nullptr));
}

constexpr unsigned kThreads = 64;  ///< threads of a one-dimensional block
inline dim3 blocks_for(int elements, unsigned threads = kThreads) {
  return dim3((static_cast<unsigned>(elements) + threads - 1) / threads);
}

/// A node of this kernel, one thread an element. Lives no longer than the arguments.
inline hipKernelNodeParams kernel_params(hipFunction_t function, int elements, void** arguments) {
  hipKernelNodeParams params{};
  params.func = reinterpret_cast<void*>(function);
  params.gridDim = blocks_for(elements);
  params.blockDim = dim3(kThreads);
  params.kernelParams = arguments;
  return params;
}

template <typename Element>
Element* allocate(std::size_t elements) {
  void* pointer = nullptr;
  CHECK(hipMalloc(&pointer, elements * sizeof(Element)));
  return static_cast<Element*>(pointer);
}

template <typename Element>
std::vector<Element> download(const Element* device, std::size_t elements) {
  std::vector<Element> host(elements);
  CHECK(hipMemcpy(host.data(), device, elements * sizeof(Element), hipMemcpyDeviceToHost));
  return host;
}

/// What the program counts itself and a test may ask for: on stderr, because stdout is compared between runs.
inline void figure(const char* name, long long number) { std::fprintf(stderr, "figure %s %lld\n", name, number); }

/// FNV-1a, 64 bits; a checksum of several pieces starts each from the one before.
inline std::uint64_t checksum(const void* data, std::size_t bytes, std::uint64_t start = 14695981039346656037u) {
  for (std::size_t i = 0; i < bytes; ++i) {
    start = (start ^ static_cast<const unsigned char*>(data)[i]) * 1099511628211u;
  }
  return start;
}
template <typename Element>
std::uint64_t checksum(const std::vector<Element>& data, std::uint64_t start = 14695981039346656037u) {
  return checksum(data.data(), data.size() * sizeof(Element), start);
}

/// The same numbers in every run: uniform in [-scale, scale).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 2862933555777941757u + 3037000493u) {}
  std::uint32_t next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>(state_ >> 33);
  }
  float uniform(float scale) { return (static_cast<float>(next()) / 1073741824.0F - 1.0F) * scale; }
  std::vector<float> vector(std::size_t elements, float scale) {
    std::vector<float> values(elements);
    for (float& value : values) value = uniform(scale);
    return values;
  }

 private:
  std::uint64_t state_;
};

/// Nanoseconds of each step, one a line, for the option `--times FILE`; nothing without the option.
class StepTimes {
 public:
  explicit StepTimes(const std::string& file) : file_(file) {}
  StepTimes(const StepTimes&) = delete;
  StepTimes& operator=(const StepTimes&) = delete;
  ~StepTimes() {
    if (file_.empty()) return;
    std::FILE* out = std::fopen(file_.c_str(), "w");
    if (out == nullptr) {
      std::fprintf(stderr, "cannot write '%s'\n", file_.c_str());
      std::exit(1);
    }
    for (const std::int64_t ns : steps_ns_) std::fprintf(out, "%" PRId64 "\n", ns);
    std::fclose(out);
  }
  void start() { started_ = std::chrono::steady_clock::now(); }
  /// The time since start() was spent on so many steps.
  void stop(int steps = 1) {
    const auto elapsed = (std::chrono::steady_clock::now() - started_) / steps;
    steps_ns_.push_back(std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count());
  }

 private:
  std::string file_;
  std::chrono::steady_clock::time_point started_;
  std::vector<std::int64_t> steps_ns_;
};

}  // namespace program
