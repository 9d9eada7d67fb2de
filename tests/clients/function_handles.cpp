// XLA on ROCm: hipGetFuncBySymbol for a kernel of the process itself, then hipFuncSetAttribute for each kernel with
// shared memory at every update, kernels of one parameter list among them. --symbol 1: one kernel is launched and set
// by its host stub and by the function in turn; --kernels: how many are set; --alternate 1: the value is another each
// time.
#include <dlfcn.h>

#include <array>
#include <cstring>

#include "client.h"

using namespace program;

extern "C" {
void** __hipRegisterFatBinary(const void* data);
void __hipRegisterFunction(void** modules, const void* stub, char* device_function, const char* device_name,
                           unsigned thread_limit, void* tid, void* bid, void* block, void* grid, int* warp);
}

namespace {

constexpr int kCount = 256, kLayers = 4;

std::vector<char> compiled(const char* source) {
  hiprtcProgram made = nullptr;
  std::size_t bytes = 0;
  const bool compiles = hiprtcCreateProgram(&made, source, "kernels.hip", 0, nullptr, nullptr) == HIPRTC_SUCCESS &&
                        hiprtcCompileProgram(made, 0, nullptr) == HIPRTC_SUCCESS &&
                        hiprtcGetCodeSize(made, &bytes) == HIPRTC_SUCCESS;
  std::vector<char> code(bytes);
  if (!compiles || hiprtcGetCode(made, code.data()) != HIPRTC_SUCCESS) std::exit(1);
  return code;
}

/// What hipcc puts into a program for a kernel that it calls by <<<>>>.
const char half_stub = 0;
void register_half() {
  static std::vector<char> bundle;
  static struct {
    unsigned magic = 0x48495046, version = 1;
    const void* binary = nullptr;
    void* unused = nullptr;
  } wrapper;
  const std::vector<char> code = compiled(kTwoKernelsSource);
  const std::string target = "hipv4-x86_64-unknown-linux-gnu--cpu", magic = "__CLANG_OFFLOAD_BUNDLE__";
  constexpr std::uint64_t kAt = 4096;
  const std::array<std::uint64_t, 4> header{1, kAt, code.size(), target.size()};
  bundle.assign(magic.begin(), magic.end());
  bundle.resize(magic.size() + sizeof header);
  std::memcpy(bundle.data() + magic.size(), header.data(), sizeof header);
  bundle.insert(bundle.end(), target.begin(), target.end());
  bundle.resize(kAt);
  bundle.insert(bundle.end(), code.begin(), code.end());
  wrapper.binary = bundle.data();
  std::string name = "halve";
  __hipRegisterFunction(__hipRegisterFatBinary(&wrapper), &half_stub, name.data(), "halve", ~0U, nullptr, nullptr,
                        nullptr, nullptr, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options(argc, argv, {{"steps", "40"}, {"symbol", "1"}, {"kernels", "2"}, {"alternate", "0"}});
  register_half();
  const Kernels kernels(kTwoKernelsSource);
  std::array<hipFunction_t, 2> functions{kernels.get("halve"), kernels.get("quarter")};
  if (options.number("symbol") != 0) {
    const auto get =
        reinterpret_cast<hipError_t (*)(hipFunction_t*, const void*)>(dlsym(RTLD_DEFAULT, "hipGetFuncBySymbol"));
    CHECK(get(functions.data(), &half_stub));
  }
  const hipStream_t stream = new_stream();
  float *x = allocate<float>(kCount), *y = allocate<float>(kCount);
  for (int step = 0; step < options.number("steps"); ++step) {
    upload_input(x, step, kCount, stream);
    const int bytes = options.number("alternate") != 0 && step % 2 != 0 ? 8192 : 4096;
    for (int i = 0; i < options.number("kernels"); ++i) {
      const bool by_stub = i == 0 && options.number("symbol") != 0 && step % 2 != 0;
      const void* const handle =
          by_stub ? &half_stub : reinterpret_cast<const void*>(functions[static_cast<std::size_t>(i)]);
      CHECK(hipFuncSetAttribute(handle, hipFuncAttributeMaxDynamicSharedMemorySize, bytes));
    }
    CHECK(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
    for (int i = 0; i < kLayers; ++i)
      launch(functions[static_cast<std::size_t>(i) % 2], blocks_for(kCount), dim3(kThreads), stream, y,
             static_cast<const float*>(i == 0 ? x : y), kCount);
    hipGraph_t graph = nullptr;
    CHECK(hipStreamEndCapture(stream, &graph));
    run_and_destroy(graph, stream);
    print_step(step, y, kCount);
  }
  return 0;
}
