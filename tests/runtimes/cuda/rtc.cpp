// rtc.cpp: hipRTC's compiler (common/rtc.h) over NVRTC, which is opened at the first compilation. CUDA's language has
// HIP's words; a few macros are added, and HIP's headers are empty.
#include "common/rtc.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string_view>

#include "api.h"
#include "rtc_object.h"

namespace cudahip {
namespace {

struct NvrtcProgram;

#define CUDAHIP_NVRTC(RTC)                                                                                         \
  RTC(nvrtcCreateProgram, (NvrtcProgram**, const char*, const char*, int, const char* const*, const char* const*)) \
  RTC(nvrtcDestroyProgram, (NvrtcProgram**))                                                                       \
  RTC(nvrtcAddNameExpression, (NvrtcProgram*, const char*))                                                        \
  RTC(nvrtcCompileProgram, (NvrtcProgram*, int, const char* const*))                                               \
  RTC(nvrtcGetProgramLogSize, (NvrtcProgram*, std::size_t*))                                                       \
  RTC(nvrtcGetProgramLog, (NvrtcProgram*, char*))                                                                  \
  RTC(nvrtcGetPTXSize, (NvrtcProgram*, std::size_t*))                                                              \
  RTC(nvrtcGetPTX, (NvrtcProgram*, char*))                                                                         \
  RTC(nvrtcGetLoweredName, (NvrtcProgram*, const char*, const char**))

struct Nvrtc {
#define CUDAHIP_MEMBER(name, parameters) int(*name) parameters = nullptr;
  CUDAHIP_NVRTC(CUDAHIP_MEMBER)
#undef CUDAHIP_MEMBER
  bool complete = false;

  Nvrtc() {
    const char* chosen = std::getenv("CUDAHIP_NVRTC");
    void* library = nullptr;
    for (const char* name :
         {chosen, "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "/usr/local/cuda/lib64/libnvrtc.so"}) {
      if (library == nullptr && name != nullptr && *name != '\0') library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
    if (library == nullptr) return;
    complete = true;
#define CUDAHIP_FIND(name, parameters)                            \
  name = reinterpret_cast<decltype(name)>(dlsym(library, #name)); \
  complete = complete && name != nullptr;
    CUDAHIP_NVRTC(CUDAHIP_FIND)
#undef CUDAHIP_FIND
  }
};

const Nvrtc& nvrtc() {
  static const Nvrtc& made = *new Nvrtc;
  return made;
}

constexpr char kPrelude[] = R"(
#define __HIPCC__ 1
#define __HIPCC_RTC__ 1
#define __HIP_DEVICE_COMPILE__ 1
#define hipThreadIdx_x threadIdx.x
#define hipThreadIdx_y threadIdx.y
#define hipThreadIdx_z threadIdx.z
#define hipBlockIdx_x blockIdx.x
#define hipBlockIdx_y blockIdx.y
#define hipBlockIdx_z blockIdx.z
#define hipBlockDim_x blockDim.x
#define hipBlockDim_y blockDim.y
#define hipBlockDim_z blockDim.z
#define hipGridDim_x gridDim.x
#define hipGridDim_y gridDim.y
#define hipGridDim_z gridDim.z
__device__ __forceinline__ long long wall_clock64() {
  long long ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}
#line 1
)";

/// The device's architecture; that of the H100 where there is no device.
std::string architecture() {
  int major = 9, minor = 0;
  if (cu::driver_state() == cu::kSuccess) {
    driver().cuDeviceGetAttribute(&major, 75, current_ordinal());
    driver().cuDeviceGetAttribute(&minor, 76, current_ordinal());
  }
  return "--gpu-architecture=compute_" + std::to_string(10 * major + minor);
}

/// -D, -U, -I and -std= reach the compiler; all others decide nothing here and are accepted.
std::vector<std::string> options_of(const std::vector<std::string>& options) {
  std::vector<std::string> taken{architecture()};
  for (const std::string& option : options)
    for (const std::string_view known : {"-D", "-U", "-I", "-std=", "--std="})
      if (option.starts_with(known)) taken.push_back(option);
  return taken;
}

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> result;
  for (const std::string& text : texts) result.push_back(text.c_str());
  return result;
}

template <typename Size, typename Get>
std::string text_of(NvrtcProgram* program, Size size, Get get) {
  std::size_t bytes = 0;
  if (size(program, &bytes) != 0 || bytes == 0) return {};
  std::string text(bytes, '\0');
  if (get(program, text.data()) != 0) return {};
  text.pop_back();  // the zero byte
  return text;
}

}  // namespace
}  // namespace cudahip

namespace hipfront {

CompileResult compile_program(const CompileRequest& request) {
  using namespace cudahip;
  CompileResult result;
  const Nvrtc& api = nvrtc();
  if (!api.complete) {
    result.log = "NVRTC was not found";
    return result;
  }
  std::vector<std::string> names{"hip/hip_runtime.h"}, texts{""};
  for (const auto& [name, text] : request.headers) {
    names.push_back(name);
    texts.push_back(text);
  }
  NvrtcProgram* program = nullptr;
  const std::string source = kPrelude + request.source;
  if (api.nvrtcCreateProgram(&program, source.c_str(), request.name.c_str(), static_cast<int>(names.size()),
                             pointers(texts).data(), pointers(names).data()) != 0) {
    result.log = "NVRTC made no program";
    return result;
  }
  for (const std::string& expression : request.expressions) api.nvrtcAddNameExpression(program, expression.c_str());
  const std::vector<std::string> options = options_of(request.options);
  result.ok = api.nvrtcCompileProgram(program, static_cast<int>(options.size()), pointers(options).data()) == 0;
  result.log = text_of(program, api.nvrtcGetProgramLogSize, api.nvrtcGetProgramLog);
  if (result.ok) {
    for (const std::string& expression : request.expressions) {
      const char* lowered = nullptr;
      result.ok = result.ok && api.nvrtcGetLoweredName(program, expression.c_str(), &lowered) == 0;
      result.lowered.emplace_back(lowered != nullptr ? lowered : "");
    }
    result.object = make_object(text_of(program, api.nvrtcGetPTXSize, api.nvrtcGetPTX));
  }
  api.nvrtcDestroyProgram(&program);
  return result;
}

// A hiprtc call needs no device and leaves HIP's last error alone.
RtcCall::RtcCall(const char*) {}
RtcCall::~RtcCall() {}

bool one_rtc_call_at_a_time() {
  constexpr int kSerialSince = 60000000;
  return cudahip::version() >= kSerialSince;
}

}  // namespace hipfront
