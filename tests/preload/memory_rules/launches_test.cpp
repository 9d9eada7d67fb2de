// launches_test.cpp: work reaches a stream by many functions: whichever it was, frees wait for it, and an open capture
// that has been compared so far becomes real before it.
#include <atomic>
#include <thread>

#include "tests/preload/graphs/captures.h"

extern "C" {
void** __hipRegisterFatBinary(const void* data);
void __hipRegisterFunction(void** modules, const void* host_function, char* device_function, const char* device_name,
                           unsigned thread_limit, void* tid, void* bid, void* block, void* grid, int* warp);
hipError_t hipConfigureCall(dim3, dim3, std::size_t, hipStream_t);
hipError_t hipSetupArgument(const void*, std::size_t, std::size_t);
hipError_t hipLaunchByPtr(const void*);
hipError_t hipLaunchKernelExC(const void*, const void*, void**);
hipError_t hipDrvLaunchKernelEx(const void*, hipFunction_t, void**, void**);
hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                            unsigned, hipStream_t, void**);
hipError_t hipHccModuleLaunchKernel(hipFunction_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t,
                                    std::uint32_t, std::uint32_t, std::size_t, hipStream_t, void**, void**, hipEvent_t,
                                    hipEvent_t);
hipError_t hipExtModuleLaunchKernel(hipFunction_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t,
                                    std::uint32_t, std::uint32_t, std::size_t, hipStream_t, void**, void**, hipEvent_t,
                                    hipEvent_t, std::uint32_t);
hipError_t hipModuleLaunchCooperativeKernelMultiDevice(void*, unsigned, unsigned);
hipError_t hipExecutionCtxWaitEvent(void*, hipEvent_t);
hipError_t hipMemcpyBatchAsync(void**, void**, std::size_t*, std::size_t, void*, std::size_t*, std::size_t,
                               std::size_t*, hipStream_t);
hipError_t hipMemcpy3DBatchAsync(std::size_t, void*, std::size_t*, unsigned long long, hipStream_t);
hipError_t hipMemcpy3DPeer(const void*);
hipError_t hipMemcpy3DPeerAsync(const void*, hipStream_t);
hipError_t hipStreamBatchMemOp(hipStream_t, unsigned, void*, unsigned);
}

namespace {

using namespace captures;

/// What hipcc puts into a program, for one kernel: repeat(p, flag, a) waits for the flag if there is one, then mixes.
class Program {
 public:
  Program() {
    const char* const source = R"(
      extern "C" __global__ void repeat(int* p, volatile int* flag, int a) {
        while (flag != nullptr && *flag == 0) {}
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        p[i] = p[i] * 31 + a;
      })";
    const std::vector<char> code = compiled_code(source);
    expect_ok(hipModuleLoadData(&module_, code.data()));
    expect_ok(hipModuleGetFunction(&function_, module_, "repeat"));
    // An offload bundle of one entry.
    const std::string id = "hipv4-x86_64-unknown-linux-gnu--cpu", magic = "__CLANG_OFFLOAD_BUNDLE__";
    const std::uint64_t head[] = {1, 4096, code.size(), id.size()};
    image_.assign(4096, 0);
    std::memcpy(image_.data(), magic.data(), magic.size());
    std::memcpy(image_.data() + magic.size(), head, sizeof head);
    std::memcpy(image_.data() + magic.size() + sizeof head, id.data(), id.size());
    image_.insert(image_.end(), code.begin(), code.end());
    wrapper_.binary = image_.data();
    char name[] = "repeat";
    __hipRegisterFunction(__hipRegisterFatBinary(&wrapper_), &stub_, name, name, ~0u, nullptr, nullptr, nullptr,
                          nullptr, nullptr);
  }
  hipFunction_t function() const { return function_; }
  const void* stub() const { return &stub_; }

 private:
  static void expect_ok(hipError_t result) { EXPECT_EQ(hipSuccess, result); }

  struct {
    unsigned magic = 0x48495046, version = 1;
    const void* binary = nullptr;
    void* unused = nullptr;
  } wrapper_;
  std::vector<char> image_;
  hipModule_t module_ = nullptr;
  hipFunction_t function_ = nullptr;
  char stub_ = 0;
};

const Program& program() {
  static const Program* const instance = new Program;
  return *instance;
}

struct Launch {
  const char* name;
  std::function<hipError_t(hipStream_t, int* p, int* flag, int a)> call;
};

std::vector<Launch> launches() {
  const auto with_args = [](auto call) {
    return [call](hipStream_t stream, int* p, int* flag, int a) {
      void* args[] = {&p, &flag, &a};
      return call(stream, args);
    };
  };
  const dim3 one(1), block(kCount);
  return {{"hipLaunchKernel", with_args([=](hipStream_t stream, void** args) {
             return hipLaunchKernel(program().stub(), one, block, args, 0, stream);
           })},
          {"hipExtLaunchKernel", with_args([=](hipStream_t stream, void** args) {
             return hipExtLaunchKernel(program().stub(), one, block, args, 0, stream, nullptr, nullptr, 0);
           })},
          {"hipLaunchCooperativeKernel", with_args([=](hipStream_t stream, void** args) {
             return hipLaunchCooperativeKernel(program().stub(), one, block, args, 0, stream);
           })},
          {"hipModuleLaunchKernel", with_args([](hipStream_t stream, void** args) {
             return hipModuleLaunchKernel(program().function(), 1, 1, 1, kCount, 1, 1, 0, stream, args, nullptr);
           })},
          {"hipModuleLaunchCooperativeKernel", with_args([](hipStream_t stream, void** args) {
             return hipModuleLaunchCooperativeKernel(program().function(), 1, 1, 1, kCount, 1, 1, 0, stream, args);
           })},
          {"hipExtModuleLaunchKernel", with_args([](hipStream_t stream, void** args) {
             return hipExtModuleLaunchKernel(program().function(), kCount, 1, 1, kCount, 1, 1, 0, stream, args, nullptr,
                                             nullptr, nullptr, 0);
           })},
          {"hipHccModuleLaunchKernel", with_args([](hipStream_t stream, void** args) {
             return hipHccModuleLaunchKernel(program().function(), kCount, 1, 1, kCount, 1, 1, 0, stream, args, nullptr,
                                             nullptr, nullptr);
           })},
          {"hipLaunchKernelExC", with_args([=](hipStream_t stream, void** args) {
             const struct {
               dim3 grid, block;
               std::size_t shared;
               hipStream_t stream;
               void* attributes;
               unsigned count;
             } config = {one, block, 0, stream, nullptr, 0};
             return hipLaunchKernelExC(&config, program().stub(), args);
           })},
          {"hipDrvLaunchKernelEx", with_args([](hipStream_t stream, void** args) {
             const struct {
               unsigned grid[3], block[3], shared;
               hipStream_t stream;
               void* attributes;
               unsigned count;
             } config = {{1, 1, 1}, {kCount, 1, 1}, 0, stream, nullptr, 0};
             return hipDrvLaunchKernelEx(&config, program().function(), args, nullptr);
           })},
          {"hipLaunchByPtr", [=](hipStream_t stream, int* p, int* flag, int a) {
             EXPECT_EQ(hipSuccess, hipConfigureCall(one, block, 0, stream));
             EXPECT_EQ(hipSuccess, hipSetupArgument(&p, sizeof p, 0));
             EXPECT_EQ(hipSuccess, hipSetupArgument(&flag, sizeof flag, sizeof p));
             EXPECT_EQ(hipSuccess, hipSetupArgument(&a, sizeof a, sizeof p + sizeof flag));
             return hipLaunchByPtr(program().stub());
           }}};
}

TEST(Launches, rule_16_a_free_waits_for_work_however_it_was_launched) {
  for (const Launch& launch : launches()) {
    SCOPED_TRACE(launch.name);
    hipStream_t stream = nullptr;
    OK(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    const Buffer buffer;
    int* flag = nullptr;
    OK(hipHostMalloc(reinterpret_cast<void**>(&flag), sizeof(int), 0));
    *flag = 0;
    void* memory = nullptr;
    OK(hipMalloc(&memory, 4096));
    OK(hipDeviceSynchronize());
    OK(launch.call(stream, buffer.get(), flag, 5));
    std::atomic<bool> released{false}, freed{false};
    std::thread other([&] {
      released = call_waits(freed);
      __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    });
    OK(hipFree(memory));
    freed = true;
    other.join();
    EXPECT_TRUE(released.load()) << "hipFree did not wait";
    OK(hipStreamDestroy(stream));
    EXPECT_EQ(mixed(0, 5), buffer.value());
    OK(hipHostFree(flag));
  }
}

TEST(Launches, rule_05_work_that_no_template_can_hold_makes_a_compared_capture_real) {
  const Stream stream;
  for (const Launch& launch : launches()) {
    SCOPED_TRACE(launch.name);
    const Buffer buffer;
    int value = 0;
    const auto begin = [&] { OK(launches()[0].call(stream, buffer.get(), nullptr, 1)); };
    for (int round = 0; round < 2; ++round) {
      step(stream, begin);
      value = mixed(value, 1);
    }
    for (int round = 0; round < 2; ++round) {
      hipGraphExec_t exec = nullptr;
      const hipGraph_t graph = capture(stream, [&] {
        begin();
        OK(launch.call(stream, buffer.get(), nullptr, 2));
      });
      OK(hipStreamSynchronize(stream));
      // Some functions do their work at once although the stream is being captured.
      const int before = buffer.value();
      const bool at_once = before != value;
      if (at_once) {
        EXPECT_EQ(mixed(value, 2), before);
      }
      value = at_once ? mixed(mixed(value, 2), 1) : mixed(mixed(value, 1), 2);
      OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
      OK(hipGraphLaunch(exec, stream));
      OK(hipStreamSynchronize(stream));
      EXPECT_EQ(value, buffer.value());
      OK(hipGraphExecDestroy(exec));
      OK(hipGraphDestroy(graph));
    }
  }
}

/// Functions that the CPU runtime refuses: that they may have left work is seen by what the next free does.
TEST(Launches, rule_16_calls_of_newer_runtimes_count_as_work) {
  const Stream stream;
  hipEvent_t event = nullptr;
  OK(hipEventCreate(&event));
  const auto calls = std::vector<std::pair<const char*, std::function<hipError_t()>>>{
      {"nothing", [] { return hipSuccess; }},
      {"hipMemcpyBatchAsync",
       [&] { return hipMemcpyBatchAsync(nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0, nullptr, stream); }},
      {"hipMemcpy3DBatchAsync", [&] { return hipMemcpy3DBatchAsync(0, nullptr, nullptr, 0, stream); }},
      {"hipMemcpy3DPeer", [&] { return hipMemcpy3DPeer(nullptr); }},
      {"hipMemcpy3DPeerAsync", [&] { return hipMemcpy3DPeerAsync(nullptr, stream); }},
      {"hipStreamBatchMemOp", [&] { return hipStreamBatchMemOp(stream, 0, nullptr, 0); }},
      {"hipLaunchCooperativeKernelMultiDevice", [&] { return hipLaunchCooperativeKernelMultiDevice(nullptr, 0, 0); }},
      {"hipExtLaunchMultiKernelMultiDevice", [&] { return hipExtLaunchMultiKernelMultiDevice(nullptr, 0, 0); }},
      {"hipModuleLaunchCooperativeKernelMultiDevice",
       [&] { return hipModuleLaunchCooperativeKernelMultiDevice(nullptr, 0, 0); }},
      {"hipExecutionCtxWaitEvent", [&] { return hipExecutionCtxWaitEvent(nullptr, event); }}};
  for (const auto& entry : calls) {
    const auto& call = entry.second;
    SCOPED_TRACE(entry.first);
    void* memory = nullptr;
    OK(hipMalloc(&memory, 4096));
    OK(hipDeviceSynchronize());
    const bool nothing = call() == hipSuccess;
    const Since since({"hipFree", "hipEventRecord"});
    OK(hipFree(memory));
    if (under_library()) {
      EXPECT_EQ(nothing, since["hipFree"] + since["hipEventRecord"] == 0);
    }
    // The same in a capture that is compared: it becomes real, and stays what it was.
    const Buffer buffer;
    for (int round = 0; round < 3; ++round) {
      step(stream, [&] {
        OK(kernels().mix(stream, buffer.get(), kCount, 7));
        if (round == 2) static_cast<void>(call());
      });
    }
    EXPECT_EQ(mixed(mixed(mixed(0, 7), 7), 7), buffer.value());
    static_cast<void>(hipGetLastError());
  }
  OK(hipEventDestroy(event));
}

}  // namespace
