// module_test.cpp: code objects in all their wrappings, variables of each device, registration of fat binaries.
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "kernel_support.h"

extern "C" {
void** __hipRegisterFatBinary(const void* data);
void __hipRegisterFunction(void** modules, const void* host_function, char* device_function, const char* device_name,
                           unsigned thread_limit, void* tid, void* bid, void* block, void* grid, int* warp);
void __hipRegisterVar(void** modules, void* variable, char* host_name, char* device_name, int ext, size_t size,
                      int constant, int global);
void __hipRegisterManagedVar(void* module, void** pointer, void* initial, const char* name, size_t size,
                             unsigned align);
void __hipUnregisterFatBinary(void** modules);
hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t shared, hipStream_t stream);
hipError_t __hipPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, hipStream_t* stream);
hipError_t hipLaunchKernelExC(const void* config, const void* function, void** args);
hipError_t hipLaunchKernel_spt(const void* function, dim3 grid, dim3 block, void** args, size_t shared,
                               hipStream_t stream);
hipError_t hipGetFuncBySymbol(hipFunction_t* function, const void* symbol);
hipError_t hipModuleGetFunctionCount(unsigned* count, hipModule_t module);
hipError_t hipModuleEnumerateFunctions(hipFunction_t* functions, unsigned count, hipModule_t module);
hipError_t hipModuleLoadFatBinary(hipModule_t* module, const void* image);
hipError_t hipLibraryLoadData(void** library, const void* code, void*, void**, unsigned, void*, void**, unsigned);
hipError_t hipLibraryGetKernel(void** kernel, void* library, const char* name);
hipError_t hipLibraryGetKernelCount(unsigned* count, void* library);
hipError_t hipLibraryUnload(void* library);
hipError_t hipKernelGetName(const char** name, void* kernel);
hipError_t hipKernelGetFunction(hipFunction_t* function, void* kernel);
hipError_t hipKernelGetParamInfo(void* kernel, size_t index, size_t* offset, size_t* size);
hipError_t hipKernelSetAttribute(int attribute, int value, void* kernel, hipDevice_t device);
hipError_t hipKernelSetAttributeForDevice(void* kernel, int attribute, int value, int device);
hipError_t hipKernelSetCacheConfig(void* kernel, hipFuncCache_t config, int device);
}

namespace {

const std::vector<char>& code_of(const std::string& name) {
  static std::map<std::string, std::vector<char>> all;
  std::vector<char>& code = all[name];
  if (code.empty()) {
    const Compiled compiled = compile(kernel_source(name));
    if (compiled.result != HIPRTC_SUCCESS) throw std::runtime_error(compiled.log);
    code = compiled.code;
  }
  return code;
}

template <typename T>
void append(std::vector<char>& to, T value) {
  const auto* bytes = reinterpret_cast<const char*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof value);
}

/// An offload bundle of the given entries.
std::vector<char> bundle(const std::vector<std::pair<std::string, std::vector<char>>>& entries) {
  const std::string magic = "__CLANG_OFFLOAD_BUNDLE__";
  std::size_t header = magic.size() + 8;
  for (const auto& [id, content] : entries) header += 24 + id.size();
  std::size_t offset = (header + 4095) / 4096 * 4096;
  std::vector<char> bytes(magic.begin(), magic.end());
  append<std::uint64_t>(bytes, entries.size());
  std::vector<char> contents;
  for (const auto& [id, content] : entries) {
    append<std::uint64_t>(bytes, offset + contents.size());
    append<std::uint64_t>(bytes, content.size());
    append<std::uint64_t>(bytes, id.size());
    bytes.insert(bytes.end(), id.begin(), id.end());
    contents.insert(contents.end(), content.begin(), content.end());
  }
  bytes.resize(offset);
  bytes.insert(bytes.end(), contents.begin(), contents.end());
  return bytes;
}

const std::string kCpu = "hipv4-x86_64-unknown-linux-gnu--cpu";
const std::string kAmd = "hipv4-amdgcn-amd-amdhsa--gfx90a";

std::vector<char> whole_bundle(const std::string& source) {
  return bundle({{"host-x86_64-unknown-linux--", {}}, {kAmd, {'n', 'o', 't', 'h', 'i', 's'}}, {kCpu, code_of(source)}});
}

enum Method : std::uint16_t { kZlib = 0, kZstd = 1 };

std::vector<char> compressed(const std::vector<char>& plain, std::uint16_t version, Method method) {
  std::vector<char> packed;
  if (method == kZlib) {
    uLongf size = compressBound(plain.size());
    packed.resize(size);
    compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(plain.data()),
             plain.size());
    packed.resize(size);
  } else {
    packed.resize(ZSTD_compressBound(plain.size()));
    packed.resize(ZSTD_compress(packed.data(), packed.size(), plain.data(), plain.size(), 3));
  }
  std::vector<char> bytes = {'C', 'C', 'O', 'B'};
  append(bytes, version);
  append<std::uint16_t>(bytes, method);
  const std::size_t header = version == 1 ? 20 : version == 2 ? 24 : 32;
  if (version == 2) append(bytes, static_cast<std::uint32_t>(header + packed.size()));
  if (version == 3) append<std::uint64_t>(bytes, header + packed.size());
  if (version == 3)
    append<std::uint64_t>(bytes, plain.size());
  else
    append(bytes, static_cast<std::uint32_t>(plain.size()));
  append<std::uint64_t>(bytes, 0x1234);  // nobody checks the hash
  bytes.insert(bytes.end(), packed.begin(), packed.end());
  return bytes;
}

/// Loads the image and runs its kernel `store`.
void expect_runs(const std::vector<char>& image) {
  hipModule_t module = nullptr;
  HIP_OK(hipModuleLoadData(&module, image.data()));
  hipFunction_t store = nullptr;
  HIP_OK(hipModuleGetFunction(&store, module, "store"));
  const Buffer<int> out(1);
  int* pointer = out.data();
  int value = 17;
  void* params[] = {&pointer, &value};
  HIP_OK(hipModuleLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr));
  EXPECT_EQ(17, out.read()[0]);
  HIP_OK(hipModuleUnload(module));
}

TEST(Module, PlainObject) { expect_runs(code_of("waiting")); }
TEST(Module, Bundle) { expect_runs(whole_bundle("waiting")); }
TEST(Module, CompressedBundles) {
  for (const std::uint16_t version : {1, 2, 3})
    for (const Method method : {kZlib, kZstd}) {
      SCOPED_TRACE(testing::Message() << "version " << version << " method " << method);
      expect_runs(compressed(whole_bundle("waiting"), version, method));
    }
}

TEST(Module, File) {
  const std::string name =
      (std::filesystem::temp_directory_path() / ("module_test." + std::to_string(getpid()))).string();
  const std::vector<char> image = compressed(whole_bundle("waiting"), 2, kZstd);
  std::ofstream(name, std::ios::binary).write(image.data(), static_cast<std::streamsize>(image.size()));
  hipModule_t module = nullptr;
  EXPECT_EQ(hipSuccess, hipModuleLoad(&module, name.c_str()));
  EXPECT_EQ(hipSuccess, hipModuleUnload(module));
  std::filesystem::remove(name);
  EXPECT_EQ(hipErrorFileNotFound, hipModuleLoad(&module, name.c_str()));
}

TEST(Module, ImagesThatCannotBeLoaded) {
  hipModule_t module = nullptr;
  const std::vector<char> garbage(256, 'x');
  EXPECT_EQ(hipErrorInvalidImage, hipModuleLoadData(&module, garbage.data()));
  EXPECT_EQ(hipErrorInvalidValue, hipModuleLoadData(&module, nullptr));
  EXPECT_EQ(hipErrorInvalidValue, hipModuleLoadData(nullptr, code_of("waiting").data()));
  const std::vector<char> foreign = bundle({{kAmd, {'a'}}});
  EXPECT_EQ(hipErrorNoBinaryForGpu, hipModuleLoadData(&module, foreign.data()));
  std::vector<char> amd = code_of("waiting");
  amd[18] = static_cast<char>(224);  // e_machine: EM_AMDGPU
  EXPECT_EQ(hipErrorNoBinaryForGpu, hipModuleLoadData(&module, amd.data()));
  std::vector<char> broken = compressed(whole_bundle("waiting"), 2, kZstd);
  broken[40] = static_cast<char>(~broken[40]);
  EXPECT_NE(hipSuccess, hipModuleLoadData(&module, broken.data()));
  EXPECT_EQ(hipErrorInvalidImage, hipModuleLoadData(&module, compressed(whole_bundle("waiting"), 4, kZstd).data()));
  EXPECT_EQ(nullptr, module);
}

TEST(Module, NamesThatAreNotThere) {
  const Module module("waiting");
  hipFunction_t function = nullptr;
  EXPECT_EQ(hipErrorNotFound, hipModuleGetFunction(&function, module.get(), "missing"));
  EXPECT_EQ(hipErrorInvalidValue, hipModuleGetFunction(&function, module.get(), ""));
  EXPECT_EQ(hipErrorInvalidValue, hipModuleGetFunction(nullptr, module.get(), "store"));
  EXPECT_EQ(hipErrorInvalidResourceHandle, hipModuleGetFunction(&function, nullptr, "store"));
  hipDeviceptr_t address = nullptr;
  size_t bytes = 0;
  EXPECT_EQ(hipErrorNotFound, hipModuleGetGlobal(&address, &bytes, module.get(), "store"));
  EXPECT_EQ(hipErrorNotFound, hipModuleGetGlobal(&address, &bytes, module.get(), "missing"));
  EXPECT_EQ(hipErrorInvalidValue, hipModuleGetGlobal(nullptr, nullptr, module.get(), "store"));
  EXPECT_EQ(hipErrorInvalidResourceHandle, hipModuleUnload(nullptr));
  unsigned count = 0;
  HIP_OK(hipModuleGetFunctionCount(&count, module.get()));
  EXPECT_EQ(3u, count);
  std::vector<hipFunction_t> functions(count);
  HIP_OK(hipModuleEnumerateFunctions(functions.data(), count, module.get()));
  EXPECT_NE(functions.end(), std::find(functions.begin(), functions.end(), module.function("store")));
}

TEST(Module, UnloadedModulesAndTheirFunctions) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  hipModule_t module = nullptr;
  HIP_OK(hipModuleLoadData(&module, code_of("waiting").data()));
  HIP_OK(hipModuleUnload(module));
  EXPECT_EQ(hipErrorNotFound, hipModuleUnload(module));
  EXPECT_DEATH(
      {
        hipModule_t gone = nullptr;
        hipFunction_t store = nullptr;
        if (hipModuleLoadData(&gone, code_of("waiting").data()) == hipSuccess &&
            hipModuleGetFunction(&store, gone, "store") == hipSuccess && hipModuleUnload(gone) == hipSuccess)
          static_cast<void>(hipModuleLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
      },
      "store.*unloaded");
}

TEST(Module, FunctionHandlesServeAgain) {
  const char* const reuse = std::getenv("CPUHIP_REUSE");
  if (reuse == nullptr || std::string(reuse) != "once") GTEST_SKIP() << "CPUHIP_REUSE is not once";
  hipFunction_t before = nullptr;
  const char* name = nullptr;
  {
    const Module module("waiting");
    before = module.function("store");
    name = hipKernelNameRef(before);
  }
  const Module module("devices");
  EXPECT_EQ(before, module.function("read_mine"));
  EXPECT_STREQ("read_mine", hipKernelNameRef(before));
  EXPECT_STREQ("store", name) << "names stay";
}

TEST(Module, AQueuedLaunchOutlivesItsModule) {
  auto module = std::make_unique<Module>("waiting");
  const Buffer<int> out(1);
  int* flag = nullptr;
  HIP_OK(hipHostMalloc(reinterpret_cast<void**>(&flag), sizeof *flag, 0));
  *flag = 0;
  HIP_OK(module->launch("gate", 1, 1, 0, nullptr, flag, 1));
  HIP_OK(module->launch("store", 1, 1, 0, nullptr, out.data(), 3));
  module.reset();
  __atomic_store_n(flag, 1, __ATOMIC_SEQ_CST);
  EXPECT_EQ(3, out.read()[0]);
  HIP_OK(hipHostFree(flag));
}

TEST(Module, VariablesKeepTheirValues) {
  const Module module("devices");
  const Buffer<int> out(1);
  const Buffer<double> wide(3);
  hipDeviceptr_t address = nullptr;
  size_t bytes = 0;
  HIP_OK(hipModuleGetGlobal(&address, &bytes, module.get(), "mine"));
  EXPECT_EQ(sizeof(int), bytes);
  int value = 40;
  HIP_OK(hipMemcpyHtoD(address, &value, sizeof value));
  HIP_OK(module.launch("bump", 1, 2, 0, nullptr, 1));
  HIP_OK(module.launch("read_mine", 1, 1, 0, nullptr, out.data()));
  EXPECT_EQ(42, out.read()[0]);
  HIP_OK(hipMemcpyDtoH(&value, address, sizeof value));
  EXPECT_EQ(42, value);
  HIP_OK(hipModuleGetGlobal(&address, &bytes, module.get(), "wide"));
  EXPECT_EQ(3 * sizeof(double), bytes);
  HIP_OK(module.launch("read_wide", 1, 3, 0, nullptr, wide.data()));
  EXPECT_EQ((std::vector<double>{1.5, 2.5, 3.5}), wide.read());
}

TEST(Module, TwoLoadsAreTwoModules) {
  const Module first("devices"), second("devices");
  hipDeviceptr_t one = nullptr, two = nullptr;
  size_t bytes = 0;
  HIP_OK(hipModuleGetGlobal(&one, &bytes, first.get(), "mine"));
  HIP_OK(hipModuleGetGlobal(&two, &bytes, second.get(), "mine"));
  EXPECT_NE(one, two);
}

TEST(Module, LibrariesOfKernels) {
  void *library = nullptr, *kernel = nullptr;
  HIP_OK(hipLibraryLoadData(&library, code_of("basic").data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  unsigned count = 0;
  HIP_OK(hipLibraryGetKernelCount(&count, library));
  EXPECT_EQ(6u, count);
  HIP_OK(hipLibraryGetKernel(&kernel, library, "axpy"));
  const char* name = nullptr;
  HIP_OK(hipKernelGetName(&name, kernel));
  EXPECT_STREQ("axpy", name);
  size_t offset = 0, size = 0;
  int version = 0;
  HIP_OK(hipRuntimeGetVersion(&version));
  if (version < 70300000) {
    EXPECT_EQ(hipErrorNotSupported, hipKernelGetParamInfo(kernel, 3, &offset, &size));
  } else {
    HIP_OK(hipKernelGetParamInfo(kernel, 3, &offset, &size));
    EXPECT_EQ(20u, offset);
    EXPECT_EQ(4u, size);
    EXPECT_EQ(hipErrorInvalidValue, hipKernelGetParamInfo(kernel, 4, &offset, &size));
  }
  hipFunction_t function = nullptr;
  HIP_OK(hipKernelGetFunction(&function, kernel));
  EXPECT_STREQ("axpy", hipKernelNameRef(function));
  HIP_OK(hipKernelSetAttribute(hipFuncAttributeMaxDynamicSharedMemorySize, 512, kernel, 0));
  HIP_OK(hipKernelSetAttributeForDevice(kernel, hipFuncAttributeMaxDynamicSharedMemorySize, 512, 0));
  EXPECT_EQ(hipErrorInvalidValue, hipKernelSetAttributeForDevice(kernel, hipFuncAttributeMax + 1, 1, 0));
  HIP_OK(hipKernelSetCacheConfig(kernel, hipFuncCachePreferL1, 0));
  EXPECT_EQ(hipErrorInvalidValue, hipKernelSetCacheConfig(kernel, static_cast<hipFuncCache_t>(9), 0));
  HIP_OK(hipLibraryUnload(library));
}

/// What hipcc puts into a program: a wrapper, a bundle, host stubs and shadows of variables.
class Registered {
 public:
  explicit Registered(std::vector<char> image)
      : image_(std::move(image)), wrapper_{0x48495046, 1, image_.data(), nullptr} {
    handle_ = __hipRegisterFatBinary(&wrapper_);
  }
  ~Registered() { __hipUnregisterFatBinary(handle_); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

  void function(const void* stub, const char* name) {
    __hipRegisterFunction(handle_, stub, const_cast<char*>(name), name, ~0u, nullptr, nullptr, nullptr, nullptr,
                          nullptr);
  }
  void variable(void* shadow, const char* name, size_t size) {
    __hipRegisterVar(handle_, shadow, const_cast<char*>(name), const_cast<char*>(name), 0, size, 0, 0);
  }
  void** handle() const { return handle_; }

 private:
  std::vector<char> image_;
  struct {
    unsigned magic, version;
    const void* binary;
    const void* unused;
  } wrapper_;
  void** handle_ = nullptr;
};

char store_stub, bump_stub, read_mine_stub, mine_shadow;
/// The header's templates take the address of anything but a pointer to void.
const void* const kMine = &mine_shadow;

/// As the stub that hipcc makes launches it.
template <typename... Arguments>
hipError_t launch_stub(const void* stub, Arguments... arguments) {
  void* params[] = {&arguments..., nullptr};
  if (__hipPushCallConfiguration(dim3(1), dim3(1), 0, nullptr) != hipSuccess) return hipErrorUnknown;
  dim3 grid(0), block(0);
  size_t shared = 1;
  hipStream_t stream = nullptr;
  if (__hipPopCallConfiguration(&grid, &block, &shared, &stream) != hipSuccess) return hipErrorUnknown;
  return hipLaunchKernel(stub, grid, block, params, shared, stream);
}

TEST(Registration, StubsLaunchTheirKernels) {
  Registered program(compressed(whole_bundle("waiting"), 3, kZstd));
  program.function(&store_stub, "store");
  const Buffer<int> out(1);
  HIP_OK(launch_stub(&store_stub, out.data(), 21));
  EXPECT_EQ(21, out.read()[0]);
  hipFunction_t function = nullptr;
  HIP_OK(hipGetFuncBySymbol(&function, &store_stub));
  EXPECT_STREQ("store", hipKernelNameRef(function));
  EXPECT_STREQ("store", hipKernelNameRefByPtr(&store_stub, nullptr));
  hipFuncAttributes attributes{};
  HIP_OK(hipFuncGetAttributes(&attributes, &store_stub));
  EXPECT_EQ(1024, attributes.maxThreadsPerBlock);

  int* pointer = out.data();
  int value = 22;
  HIP_OK(hipConfigureCall(dim3(1), dim3(1), 0, nullptr));
  HIP_OK(hipSetupArgument(&pointer, sizeof pointer, 0));
  HIP_OK(hipSetupArgument(&value, sizeof value, sizeof pointer));
  HIP_OK(hipLaunchByPtr(&store_stub));
  EXPECT_EQ(22, out.read()[0]);
  EXPECT_EQ(hipErrorMissingConfiguration, hipLaunchByPtr(&store_stub));
  void* params[] = {&pointer, &value};
  const struct {
    dim3 grid, block;
    size_t shared;
    hipStream_t stream;
    void* attributes;
    unsigned count;
  } config{dim3(1), dim3(1), 0, nullptr, nullptr, 0};
  value = 23;
  HIP_OK(hipLaunchKernelExC(&config, &store_stub, params));
  EXPECT_EQ(23, out.read()[0]);
  value = 24;
  HIP_OK(hipLaunchKernel_spt(&store_stub, dim3(1), dim3(1), params, 0, nullptr));
  HIP_OK(hipStreamSynchronize(hipStreamPerThread));
  EXPECT_EQ(24, out.read()[0]);
  HIP_OK(hipLaunchCooperativeKernel(&store_stub, dim3(1), dim3(1), params, 0, nullptr));
  HIP_OK(hipExtLaunchKernel(&store_stub, dim3(1), dim3(1), params, 0, nullptr, nullptr, nullptr, 0));
}

TEST(Registration, UnregisteredAndUnknownStubs) {
  const Buffer<int> out(1);
  EXPECT_EQ(hipErrorInvalidDeviceFunction, launch_stub(&store_stub, out.data(), 1));
  {
    Registered program(whole_bundle("waiting"));
    program.function(&store_stub, "store");
    program.function(&bump_stub, "no_such_kernel");
    HIP_OK(launch_stub(&store_stub, out.data(), 1));
    EXPECT_EQ(hipErrorInvalidDeviceFunction, launch_stub(&bump_stub, 1));
  }
  EXPECT_EQ(hipErrorInvalidDeviceFunction, launch_stub(&store_stub, out.data(), 1));
}

TEST(Registration, BinaryWithoutAnEntryForUs) {
  Registered program(bundle({{kAmd, {'a'}}}));
  program.function(&store_stub, "store");
  const Buffer<int> out(1);
  EXPECT_EQ(hipErrorInvalidDeviceFunction, launch_stub(&store_stub, out.data(), 1));
}

TEST(Registration, FirstRegistrationOfAStubWins) {
  Registered first(whole_bundle("waiting")), second(whole_bundle("devices"));
  first.function(&store_stub, "store");
  second.function(&store_stub, "read_mine");
  EXPECT_STREQ("store", hipKernelNameRefByPtr(&store_stub, nullptr));
}

TEST(Registration, EachDeviceHasItsVariables) {
  int devices = 0;
  HIP_OK(hipGetDeviceCount(&devices));
  ASSERT_GE(devices, 2);
  Registered program(whole_bundle("devices"));
  program.function(&bump_stub, "bump");
  program.function(&read_mine_stub, "read_mine");
  program.variable(&mine_shadow, "mine", sizeof(int));
  void* addresses[2] = {};
  for (int device = 0; device < 2; ++device) {
    HIP_OK(hipSetDevice(device));
    HIP_OK(hipGetSymbolAddress(&addresses[device], kMine));
    size_t size = 0;
    HIP_OK(hipGetSymbolSize(&size, kMine));
    EXPECT_EQ(sizeof(int), size);
    const int start = 100 * device;
    HIP_OK(hipMemcpyToSymbol(kMine, &start, sizeof start, 0, hipMemcpyHostToDevice));
    HIP_OK(launch_stub(&bump_stub, 5));
  }
  EXPECT_NE(addresses[0], addresses[1]);
  for (int device = 0; device < 2; ++device) {
    HIP_OK(hipSetDevice(device));
    int value = 0;
    HIP_OK(hipMemcpyFromSymbol(&value, kMine, sizeof value, 0, hipMemcpyDeviceToHost));
    EXPECT_EQ(100 * device + 5, value);
    const Buffer<int> out(1);
    HIP_OK(launch_stub(&read_mine_stub, out.data()));
    EXPECT_EQ(100 * device + 5, out.read()[0]);
  }
  HIP_OK(hipSetDevice(0));
  EXPECT_EQ(hipErrorInvalidSymbol, hipGetSymbolAddress(&addresses[0], static_cast<const void*>(addresses)));
  EXPECT_EQ(hipErrorInvalidValue, hipGetSymbolAddress(nullptr, kMine));
}

TEST(Registration, QuirkCurrentDeviceStubs) {
  const char* const quirks = std::getenv("CPUHIP_QUIRKS");
  const bool by_current = quirks != nullptr && std::string(quirks) == "current_device_stubs";
  Registered program(whole_bundle("devices"));
  program.function(&bump_stub, "bump");
  program.variable(&mine_shadow, "mine", sizeof(int));
  hipStream_t stream = nullptr;
  HIP_OK(hipStreamCreate(&stream));  // of device 0
  const auto add = [&](int by) {
    void* params[] = {&by, nullptr};
    return hipLaunchKernel(&bump_stub, dim3(1), dim3(1), params, 0, stream);
  };
  // At once, captured, and added to a graph.
  HIP_OK(hipSetDevice(1));
  HIP_OK(add(1));
  hipGraph_t graph = nullptr;
  hipGraphExec_t exec = nullptr;
  HIP_OK(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
  HIP_OK(add(10));
  HIP_OK(hipStreamEndCapture(stream, &graph));
  HIP_OK(hipSetDevice(0));
  HIP_OK(hipGraphInstantiate(&exec, graph, nullptr, nullptr, 0));
  HIP_OK(hipGraphLaunch(exec, stream));
  HIP_OK(hipStreamSynchronize(stream));
  int values[2] = {};
  for (int device = 0; device < 2; ++device) {
    HIP_OK(hipSetDevice(device));
    HIP_OK(hipMemcpyFromSymbol(&values[device], kMine, sizeof(int), 0, hipMemcpyDeviceToHost));
  }
  HIP_OK(hipSetDevice(0));
  EXPECT_EQ(by_current ? 0 : 11, values[0]);
  EXPECT_EQ(by_current ? 11 : 0, values[1]);
  HIP_OK(hipGraphExecDestroy(exec));
  HIP_OK(hipGraphDestroy(graph));
  HIP_OK(hipStreamDestroy(stream));
}

TEST(Registration, ManagedVariablesAreReachedThroughTheHostsPointer) {
  Registered program(whole_bundle("devices"));
  program.function(&read_mine_stub, "read_mine");
  static int* managed = nullptr;
  int initial = 77;
  __hipRegisterManagedVar(program.handle(), reinterpret_cast<void**>(&managed), &initial, "mine", sizeof initial, 4);
  ASSERT_NE(nullptr, managed);
  EXPECT_EQ(77, *managed);
  *managed = 78;
  const Buffer<int> out(1);
  HIP_OK(launch_stub(&read_mine_stub, out.data()));
  EXPECT_EQ(78, out.read()[0]);
}

}  // namespace
