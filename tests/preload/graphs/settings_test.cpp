// Rule 38: settings that change what a capture means. A recording made before such a change says nothing of what comes
// after it; setting a value again changes nothing. What is set of a function says something of its operations only.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "captures.h"
#include "node_calls.h"
#include "registered.h"

// Newer than the oldest header.
extern "C" {
hipError_t hipDeviceSetLimit(hipLimit_t limit, std::size_t value);
hipError_t hipStreamSetAttribute(hipStream_t stream, int attribute, const void* value);
hipError_t hipStreamCopyAttributes(hipStream_t to, hipStream_t from);
hipError_t hipGetFuncBySymbol(hipFunction_t* function, const void* symbol);
hipError_t hipKernelSetAttribute(int attribute, int value, void* kernel, hipDevice_t device);
hipError_t hipKernelSetAttributeForDevice(void* kernel, int attribute, int value, int device);
hipError_t hipKernelSetCacheConfig(void* kernel, hipFuncCache_t config, int device);
}

namespace captures {
namespace {

const void* stub() {
  static const char address = 0;
  static const Registered* const registered =
      new Registered(R"(extern "C" __global__ void configured(int* p) { p[0] = 1; })", "configured", &address);
  static_cast<void>(registered);
  return &address;
}

hipStream_t attributed() {
  static const Stream* const stream = new Stream;
  return *stream;
}

/// A setting with two values.
struct Setting {
  const char* name;
  hipError_t (*set)(bool other);
};

const Setting kRemembered[] = {
    {"device_cache",
     [](bool other) { return hipDeviceSetCacheConfig(other ? hipFuncCachePreferL1 : hipFuncCachePreferNone); }},
    {"device_shared_memory",
     [](bool other) {
       return hipDeviceSetSharedMemConfig(other ? hipSharedMemBankSizeFourByte : hipSharedMemBankSizeEightByte);
     }},
    {"limit", [](bool other) { return hipDeviceSetLimit(hipLimitMallocHeapSize, other ? 1 << 20 : 2 << 20); }}};

/// Only whether they change is known.
const Setting kOthers[] = {
    {"peer_access", [](bool other) { return other ? hipDeviceEnablePeerAccess(1, 0) : hipDeviceDisablePeerAccess(1); }},
    {"pool_access",
     [](bool other) {
       hipMemPool_t pool = nullptr;
       const hipError_t result = hipDeviceGetDefaultMemPool(&pool, 0);
       if (result != hipSuccess) return result;
       hipMemAccessDesc access{};
       access.location = {hipMemLocationTypeDevice, 1};
       access.flags = other ? hipMemAccessFlagsProtReadWrite : hipMemAccessFlagsProtNone;
       return hipMemPoolSetAccess(pool, &access, 1);
     }},
    {"stream_attribute",
     [](bool other) {
       constexpr int kSynchronizationPolicy = 3;
       const int policy[16] = {other ? 2 : 3};
       return hipStreamSetAttribute(attributed(), kSynchronizationPolicy, policy);
     }},
    {"copied_stream_attributes", [](bool) { return hipStreamCopyAttributes(attributed(), hipStreamPerThread); }},
    {"kernel_attribute_for_device",
     [](bool other) {
       return hipKernelSetAttributeForDevice(kernels().mix_function(), hipFuncAttributeMaxDynamicSharedMemorySize,
                                             other ? 4096 : 8192, 0);
     }},
    {"kernel_cache",
     [](bool other) {
       return hipKernelSetCacheConfig(kernels().mix_function(), other ? hipFuncCachePreferL1 : hipFuncCachePreferNone,
                                      0);
     }},
    {"context_flags", [](bool other) {
       return hipDevicePrimaryCtxSetFlags(1, other ? hipDeviceScheduleSpin : hipDeviceScheduleYield);
     }}};

/// Steps of one launch.
class Steps {
 public:
  /// How many launches reached the runtime in a step.
  int launches() {
    const Since since({"hipModuleLaunchKernel"});
    step(stream_, [&] { OK(kernels().mix(stream_, buffer_.get(), kCount, 3)); });
    value_ = mixed(value_, 3);
    EXPECT_EQ(value_, buffer_.value());
    return since["hipModuleLaunchKernel"];
  }
  /// The same of a capture in which `between` is called.
  int launches_around(const std::function<void()>& between) {
    const Since since({"hipModuleLaunchKernel"});
    step(stream_, [&] {
      OK(kernels().mix(stream_, buffer_.get(), kCount, 4));
      between();
      OK(kernels().mix(stream_, buffer_.get(), kCount, 5));
    });
    value_ = mixed(mixed(value_, 4), 5);
    EXPECT_EQ(value_, buffer_.value());
    return since["hipModuleLaunchKernel"];
  }

 private:
  const Stream stream_;
  const Buffer buffer_;
  int value_ = 0;
};

/// Of a step seen before, or of a new one.
int known(int launches) { return compares_captures() ? 0 : launches; }

class Settings : public testing::TestWithParam<Setting> {};

TEST_P(Settings, rule_38_another_value_begins_an_epoch) {
  Steps steps;
  const Setting& setting = GetParam();
  OK(setting.set(true));
  steps.launches();
  EXPECT_EQ(known(1), steps.launches());
  OK(setting.set(false));
  EXPECT_EQ(1, steps.launches()) << "what was captured before says nothing of now";
  EXPECT_EQ(known(1), steps.launches());
  OK(setting.set(true));
  EXPECT_EQ(1, steps.launches()) << "nor does what was captured when it had this value";
  EXPECT_EQ(known(1), steps.launches());
  OK(setting.set(false));
}

TEST_P(Settings, rule_38_a_capture_in_which_a_value_changes_is_real) {
  Steps steps;
  const Setting& setting = GetParam();
  OK(setting.set(true));
  steps.launches_around([] {});
  EXPECT_EQ(known(2), steps.launches_around([] {}));
  EXPECT_EQ(2, steps.launches_around([&] { OK(setting.set(false)); }));
}

INSTANTIATE_TEST_SUITE_P(Remembered, Settings, testing::ValuesIn(kRemembered),
                         [](const testing::TestParamInfo<Setting>& info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(Others, Settings, testing::ValuesIn(kOthers),
                         [](const testing::TestParamInfo<Setting>& info) { return std::string(info.param.name); });

class RememberedSettings : public testing::TestWithParam<Setting> {};

TEST_P(RememberedSettings, the_value_it_has_changes_nothing) {
  Steps steps;
  const auto again = [&] { OK(GetParam().set(true)); };
  again();
  steps.launches();
  steps.launches_around(again);
  for (int round = 0; round < 3; ++round) {
    again();
    EXPECT_EQ(known(1), steps.launches());
    EXPECT_EQ(known(2), steps.launches_around(again));
  }
}

INSTANTIATE_TEST_SUITE_P(All, RememberedSettings, testing::ValuesIn(kRemembered),
                         [](const testing::TestParamInfo<Setting>& info) { return std::string(info.param.name); });

TEST(SettingsOf, a_call_that_failed_changed_nothing) {
  Steps steps;
  OK(hipDeviceEnablePeerAccess(1, 0));
  steps.launches();
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(hipErrorPeerAccessAlreadyEnabled, hipDeviceEnablePeerAccess(1, 0));
    EXPECT_EQ(hipErrorInvalidValue, hipFuncSetAttribute(stub(), hipFuncAttributePreferredSharedMemoryCarveout, 101));
    static_cast<void>(hipGetLastError());
    EXPECT_EQ(known(1), steps.launches());
  }
  OK(hipDeviceDisablePeerAccess(1));
}

TEST(SettingsOf, rule_38_nodes_added_after_a_value_changed_are_added) {
  const Stream stream;
  const Buffer buffer;
  int value = 0;
  const auto one = [&](const std::function<void()>& between) {
    const Since since({"hipGraphAddKernelNode"});
    NodeGraph graph;
    const hipGraphNode_t first = graph.mix({}, buffer.get(), 1);
    between();
    graph.mix({first}, buffer.get(), 2);
    const int added = since["hipGraphAddKernelNode"];
    graph.run(stream);
    value = mixed(mixed(value, 1), 2);
    EXPECT_EQ(value, buffer.value());
    return added;
  };
  OK(hipDeviceSetCacheConfig(hipFuncCachePreferNone));
  EXPECT_EQ(2, one([] {}));
  EXPECT_EQ(known(2), one([] {}));
  EXPECT_EQ(2, one([] { OK(hipDeviceSetCacheConfig(hipFuncCachePreferL1)); }));
  OK(hipDeviceSetCacheConfig(hipFuncCachePreferNone));
}

/// Something of one function that has two values.
struct FunctionSetting {
  const char* name;
  hipError_t (*set)(const void* function, bool other);
};

const FunctionSetting kOfFunctions[] = {
    {"attribute",
     [](const void* function, bool other) {
       return hipFuncSetAttribute(function, hipFuncAttributeMaxDynamicSharedMemorySize, other ? 4096 : 8192);
     }},
    {"preferred",
     [](const void* function, bool other) {
       return hipFuncSetAttribute(function, hipFuncAttributePreferredSharedMemoryCarveout, other ? 50 : 100);
     }},
    {"cache",
     [](const void* function, bool other) {
       return hipFuncSetCacheConfig(function, other ? hipFuncCachePreferL1 : hipFuncCachePreferNone);
     }},
    {"shared_memory",
     [](const void* function, bool other) {
       return hipFuncSetSharedMemConfig(function, other ? hipSharedMemBankSizeFourByte : hipSharedMemBankSizeEightByte);
     }},
    {"kernel_attribute", [](const void* function, bool other) {
       return hipKernelSetAttribute(hipFuncAttributeMaxDynamicSharedMemorySize, other ? 4096 : 8192,
                                    const_cast<void*>(function), 0);
     }}};

class FunctionSettings : public testing::TestWithParam<FunctionSetting> {
 protected:
  /// What other tests captured with the same values is of another epoch.
  FunctionSettings() {
    static std::size_t bytes = 4 << 20;
    EXPECT_EQ(hipSuccess, hipDeviceSetLimit(hipLimitMallocHeapSize, ++bytes));
  }
  static hipError_t set(const void* function, bool other) { return GetParam().set(function, other); }
};

TEST_P(FunctionSettings, rule_38_of_a_function_in_no_graph_change_nothing) {
  Steps steps;
  steps.launches();
  steps.launches_around([] {});
  for (int round = 0; round < 4; ++round) {
    for (const void* const function : {stub(), static_cast<const void*>(kernels().join_function())}) {
      OK(set(function, round % 2 == 0));
      EXPECT_EQ(known(1), steps.launches());
      EXPECT_EQ(known(2), steps.launches_around([&] { OK(set(function, round % 2 != 0)); }));
    }
  }
}

TEST_P(FunctionSettings, rule_38_what_was_captured_with_a_value_serves_when_it_comes_back) {
  Steps steps;
  const void* const mix = kernels().mix_function();
  for (int round = 0; round < 4; ++round)
    for (const bool other : {true, false}) {
      OK(set(mix, other));
      EXPECT_EQ(round == 0 ? 1 : known(1), steps.launches()) << other;
      OK(set(mix, other));
      EXPECT_EQ(known(1), steps.launches()) << "the value it has";
    }
}

TEST_P(FunctionSettings, rule_38_set_in_a_capture_concern_later_operations) {
  Steps steps;
  const void* const mix = kernels().mix_function();
  OK(set(mix, false));
  for (int round = 0; round < 4; ++round)
    for (const bool other : {true, false})
      EXPECT_EQ(round == 0 ? 2 : known(2), steps.launches_around([&] { OK(set(mix, other)); })) << other;
}

TEST_P(FunctionSettings, rule_38_set_by_one_handle_are_set_of_all) {
  static const char address = 0;
  const Registered registered(R"(extern "C" __global__ void several(int* p) { p[0] = p[0] * 31 + 1; })", "several",
                              &address);
  hipFunction_t function = nullptr;
  OK(hipGetFuncBySymbol(&function, &address));
  const Stream stream;
  const Buffer buffer;
  const auto launches = [&] {
    const Since since({"hipLaunchKernel", "hipModuleLaunchKernel"});
    step(stream, [&] {
      int* at = buffer.get();
      void* args[] = {&at};
      OK(hipLaunchKernel(&address, dim3(1), dim3(1), args, 0, stream));
      OK(hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, args, nullptr));
    });
    return since["hipLaunchKernel"] + since["hipModuleLaunchKernel"];
  };
  for (int round = 0; round < 3; ++round) {
    OK(set(&address, true));
    EXPECT_EQ(round == 0 ? 2 : known(2), launches());
    OK(set(function, false));
    EXPECT_EQ(round == 0 ? 2 : known(2), launches()) << "what the stub does has changed too";
    OK(set(&address, false));
    EXPECT_EQ(known(2), launches()) << "the value that the other handle set";
  }
}

TEST_P(FunctionSettings, a_stub_registered_again_is_another_function) {
  static const char address = 0;
  constexpr const char* kSource = R"(extern "C" __global__ void again(int* p) { p[0] = 1; })";
  const Stream stream;
  const Buffer buffer;
  for (int round = 0; round < 3; ++round) {
    const Registered registered(kSource, "again", &address);
    OK(set(&address, true));
    const Since since({"hipLaunchKernel"});
    step(stream, [&] {
      int* at = buffer.get();
      void* args[] = {&at};
      OK(hipLaunchKernel(&address, dim3(1), dim3(1), args, 0, stream));
    });
    EXPECT_EQ(1, since["hipLaunchKernel"]);
  }
}

INSTANTIATE_TEST_SUITE_P(All, FunctionSettings, testing::ValuesIn(kOfFunctions),
                         [](const testing::TestParamInfo<FunctionSetting>& info) {
                           return std::string(info.param.name);
                         });

/// Launches with dynamic shared memory, which may be as much as was set of the function.
class SharedLimit : public testing::Test {
 protected:
  static hipError_t limit(int bytes) {
    return hipFuncSetAttribute(kernels().mix_function(), hipFuncAttributeMaxDynamicSharedMemorySize, bytes);
  }
  hipError_t launch(int a, unsigned shared_bytes) {
    int* at = buffer_.get();
    int n = kCount;
    void* args[] = {&at, &n, &a};
    value_ = mixed(value_, a);
    return hipModuleLaunchKernel(kernels().mix_function(), 2, 1, 1, 64, 1, 1, shared_bytes, stream_, args, nullptr);
  }
  void expect_value() { EXPECT_EQ(value_, buffer_.value()); }

  const Stream stream_;

 private:
  const Buffer buffer_;
  int value_ = 0;
};

TEST_F(SharedLimit, rule_38_a_lower_one_concerns_later_launches) {
  for (int round = 0; round < 4; ++round) {
    // The last round differs behind what was withheld.
    const int last = round < 3 ? 1 : 2;
    OK(limit(8192));
    step(stream_, [&] {
      OK(launch(3, 8192));
      OK(limit(4096));
      for (int i = 0; i < last; ++i) OK(launch(4, 4096));
    });
    expect_value();
  }
  OK(limit(16384));
}

TEST_F(SharedLimit, rule_38_a_lower_one_says_nothing_of_graphs_there_are) {
  for (int round = 0; round < 4; ++round) {
    OK(limit(8192));
    const hipGraph_t graph = capture(stream_, [&] { OK(launch(5, 8192)); });
    OK(limit(1024));
    run(stream_, graph);
    expect_value();
  }
  OK(limit(16384));
}

/// Pinned host memory, from which a captured copy reads.
class HostMemory : public testing::Test {
 protected:
  HostMemory() { EXPECT_EQ(hipSuccess, hipHostMalloc(reinterpret_cast<void**>(&at_), kCount * 4, 0)); }
  ~HostMemory() override { EXPECT_EQ(hipSuccess, hipHostFree(at_)); }
  /// Copies that reached the runtime in a step.
  int copies(const void* from) {
    const Since since({"hipMemcpyAsync"});
    step(stream_, [&] { OK(hipMemcpyAsync(buffer_.get(), from, kCount * 4, hipMemcpyHostToDevice, stream_)); });
    return since["hipMemcpyAsync"];
  }

  int* at_ = nullptr;
  const Stream stream_;
  const Buffer buffer_;
};

TEST_F(HostMemory, freed_that_no_recording_names_changes_nothing) {
  copies(at_);
  for (int round = 0; round < 3; ++round) {
    void* other = nullptr;
    OK(hipHostMalloc(&other, 1 << 20, 0));
    OK(hipHostFree(other));
    OK(hipMallocManaged(&other, 4096, hipMemAttachGlobal));
    OK(hipFree(other));
    std::vector<char> plain(1 << 16);
    OK(hipHostRegister(plain.data(), plain.size(), 0));
    OK(hipHostUnregister(plain.data()));
    EXPECT_EQ(known(1), copies(at_)) << round;
  }
}

TEST_F(HostMemory, rule_38_freed_that_a_recording_names_may_come_back_as_another_kind) {
  for (const auto release : {hipHostFree, hipFree}) {
    copies(at_);
    EXPECT_EQ(known(1), copies(at_));
    OK(release(at_));
    OK(hipHostMalloc(reinterpret_cast<void**>(&at_), kCount * 4, 0));
    EXPECT_EQ(1, copies(at_)) << "wherever it is now";
  }
}

TEST_F(HostMemory, rule_38_registered_it_is_of_another_kind) {
  static int plain[kCount] = {};
  copies(plain);
  EXPECT_EQ(known(1), copies(plain));
  OK(hipHostRegister(plain, sizeof plain, 0));
  EXPECT_EQ(1, copies(plain));
  EXPECT_EQ(known(1), copies(plain));
  OK(hipHostUnregister(plain));
  EXPECT_EQ(1, copies(plain));
}

}  // namespace
}  // namespace captures
