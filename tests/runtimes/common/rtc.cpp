// rtc.cpp: the hiprtc functions. Results of hiprtc are its own: they do not become the thread's last
// HIP error.
#include "common/rtc.h"

#include <hip/hiprtc.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#define HIP_EXPORT extern "C" __attribute__((visibility("default")))

namespace hipfront {
namespace {

struct Program {
  std::mutex lock;  // held while compiling
  CompileRequest request;
  CompileResult result;
  bool compiled = false;
};

struct Programs {
  std::mutex lock;
  std::unordered_map<hiprtcProgram, std::shared_ptr<Program>> live;
  std::mutex one_at_a_time;
};

Programs& programs() {
  static auto* all = new Programs;
  return *all;
}

template <typename Body>
hiprtcResult rtc_api(const char* name, Body&& body) {
  const RtcCall call(name);
  if (call.refused()) return HIPRTC_ERROR_INTERNAL_ERROR;
  std::unique_lock serial(programs().one_at_a_time, std::defer_lock);
  if (one_rtc_call_at_a_time()) serial.lock();
  return body();
}

/// Runs the body on a live program.
template <typename Body>
hiprtcResult with_program(const char* name, hiprtcProgram handle, Body&& body) {
  return rtc_api(name, [&] {
    std::shared_ptr<Program> program;
    {
      const std::lock_guard lock(programs().lock);
      const auto found = programs().live.find(handle);
      if (found == programs().live.end()) return HIPRTC_ERROR_INVALID_PROGRAM;
      program = found->second;
    }
    const std::lock_guard lock(program->lock);
    return body(*program);
  });
}

}  // namespace
}  // namespace hipfront

using hipfront::programs;
using hipfront::rtc_api;
using hipfront::with_program;

HIP_EXPORT hiprtcResult hiprtcCreateProgram(hiprtcProgram* program, const char* source, const char* name, int count,
                                            const char** headers, const char** include_names) {
  return rtc_api("hiprtcCreateProgram", [&] {
    if (program == nullptr || source == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
    if (count < 0 || (count > 0 && (headers == nullptr || include_names == nullptr))) return HIPRTC_ERROR_INVALID_INPUT;
    auto made = std::make_shared<hipfront::Program>();
    made->request.source = source;
    made->request.name = name == nullptr || *name == '\0' ? "CompileSource" : name;
    for (int i = 0; i < count; ++i) made->request.headers.emplace_back(include_names[i], headers[i]);
    const auto handle = reinterpret_cast<hiprtcProgram>(made.get());
    const std::lock_guard lock(programs().lock);
    programs().live[handle] = std::move(made);
    *program = handle;
    return HIPRTC_SUCCESS;
  });
}

HIP_EXPORT hiprtcResult hiprtcAddNameExpression(hiprtcProgram program, const char* expression) {
  return with_program("hiprtcAddNameExpression", program, [&](hipfront::Program& it) {
    if (expression == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
    if (it.compiled) return HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION;
    it.request.expressions.emplace_back(expression);
    return HIPRTC_SUCCESS;
  });
}

HIP_EXPORT hiprtcResult hiprtcCompileProgram(hiprtcProgram program, int count, const char** options) {
  return with_program("hiprtcCompileProgram", program, [&](hipfront::Program& it) {
    if (count < 0 || (count > 0 && options == nullptr)) return HIPRTC_ERROR_INVALID_INPUT;
    it.request.options.assign(options, options + count);
    it.result = hipfront::compile_program(it.request);
    it.compiled = true;
    return it.result.ok ? HIPRTC_SUCCESS : HIPRTC_ERROR_COMPILATION;
  });
}

HIP_EXPORT hiprtcResult hiprtcGetLoweredName(hiprtcProgram program, const char* expression, const char** lowered) {
  return with_program("hiprtcGetLoweredName", program, [&](hipfront::Program& it) {
    if (expression == nullptr || lowered == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
    if (!it.compiled) return HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION;
    for (std::size_t i = 0; i < it.result.lowered.size(); ++i) {
      if (it.request.expressions[i] != expression) continue;
      *lowered = it.result.lowered[i].c_str();
      return HIPRTC_SUCCESS;
    }
    return HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID;
  });
}

HIP_EXPORT hiprtcResult hiprtcGetProgramLogSize(hiprtcProgram program, size_t* size) {
  return with_program("hiprtcGetProgramLogSize", program, [&](hipfront::Program& it) {
    if (size == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
    *size = it.result.log.empty() ? 0 : it.result.log.size() + 1;
    return HIPRTC_SUCCESS;
  });
}

HIP_EXPORT hiprtcResult hiprtcGetProgramLog(hiprtcProgram program, char* log) {
  return with_program("hiprtcGetProgramLog", program, [&](hipfront::Program& it) {
    if (log == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
    if (!it.result.log.empty()) std::memcpy(log, it.result.log.c_str(), it.result.log.size() + 1);
    return HIPRTC_SUCCESS;
  });
}

HIP_EXPORT hiprtcResult hiprtcGetCodeSize(hiprtcProgram program, size_t* size) {
  return with_program("hiprtcGetCodeSize", program, [&](hipfront::Program& it) {
    if (size == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
    *size = it.result.object.size();
    return HIPRTC_SUCCESS;
  });
}

HIP_EXPORT hiprtcResult hiprtcGetCode(hiprtcProgram program, char* code) {
  return with_program("hiprtcGetCode", program, [&](hipfront::Program& it) {
    if (code == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
    std::memcpy(code, it.result.object.data(), it.result.object.size());
    return HIPRTC_SUCCESS;
  });
}

/// There is no bitcode here: HIP's answer to a program compiled without -fgpu-rdc.
HIP_EXPORT hiprtcResult hiprtcGetBitcodeSize(hiprtcProgram program, size_t*) {
  return with_program("hiprtcGetBitcodeSize", program, [](hipfront::Program&) { return HIPRTC_ERROR_INVALID_PROGRAM; });
}

HIP_EXPORT hiprtcResult hiprtcGetBitcode(hiprtcProgram program, char*) {
  return with_program("hiprtcGetBitcode", program, [](hipfront::Program&) { return HIPRTC_ERROR_INVALID_PROGRAM; });
}

HIP_EXPORT hiprtcResult hiprtcDestroyProgram(hiprtcProgram* program) {
  return rtc_api("hiprtcDestroyProgram", [&] {
    if (program == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
    const std::lock_guard lock(programs().lock);
    return programs().live.erase(*program) == 1 ? HIPRTC_SUCCESS : HIPRTC_ERROR_INVALID_PROGRAM;
  });
}

HIP_EXPORT hiprtcResult hiprtcVersion(int* major, int* minor) {
  return rtc_api("hiprtcVersion", [&] {
    if (major == nullptr || minor == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
    *major = 9;
    *minor = 0;
    return HIPRTC_SUCCESS;
  });
}

HIP_EXPORT const char* hiprtcGetErrorString(hiprtcResult result) {
  const hipfront::RtcCall call("hiprtcGetErrorString");
  switch (result) {
    case HIPRTC_SUCCESS:
      return "HIPRTC_SUCCESS";
    case HIPRTC_ERROR_OUT_OF_MEMORY:
      return "HIPRTC_ERROR_OUT_OF_MEMORY";
    case HIPRTC_ERROR_PROGRAM_CREATION_FAILURE:
      return "HIPRTC_ERROR_PROGRAM_CREATION_FAILURE";
    case HIPRTC_ERROR_INVALID_INPUT:
      return "HIPRTC_ERROR_INVALID_INPUT";
    case HIPRTC_ERROR_INVALID_PROGRAM:
      return "HIPRTC_ERROR_INVALID_PROGRAM";
    case HIPRTC_ERROR_INVALID_OPTION:
      return "HIPRTC_ERROR_INVALID_OPTION";
    case HIPRTC_ERROR_COMPILATION:
      return "HIPRTC_ERROR_COMPILATION";
    case HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE:
      return "HIPRTC_ERROR_BUILTIN_OPERATION_FAILURE";
    case HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION:
      return "HIPRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION";
    case HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION:
      return "HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION";
    case HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID:
      return "HIPRTC_ERROR_NAME_EXPRESSION_NOT_VALID";
    case HIPRTC_ERROR_INTERNAL_ERROR:
      return "HIPRTC_ERROR_INTERNAL_ERROR";
    default:
      return "Invalid HIPRTC error code";
  }
}
