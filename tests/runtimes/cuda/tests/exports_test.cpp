// The libraries' names, and what they answer on a machine without a driver. SO5 and SO6 name the two builds.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>

#include <string>
#include <type_traits>

namespace {

struct Row {
  const char *name, *node;
};
#define NAME(name, node) {#name, node},
constexpr Row kRows[] = {
#include "names.inc"
};
#undef NAME

class Exports : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    library_ = dlopen(GetParam(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
  }
  template <typename Function>
  Function* get(const char* name) {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }
  void* library_ = nullptr;
};

TEST_P(Exports, EveryRowIsThereUnderItsNode) {
  for (const Row& row : kRows) EXPECT_NE(dlvsym(library_, row.name, row.node), nullptr) << row.name << " " << row.node;
}

TEST_P(Exports, TheVersionFollowsTheName) {
  int version = 0;
  EXPECT_EQ(get<hipError_t(int*)>("hipRuntimeGetVersion")(&version), hipSuccess);
  EXPECT_EQ(version / 10000000, std::string(GetParam()).back() - '0');
}

TEST_P(Exports, WithoutADriverThereIsNoDevice) {
  int count = -1;
  const hipError_t counted = get<hipError_t(int*)>("hipGetDeviceCount")(&count);
  if (counted == hipSuccess) GTEST_SKIP() << "this machine has a device";
  EXPECT_EQ(counted, hipErrorNoDevice);
  EXPECT_EQ(count, 0);
  void* pointer = nullptr;
  EXPECT_EQ(get<hipError_t(void**, std::size_t)>("hipMalloc")(&pointer, 16), hipErrorNoDevice);
  EXPECT_EQ(get<hipError_t()>("hipPeekAtLastError")(), hipErrorNoDevice);
  EXPECT_EQ(get<hipError_t()>("hipGetLastError")(), hipErrorNoDevice);
  EXPECT_EQ(get<hipError_t()>("hipGetLastError")(), hipSuccess);
  EXPECT_EQ(get<hipError_t(int)>("hipSetDevice")(0), hipErrorNoDevice);
  EXPECT_EQ(get<hipError_t(hipStream_t)>("hipStreamSynchronize")(nullptr), hipErrorNoDevice);
  EXPECT_STREQ(get<const char*(hipError_t)>("hipGetErrorName")(hipErrorNoDevice), "hipErrorNoDevice");
}

TEST_P(Exports, WhatHasNoTwinIsNotSupported) {
  EXPECT_EQ(get<hipError_t(void*, void*)>("hipTexRefSetArray")(nullptr, nullptr), hipErrorNotSupported);
}

TEST_P(Exports, EveryFunctionOfGraphsHasATwin) {
  int count = 0;
  if (get<hipError_t(int*)>("hipGetDeviceCount")(&count) == hipSuccess) GTEST_SKIP() << "this machine has a device";
  std::size_t called = 0;
  for (const Row& row : kRows) {
    const std::string name(row.name);
    if (name.starts_with("hipGraphics") || (!name.starts_with("hipGraph") && !name.starts_with("hipDrvGraph")))
      continue;
    using Any = hipError_t(void*, void*, void*, void*, void*, void*, void*, void*, void*, void*);
    EXPECT_EQ(get<Any>(row.name)(0, 0, 0, 0, 0, 0, 0, 0, 0, 0), hipErrorNoDevice) << name;
    ++called;
  }
  EXPECT_GT(called, 80U);
}

TEST_P(Exports, RegistrationNeedsNoDevice) {
  struct {
    std::uint32_t magic = 0x48495046, version = 1;
    const void* binary = nullptr;
    const void* unused = nullptr;
  } wrapper;
  void** handle = get<void**(const void*)>("__hipRegisterFatBinary")(&wrapper);
  ASSERT_NE(handle, nullptr);
  get<void(void**)>("__hipUnregisterFatBinary")(handle);
  wrapper.magic = 0;
  EXPECT_EQ(get<void**(const void*)>("__hipRegisterFatBinary")(&wrapper), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Builds, Exports, testing::Values(SO5, SO6));

}  // namespace
