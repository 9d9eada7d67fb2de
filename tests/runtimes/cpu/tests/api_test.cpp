// The frame of all functions: journal, failure injection, cost, last error, versions, names and lookups.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "support.h"

#define NAME(name, node) {#name, node},
struct Exported {
  const char* name;
  const char* node;
};
constexpr Exported kExported[] = {
#include "names.inc"
};
#undef NAME

namespace {

TEST(DISABLED_Journal, Calls) {
  hipStream_t stream;
  HIP_OK(hipStreamCreate(&stream));
  HIP_OK(hipStreamSynchronize(stream));
  std::thread([] {
    int unknown = 0;
    (void)hipFree(&unknown);
  }).join();
  HIP_OK(hipStreamDestroy(stream));
}

TEST(Journal, HasALineForEachCall) {
  TemporaryFile file("journal");
  ASSERT_EQ(run_child("DISABLED_Journal.Calls", {{"CPUHIP_JOURNAL", file.path()}}), 0);
  const auto lines = file.lines();
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0], "hipStreamCreate 1 0 - 0 0");
  std::istringstream second(lines[1]);
  std::string name, thread, device, handle, generation, result;
  second >> name >> thread >> device >> handle >> generation >> result;
  EXPECT_EQ(name, "hipStreamSynchronize");
  EXPECT_EQ(handle.substr(0, 2), "0x");
  EXPECT_NE(generation, "0");
  EXPECT_EQ(lines[2], "hipFree 2 0 - 0 1");
  EXPECT_EQ(lines[3], "hipStreamDestroy 1 0 " + handle + " " + generation + " 0");
}

TEST(DISABLED_Fail, Second) {
  void* pointer = nullptr;
  HIP_OK(hipMalloc(&pointer, 8));
  EXPECT_EQ(hipMalloc(&pointer, 8), hipErrorOutOfMemory);
  EXPECT_EQ(hipGetLastError(), hipErrorOutOfMemory);
  EXPECT_EQ(hipGetLastError(), hipSuccess);
  HIP_OK(hipMalloc(&pointer, 8));
  EXPECT_EQ(hipDeviceSynchronize(), hipErrorLaunchFailure);
  HIP_OK(hipDeviceSynchronize());
}

TEST(DISABLED_Fail, AnyThird) {
  HIP_OK(hipInit(0));
  HIP_OK(hipInit(0));
  EXPECT_EQ(hipInit(0), hipErrorUnknown);
  HIP_OK(hipInit(0));
}

TEST(DISABLED_Fail, Every) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(hipInit(0), hipErrorUnknown);
  HIP_OK(hipDeviceSynchronize());
}

TEST(DISABLED_Fail, BadSetting) { (void)hipInit(0); }

TEST(Failures, AreInjected) {
  EXPECT_EQ(run_child("DISABLED_Fail.Second", {{"CPUHIP_FAIL", "hipMalloc:2,hipDeviceSynchronize:1:719"}}), 0);
  EXPECT_EQ(run_child("DISABLED_Fail.AnyThird", {{"CPUHIP_FAIL", "*:3"}}), 0);
  EXPECT_EQ(run_child("DISABLED_Fail.Every", {{"CPUHIP_FAIL", "hipInit:0"}}), 0);
  EXPECT_EQ(run_child("DISABLED_Fail.BadSetting", {{"CPUHIP_FAIL", "hipMalloc"}}), 128 + SIGABRT);
}

TEST(Failures, AreInjectedWhileRunning) {
  using Fail = void (*)(unsigned long long, int);
  const auto fail = reinterpret_cast<Fail>(dlsym(RTLD_DEFAULT, "cpuhip_fail"));
  ASSERT_NE(nullptr, fail);
  fail(2, hipErrorUnknown);
  EXPECT_EQ(hipSuccess, hipDeviceSynchronize());
  EXPECT_EQ(hipErrorUnknown, hipDeviceSynchronize());
  EXPECT_EQ(hipSuccess, hipDeviceSynchronize());
  fail(1, hipErrorUnknown);
  fail(0, hipSuccess);
  EXPECT_EQ(hipSuccess, hipDeviceSynchronize());
}

TEST(DISABLED_Cost, Wait) {
  const auto start = std::chrono::steady_clock::now();
  HIP_OK(hipInit(0));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(30));
}

TEST(Costs, AreAdded) {
  EXPECT_EQ(run_child("DISABLED_Cost.Wait", {{"CPUHIP_COST", "*:10000000,hipInit:20000000"}}), 0);
}

TEST(LastError, IsTheLastResultUpToSix) {
  void* pointer = nullptr;
  EXPECT_EQ(hipFree(&pointer), hipErrorInvalidValue);
  EXPECT_EQ(hipPeekAtLastError(), hipErrorInvalidValue);
  HIP_OK(hipFree(nullptr));
  EXPECT_EQ(hipGetLastError(), hipSuccess);
}

TEST(DISABLED_Seven, KeepsTheError) {
  void* pointer = nullptr;
  EXPECT_EQ(hipFree(&pointer), hipErrorInvalidValue);
  HIP_OK(hipFree(nullptr));
  EXPECT_EQ(hipGetLastError(), hipErrorInvalidValue);
  EXPECT_EQ(hipGetLastError(), hipSuccess);
}

TEST(LastError, IsTheLastRealErrorFromSeven) {
  EXPECT_EQ(run_child("DISABLED_Seven.KeepsTheError", {{"CPUHIP_VERSION", "70051831"}}), 0);
}

TEST(DISABLED_None, NoDevice) {
  int count = 1;
  EXPECT_EQ(hipGetDeviceCount(&count), hipErrorNoDevice);
  EXPECT_EQ(count, 0);
  void* pointer = nullptr;
  EXPECT_EQ(hipMalloc(&pointer, 8), hipErrorNoDevice);
}

TEST(Devices, AreCountedAndDescribed) {
  EXPECT_EQ(run_child("DISABLED_None.NoDevice", {{"CPUHIP_DEVICES", "0"}}), 0);
  hipDeviceProp_t old;
  HIP_OK(hipGetDeviceProperties(&old, 0));
  EXPECT_EQ(old.warpSize, 64);
  EXPECT_STREQ(old.gcnArchName, "gfx90a:sramecc+:xnack-");
  EXPECT_EQ(hipGetDeviceProperties(&old, 99), hipErrorInvalidDevice);
  // The newer layout: its last named part is the architecture, at the offset HIP 6 has it.
  using Getter = hipError_t (*)(void*, int);
  const auto newer = reinterpret_cast<Getter>(dlsym(RTLD_DEFAULT, "hipGetDevicePropertiesR0600"));
  std::vector<char> properties(1472);
  HIP_OK(newer(properties.data(), 0));
  constexpr char kArch[] = "gfx90a";
  EXPECT_NE(std::search(properties.begin() + 1000, properties.end(), kArch, kArch + 6), properties.end());
  int threads = 0;
  HIP_OK(hipDeviceGetAttribute(&threads, hipDeviceAttributeMaxThreadsPerBlock, 0));
  EXPECT_EQ(threads, 1024);
  EXPECT_EQ(hipDeviceGetAttribute(&threads, static_cast<hipDeviceAttribute_t>(5000), 0), hipErrorInvalidValue);
}

TEST(Devices, ContextsAreDevices) {
  hipCtx_t first, current;
  HIP_OK(hipDevicePrimaryCtxRetain(&first, 0));
  HIP_OK(hipSetDevice(1));
  HIP_OK(hipCtxPushCurrent(first));
  int device = -1;
  HIP_OK(hipCtxGetDevice(&device));
  EXPECT_EQ(device, 0);
  HIP_OK(hipCtxPopCurrent(&current));
  EXPECT_EQ(current, first);
  HIP_OK(hipGetDevice(&device));
  EXPECT_EQ(device, 1);
  EXPECT_EQ(hipCtxPopCurrent(nullptr), hipErrorInvalidContext);
  EXPECT_EQ(hipDevicePrimaryCtxSetFlags(1, hipDeviceScheduleSpin), hipErrorContextAlreadyInUse);
  HIP_OK(hipDevicePrimaryCtxSetFlags(0, hipDeviceScheduleSpin));
  HIP_OK(hipSetDevice(0));
  unsigned flags = 0;
  HIP_OK(hipGetDeviceFlags(&flags));
  EXPECT_EQ(flags, unsigned{hipDeviceScheduleSpin});
  HIP_OK(hipSetDeviceFlags(0));
}

TEST(Names, OfErrors) {
  EXPECT_STREQ(hipGetErrorName(hipErrorIllegalAddress), "hipErrorIllegalAddress");
  EXPECT_STREQ(hipGetErrorString(hipSuccess), "no error");
}

TEST(Lookup, FindsFunctions) {
  using Lookup = hipError_t (*)(const char*, void**, int, std::uint64_t, int*);
  const auto look_up = reinterpret_cast<Lookup>(dlsym(RTLD_DEFAULT, "hipGetProcAddress"));
  void* function = nullptr;
  int status = -1;
  HIP_OK(look_up("hipMalloc", &function, 502, 0, &status));
  EXPECT_EQ(function, dlsym(RTLD_DEFAULT, "hipMalloc"));
  EXPECT_EQ(status, 0);
  HIP_OK(look_up("hipGetDeviceProperties", &function, 600, 0, &status));
  EXPECT_EQ(function, dlsym(RTLD_DEFAULT, "hipGetDevicePropertiesR0600"));
  EXPECT_EQ(look_up("hipNothing", &function, 600, 0, &status), hipErrorInvalidValue);
  EXPECT_EQ(status, 1);
}

TEST(Exports, AreUnderTheirVersionNodes) {
  for (const Exported& exported : kExported) {
    EXPECT_NE(dlsym(RTLD_DEFAULT, exported.name), nullptr) << exported.name;
    EXPECT_EQ(dlvsym(RTLD_DEFAULT, exported.name, exported.node), dlsym(RTLD_DEFAULT, exported.name)) << exported.name;
  }
  EXPECT_NE(dlvsym(RTLD_DEFAULT,
                   "_Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_"
                   "P11ihipEvent_tS6_j",
                   "hip_4.2"),
            nullptr);
}

/// Functions that cannot be called with nothing but zeroes: one whose result is written through a hidden argument, and
/// those only a compiler's generated code calls, which never passes null (a launch without a stub among them).
bool callable(const std::string& name) {
  return name != "hipCreateChannelDesc" && name.rfind("__hipRegister", 0) != 0 && name != "__hipUnregisterFatBinary";
}

TEST(DISABLED_Exports, CallAll) {
  using Anything = void (*)(long, long, long, long, long, long, long, long, long, long, long, long, long, long, long,
                            long, long, long, long, long, long, long, long, long);
  for (const Exported& exported : kExported) {
    if (!callable(exported.name)) continue;
    std::fprintf(stderr, "%s\n", exported.name);
    reinterpret_cast<Anything>(dlvsym(RTLD_DEFAULT, exported.name, exported.node))(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
                                                                                   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  }
}

TEST(Exports, AreAllJournalledAndSurviveZeroes) {
  TemporaryFile file("all");
  EXPECT_EQ(run_child("DISABLED_Exports.CallAll", {{"CPUHIP_JOURNAL", file.path()}}), 0);
  std::vector<std::string> called;
  for (const std::string& line : file.lines()) called.push_back(line.substr(0, line.find(' ')));
  for (const Exported& exported : kExported) {
    if (!callable(exported.name)) continue;
    EXPECT_NE(std::find(called.begin(), called.end(), exported.name), called.end()) << exported.name;
  }
}

}  // namespace
