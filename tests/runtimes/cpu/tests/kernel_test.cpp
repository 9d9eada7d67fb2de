// kernel_test.cpp: kernels run as on a GPU: places, arguments, shared memory, barriers, limits, concurrency.
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>

#include "../cpuhip_statistics.h"
#include "kernel_support.h"

extern "C" {
hipError_t hipDrvLaunchKernelEx(const void* config, hipFunction_t function, void** params, void** extra);
hipError_t hipExtModuleLaunchKernel(hipFunction_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, size_t,
                                    hipStream_t, void**, void**, hipEvent_t, hipEvent_t, uint32_t);
hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                            unsigned, hipStream_t, void**);
}

namespace {

using namespace std::chrono_literals;

/// Waits until the condition holds; false after ten seconds.
template <typename Condition>
bool eventually(Condition condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(5ms);
  }
  return false;
}

class Stream {
 public:
  Stream() { EXPECT_EQ(hipSuccess, hipStreamCreateWithFlags(&stream_, hipStreamNonBlocking)); }
  ~Stream() { EXPECT_EQ(hipSuccess, hipStreamDestroy(stream_)); }
  operator hipStream_t() const { return stream_; }

 private:
  hipStream_t stream_ = nullptr;
};

/// Host memory that kernels see, for flags.
class Flags {
 public:
  Flags() {
    EXPECT_EQ(hipSuccess, hipHostMalloc(reinterpret_cast<void**>(&data_), 4 * sizeof(int), 0));
    std::memset(data_, 0, 4 * sizeof(int));
  }
  ~Flags() { EXPECT_EQ(hipSuccess, hipHostFree(data_)); }
  volatile int* at(int i) const { return data_ + i; }
  void set(int i, int value) const { __atomic_store_n(data_ + i, value, __ATOMIC_SEQ_CST); }

 private:
  int* data_ = nullptr;
};

TEST(Kernel, EveryThreadOfEveryBlockRunsOnce) {
  const Module module("basic");
  const dim3 grid(3, 2, 2), block(4, 3, 2);
  const Buffer<unsigned> out(12 * 24);
  HIP_OK(module.launch("places", grid, block, 0, nullptr, out.data()));
  const std::vector<unsigned> values = out.read();
  for (unsigned b = 0; b < 12; ++b)
    for (unsigned t = 0; t < 24; ++t) ASSERT_EQ(b * 1000 + t, values[b * 24 + t]);
}

TEST(Kernel, ArgumentsOfAllShapesArrive) {
  struct Pair {
    float a;
    double b;
  };
  struct Odd {
    char c[3];
  };
  struct Float3 {
    float x, y, z;
  };
  struct alignas(16) Float4 {
    float x, y, z, w;
  };
  const Module module("basic");
  const Buffer<double> out(8);
  HIP_OK(module.launch("mixed", 1, 1, 0, nullptr, 'A', Pair{1.5f, 2.5}, Float4{1, 2, 3, 4}, Float3{5, 6, 7},
                       Odd{{1, 2, 3}}, true, out.data(), 123456789012345ULL, short{-7}));
  EXPECT_EQ((std::vector<double>{65, 4, 10, 18, 6, 1, 123456789012345.0, -7}), out.read());
}

TEST(Kernel, TwentyThousandElements) {
  const Module module("basic");
  const int n = 20000;
  std::vector<float> ones(n, 1.0f), ramp(n);
  std::iota(ramp.begin(), ramp.end(), 0.0f);
  const Buffer<float> y(n, ones), x(n, ramp);
  HIP_OK(
      module.launch("axpy", (n + 255) / 256, 256, 0, nullptr, y.data(), static_cast<const float*>(x.data()), 2.0f, n));
  const std::vector<float> values = y.read();
  for (int i = 0; i < n; ++i) ASSERT_EQ(1.0f + 2.0f * static_cast<float>(i), values[static_cast<std::size_t>(i)]);
}

TEST(Kernel, StaticSharedMemoryAndBarrier) {
  const Module module("barriers");
  std::vector<int> in(3 * 256);
  std::iota(in.begin(), in.end(), 0);
  const Buffer<int> data(in.size(), in);
  HIP_OK(module.launch("reverse", 3, 256, 0, nullptr, data.data()));
  const std::vector<int> values = data.read();
  for (int b = 0; b < 3; ++b)
    for (int t = 0; t < 256; ++t) ASSERT_EQ(b * 256 + 255 - t, values[static_cast<std::size_t>(b * 256 + t)]);
}

TEST(Kernel, DynamicSharedMemoryAndBarriersInALoop) {
  const Module module("barriers");
  std::vector<float> in(1000);
  std::iota(in.begin(), in.end(), 1.0f);
  const Buffer<float> data(in.size(), in), out(1);
  HIP_OK(module.launch("sum", 1, 128, 128 * sizeof(float), nullptr, static_cast<const float*>(data.data()), out.data(),
                       1000));
  EXPECT_EQ(500500.0f, out.read()[0]);
}

TEST(Kernel, ThreadsThatReturnBeforeTheBarrier) {
  const Module module("barriers");
  const Buffer<int> data(64, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  HIP_OK(module.launch("early", 1, 64, 0, nullptr, data.data(), 10));
  const std::vector<int> values = data.read();
  EXPECT_EQ((std::vector<int>{20, 18, 16, 14, 12, 10, 8, 6, 4, 2}),
            std::vector<int>(values.begin(), values.begin() + 10));
  EXPECT_EQ(0, values[10]);
}

TEST(Kernel, EachThreadKeepsItsStackOverABarrier) {
  const Module module("barriers");
  const Buffer<int> out(1024);
  HIP_OK(module.launch("stacks", 1, 1024, 0, nullptr, out.data()));
  const std::vector<int> values = out.read();
  for (int t = 0; t < 1024; ++t) ASSERT_EQ(80 + t, values[static_cast<std::size_t>(t)]);
}

TEST(Kernel, TiledMatrixProduct) {
  const Module module("barriers");
  const int n = 32;
  std::vector<float> identity(n * n), ramp(n * n);
  for (int i = 0; i < n; ++i) identity[static_cast<std::size_t>(i * n + i)] = 1.0f;
  std::iota(ramp.begin(), ramp.end(), 0.0f);
  const Buffer<float> a(identity.size(), identity), b(ramp.size(), ramp), c(ramp.size());
  HIP_OK(module.launch("matmul", dim3(n / 8, n / 8), dim3(8, 8), 0, nullptr, static_cast<const float*>(a.data()),
                       static_cast<const float*>(b.data()), c.data(), n));
  EXPECT_EQ(ramp, c.read());
}

TEST(Kernel, SharedMemoryOfTwoStreamsIsNotOne) {
  const Module module("barriers");
  const Stream first, second;
  std::vector<int> in(256);
  std::iota(in.begin(), in.end(), 0);
  const Buffer<int> a(256, in), b(256, in);
  for (int round = 0; round < 51; ++round) {
    HIP_OK(module.launch("reverse", 1, 256, 0, first, a.data()));
    HIP_OK(module.launch("reverse", 1, 256, 0, second, b.data()));
  }
  HIP_OK(hipDeviceSynchronize());
  std::reverse(in.begin(), in.end());
  EXPECT_EQ(in, a.read());
  EXPECT_EQ(in, b.read());
}

TEST(Kernel, TemplatesByNameExpression) {
  struct FloatBox {
    float value;
    int count;
  };
  const Module module("templates");
  const std::string name = module.compiled().lowered.at("shop::scale<float, 64>");
  EXPECT_EQ("_ZN4shop5scaleIfLi64EEEvPT_NS_3BoxIS1_EE", name);
  std::vector<float> in(64);
  std::iota(in.begin(), in.end(), 0.0f);
  const Buffer<float> data(64, in);
  HIP_OK(module.launch(name, 1, 64, 0, nullptr, data.data(), FloatBox{2.0f, 1}));
  const std::vector<float> values = data.read();
  for (int t = 0; t < 64; ++t) ASSERT_EQ(static_cast<float>(63 - t) * 2.0f + 1.0f, values[static_cast<std::size_t>(t)]);
}

TEST(Kernel, MathematicsAndVectors) {
  const Module module("mathematics");
  const Buffer<float> f(5);
  const Buffer<double> d(1);
  const Buffer<int> i(3);
  HIP_OK(module.launch("functions", 1, 1, 0, nullptr, f.data(), d.data(), i.data()));
  const std::vector<float> values = f.read();
  EXPECT_EQ(std::exp(1.0f), values[0]);
  EXPECT_FLOAT_EQ(std::exp(0.5f) + std::sqrt(2.0f) + 0.5f, values[1]);
  EXPECT_EQ(6.0f, values[2]);
  EXPECT_FLOAT_EQ(std::tanh(0.25f) + 9.0f, values[3]);
  EXPECT_EQ(std::max(values[0], values[1]) + 1.0f, values[4]);
  EXPECT_DOUBLE_EQ(std::exp(1.0) + std::sqrt(2.0) + 10.0, d.read()[0]);
  EXPECT_EQ((std::vector<int>{4 + 3 + 5 + 8 + 31 + 4, 0x3f800000, 28}), i.read());
}

TEST(Kernel, Atomics) {
  const Module module("mathematics");
  const Buffer<unsigned> u(3);
  const Buffer<int> i(3);
  const Buffer<float> f(1);
  const Buffer<unsigned long long> l(1);
  HIP_OK(module.launch("atomics", 4, 64, 0, nullptr, u.data(), i.data(), f.data(), l.data()));
  EXPECT_EQ((std::vector<unsigned>{256, 63, 0xffffffff}), u.read());
  EXPECT_EQ((std::vector<int>{-63, 7, 9}), i.read());
  EXPECT_EQ(128.0f, f.read()[0]);
  EXPECT_EQ(512ULL, l.read()[0]);
}

TEST(Kernel, ArgumentsAsOneBuffer) {
  const Module module("waiting");
  const Buffer<int> out(1);
  struct {
    int* out;
    int value;
  } packed{out.data(), 42};
  std::size_t size = sizeof packed;
  void* extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed, HIP_LAUNCH_PARAM_BUFFER_SIZE, &size, HIP_LAUNCH_PARAM_END};
  const hipFunction_t store = module.function("store");
  HIP_OK(hipModuleLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
  EXPECT_EQ(42, out.read()[0]);

  void* params[] = {&packed.out, &packed.value};
  EXPECT_EQ(hipErrorInvalidValue, hipModuleLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, params, extra));
  EXPECT_EQ(hipErrorInvalidValue, hipModuleLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  void* wrong[] = {HIP_LAUNCH_PARAM_BUFFER_SIZE, &size, HIP_LAUNCH_PARAM_BUFFER_POINTER, &packed, HIP_LAUNCH_PARAM_END};
  EXPECT_EQ(hipErrorInvalidValue, hipModuleLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, wrong));
}

TEST(Kernel, LimitsOfALaunch) {
  const Module module("basic");
  const hipFunction_t nothing = module.function("nothing"), bounded = module.function("bounded");
  const auto launch = [](hipFunction_t function, unsigned grid, unsigned block, unsigned shared) {
    void* extra = nullptr;
    void* params[] = {&extra};
    return hipModuleLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, nullptr, params, nullptr);
  };
  EXPECT_EQ(hipErrorInvalidValue, launch(nothing, 0, 1, 0));
  EXPECT_EQ(hipErrorInvalidValue, launch(nothing, 1, 0, 0));
  EXPECT_EQ(hipErrorInvalidValue, launch(nothing, 1, 1025, 0));
  EXPECT_EQ(hipErrorInvalidConfiguration, launch(nothing, 0x7fffffff, 1024, 0));
  EXPECT_EQ(hipErrorInvalidValue, launch(nothing, 1, 1, (64 << 10) + 1));
  EXPECT_EQ(hipErrorLaunchFailure, launch(bounded, 1, 65, 0));
  EXPECT_EQ(hipErrorInvalidResourceHandle, launch(nullptr, 1, 1, 0));
  EXPECT_EQ(hipSuccess, launch(nothing, 1, 1024, 64 << 10));
  EXPECT_EQ(hipErrorInvalidDeviceFunction, hipLaunchKernel(nullptr, 1, 1, nullptr, 0, nullptr));
  static int unknown;
  EXPECT_EQ(hipErrorInvalidDeviceFunction, hipLaunchKernel(&unknown, 1, 1, nullptr, 0, nullptr));
  HIP_OK(hipDeviceSynchronize());
}

TEST(Kernel, OtherWaysToLaunchAFunction) {
  const Module module("waiting");
  const hipFunction_t store = module.function("store");
  const Buffer<int> out(1);
  int* pointer = out.data();
  int value = 1;
  void* params[] = {&pointer, &value};
  HIP_OK(hipExtModuleLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr, nullptr, nullptr, 0));
  EXPECT_EQ(1, out.read()[0]);
  EXPECT_EQ(hipErrorInvalidValue,
            hipExtModuleLaunchKernel(store, 6, 1, 1, 4, 1, 1, 0, nullptr, params, nullptr, nullptr, nullptr, 0));
  value = 2;
  HIP_OK(hipModuleLaunchCooperativeKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, params));
  EXPECT_EQ(2, out.read()[0]);
  value = 3;
  const struct {
    unsigned grid[3], block[3], shared;
    hipStream_t stream;
    void* attributes;
    unsigned count;
  } config{{1, 1, 1}, {1, 1, 1}, 0, nullptr, nullptr, 0};
  HIP_OK(hipDrvLaunchKernelEx(&config, store, params, nullptr));
  EXPECT_EQ(3, out.read()[0]);
}

TEST(Kernel, EventsOfALaunch) {
  const Module module("waiting");
  const Flags flags;
  hipEvent_t start = nullptr, stop = nullptr;
  HIP_OK(hipEventCreate(&start));
  HIP_OK(hipEventCreate(&stop));
  volatile int* flag = flags.at(0);
  int wanted = 1;
  void* params[] = {&flag, &wanted};
  HIP_OK(
      hipExtModuleLaunchKernel(module.function("gate"), 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr, start, stop, 0));
  EXPECT_EQ(hipErrorNotReady, hipEventQuery(stop));
  EXPECT_TRUE(eventually([&] { return hipEventQuery(start) == hipSuccess; }));
  std::this_thread::sleep_for(2ms);
  flags.set(0, 1);
  HIP_OK(hipEventSynchronize(stop));
  float milliseconds = 0;
  HIP_OK(hipEventElapsedTime(&milliseconds, start, stop));
  EXPECT_GT(milliseconds, 1.0f);
  HIP_OK(hipEventDestroy(start));
  HIP_OK(hipEventDestroy(stop));
}

TEST(Kernel, GateHoldsItsStreamAndNobodyElse) {
  const Module module("waiting");
  const Stream held, free;
  const Flags flags;
  const Buffer<int> out(1), other(1);
  HIP_OK(module.launch("gate", 1, 1, 0, held, flags.at(0), 1));
  HIP_OK(module.launch("store", 1, 1, 0, held, out.data(), 5));
  HIP_OK(hipMemcpyAsync(const_cast<int*>(flags.at(1)), out.data(), sizeof(int), hipMemcpyDeviceToHost, held));
  EXPECT_EQ(hipErrorNotReady, hipStreamQuery(held));
  HIP_OK(module.launch("store", 1, 1, 0, free, other.data(), 6));
  HIP_OK(hipStreamSynchronize(free));
  EXPECT_EQ(hipErrorNotReady, hipStreamQuery(held));
  flags.set(0, 1);
  HIP_OK(hipStreamSynchronize(held));
  EXPECT_EQ(5, *flags.at(1));
}

TEST(Kernel, FreeWaitsForTheGate) {
  const Module module("waiting");
  const Stream stream;
  const Flags flags;
  int* memory = nullptr;
  HIP_OK(hipMalloc(reinterpret_cast<void**>(&memory), 64));
  HIP_OK(module.launch("gate", 1, 1, 0, stream, flags.at(0), 1));
  std::atomic<bool> freed{false};
  std::thread freeing([&] {
    EXPECT_EQ(hipSuccess, hipFree(memory));
    freed = true;
  });
  EXPECT_TRUE(eventually([] {
    cpuhip_statistics_t now{};
    cpuhip_statistics(&now);
    return now.waiting_calls != 0;
  }));
  EXPECT_FALSE(freed);
  flags.set(0, 1);
  freeing.join();
  EXPECT_TRUE(freed);
}

TEST(Kernel, KernelsOfTwoStreamsMeet) {
  const Module module("waiting");
  const Stream first, second;
  const Flags flags;
  HIP_OK(module.launch("meet", 1, 1, 0, first, flags.at(0), flags.at(1)));
  HIP_OK(module.launch("meet", 1, 1, 0, second, flags.at(1), flags.at(0)));
  HIP_OK(hipDeviceSynchronize());
}

TEST(Kernel, ArgumentsAreTakenWhenTheCallIsMade) {
  const Module module("waiting");
  const Stream stream;
  const Flags flags;
  const Buffer<int> out(1);
  HIP_OK(module.launch("gate", 1, 1, 0, stream, flags.at(0), 1));
  int* pointer = out.data();
  int value = 11;
  void* params[] = {&pointer, &value};
  HIP_OK(hipModuleLaunchKernel(module.function("store"), 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr));
  pointer = nullptr;
  value = 12;
  params[0] = params[1] = nullptr;
  flags.set(0, 1);
  HIP_OK(hipStreamSynchronize(stream));
  EXPECT_EQ(11, out.read()[0]);
}

TEST(Kernel, PointersTheDeviceMayNotTouchAreAnIllegalAddress) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const Module module("waiting");
        int on_the_stack = 0;
        const hipError_t launched = module.launch("store", 1, 1, 0, nullptr, &on_the_stack, 1);
        const hipError_t waited = hipDeviceSynchronize();
        _exit(launched == hipSuccess && waited == hipErrorIllegalAddress && on_the_stack == 0 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

/// Of another device's memory: allocated before and after the peer was enabled, by pointer and inside a structure.
TEST(Kernel, QuirkLazyPeers) {
  const char* const quirks = std::getenv("CPUHIP_QUIRKS");
  if (quirks == nullptr || std::string(quirks) != "lazy_peers") GTEST_SKIP() << "CPUHIP_QUIRKS is not lazy_peers";
  struct Inside {
    int* p;
    int value;
  };
  const Buffer<int> before(1), never(1);
  HIP_OK(hipSetDevice(1));
  HIP_OK(hipDeviceEnablePeerAccess(0, 0));
  HIP_OK(hipSetDevice(0));
  const Buffer<int> after(1);
  HIP_OK(hipSetDevice(1));
  const Module module("inside");
  HIP_OK(module.launch("inside", 1, 1, 0, nullptr, Inside{after.data(), 7}));
  HIP_OK(module.launch("outside", 1, 1, 0, nullptr, before.data(), 8));
  HIP_OK(hipDeviceSynchronize());
  EXPECT_EQ(7, after.read()[0]);
  EXPECT_EQ(8, before.read()[0]);
  HIP_OK(module.launch("inside", 1, 1, 0, nullptr, Inside{before.data(), 9}));
  HIP_OK(hipDeviceSynchronize());
  EXPECT_EQ(9, before.read()[0]);
  HIP_OK(module.launch("inside", 1, 1, 0, nullptr, Inside{never.data(), 10}));
  EXPECT_EQ(hipErrorIllegalAddress, hipDeviceSynchronize());
  HIP_OK(hipDeviceReset());
  HIP_OK(hipSetDevice(0));
}

TEST(Kernel, AttributesAndOccupancy) {
  const Module module("templates");
  const hipFunction_t scale = module.function(module.compiled().lowered.at("shop::scale<float, 64>"));
  int value = 0;
  HIP_OK(hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, scale));
  EXPECT_EQ(128, value);
  HIP_OK(hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, scale));
  EXPECT_EQ(256, value);
  EXPECT_EQ(hipErrorInvalidValue, hipFuncGetAttribute(nullptr, HIP_FUNC_ATTRIBUTE_NUM_REGS, scale));
  EXPECT_EQ(hipErrorInvalidValue, hipFuncGetAttribute(&value, HIP_FUNC_ATTRIBUTE_MAX, scale));
  EXPECT_STREQ("_ZN4shop5scaleIfLi64EEEvPT_NS_3BoxIS1_EE", hipKernelNameRef(scale));
  int blocks = 0, grid = 0, block = 0;
  HIP_OK(hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, scale, 64, 32 << 10));
  EXPECT_EQ(1, blocks);
  HIP_OK(hipModuleOccupancyMaxPotentialBlockSize(&grid, &block, scale, 0, 0));
  EXPECT_EQ(128, block);
  EXPECT_GT(grid, 0);
}

}  // namespace
