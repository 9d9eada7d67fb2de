// kernel_support.h: what the tests of kernels share: compiling by hiprtc, loading, buffers.
#pragma once

#include <gtest/gtest.h>
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernel_sources.h"

#define HIP_OK(call) ASSERT_EQ(hipSuccess, call)

struct Compiled {
  hiprtcResult result = HIPRTC_SUCCESS;
  std::vector<char> code;
  std::string log;
  std::map<std::string, std::string> lowered;  ///< by name expression
};

inline Compiled compile(const KernelSource& source, std::vector<const char*> options = {}) {
  Compiled compiled;
  hiprtcProgram program = nullptr;
  compiled.result = hiprtcCreateProgram(&program, source.text, source.name, 0, nullptr, nullptr);
  if (compiled.result != HIPRTC_SUCCESS) return compiled;
  for (const std::string& expression : source.expressions) hiprtcAddNameExpression(program, expression.c_str());
  compiled.result = hiprtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  std::size_t size = 0;
  hiprtcGetProgramLogSize(program, &size);
  compiled.log.resize(size);
  hiprtcGetProgramLog(program, compiled.log.data());
  if (compiled.result == HIPRTC_SUCCESS) {
    hiprtcGetCodeSize(program, &size);
    compiled.code.resize(size);
    hiprtcGetCode(program, compiled.code.data());
    for (const std::string& expression : source.expressions) {
      const char* lowered = "?";
      if (hiprtcGetLoweredName(program, expression.c_str(), &lowered) == HIPRTC_SUCCESS)
        compiled.lowered[expression] = lowered;
    }
  }
  hiprtcDestroyProgram(&program);
  return compiled;
}

/// A compiled and loaded source; throws when something fails, which fails the test.
class Module {
 public:
  explicit Module(const std::string& source) : compiled_(compile(kernel_source(source))) {
    if (compiled_.result != HIPRTC_SUCCESS) throw std::runtime_error(compiled_.log);
    if (hipModuleLoadData(&module_, compiled_.code.data()) != hipSuccess) throw std::runtime_error("load");
  }
  ~Module() { EXPECT_EQ(hipSuccess, hipModuleUnload(module_)); }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  hipModule_t get() const { return module_; }
  const Compiled& compiled() const { return compiled_; }
  hipFunction_t function(const std::string& name) const {
    hipFunction_t function = nullptr;
    if (hipModuleGetFunction(&function, module_, name.c_str()) != hipSuccess) throw std::runtime_error("no " + name);
    return function;
  }
  /// Launches with arguments by address.
  template <typename... Arguments>
  hipError_t launch(const std::string& name, dim3 grid, dim3 block, unsigned shared, hipStream_t stream,
                    Arguments... arguments) const {
    void* params[] = {&arguments..., nullptr};
    return hipModuleLaunchKernel(function(name), grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, stream,
                                 params, nullptr);
  }

 private:
  Compiled compiled_;
  hipModule_t module_ = nullptr;
};

/// Device memory, filled from and read to the host.
template <typename T>
class Buffer {
 public:
  explicit Buffer(std::size_t count, const std::vector<T>& values = {}) : count_(count) {
    if (hipMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)) != hipSuccess)
      throw std::runtime_error("malloc");
    std::vector<T> all = values;
    all.resize(count);
    if (hipMemcpy(data_, all.data(), count * sizeof(T), hipMemcpyHostToDevice) != hipSuccess)
      throw std::runtime_error("copy");
  }
  ~Buffer() { EXPECT_EQ(hipSuccess, hipFree(data_)); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() const { return data_; }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    EXPECT_EQ(hipSuccess, hipMemcpy(values.data(), data_, count_ * sizeof(T), hipMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};
